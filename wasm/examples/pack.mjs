#!/usr/bin/env node
/** Packs a file of any format: node pack.mjs model.safetensors model.zstn [fast|balanced|max] */

import { createWriteStream } from "node:fs";
import { Writable } from "node:stream";
import { ZstnError, pack } from "zstn";

const [input, output, effort = "balanced"] = process.argv.slice(2);
if (output === undefined) {
  console.error("usage: node pack.mjs MODEL MODEL.zstn [fast|balanced|max]");
  process.exit(2);
}

try {
  const started = performance.now();
  // Writing to a stream instead of a Blob keeps at most one tensor in memory, however large the file is.
  const to = Writable.toWeb(createWriteStream(output));
  const { originalSize, size, tensors, original } = await pack(input, { effort, to });
  const seconds = (performance.now() - started) / 1000;
  const memory = process.resourceUsage().maxRSS / 1024;
  console.log(`${tensors.length} tensors, ${originalSize} bytes became ${size} (${(originalSize / size).toFixed(3)}) in ${seconds.toFixed(1)} s and ${memory.toFixed(0)} MiB`);
  if (original?.refusal) console.log(`stored as bytes: ${original.refusal}`);
} catch (error) {
  // An error of this package explains the problem and the remedy. Any other error is a bug, whose stack is useful.
  if (!(error instanceof ZstnError)) throw error;
  console.error(`${error.name} (${error.code}): ${error.message}`);
  process.exitCode = 1;
}
