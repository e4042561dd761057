/**
 * `model.readToGpu` in Chromium, where the processor runs the shaders. Every tensor is compared with the CPU's, and so are
 * the bytes around it.
 */

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { pack } from "zstn";
import { toFloat16Bits } from "../../../wasm/dist/float.js";
import { bf16Tensor, safetensors, xorshift } from "../support/checkpoint.mjs";
import { browserTests, onlyChromium } from "../support/browser.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { startSite } from "../support/server.mjs";
import { goodContainers, readableByName, vectorPath } from "../support/vectors.mjs";

const EFFORTS = ["fast", "balanced", "max"];
const skip = onlyChromium("only Chromium runs shaders without a GPU");

const PAGE = `<!doctype html><title>gpu</title><link rel="icon" href="data:,"><script type="module">
  import * as zstn from "/dist/web.js";
  import { loadGpuModule } from "/dist/core-loaders.js";
  import { decode } from "/dist/gpu/decode.js";
  import { pipelinesOf } from "/dist/gpu/pipelines.js";

  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC;
  const device = await (await navigator.gpu.requestAdapter()).requestDevice();

  /** The shaders that have run. */
  const used = new Set();
  const { setPipeline } = GPUComputePassEncoder.prototype;
  GPUComputePassEncoder.prototype.setPipeline = function (pipeline) {
    used.add(pipeline.label);
    return setPipeline.call(this, pipeline);
  };

  /** Creates a buffer with other bytes than zero. */
  const newBuffer = (size) => {
    const buffer = device.createBuffer({ size, usage });
    device.queue.writeBuffer(buffer, 0, new Uint8Array(size).fill(0xa5));
    return buffer;
  };

  const bytesOf = async (buffer) => {
    const { size } = buffer;
    const copy = device.createBuffer({ size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
    const commands = device.createCommandEncoder();
    commands.copyBufferToBuffer(buffer, 0, copy, 0, size);
    device.queue.submit([commands.finish()]);
    await copy.mapAsync(GPUMapMode.READ);
    const bytes = new Uint8Array(copy.getMappedRange().slice(0));
    copy.destroy();
    return bytes;
  };

  const padded = (length) => Math.ceil(length / 4) * 4;
  const isEqual = (a, b) => a.length === b.length && a.every((byte, i) => byte === b[i]);

  /** Reads a tensor to a buffer. Returns what decoded it, or what is wrong. */
  const check = async (model, name, offset, given = device) => {
    const { byteLength, dtype, shape } = model.tensors.get(name);
    const end = offset + padded(byteLength);
    const buffer = newBuffer(end + 8);
    const got = await model.readToGpu(name, { device: given, buffer, offset });
    const bytes = await bytesOf(buffer);
    buffer.destroy();
    const { bytes: expected } = await model.tensor(name);
    if (got.name !== name || got.dtype !== dtype || got.byteLength !== byteLength || got.offset !== offset || String(got.shape) !== String(shape)) return "another description";
    if (!isEqual(bytes.subarray(offset, offset + byteLength), expected)) return "other bytes";
    if (!bytes.subarray(offset + byteLength, end).every((byte) => byte === 0)) return "no zeros after it";
    if (![...bytes.subarray(0, offset), ...bytes.subarray(end)].every((byte) => byte === 0xa5)) return "the bytes around it have changed";
    return got.decodedBy;
  };

  const fetched = async (url) => new Uint8Array(await (await fetch(url)).arrayBuffer());

  /** Reads all tensors of a model to buffers. Returns the result for each name. */
  const checkAll = async (url, options) => {
    const model = await zstn.open(await fetched(url), { workers: 0, ...options });
    const results = {};
    let offset = 0;
    for (const name of model.tensors.keys()) results[name] = await check(model, name, (offset += 260));
    model.close();
    return results;
  };

  const failure = (call) => call.then(() => "no error", ({ name, code, message, rule, tensor }) => ({ name, code, message, rule, tensor }));

  /** Calls work with the lists and the stored bytes of each tensor that is read while it runs. */
  const withLists = async (see, work) => {
    const gpu = await loadGpuModule();
    let make;
    gpu.call((api) => {
      make = api.shaderLists;
      api.shaderLists = (task, stored) => {
        const lists = make(task, stored);
        see(lists, stored);
        return lists;
      };
    });
    try {
      return await work();
    } finally {
      gpu.call((api) => (api.shaderLists = make));
    }
  };

  /** Returns the records of streams whose symbols are not just stored, [start, length] in the stored bytes. */
  const streamsOf = ([words]) => {
    const streams = [];
    for (const list of [2, 6]) {
      for (let i = 0; i < words[list]; i++) streams.push([words[words[list + 1] + 7 * i] - 8, words[words[list + 1] + 7 * i + 1]]);
    }
    return streams;
  };

  globalThis.gpu = { zstn, device, usage, used, newBuffer, bytesOf, padded, isEqual, check, checkAll, fetched, failure, withLists, streamsOf, decode, pipelinesOf };
</script>`;

