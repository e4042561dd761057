// Reads one tensor of a model on a web server (or on disk) and prints the number of requests and bytes.
//
//   node wasm/examples/read-tensor.mjs URL [TENSOR] [--original MODEL.safetensors]
//
// Without TENSOR, the example takes the tensor closest to 1.5 MB. With --original, it also compares the tensor byte for
// byte with the same tensor of an unpacked file, and exits with status 1 if they differ.
import { parseArgs } from "node:util";
import { open, ZstnError } from "zstn";

const USUAL_BYTES = 1_500_000;

const { positionals, values } = parseArgs({ allowPositionals: true, options: { original: { type: "string" } } });
const [source, wanted] = positionals;
if (!source) {
  console.error("usage: read-tensor.mjs URL [TENSOR] [--original MODEL.safetensors]");
  process.exit(2);
}

try {
  process.exitCode = await main();
} catch (error) {
  if (!(error instanceof ZstnError)) throw error;
  console.error(`${error.name}: ${error.message}`);
  process.exitCode = 1;
}

async function main() {
  const start = performance.now();
  const model = await open(source);
  const name = wanted ?? closestTo(USUAL_BYTES, model);
  if (name === undefined) {
    console.error("The file holds no tensors.");
    return 1;
  }
  const tensor = await model.tensor(name);
  const took = performance.now() - start;
  const info = model.tensors.get(name);
  const { requests, roundTrips, bytesFetched } = model.stats;
  show({
    tensor: name,
    dtype: tensor.dtype,
    shape: tensor.shape.join(" × ") || "scalar",
    "raw bytes": count(tensor.bytes.byteLength),
    "stored bytes": `${count(info.storedLength)} (${percent(info.storedLength, info.byteLength)} of raw)`,
    requests: `${requests} in ${roundTrips} round trips`,
    fetched: `${count(bytesFetched)} of ${count(model.size)} bytes (${percent(bytesFetched, model.size)})`,
    time: `${took.toFixed(0)} ms`,
  });
  model.close();
  return values.original === undefined ? 0 : compare(tensor, values.original);
}

function closestTo(bytes, model) {
  const distance = (info) => Math.abs(info.byteLength - bytes);
  const [first, ...others] = model.tensors.values();
  return others.reduce((best, info) => (distance(info) < distance(best) ? info : best), first)?.name;
}

/**
 * Compares a tensor with the one in the uncompressed file at `path`. An uncompressed .safetensors file is opened like a
 * packed one, and only the bytes of this tensor are read.
 */
async function compare(tensor, path) {
  const original = await open(path);
  const expected = await original.tensor(tensor.name);
  original.close();
  const equal = Buffer.compare(tensor.bytes, expected.bytes) === 0;
  show({ original: equal ? "identical, byte for byte" : `DIFFERENT from the tensor in ${path}` });
  return equal ? 0 : 1;
}

function show(rows) {
  for (const [label, value] of Object.entries(rows)) console.log(`${label.padEnd(14)}${value}`);
}

function count(number) {
  return number.toLocaleString("en-US");
}

function percent(part, whole) {
  return whole === 0 ? "–" : `${((100 * part) / whole).toFixed(1)} %`;
}
