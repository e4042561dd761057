/**
 * Compares zstd decoders in WebAssembly: their speed for the frames of a plane, and the size of the code that a page
 * has to load. `cargo xtask decoders` builds the modules and writes the frames, then runs this script with the folders
 * of both.
 *
 * It measures decoding from and to the memory of the module, as the npm package does.
 */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { brotliCompressSync } from "node:zlib";
import { median, medianRatio } from "./rounds.mjs";

const ROUNDS = 15;
/** The decoded length of a frame, in bytes. The last frame of a plane may be shorter. */
const FRAME_BYTES = 256 << 10;
const PLANES = ["exponents", "mantissas"];

const [frameFolder, moduleFolder] = process.argv.slice(2);
if (moduleFolder === undefined) throw new Error("Run `cargo xtask decoders`.");

const decoders = [
  await fromRust("ours", "ours"),
  await fromRust("ruzstd 0.9", "ruzstd"),
  await fromRust("structured-zstd 0.2", "structured"),
  await fromC("C zstd (npm zstddec 0.3)"),
];
const rates = PLANES.map((name) => compare(readPlane(name)));
console.log(`| WebAssembly, Node ${process.versions.node} | exponents | × C | mantissas | × C | module, bytes | after brotli |`);
console.log("|---|--:|--:|--:|--:|--:|--:|");
for (const [number, { name, module }] of decoders.entries()) {
  const cells = rates.flatMap((rates) => [`${median(rates[number]).toFixed(0)} MB/s`, medianRatio(rates[number], rates.at(-1)).toFixed(2)]);
  console.log(`| ${[name, ...cells, grouped(module.length), grouped(brotliCompressSync(module).length)].join(" | ")} |`);
}

/** Reads a plane and its frames. A length precedes each frame. */
function readPlane(name) {
  const plane = readFileSync(join(frameFolder, `${name}.plane`));
  const bytes = readFileSync(join(frameFolder, `${name}.frames`));
  const frames = [];
  for (let at = 0; at < bytes.length; ) {
    const end = at + 4 + bytes.readUInt32LE(at);
    const lenBytes = Math.min(FRAME_BYTES, plane.length - frames.length * FRAME_BYTES);
    frames.push({ bytes: bytes.subarray(at + 4, end), lenBytes });
    at = end;
  }
  return { plane, frames };
}

/** Returns the speed of every decoder in MB/s, over alternating rounds. */
function compare({ plane, frames }) {
  const ready = decoders.map(({ load }) => load(frames));
  for (const [number, { decode, decoded }] of ready.entries()) {
    decode(); // lets the engine compile the hot code
    if (Buffer.compare(decoded(), plane) !== 0) throw new Error(`${decoders[number].name} decodes other bytes`);
  }
  const rates = ready.map(() => []);
  for (let round = 0; round < ROUNDS; round++) {
    for (const [number, { decode }] of ready.entries()) {
      const begin = performance.now();
      decode();
      rates[number].push(plane.length / (performance.now() - begin) / 1000);
    }
  }
  for (const { free } of ready) free();
  return rates;
}

/** Loads a module of `tests/bench/decoders`. */
async function fromRust(name, feature) {
  const file = (suffix) => join(moduleFolder, `${feature}${suffix}`);
  const module = readFileSync(file("_bg.wasm"));
  const glue = await import(pathToFileURL(file(".js")).href);
  glue.initSync({ module });
  const load = (frames) => {
    const list = new glue.Frames();
    for (const { bytes, lenBytes } of frames) list.push(bytes, lenBytes);
    return { decode: () => list.decode(), decoded: () => list.decoded(), free: () => list.free() };
  };
  return { name, module, load };
}

/** Loads the module from a JavaScript package that contains it as base64. */
async function fromC(name) {
  const text = readFileSync(fileURLToPath(import.meta.resolve("zstddec")), "utf8");
  const module = Buffer.from(/AGFzbQ[A-Za-z0-9+/=]+/.exec(text)[0], "base64");
  const { instance } = await WebAssembly.instantiate(module, { env: { emscripten_notify_memory_growth() {} } });
  const { malloc, free, memory, ZSTD_decompress } = instance.exports;
  const load = (frames) => {
    const total = frames.reduce((sum, { lenBytes }) => sum + lenBytes, 0);
    const out = malloc(total);
    const places = frames.map(({ bytes }) => malloc(bytes.length));
    for (const [number, { bytes }] of frames.entries()) new Uint8Array(memory.buffer).set(bytes, places[number]);
    const decode = () => {
      let at = out;
      for (const [number, { bytes, lenBytes }] of frames.entries()) {
        if (ZSTD_decompress(at, lenBytes, places[number], bytes.length) !== lenBytes) throw new Error("C zstd refuses a frame");
        at += lenBytes;
      }
    };
    return { decode, decoded: () => new Uint8Array(memory.buffer, out, total), free: () => [out, ...places].forEach((place) => free(place)) };
  };
  return { name, module, load };
}

function grouped(count) {
  return String(count).replace(/\B(?=(\d{3})+$)/g, " ");
}
