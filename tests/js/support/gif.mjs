/** Writes animated GIF files (version 89a) from pixels. */

const MAX_COLOURS = 256;

const u16 = (value) => [value & 255, value >> 8];

/**
 * Returns a GIF that repeats its frames. `pixels` of a frame has four bytes (RGBA) for each pixel; transparency is ignored.
 * Every frame has its own table of colours.
 */
export function encodeGif(width, height, frames) {
  const parts = [Buffer.from("GIF89a"), Buffer.from([...u16(width), ...u16(height), 0, 0, 0]), Buffer.from([0x21, 0xff, 11, ...Buffer.from("NETSCAPE2.0"), 3, 1, 0, 0, 0])];
  for (const { pixels, showMs } of frames) {
    const { colours, indices } = withFewColours(pixels);
    parts.push(Buffer.from([0x21, 0xf9, 4, 0, ...u16(Math.round(showMs / 10)), 0, 0]));
    parts.push(Buffer.from([0x2c, 0, 0, 0, 0, ...u16(width), ...u16(height), 0x87]), colours, Buffer.from([8]), ...blocksOf(compressed(indices)));
  }
  return Buffer.concat([...parts, Buffer.from([0x3b])]);
}

/**
 * Returns a table of 256 colours and the index of each pixel's colour. Colours are divided by median cut; the groups with the
 * most pixels and the widest range of a channel are divided first.
 */
function withFewColours(pixels) {
  const counts = new Map();
  const keys = new Int32Array(pixels.length / 4);
  for (let i = 0; i < keys.length; i++) {
    keys[i] = (pixels[4 * i] << 16) | (pixels[4 * i + 1] << 8) | pixels[4 * i + 2];
    counts.set(keys[i], (counts.get(keys[i]) ?? 0) + 1);
  }
  const groups = [groupOf([...counts].map(([key, count]) => ({ key, count, channels: [key >> 16, (key >> 8) & 255, key & 255] })))];
  while (groups.length < MAX_COLOURS) {
    const widest = groups.reduce((best, group) => (group.weight > best.weight ? group : best));
    if (widest.weight === 0) break;
    const { entries, channel } = widest;
    entries.sort((a, b) => a.channels[channel] - b.channels[channel]);
    const half = entries.reduce((sum, { count }) => sum + count, 0) / 2;
    let [at, below] = [0, 0];
    do below += entries[at++].count;
    while (at < entries.length - 1 && below < half);
    groups.splice(groups.indexOf(widest), 1, groupOf(entries.slice(0, at)), groupOf(entries.slice(at)));
  }
  const colours = Buffer.alloc(3 * MAX_COLOURS);
  const indexOf = new Map();
  for (const [i, { entries }] of groups.entries()) {
    const total = entries.reduce((sum, { count }) => sum + count, 0);
    for (const channel of [0, 1, 2]) colours[3 * i + channel] = Math.round(entries.reduce((sum, { count, channels }) => sum + count * channels[channel], 0) / total);
    for (const { key } of entries) indexOf.set(key, i);
  }
  return { colours, indices: Uint8Array.from(keys, (key) => indexOf.get(key)) };
}

/** Returns a group of colours with its widest channel. Its weight is zero for a single colour. */
function groupOf(entries) {
  const ranges = [0, 1, 2].map((channel) => entries.reduce((most, { channels }) => Math.max(most, channels[channel]), 0) - entries.reduce((least, { channels }) => Math.min(least, channels[channel]), 255));
  const range = Math.max(...ranges);
  const pixels = entries.reduce((sum, { count }) => sum + count, 0);
  // The root limits the share of large areas of nearly one colour.
  return { entries, channel: ranges.indexOf(range), weight: range * Math.sqrt(pixels) };
}

/** Compresses indices by LZW, with codes of 9 to 12 bits. */
function compressed(indices) {
  const [clear, end] = [256, 257];
  const bytes = [];
  let [bits, held, width] = [0, 0, 9];
  const write = (code) => {
    bits |= code << held;
    for (held += width; held >= 8; held -= 8) {
      bytes.push(bits & 255);
      bits >>>= 8;
    }
  };
  let codes = new Map();
  let next = end + 1;
  write(clear);
  let prefix = indices[0];
  for (let i = 1; i < indices.length; i++) {
    const key = (prefix << 8) | indices[i];
    const code = codes.get(key);
    if (code !== undefined) {
      prefix = code;
      continue;
    }
    write(prefix);
    prefix = indices[i];
    if (next === 4096) {
      write(clear);
      [codes, next, width] = [new Map(), end + 1, 9];
    } else {
      if (next === 1 << width) width += 1;
      codes.set(key, next++);
    }
  }
  write(prefix);
  write(end);
  if (held > 0) bytes.push(bits & 255);
  return Buffer.from(bytes);
}

/** Divides data into blocks of up to 255 bytes, each after its length. */
function blocksOf(data) {
  const blocks = [];
  for (let at = 0; at < data.length; at += 255) {
    const block = data.subarray(at, at + 255);
    blocks.push(Buffer.from([block.length]), block);
  }
  return [...blocks, Buffer.from([0])];
}
