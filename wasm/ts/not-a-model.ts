/** Files that are mistaken for models, recognised by their first bytes. */

/** Returns a sentence that says what the file is instead; `undefined` if that is unknown. */
export function describeNonModel(head: Uint8Array): string | undefined {
  const start = new TextDecoder().decode(head.subarray(0, 256)).trimStart().toLowerCase();
  if (start.startsWith("<!doctype html") || start.startsWith("<html") || start.startsWith("<head")) {
    return "This is a web page (HTML), not a model file. On a model hub, use the download link of the file, not the page that shows it.";
  }
  if (start.startsWith("<?xml")) {
    return "This is an XML document, not a model file. Object stores send one when they refuse access.";
  }
  if (start.startsWith("version https://git-lfs.github.com/")) {
    return "This is a Git LFS pointer, not the model file itself. Download the file with Git LFS, or use the download link of the hub.";
  }
  return undefined;
}