const scratch = scratchFolder();
let site;

/** Returns a byte of each 32-bit float, as F8 weights are distributed: few exponents are frequent. */
const float8 = (floats) => Uint8Array.from(floats, (value) => {
  const bits = Math.min(127, Math.max(0, Math.round(8 * (Math.log2(Math.abs(value) + 1e-9) + 14))));
  return (value < 0 ? 128 : 0) | bits;
});

/** Returns tensors of every dtype and of every shape of bytes that planes are made from. */
function tensorsOf() {
  const random = xorshift(38);
  const bf16 = (elements) => bf16Tensor(elements, random);
  const floats = (elements) => {
    const high = new Uint16Array(bf16(elements).buffer);
    return new Float32Array(Uint32Array.from(high, (bits) => (bits << 16) | (random() >>> 16)).buffer);
  };
  const halves = (elements) => {
    const out = new Uint16Array(elements);
    toFloat16Bits(floats(elements), out);
    return new Uint8Array(out.buffer);
  };
  const bytesOf = (array) => new Uint8Array(array.buffer);
  const noise = (length) => Uint8Array.from({ length }, () => random() >>> 24);
  const of = (dtype, bytes, itemBytes = 1) => ({ dtype, shape: [bytes.length / itemBytes], bytes });
  const sparse = new Float32Array(9000);
  for (let i = 0; i < sparse.length; i += 97) sparse[i] = i;
  return {
    bf16: of("BF16", bf16(150_001), 2),
    "bf16.small": of("BF16", bf16(515), 2),
    "bf16.three": of("BF16", bf16(3), 2),
    f16: of("F16", halves(70_003), 2),
    f32: of("F32", bytesOf(floats(40_005)), 4),
    f64: of("F64", bytesOf(Float64Array.from(floats(9000))), 8),
    f8: of("F8_E4M3", float8(floats(140_003))),
    f8e5: of("F8_E5M2", float8(floats(2001))),
    i8: of("I8", bytesOf(Int8Array.from(floats(30_001), (value) => 400 * value))),
    i16: of("I16", bytesOf(Int16Array.from(floats(9001), (value) => 4000 * value)), 2),
    i32: of("I32", bytesOf(Int32Array.from({ length: 5000 }, (_, i) => 7 * i)), 4),
    i64: of("I64", bytesOf(BigInt64Array.from({ length: 5000 }, (_, i) => BigInt(i * i))), 8),
    c64: of("C64", bytesOf(floats(6000)), 8),
    bool: of("BOOL", Uint8Array.from({ length: 9001 }, () => Number(random() > 2 ** 30))),
    noise: of("U8", noise(9003)),
    constant: of("U8", new Uint8Array(300_001).fill(7)),
    sparse: of("F32", bytesOf(sparse), 4),
    text: of("U8", new TextEncoder().encode("the quick brown fox ".repeat(3000))),
    one: of("U8", noise(1)),
    scalar: { dtype: "F32", shape: [], bytes: bytesOf(floats(1)) },
    empty: of("F32", new Uint8Array(0), 4),
  };
}

const { inBrowser } = browserTests({
  chromiumArgs: ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"],
  ready: async () => {
    const original = safetensors(tensorsOf());
    writeFileSync(join(scratch, "model.safetensors"), original);
    for (const effort of EFFORTS) {
      const { blob } = await pack(new Blob([original]), { effort });
      writeFileSync(join(scratch, `${effort}.zstn`), new Uint8Array(await blob.arrayBuffer()));
    }
    const dist = fileURLToPath(new URL("../../../wasm/dist/", import.meta.url));
    site = await startSite({ "/dist/": dist, "/vectors/": vectorPath("zstn", ""), "/models/": scratch }, { "/": PAGE });
  },
  done: () => site?.stop(),
});

