/**
 * Parses the index of a model in several files, `model.safetensors.index.json` (docs/formats/sharded.md), like
 * `core/src/container/safetensors/shard_index.rs`.
 */

import { ARRAY, JsonError, JsonScanner } from "./json-scanner.js";
import { compareText } from "./utf8-order.js";
import { malformed } from "./core-error.js";

/** The parsed index of a model in several files. */
export interface ShardIndex {
  /** The names of the files, sorted. */
  files: string[];
  /** Maps the name of each tensor to the position of its file in `files`. */
  fileOf: Map<string, number>;
}

/** Returns whether a file with these first bytes is JSON text, which distinguishes an index from a model file. */
export function isShardIndex(head: Uint8Array): boolean {
  // The header length at the start of a safetensors file may contain a byte that looks like a brace, but its upper
  // bytes are zero.
  if (head.subarray(0, 8).includes(0)) return false;
  return /^[ \t\n\f\r]*\{[ \t\n\f\r]*["}]/.test(new TextDecoder("latin1").decode(head));
}

/**
 * Parses the text of an index. Throws a `FormatError` if it is invalid, or if a shard is not in the same folder as the
 * index.
 */
export function parseShardIndex(json: Uint8Array): ShardIndex {
  const pairs = readPairs(json);
  for (const [tensor, file] of pairs) {
    if (file === "" || file === "." || file === ".." || /[/\\:\0]/.test(file)) {
      throw malformed("sharded.file_name", `the shard ${file} is not a plain file name`, { tensor });
    }
  }
  const files = [...new Set(pairs.map(([, file]) => file))].sort(compareText);
  const numbers = new Map(files.map((file, number) => [file, number]));
  const fileOf = new Map<string, number>();
  for (const [tensor, file, isGroup] of pairs) {
    if (isGroup) continue;
    const number = numbers.get(file)!;
    if ((fileOf.get(tensor) ?? number) !== number) {
      throw malformed("sharded.tensor_twice", "the index lists the tensor in two files", { tensor });
    }
    fileOf.set(tensor, number);
  }
  if (pairs.length === 0) throw malformed("sharded.index", "the index of the shards names no tensor");
  return { files, fileOf };
}

/** Returns each name with each of its files. Keras lists the files of groups, whose tensors it does not name. */
function readPairs(json: Uint8Array): [tensor: string, file: string, isGroup: boolean][] {
  const scanner = new JsonScanner(json);
  const pairs: [string, string, boolean][] = [];
  let found = false;
  try {
    scanner.object((name) => {
      if (name !== "weight_map") return scanner.skip(1, true);
      if (found) scanner.fail("duplicate field `weight_map`");
      found = true;
      scanner.object((name) => {
        const isList = scanner.peek() === ARRAY;
        const add = () => {
          const file = scanner.string();
          pairs.push([name, file, isList || (name.startsWith("/") && file.endsWith(".weights.h5"))]);
        };
        if (isList) scanner.array(add);
        else add();
      });
    });
    if (!found) scanner.fail("missing field `weight_map`");
    scanner.end();
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    throw malformed("sharded.index", `this is not the index of a sharded checkpoint: ${error.message}`);
  }
  return pairs;
}
