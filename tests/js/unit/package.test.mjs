import assert from "node:assert/strict";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../../wasm/", import.meta.url));
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

test("the package has no dependencies", () => {
  assert.equal(manifest.dependencies, undefined);
  assert.equal(manifest.peerDependencies, undefined);
});

test("conditions are in the order that resolvers need, and their files exist", () => {
  assert.deepEqual(Object.keys(manifest.exports["."]), ["types", "workerd", "node", "default"]);
  assert.deepEqual(Object.keys(manifest.exports["./service-worker"]), ["types", "default"]);
  for (const entry of [...Object.values(manifest.exports["."]), ...Object.values(manifest.exports["./service-worker"]), manifest.exports["./zstn_wasm_bg.wasm"], manifest.exports["./zstn_formats_bg.wasm"], manifest.exports["./zstn_coder_bg.wasm"], manifest.exports["./zstn_gpu_bg.wasm"]]) {
    assert.ok(existsSync(join(root, entry)), `${entry} is missing`);
  }
});

const ERRORS = ["BaseRequired", "ContentEncoding", "CoreLoad", "Format", "Gpu", "Http", "Internal", "InvalidInput", "Limit", "ModelClosed", "Network", "RangeNotSupported", "Read", "SourceChanged", "TensorNotFound", "Truncated", "Unsupported", "Worker", "WrongBase", "Zstn"];
const FUNCTIONS = ["blockScaled", "compress", "compressDelta", "configure", "decompress", "decompressDelta", "folderCache", "memoryCache", "open", "opfsCache", "pack", "readBlockScaled", "unpack", "withCache", "withCoalescing", "withRetry", "workerPool"];
const TYPES = [
  "AxisSelection", "BaseInput", "BlobReadOptions", "BlockScaled", "BlockScaledOptions", "ByteCache", "BytesInput", "CoalesceOptions", "CompressOptions", "Configuration", "CoreInput", "DecompressOptions", "Dtype", "DtypeArrays", "Effort",
  "ErrorCode", "ErrorLocation", "Figures", "Float16Data", "GpuBuffer", "GpuDevice", "GpuReadOptions", "GpuTensor", "HalfArray", "HttpOptions", "HubInput", "HubLocation", "LocalInput", "LocateOptions", "Model", "ModelInput", "ModelKind", "OnProgress", "OpenOptions", "OpenOptionsFor", "OpfsCacheOptions", "PackDeltaOptions", "PackDeltaOptionsFor", "PackOptions", "PackOptionsFor",
  "PackReport", "Packed", "PackedOriginal", "PackedTensor", "PlanOptions", "Progress", "ReadOptions", "ReadPlan", "ResolveSibling", "RetryOptions", "RowRange", "SafetensorsBlob", "SafetensorsBlobOptions",
  "Sliceable", "Source", "Stats", "StoredCache", "StoredCacheOptions", "StoredPart", "StoredPlane", "StatisticsOptions", "StreamOptions", "Tensor", "TensorData", "TensorInfo", "TensorOptions", "TensorStatistics",
  "TypedTensor", "UnpackOptions", "UnpackOptionsFor", "UnpackReport", "Unpacked", "Verify", "WasmFiles", "WasmModule", "WorkerPool", "WorkerPoolOptions",
];

test("both entries export these names and no others", async () => {
  const names = [...ERRORS.map((name) => `${name}Error`), ...FUNCTIONS];
  for (const entry of ["web", "node"]) {
    const exported = await import(`../../../wasm/dist/${entry}.js`);
    assert.deepEqual(Object.keys(exported).sort(), names.toSorted(), entry);
    for (const name of names) assert.equal(typeof exported[name], "function", name);
  }
  const declarations = readFileSync(join(root, "dist/exports.d.ts"), "utf8");
  const types = [...declarations.matchAll(/export type \{ ([^}]+) \}/g)].flatMap(([, list]) => list.split(", "));
  assert.deepEqual(types.sort(), TYPES.toSorted());
});

test("entries for workers and threads exist, and what has effects is said to", () => {
  for (const entry of ["./threads", "./worker", "./threads-worker"]) {
    assert.deepEqual(Object.keys(manifest.exports[entry]), ["types", "node", "default"]);
    for (const file of Object.values(manifest.exports[entry])) assert.ok(existsSync(join(root, file)), `${file} is missing`);
  }
  // A bundler drops modules that it considers free of side effects, but the script of a worker consists of side effects.
  const kept = manifest.sideEffects.map((pattern) => new RegExp(`^${pattern.replaceAll(".", "\\.").replaceAll("*", "[^/]*")}$`));
  const scripts = ["./worker", "./threads-worker"].flatMap((entry) => [manifest.exports[entry].node, manifest.exports[entry].default]);
  for (const script of [...scripts, "./dist/threads/web-thread.js", "./dist/threads/node-thread.js"]) {
    assert.ok(kept.some((pattern) => pattern.test(script)), script);
  }
});

test("the entry for service workers exports its functions", async () => {
  const names = Object.keys(await import("../../../wasm/dist/service-worker.js"));
  assert.deepEqual(names.sort(), ["configure", "serveSafetensors"]);
});

test("the entry for hubs exports the same names everywhere, and its errors are those of the package", async () => {
  assert.deepEqual(Object.keys(manifest.exports["./hub"]), ["types", "node", "default"]);
  const { ZstnError } = await import("zstn");
  for (const file of Object.values(manifest.exports["./hub"])) {
    assert.ok(existsSync(join(root, file)), `${file} is missing`);
    if (!file.endsWith(".js")) continue;
    assert.ok(manifest.sideEffects.includes(file));
    const exported = await import(join(root, file));
    assert.deepEqual(Object.keys(exported).sort(), ["HUGGING_FACE", "HubError", "HubFileError", "hub", "listModelFiles", "parseHubAddress"]);
    for (const name of ["HubError", "HubFileError"]) assert.ok(exported[name].prototype instanceof ZstnError);
  }
});

test("what the web entry imports are files beside it: it runs without a bundler", () => {
  const seen = new Set();
  const visit = (file) => {
    if (seen.has(file)) return;
    seen.add(file);
    const imports = readFileSync(file, "utf8").matchAll(/^\s*(?:import|export)\b[^;]*?\bfrom\s+["']([^"']+)["']/gm);
    for (const [, specifier] of imports) {
      assert.match(specifier, /^\.\.?\/.+\.js$/, `${file} imports ${specifier}`);
      visit(join(dirname(file), specifier));
    }
  };
  visit(join(root, "dist/web.js"));
  assert.ok(seen.size > 10, "the imports were found");
  assert.ok([...seen].every((file) => !file.includes(`${join("dist", "node")}`)), "nothing of Node is among them");
  assert.ok([...seen].every((file) => !/zstn_(coder|formats)\.js$/.test(file)), "what packs and what reads other formats is not loaded by those who read");
});

test("no source file is longer than 300 lines", () => {
  const sources = readdirSync(join(root, "ts"), { recursive: true }).filter((file) => file.endsWith(".ts"));
  for (const file of sources) {
    const lines = readFileSync(join(root, "ts", file), "utf8").split("\n").length;
    assert.ok(lines <= 300, `${file} has ${lines} lines`);
  }
});
