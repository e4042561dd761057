/** The decoding methods that are compared, in Node and in pages. */

/**
 * Returns the methods by name. Each decodes the model once and returns its speed in MB of tensors per second. `source`
 * and, if the model is a delta, `base` should have the bytes of tensors in memory. `others` are other builds of the
 * package, by name. `threadPool` is left out if there are no threads. `clock` returns milliseconds, and `inlineOnly`
 * leaves workers out.
 */
export async function measured(zstn, threadPool, source, others, { base, clock = () => performance.now(), inlineOnly = false } = {}) {
  const pools = inlineOnly ? {} : { "2 workers": zstn.workerPool({ size: 2 }), "1 worker": zstn.workerPool({ size: 1 }), ...(threadPool && { "2 threads": threadPool({ threads: 2 }) }) };
  const opened = ({ open }, workers) => open(source, { workers, ...(base && { base }) });
  const models = { "inline": await opened(zstn, 0) };
  for (const [name, other] of Object.entries(others)) models[`inline, ${name}`] = await opened(other, 0);
  for (const [name, pool] of Object.entries(pools)) models[name] = await opened(zstn, pool);
  if (base) models["the base alone, inline"] = await zstn.open(base, { workers: 0 });

  const ways = {};
  for (const [name, model] of Object.entries(models)) {
    ways[name] = () => speed(clock, async () => {
      let bytes = 0;
      for await (const tensor of model.stream(undefined, { readAheadBytes: 2 ** 30 })) bytes += tensor.bytes.length;
      return bytes;
    });
  }
  const rooms = new Map(Array.from(models.inline.tensors, ([name, { byteLength }]) => [name, new Uint8Array(byteLength)]));
  for (const name of ["inline", "2 workers"].filter((name) => name in models)) {
    ways[`${name}, into memory given`] = () => speed(clock, async () => {
      const reads = Array.from(rooms, ([tensor, into]) => models[name].tensor(tensor, { into }));
      return (await Promise.all(reads)).reduce((bytes, tensor) => bytes + tensor.bytes.length, 0);
    });
  }
  for (const way of Object.values(ways)) await way(); // starts the workers, and lets the engine compile the hot code
  const done = async () => {
    for (const [name, pool] of Object.entries(pools)) if (pool.decoded === 0) throw new Error(`${name}: ${pool.startError}`);
    for (const pool of Object.values(pools)) pool.close();
  };
  return { ways, done };
}

async function speed(clock, decode) {
  const begin = clock();
  const bytes = await decode();
  return bytes / (clock() - begin) / 1000;
}
