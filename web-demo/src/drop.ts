/** Files dropped anywhere on the page. */

/** Calls `onFile` for a dropped file; `veil` covers the page while one hovers. */
export function acceptDrops(veil: HTMLElement, onFile: (file: File) => void): void {
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
    const file = event.dataTransfer?.files[0];
    if (file) onFile(file);
  });
}
