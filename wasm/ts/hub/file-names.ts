/** Describes the files of a repository that has nothing to open, by their names. */

const FORMATS: readonly [RegExp, string][] = [
  [/\.(bin|pth|ckpt)$/i, "PyTorch"],
  [/\.pb$/i, "TensorFlow"],
];

/** Returns a sentence that lists some of the files, for an error message. */
export function describeFiles(paths: readonly string[]): string {
  const models = FORMATS.flatMap(([pattern, format]) => {
    const path = paths.find((path) => pattern.test(path));
    return path === undefined ? [] : [`${path} (${format})`];
  });
  if (models.length > 0) return `It has ${models.slice(0, 4).join(", ")}. PyTorch files are opened by their own address; convert others to safetensors first.`;
  if (paths.length === 0) return "It is empty.";
  const few = paths.slice(0, 6).join(", ");
  return `It has ${few}${paths.length > 6 ? ` and ${paths.length - 6} more` : ""}.`;
}
