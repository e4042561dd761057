/** Generates code that reads a tensor. */

import type { ModelSource } from "../engine/protocol.js";

export type Language = "javascript" | "shell" | "python";

export const LANGUAGES: readonly (readonly [Language, string])[] = [
  ["javascript", "JavaScript"],
  ["shell", "Command line"],
  ["python", "Python"],
];

/** Returns a few lines of code that read the tensor. They pass the base if there is one. */
export function codeFor(language: Language, tensor: string, model: ModelSource, name: string, base?: ModelSource): string {
  const source = "address" in model ? model.address : name;
  const from = base && ("address" in base ? base.address : base.file.name);
  const quoted = JSON.stringify(tensor);
  const file = `${tensor.replace(/[^\w.-]+/g, "_") || "tensor"}.npy`;
  const get = ["zstn get", shell(source), shell(tensor), "-o", shell(file), ...(from === undefined ? [] : ["--base", shell(from)])].join(" ");
  switch (language) {
    case "javascript":
      return [
        'import { open } from "zstn"; // npm install zstn',
        "",
        `const model = await open(${JSON.stringify(source)}${from === undefined ? "" : `, { base: ${JSON.stringify(from)} }`});`,
        `const tensor = await model.tensor(${quoted});`,
        "console.log(tensor.dtype, tensor.shape, tensor.data);",
      ].join("\n");
    case "shell":
      return get;
    case "python":
      return ["import subprocess, numpy", "", `subprocess.run(${JSON.stringify(getArguments(source, tensor, file, from))}, check=True)`, `tensor = numpy.load(${JSON.stringify(file)})`, "print(tensor.dtype, tensor.shape)"].join("\n");
  }
}

function getArguments(source: string, tensor: string, file: string, base: string | undefined): string[] {
  return ["zstn", "get", source, tensor, "-o", file, "--force", ...(base === undefined ? [] : ["--base", base])];
}

/** Quotes a word for a POSIX shell. */
const shell = (word: string): string => (/^[\w./:@%+=,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