/** Returns whether a message of the browser is none about software devices. */
const isUnexpected = (text) => !/WebGPU is experimental/.test(text);

async function openPage(page) {
  await page.goto(site.url);
  await page.waitForFunction("globalThis.gpu");
}

inBrowser("tensors of every effort and dtype are equal to the CPU's, and weights are decoded by shaders", async (page, complaints) => {
  await openPage(page);
  for (const effort of EFFORTS) {
    const results = await page.evaluate((url) => gpu.checkAll(url), `/models/${effort}.zstn`);
    assert.deepEqual(Object.entries(results).filter(([, result]) => !["gpu", "cpu"].includes(result)), [], effort);
    const byCpu = Object.keys(results).filter((name) => results[name] === "cpu");
    for (const name of ["bf16", "f16", "f32", "f8", "i8", "noise"]) assert.ok(!byCpu.includes(name), `${effort}: ${name} was decoded by the CPU`);
    assert.ok(byCpu.includes("empty"), "and nothing has no shader");
  }
  const used = await page.evaluate(() => [...gpu.used].sort());
  assert.deepEqual(used, ["zstn copy_segments", "zstn decode_rans_streams", "zstn decode_streams", "zstn expand_codes", "zstn join_planes"]);
  assert.deepEqual(complaints.filter(isUnexpected), []);
}, { skip });

inBrowser("tensors of the golden files are equal to the CPU's", async (page, complaints) => {
  await openPage(page);
  for (const { name, container } of goodContainers.filter(readableByName)) {
    const results = await page.evaluate((url) => gpu.checkAll(url), `/vectors/${container.file}`);
    assert.deepEqual(Object.entries(results).filter(([, result]) => !["gpu", "cpu"].includes(result)), [], name);
  }
  assert.deepEqual(complaints.filter(isUnexpected), []);
}, { skip });

inBrowser("plain files, reads that compare digests, and what exceeds the limits of the device are decoded by the CPU", async (page, complaints) => {
  await openPage(page);
  for (const [url, options] of [["/models/model.safetensors", {}], ["/models/fast.zstn", { verify: "full" }]]) {
    const results = await page.evaluate(([url, options]) => gpu.checkAll(url, options), [url, options]);
    assert.deepEqual([...new Set(Object.values(results))], ["cpu"], url);
  }
  const byLimit = await page.evaluate(async () => {
    const model = await gpu.zstn.open(await gpu.fetched("/models/fast.zstn"), { workers: 0 });
    const limits = { minStorageBufferOffsetAlignment: 256, maxBufferSize: 2 ** 28, maxStorageBufferBindingSize: 2 ** 17 };
    const get = (device, key) => (key === "limits" ? limits : typeof device[key] === "function" ? device[key].bind(device) : device[key]);
    const little = new Proxy(gpu.device, { get });
    return [await gpu.check(model, "bf16", 4, little), await gpu.check(model, "bf16.small", 4, little)];
  });
  assert.deepEqual(byLimit, ["cpu", "gpu"], "a device with small limits decodes small tensors");
  assert.deepEqual(complaints.filter(isUnexpected), []);
}, { skip });

inBrowser("rows of a tensor are equal to the tensor's, and all rows are decoded by shaders", async (page) => {
  await openPage(page);
  const results = await page.evaluate(async () => {
    const { device } = gpu;
    const results = [];
    for (const url of ["/models/fast.zstn", "/models/model.safetensors"]) {
      const model = await gpu.zstn.open(await gpu.fetched(url), { workers: 0 });
      for (const [name, rows] of [["bf16", [70_001, 70_008]], ["f32", [3, 3]], ["f64", [0, 1]], ["bf16", [0, 150_001]]]) {
        const expected = (await model.tensor(name, { rows })).data;
        const bytes = new Uint8Array(expected.buffer, expected.byteOffset, expected.byteLength);
        const buffer = gpu.newBuffer(gpu.padded(bytes.length) + 8);
        const { shape, byteLength, offset, decodedBy } = await model.readToGpu(name, { device, buffer, offset: 8, rows });
        const isEqual = gpu.isEqual((await gpu.bytesOf(buffer)).subarray(8, 8 + byteLength), bytes);
        results.push([isEqual, ...shape, byteLength === bytes.length, offset, decodedBy].join());
        buffer.destroy();
      }
    }
    return results;
  });
  const byCpu = ["true,7,true,8,cpu", "true,0,true,8,cpu", "true,1,true,8,cpu"];
  assert.deepEqual(results, [...byCpu, "true,150001,true,8,gpu", ...byCpu, "true,150001,true,8,cpu"]);
}, { skip });

