/** Files dropped anywhere on the page. */

/** Calls `onFiles` for dropped files; `veil` covers the page while some hover. */
export function acceptDrops(veil: HTMLElement, onFiles: (files: File[]) => void): void {
  let depth = 0; // every element that is entered and left on the way counts
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
    if (files.length > 0) onFiles(files);
  });
}
