/** Files that people take for a model by mistake, told by their first bytes. */

/** A sentence that says what the file is instead, or nothing. */
export function mistakenFor(head: Uint8Array): string | undefined {
  const start = new TextDecoder().decode(head.subarray(0, 256)).trimStart().toLowerCase();
  if (start.startsWith("<!doctype html") || start.startsWith("<html") || start.startsWith("<head")) {
    return "This is a web page (HTML), not a model file. On a model hub, use the download link of the file, not the page that shows it.";
  }
  if (start.startsWith("<?xml")) {
    return "This is an XML document, not a model file; object stores answer so when access is refused.";
  }
  if (start.startsWith("version https://git-lfs.github.com/")) {
    return "This is a Git LFS pointer, not the model file itself. Download the file with Git LFS, or use the download link of the hub.";
  }
  return undefined;
}
