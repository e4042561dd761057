/** A script that runs in every runtime and tries every feature of the package. */

/**
 * Runs all features and returns their outcomes by name: success, or the error. `zstn` is the package. `input` contains
 * the addresses of files on a server with ranges, and digests that another program has computed.
 */
export async function runScenario(zstn, input) {
  const outcomes = {};
  for (const [feature, work] of Object.entries(features(zstn, input))) {
    try {
      await work();
      outcomes[feature] = { ok: true };
    } catch (error) {
      const { name, code, message, stack } = error;
      outcomes[feature] = { ok: false, name, code, message: String(message ?? error), stack: String(stack).split("\n").slice(0, 6).join("\n"), ...(error.cause && { cause: String(error.cause) }) };
    }
  }
  return outcomes;
}

/** Throws an error with this message unless `holds` is true. */
function check(holds, message) {
  if (!holds) throw new Error(message);
}

const hex = (buffer) => [...new Uint8Array(buffer)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const sha256 = async (bytes) => hex(await crypto.subtle.digest("SHA-256", bytes));

async function rejection(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("it was expected to fail, and did not");
}

function features(zstn, input) {
  const { packed, plain, missing, refused, digests, large, path, fileUrl, cacheFolder, threads, original } = input;
  const check256 = async (name, bytes) => check((await sha256(bytes)) === digests[name], `the bytes of ${name} differ`);
  const withModel = async (source, options, work) => {
    const model = await zstn.open(source, options);
    try {
      return await work(model);
    } finally {
      model.close();
    }
  };
  const inline = { workers: 0 };
  const readAll = (model) => Promise.all([...model.tensors.keys()].map(async (name) => check256(name, (await model.tensor(name)).bytes)));
  const byPool = async (pool, pieces) => {
    try {
      await withModel(packed, { workers: pool }, readAll);
      if (pool.startError) throw pool.startError;
      check(pool.decoded >= pieces, `workers have decoded ${pool.decoded} tensors`);
    } finally {
      pool.close();
    }
  };
  const cachedTwice = async (cache) => {
    await cache.clear();
    const visit = () =>
      withModel(packed, { ...inline, cache }, async (model) => {
        await readAll(model);
        await cache.flush();
        return { ...model.stats };
      });
    await visit();
    if (cache.storeError) throw cache.storeError;
    const { cacheHits, requests } = await visit();
    check(cacheHits > 0 && requests === 1, `the second visit made ${requests} requests and ${cacheHits} came from the cache`);
    await cache.clear();
  };
  return {
    "list by URL": () =>
      withModel(packed, inline, async ({ tensors }) => {
        const names = [...tensors.keys()].sort();
        check(names.join() === Object.keys(digests).sort().join(), `it lists ${names}`);
      }),
    "read tensors": () => withModel(packed, inline, readAll),
    "read rows": () =>
      withModel(packed, inline, async (model) => {
        const [whole, some] = [await model.tensor(large), await model.tensor(large, { rows: [10, 20] })];
        const rowBytes = whole.bytes.length / whole.shape[0];
        check((await sha256(some.bytes)) === (await sha256(whole.bytes.slice(10 * rowBytes, 20 * rowBytes))), "the rows differ");
      }),
    "stream all": () =>
      withModel(packed, inline, async (model) => {
        let count = 0;
        for await (const { name, bytes } of model.stream()) {
          await check256(name, bytes);
          count += 1;
        }
        check(count === Object.keys(digests).length, `${count} tensors came`);
      }),
    "plain .safetensors by URL": () => withModel(plain, inline, readAll),
    "Blob, bytes, into": async () => {
      const bytes = new Uint8Array(await (await fetch(packed)).arrayBuffer());
      await withModel(new Blob([bytes]), inline, readAll);
      await withModel(bytes, inline, async (model) => {
        const into = new ArrayBuffer(model.tensors.get(large).byteLength);
        await model.tensor(large, { into });
        await check256(large, into);
      });
    },
    "path, file: address": async () => {
      await withModel(fileUrl, inline, readAll);
      await withModel(path, inline, readAll);
    },
    "decode in workers": () => byPool(zstn.workerPool({ size: 2 }), 2),
    "decode on threads": async () => byPool((await threads()).threadPool({ threads: 2 }), 1),
    "memoryCache": () =>
      withModel(packed, { ...inline, cache: 64e6 }, async (model) => {
        await model.tensor(large);
        await check256(large, (await model.tensor(large)).bytes);
        check(model.stats.cacheHits > 0, "nothing came from the cache");
      }),
    "cache for the next visit": () => cachedTwice(cacheFolder === undefined ? zstn.opfsCache({ folder: "scenario" }) : zstn.folderCache(cacheFolder)),
    "pack, to a Blob and a stream": async () => {
      const { blob } = await zstn.pack(plain);
      await withModel(blob, inline, readAll);
      const pieces = [];
      await zstn.pack(plain, { to: new WritableStream({ write: (piece) => void pieces.push(piece.slice()) }) });
      check((await sha256(await new Blob(pieces).arrayBuffer())) === (await sha256(await blob.arrayBuffer())), "the stream got other bytes");
    },
    "compress, decompress": async () => {
      const bytes = Uint8Array.from({ length: 50_000 }, (_, i) => (i * i) >> 9);
      const frame = await zstn.compress(bytes, { dtype: "U16" });
      check(frame.length < bytes.length && (await sha256(await zstn.decompress(frame))) === (await sha256(bytes)), "the bytes differ");
    },
    "asSafetensorsBlob": () =>
      withModel(packed, inline, async (model) => {
        const file = model.asSafetensorsBlob();
        check(file.isOriginal && (await sha256(await file.arrayBuffer())) === original, "the file differs");
      }),
    "abort, 404, no server: typed errors": async () => {
      const aborted = await rejection(zstn.open(packed, { signal: AbortSignal.abort() }));
      check(aborted.name === "AbortError", `an abort gives ${aborted}`);
      const gone = await rejection(zstn.open(missing));
      check(gone.code === "http" && gone.status === 404, `404 gives ${gone}`);
      const unreachable = await rejection(zstn.open(refused, { retries: 0 }));
      check(unreachable.code === "network", `no server gives ${unreachable}`);
      const unknown = await rejection(withModel(packed, inline, (model) => model.tensor("no.such.tensor")));
      check(unknown.code === "not_found", `an unknown tensor gives ${unknown}`);
    },
  };
}
