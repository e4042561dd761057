/** The decoding methods that are compared, in Node and in pages. */

/**
 * Returns the methods by name. Each decodes the model once and returns its speed in MB of tensors per second. `source`
 * and, if the model is a delta, `base` should have the bytes of tensors in memory. `others` are other builds of the
 * package, by name. `threadPool` is left out if there are no threads. `stopwatch` starts to measure, and returns a
 * function that returns the elapsed milliseconds. `inlineOnly` leaves workers out.
 */
export async function measured(zstn, threadPool, source, others, { base, stopwatch = elapsed, inlineOnly = false } = {}) {
  const poolsOf = ({ workerPool }) => (inlineOnly ? {} : { "2 workers": workerPool({ size: 2 }), "1 worker": workerPool({ size: 1 }) });
  const opened = ({ open }, workers) => open(source, { workers, ...(base && { base }) });
  const pools = {};
  const models = { "inline": await opened(zstn, 0) };
  for (const [build, package_] of Object.entries({ "": zstn, ...others })) {
    const suffix = build && `, ${build}`;
    if (build) models[`inline${suffix}`] = await opened(package_, 0);
    for (const [name, pool] of Object.entries(poolsOf(package_))) {
      pools[name + suffix] = pool;
      models[name + suffix] = await opened(package_, pool);
    }
  }
  if (threadPool && !inlineOnly) models["2 threads"] = await opened(zstn, (pools["2 threads"] = threadPool({ threads: 2 })));
  if (base) models["the base alone, inline"] = await zstn.open(base, { workers: 0 });
  const longest = [...models.inline.tensors.values()].reduce((one, other) => (other.byteLength > one.byteLength ? other : one));

  const ways = {};
  for (const [name, model] of Object.entries(models)) {
    ways[name] = () => speed(stopwatch, async () => {
      let bytes = 0;
      for await (const tensor of model.stream(undefined, { readAheadBytes: 2 ** 30 })) bytes += tensor.bytes.length;
      return bytes;
    });
  }
  for (const name of Object.keys(pools)) {
    ways[`${name}: the longest tensor`] = () => speed(stopwatch, async () => (await models[name].tensor(longest.name)).bytes.length);
  }
  const rooms = new Map(Array.from(models.inline.tensors, ([name, { byteLength }]) => [name, new Uint8Array(byteLength)]));
  for (const name of ["inline", "2 workers"].filter((name) => name in models)) {
    ways[`${name}, into memory given`] = () => speed(stopwatch, async () => {
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

function elapsed() {
  const begin = performance.now();
  return () => performance.now() - begin;
}

async function speed(stopwatch, decode) {
  const milliseconds = stopwatch();
  const bytes = await decode();
  return bytes / milliseconds() / 1000;
}