inBrowser("damage in the streams is reported by shaders, or decoded as the CPU decodes it", async (page) => {
  await openPage(page);
  const counts = await page.evaluate(async (efforts) => {
    const { zstn, device } = gpu;
    const pipelines = await gpu.pipelinesOf(device);
    const counts = { reported: 0, decoded: 0 };
    let state = 1;
    const random = (below) => (state = (state * 48_271) % 2_147_483_647) % below;
    for (const effort of efforts) {
      const model = await zstn.open(await gpu.fetched(`/models/${effort}.zstn`), { workers: 0 });
      for (const name of ["bf16.small", "f16", "f8", "i8"]) {
        const { byteLength } = model.tensors.get(name);
        const buffer = gpu.newBuffer(gpu.padded(byteLength));
        let planned;
        await gpu.withLists((lists, stored) => (planned = { lists, stored: stored.slice() }), () => model.readToGpu(name, { device, buffer }));
        const streams = planned.lists ? gpu.streamsOf(planned.lists) : [];
        for (let flip = 0; flip < 12 && streams.length > 0; flip++) {
          const [start, length] = streams[random(streams.length)];
          const damaged = planned.stored.slice();
          // The last byte of a stream has the mark of its end.
          damaged[start + (flip % 3 === 0 ? length - 1 : random(length))] ^= 1 << random(8);
          const byGpu = await gpu.decode({ device, buffer, offset: 0, byteLength }, pipelines, planned.lists, damaged, new AbortController().signal);
          const byCpu = await zstn.decompress(damaged).catch(({ code }) => code);
          if (byGpu) {
            if (typeof byCpu === "string") throw new Error(`${effort}, ${name}, flip ${flip}: shaders accept what the CPU refuses: ${byCpu}`);
            if (!gpu.isEqual((await gpu.bytesOf(buffer)).subarray(0, byteLength), byCpu)) throw new Error(`${effort}, ${name}, flip ${flip}: other bytes`);
          } else if (byCpu !== "malformed") throw new Error(`${effort}, ${name}, flip ${flip}: shaders refuse what the CPU decodes`);
          counts[byGpu ? "decoded" : "reported"]++;
        }
        buffer.destroy();
      }
    }
    return counts;
  }, EFFORTS);
  assert.ok(counts.reported > 40, JSON.stringify(counts));
}, { skip });

inBrowser("a damaged tensor is refused with the CPU's error, whether the lists or the shaders find the damage", async (page) => {
  await openPage(page);
  const [expected, byLists, byShaders] = await page.evaluate(async () => {
    const { zstn, device, failure } = gpu;
    const bytes = await gpu.fetched("/models/balanced.zstn");
    const whole = await zstn.open(bytes, { workers: 0 });
    const { byteLength, parts } = whole.tensors.get("bf16");
    const [{ offset, length }] = parts;
    const buffer = gpu.newBuffer(gpu.padded(byteLength));
    const flipped = (at) => {
      const copy = bytes.slice();
      copy[at] ^= 255;
      return copy;
    };
    const damaged = await zstn.open(flipped(offset + (length >> 1)), { workers: 0 });
    const expected = await failure(damaged.tensor("bf16"));
    const byLists = await failure(damaged.readToGpu("bf16", { device, buffer }));
    const own = await zstn.open(bytes.slice(), { workers: 0 });
    // The last byte of a stream, which has the mark of its end, becomes zero after the lists are made.
    const damage = (lists, stored) => {
      const [[start, length]] = gpu.streamsOf(lists);
      stored[start + length - 1] = 0;
    };
    const byShaders = await failure(gpu.withLists(damage, () => own.readToGpu("bf16", { device, buffer })));
    return [expected, byLists, byShaders];
  });
  assert.equal(expected.name, "FormatError");
  assert.deepEqual([byLists, byShaders], [expected, expected]);
}, { skip });

