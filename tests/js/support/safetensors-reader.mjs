/** A safetensors reader, written from the specification. Its input has `size` and `slice` like a `Blob`. */

export async function readSafetensors(blob) {
  const lengthBytes = Number(new DataView(await blob.slice(0, 8).arrayBuffer()).getBigUint64(0, true));
  const { __metadata__: metadata = {}, ...entries } = JSON.parse(await blob.slice(8, 8 + lengthBytes).text());
  const data = blob.slice(8 + lengthBytes);
  const names = Object.keys(entries);
  const endBytes = names.reduce((most, name) => Math.max(most, entries[name].data_offsets[1]), 0);
  if (data.size !== endBytes) throw new Error(`the file has ${data.size} bytes of data, its header says ${endBytes}`);
  return {
    metadata,
    names,
    entries,
    bytesOf: async (name) => new Uint8Array(await data.slice(...entries[name].data_offsets).arrayBuffer()),
  };
}
