/** Limits the memory of WebAssembly modules, so that tests can cause a real trap: a failed allocation stops the core. */

const MEMORY_SECTION = 5;
const PAGE_BYTES = 65536;

/** Returns the module `bytes` with its memory limited to `moreBytes` more than its initial memory. */
export function withLittleMemory(bytes, moreBytes) {
  let at = 8; // magic and version
  while (at < bytes.length) {
    const begin = at;
    const id = bytes[at++];
    let length;
    [length, at] = varint(bytes, at);
    if (id === MEMORY_SECTION) {
      const end = at + length;
      const [count, flagAt] = varint(bytes, at);
      const [minPages, afterMin] = varint(bytes, flagAt + 1);
      if (count !== 1 || bytes[flagAt] !== 0 || afterMin !== end) throw new Error("The module has another memory than expected.");
      const limits = [1, 1, ...encoded(minPages), ...encoded(minPages + Math.ceil(moreBytes / PAGE_BYTES))];
      return Buffer.concat([bytes.subarray(0, begin), Uint8Array.of(MEMORY_SECTION, ...encoded(limits.length), ...limits), bytes.subarray(end)]);
    }
    at += length;
  }
  throw new Error("The module has no memory of its own.");
}

/** Returns an unsigned LEB128 number, and the position after it. */
function varint(bytes, at) {
  let value = 0;
  for (let shift = 0; ; shift += 7) {
    const byte = bytes[at++];
    value += (byte & 0x7f) * 2 ** shift;
    if (byte < 0x80) return [value, at];
  }
}

function encoded(value) {
  const bytes = [];
  for (; value >= 0x80; value = Math.floor(value / 0x80)) bytes.push((value & 0x7f) | 0x80);
  return [...bytes, value];
}