inBrowser("unsuitable buffers are refused before anything is read, others by the device", async (page) => {
  await openPage(page);
  const refusals = await page.evaluate(async () => {
    const { zstn, device, usage, failure } = gpu;
    const newDevice = async () => (await navigator.gpu.requestAdapter()).requestDevice();
    const model = await zstn.open(await gpu.fetched("/models/fast.zstn"), { workers: 0 });
    const { byteLength } = model.tensors.get("bf16");
    const size = gpu.padded(byteLength);
    const read = (options, name = "bf16") => failure(model.readToGpu(name, { device, ...options }));
    const fitting = gpu.newBuffer(size);
    const destroyed = gpu.newBuffer(size);
    destroyed.destroy();
    const other = await newDevice();
    const mapped = device.createBuffer({ size, usage, mappedAtCreation: true });
    const before = model.stats.requests;
    const early = [
      await read({ buffer: gpu.newBuffer(size - 4) }),
      await read({ buffer: fitting, offset: 4 }),
      await read({ buffer: gpu.newBuffer(size + 8), offset: 2 }),
      await read({ buffer: gpu.newBuffer(size), offset: -4 }),
      await read({ buffer: device.createBuffer({ size, usage: GPUBufferUsage.STORAGE }) }),
      await read({ buffer: mapped }),
      await read({ buffer: new Uint8Array(size) }),
      await read({ buffer: fitting, device: undefined }),
      await read({ buffer: fitting, row: [0, 1] }),
      await read({ buffer: fitting, rows: [0, 150_002] }),
      await read({ buffer: fitting, rows: [5, 150_006] }),
      await read({ buffer: gpu.newBuffer(8), rows: [2, 7] }),
      await read({ buffer: fitting }, "bf17"),
      await failure(model.readToGpu("bf16")),
    ];
    const requests = model.stats.requests - before;
    const late = [
      await read({ buffer: destroyed }),
      await read({ buffer: destroyed }, "empty"),
      await read({ buffer: other.createBuffer({ size, usage }) }),
      await read({ buffer: other.createBuffer({ size, usage }) }, "sparse"),
    ];
    const abort = await failure(model.readToGpu("bf16", { device, buffer: fitting, signal: AbortSignal.abort() }));
    const controller = new AbortController();
    const reading = failure(model.readToGpu("bf16", { device, buffer: fitting, signal: controller.signal, onProgress: () => controller.abort(new Error("enough")) }));
    const aborted = await reading;
    model.close();
    const closed = await read({ buffer: fitting });
    const lost = await newDevice();
    const lostBuffer = lost.createBuffer({ size, usage });
    lost.destroy();
    const again = await zstn.open(await gpu.fetched("/models/fast.zstn"), { workers: 0 });
    const losses = [await failure(again.readToGpu("bf16", { device: lost, buffer: lostBuffer })), await failure(again.readToGpu("sparse", { device: lost, buffer: lostBuffer }))];
    return { early, requests, late, abort, aborted, closed, losses };
  });
  assert.deepEqual(refusals.early.map(({ code }) => code), [...Array(12).fill("invalid_input"), "not_found", "invalid_input"]);
  assert.match(refusals.early[0].message, /The tensor bf16 takes 300004 bytes from 0 on; `buffer` has 300000\./);
  assert.match(refusals.early[2].message, /multiple of 4/);
  assert.match(refusals.early[8].message, /no option `row`/);
  assert.equal(refusals.requests, 0);
  assert.deepEqual(refusals.late.map((refusal) => refusal.name ?? refusal), ["GpuError", "no error", "GpuError", "GpuError"]);
  assert.equal(refusals.abort.name, "AbortError");
  assert.equal(refusals.aborted.message, "enough");
  assert.equal(refusals.closed.code, "closed");
  assert.deepEqual(refusals.losses.map(({ code }) => code), ["gpu", "gpu"]);
}, { skip });
