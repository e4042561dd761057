/** The tarball for npm: its contents, and its use in several types of projects. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { installPacked } from "../support/packed.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { vectorPath } from "../support/vectors.mjs";

const run = promisify(execFile);
const modules = fileURLToPath(new URL("../../../node_modules", import.meta.url));
const project = scratchFolder();
let files;

before(async () => {
  files = await installPacked(project);
  writeFileSync(join(project, "package.json"), '{"type": "module"}');
});

test("the tarball holds code, types, the module and words, nothing else", () => {
  for (const file of ["README.md", "THIRD-PARTY-LICENSES.txt", "package.json", "dist/web.js", "dist/web.d.ts", "dist/node.js", "dist/service-worker.js", "dist/service-worker.d.ts", "dist/core/zstn_wasm.js", "dist/core/zstn_wasm_bg.wasm", "dist/core/zstn_formats.js", "dist/core/zstn_formats_bg.wasm", "dist/core/zstn_coder.js", "dist/core/zstn_coder_bg.wasm", "dist/core/zstn_gpu.js", "dist/core/zstn_gpu_bg.wasm", "dist/decode/web-worker.js", "dist/decode/node-worker.js", "dist/threads/web.js", "dist/threads/node.js"]) {
    assert.ok(files.includes(file), `${file} is missing`);
  }
  const others = files.filter((file) => !/^(dist\/.+\.(js|d\.ts)|dist\/core\/zstn_(wasm|formats|coder|gpu|threads)_bg\.wasm|examples\/.+\.mjs|README\.md|LICENSE|THIRD-PARTY-LICENSES\.txt|package\.json)$/.test(file));
  assert.deepEqual(others, []);
});

test("ES modules import it", async () => {
  const program = `import { open } from "zstn"; const model = await open(process.argv[1]); console.log(model.tensors.size);`;
  const { stdout } = await run(process.execPath, ["--input-type=module", "-e", program, vectorPath("zstn", "all_dtypes.zstn")], { cwd: project });
  assert.equal(stdout, "22\n");
});

test("CommonJS requires it", async () => {
  const { compress, decompress, open } = createRequire(join(project, "main.cjs"))("zstn");
  assert.deepEqual(await decompress(await compress(new Uint8Array(9))), new Uint8Array(9));
  assert.equal((await open(vectorPath("zstn", "all_dtypes.zstn"))).tensors.size, 22);
});

const CONSUMER = `
import { compress, compressDelta, configure, decompress, decompressDelta, folderCache, memoryCache, open, opfsCache, pack, withCache, withCoalescing, withRetry, workerPool, WorkerError, ZstnError } from "zstn";
import { configure as configureServiceWorker, serveSafetensors } from "zstn/service-worker";
import { threadPool } from "zstn/threads";
import type { ByteCache, HttpOptions, Model, ModelInput, OpenOptionsFor, PackDeltaOptionsFor, Packed, PackOptionsFor, PackReport, SafetensorsBlob, StoredCache, Tensor, Source, WorkerPool } from "zstn";
const mine: Source = { size: () => 3, read: async (offset, length, options) => (options?.signal?.throwIfAborted(), new Uint8Array(offset + length)) };
export async function read(model: Model): Promise<number> {
  const tensor: Tensor = await model.tensor("w", { signal: AbortSignal.timeout(1000), onProgress: ({ loadedBytes }) => void loadedBytes });
  for (const [name, { dtype, shape }] of model.tensors) void [name, dtype, shape.length];
  void new Blob([tensor.bytes, tensor.toFloat32()]);
  const gpu = { queue: {}, limits: {} };
  const { decodedBy } = await model.readToGpu("w", { device: gpu, buffer: { size: 8, usage: 136, mapState: "unmapped" }, offset: 4 });
  if (decodedBy === "gpu") throw new Error("and nothing else but cpu");
  if (tensor.dtype === "BF16") {
    const bits: Uint16Array = tensor.data;
    return bits.length;
  }
  if (tensor.dtype === "I64") return Number(tensor.data[0]! + 1n);
  // @ts-expect-error: no such dtype
  if (tensor.dtype === "BF17") return 0;
  return tensor.data instanceof Uint16Array ? tensor.toFloat32()[0]! : tensor.data.length + model.stats.bytesFetched;
}
export const opened = open(mine, { coalesce: false, siblings: () => undefined }).catch((error: unknown) => error instanceof ZstnError && error.code === "malformed");
export async function repack(model: Blob, to: WritableStream<Uint8Array>): Promise<Blob> {
  const { blob, size, tensors }: Packed = await pack(model, { effort: "max", onProgress: ({ stage }) => void stage });
  const report: PackReport = await pack("model.safetensors", { to });
  void new Blob([await decompress(await compress(new Uint8Array(size + report.size), { dtype: "F32" }))]);
  return tensors[0]?.aliasOf === undefined ? blob : model;
}
export async function packTuned(tuned: File, base: Model, to: WritableStream<Uint8Array>): Promise<Blob> {
  const { blob, tensors }: Packed = await pack(tuned, { base, effort: "fast", onProgress: ({ stage }) => void stage });
  const report: PackReport = await pack("https://host/tuned.safetensors", { base: "https://host/base.zstn", to, token: "t", retries: 1 });
  const use: "copy" | "delta" | undefined = tensors[0]?.base ?? report.tensors[0]?.base;
  await pack(tuned, { base: "https://host/base.zstn", retries: 5, cache: 1e6 });
  const frame = await compressDelta(new Uint8Array(9), new Uint8Array(9), { dtype: "F32", effort: "max" });
  void (await decompressDelta(frame, new ArrayBuffer(9), { maxBytes: 9 }));
  return use === "copy" ? blob : tuned;
}
export const packAny = <I extends ModelInput>(input: I, options: PackOptionsFor<I>): Promise<Packed> => pack(input, { ...options, to: undefined });
export const packAnyTuned = <I extends ModelInput, B extends ModelInput | Model>(input: I, options: PackDeltaOptionsFor<I, B>): Promise<Packed> => pack(input, { ...options, to: undefined });
export const eitherTuned = (input: ModelInput, base: ModelInput | Model): Promise<Packed> => pack(input, { base, token: "t" });
const kept: ByteCache = { persistent: false, get: async () => undefined, put: async (_key, _offset, bytes) => void bytes.byteLength };
const patient: HttpOptions = { token: "t", retries: 5, idleTimeoutMs: 60_000, maxFullDownloadBytes: 0, cache: kept };
export const cached = (inNode: boolean): StoredCache => (inNode ? folderCache("cache", { maxBytes: 1e9 }) : opfsCache({ folder: "models" }));
void open("https://host/model", { ...patient, coalesce: { maxGapBytes: 0 }, cache: memoryCache(1 << 26) }).then(({ stats }) => stats.cacheHits + stats.cacheBytes + stats.retries);
export async function slices(model: Model): Promise<number> {
  serveSafetensors({ "/a.safetensors": new URL("https://host/a.zstn") }, { cacheBytes: 1e9, token: "t" });
  for await (const { name, data } of model.stream(["a"], { readAheadBytes: 1e9, signal: AbortSignal.timeout(9) })) void [name, data];
  const file: SafetensorsBlob = model.asSafetensorsBlob({ cacheBytes: 0 });
  for await (const piece of file.stream() as unknown as AsyncIterable<Uint8Array>) void piece;
  return (await file.slice(0, -8).arrayBuffer()).byteLength + (await file.text()).length;
}
export async function decoded(into: Float32Array<ArrayBuffer>): Promise<number> {
  const pool: WorkerPool = Math.random() > 0.5 ? workerPool({ size: 2, minBytes: 0 }) : threadPool({ threads: 2 });
  const model = await open("https://host/model", { workers: pool });
  await model.tensor("w", { into }).catch((error: unknown) => error instanceof WorkerError && error.tensor);
  pool.close();
  return pool.decoded + pool.running + pool.size + ((await open(mine, { workers: 0 })).fileCount);
}
configure({ wasm: { reader: "reader.wasm", formats: new URL("https://host/formats.wasm"), coder: new Uint8Array(8), gpu: "gpu.wasm" }, createWorker: () => ({}) });
configureServiceWorker({ wasm: { reader: "reader.wasm" } });
const wrapped: Source = withCoalescing(withCache(withRetry(mine, { retries: 2, shouldRetry: (error) => error instanceof Error }), kept, "key"), { maxGapBytes: 0 });
void open(wrapped);
// Whatever can be opened takes all options; a wrapper passes them on.
export const anything = <I extends ModelInput>(input: I, options: OpenOptionsFor<I>): Promise<Model> => open(input, options);
export const either = (input: ModelInput): Promise<Model> => open(input, { token: "t", coalesce: false });
// Options that would do nothing are refused: those of HTTP for inputs without an address,
// @ts-expect-error: no request is made for a Blob
void open(new Blob([]), { token: "t" });
// @ts-expect-error: nor for a custom source
void open(mine, { retries: 3 });
// @ts-expect-error: nor for bytes, which need no cache either
void open(new Uint8Array(8), { cache: 1e6 });
// @ts-expect-error: and bytes in memory are never merged
void open(new Uint8Array(8), { coalesce: { maxGapBytes: 0 } });
// @ts-expect-error: nothing is requested for a Blob that is packed
void pack(new Blob([]), { fetch });
// @ts-expect-error: nor for that and a base in memory
void pack(new Blob([]), { base: new Blob([]), retries: 3 });
// @ts-expect-error: nor for an open model
void pack(new Blob([]), { base: {} as Model, cache: 1e6 });
// @ts-expect-error: a token is for the origin of the file that is packed, and this has none
void pack(new Blob([]), { base: "https://host/base.zstn", token: "t" });
// @ts-expect-error: a delta holds whole files
void pack("model.safetensors", { base: "base.safetensors", allowTruncated: true });
// @ts-expect-error: and has no place for this
void pack("model.safetensors", { base: "base.safetensors", sha256: "ab".repeat(32) });
// @ts-expect-error: a stream was given, so there is no Blob
void pack("model.safetensors", { base: "base.safetensors", to: new WritableStream() }).then(({ blob }) => blob);
// @ts-expect-error: that is no base
void pack("model.safetensors", { base: 7 });
// @ts-expect-error: the base is the second argument
void compressDelta(new Uint8Array(1), { dtype: "F32" });
// ... those of open for pack, ...
// @ts-expect-error: packing does not decode
void pack("model.safetensors", { workers: 2 });
// @ts-expect-error: packing reads one file
void pack("model.safetensors", { siblings: () => undefined });
// @ts-expect-error: nor any configuration
void pack("model.safetensors", { config: false });
// @ts-expect-error: and one read at a time has nothing to be merged with
void pack("model.safetensors", { coalesce: false });
// ... and those of pages for service workers, and of single pools.
// @ts-expect-error: a service worker starts no workers
serveSafetensors({}, { workers: 2 });
// @ts-expect-error: nor packs
configureServiceWorker({ wasm: { coder: "coder.wasm" } });
// @ts-expect-error: workers are created as configure() says
void workerPool({ createWorker: () => ({}) });
// @ts-expect-error: threads have an entry of their own
configure({ threads: 2 });
// @ts-expect-error: a cache needs a key
void withCache(mine, kept);
// @ts-expect-error: a stream was given, so there is no Blob
void pack("model.safetensors", { to: new WritableStream() }).then(({ blob }) => blob);
// @ts-expect-error: no such effort
void compress(new Uint8Array(1), { effort: "heroic" });
// @ts-expect-error: not something that can be opened
void open(7);
`;

for (const [what, options] of Object.entries({
  "a bundled page": { module: "ESNext", moduleResolution: "Bundler", lib: ["ES2022", "DOM"], types: [] },
  "a Node program without DOM types": { module: "NodeNext", moduleResolution: "NodeNext", lib: ["ES2022"], types: ["node"] },
})) {
  test(`its types serve ${what}, with library checks on`, async () => {
    const folder = join(project, what.replaceAll(" ", "-"));
    mkdirSync(folder);
    mkdirSync(join(project, "node_modules/@types"), { recursive: true });
    for (const name of ["@types/node", "undici-types"]) {
      try {
        symlinkSync(join(modules, name), join(project, "node_modules", name), "junction");
      } catch (error) {
        if (error.code !== "EEXIST") throw error;
      }
    }
    writeFileSync(join(folder, "main.ts"), CONSUMER);
    const compilerOptions = { ...options, target: "ES2022", strict: true, noUncheckedIndexedAccess: true, exactOptionalPropertyTypes: true, skipLibCheck: false, noEmit: true };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["main.ts"] }));
    const { stdout } = await run(process.execPath, [join(modules, "typescript/bin/tsc"), "--project", folder]).catch((error) => error);
    assert.equal(stdout, "");
  });
}
