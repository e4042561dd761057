/**
 * How fast all tensors of a file are decoded from memory, by this package and, in turns, by others built elsewhere:
 *
 *   node tests/js/speed.mjs MODEL.zstn [FOLDER/wasm …]
 */

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const ROUNDS = 15;

const [path, ...others] = process.argv.slice(2);
const bytes = new Uint8Array(readFileSync(path));
const addresses = others.map((folder) => new URL("dist/node.js", pathToFileURL(`${folder}/`)).href);
const packages = await Promise.all(["zstn", ...addresses].map((address) => import(address)));
const rates = packages.map(() => []);
for (let round = 0; round < ROUNDS; round++) {
  for (const [number, { open }] of packages.entries()) {
    const model = await open(bytes);
    const start = performance.now();
    let decoded = 0;
    for (const name of model.tensors.keys()) decoded += (await model.tensor(name)).data.byteLength;
    rates[number].push(decoded / (performance.now() - start) / 1000);
    model.close();
  }
}
for (const [number, list] of rates.entries()) {
  const median = list.sort((a, b) => a - b)[list.length >> 1];
  console.log(`${["zstn", ...others][number]}: ${median.toFixed(0)} MB/s`);
}
