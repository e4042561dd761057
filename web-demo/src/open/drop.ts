/** Accepts files that are dropped anywhere on the page. */

import { keepHandle } from "./local-files.js";

type HandleItem = DataTransferItem & { getAsFileSystemHandle?: () => Promise<FileSystemHandle | null> };

/** Calls `onFiles` with dropped files. `veil` covers the page while files are dragged over it. */
export function acceptDrops(veil: HTMLElement, onFiles: (files: File[]) => void): void {
  let depth = 0; // entering and leaving events arrive for every element below the pointer
  const carriesFile = (event: DragEvent) => event.dataTransfer?.types.includes("Files") ?? false;
  const hover = (change: number) => {
    depth = Math.max(0, depth + change);
    veil.hidden = depth === 0;
  };
  addEventListener("dragenter", (event) => carriesFile(event) && hover(1));
  addEventListener("dragleave", (event) => carriesFile(event) && hover(-1));
  addEventListener("dragover", (event) => {
    if (carriesFile(event)) event.preventDefault();
  });
  addEventListener("drop", (event) => {
    if (!carriesFile(event)) return;
    event.preventDefault();
    hover(-depth);
    const files = [...(event.dataTransfer?.files ?? [])];
    if (files.length === 0) return;
    // The items are invalid after this function returns, so their handles are requested here.
    const asked = [...(event.dataTransfer?.items ?? [])].map((item: HandleItem) => item.getAsFileSystemHandle?.());
    void Promise.allSettled(asked).then((found) => {
      for (const result of found) {
        const handle = result.status === "fulfilled" ? result.value : undefined;
        const file = handle?.kind === "file" ? files.find(({ name }) => name === handle.name) : undefined;
        if (file) keepHandle(file, handle as FileSystemFileHandle);
      }
      onFiles(files);
    });
  });
}
