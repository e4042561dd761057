/** Writes zip archives, and PyTorch files of F32 tensors in one storage. */

import { crc32 } from "node:zlib";

/** Returns a zip archive with members that are not compressed, by name. */
export function zipFile(members) {
  const [parts, directory] = [[], []];
  let offset = 0;
  for (const [path, bytes] of Object.entries(members)) {
    const name = Buffer.from(path);
    const start = Buffer.alloc(30);
    const entry = Buffer.alloc(46);
    [[start, 0x04034b50, 4], [entry, 0x02014b50, 6]].forEach(([record, magic, at]) => {
      record.writeUInt32LE(magic);
      record.writeUInt16LE(20, at);
      record.writeUInt32LE(crc32(bytes), at + 10);
      record.writeUInt32LE(bytes.length, at + 14);
      record.writeUInt32LE(bytes.length, at + 18);
      record.writeUInt16LE(name.length, at + 22);
    });
    entry.writeUInt32LE(offset, 42);
    parts.push(start, name, bytes);
    directory.push(entry, name);
    offset += start.length + name.length + bytes.length;
  }
  const end = Buffer.alloc(22);
  const count = Object.keys(members).length;
  end.writeUInt32LE(0x06054b50);
  end.writeUInt16LE(count, 8);
  end.writeUInt16LE(count, 10);
  end.writeUInt32LE(directory.reduce((sum, { length }) => sum + length, 0), 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...parts, ...directory, end]);
}

const text = (value) => Buffer.concat([Buffer.from("X"), Buffer.from(Uint32Array.of(value.length).buffer), Buffer.from(value)]);
const number = (value) => Buffer.concat([Buffer.from("J"), Buffer.from(Int32Array.of(value).buffer)]);
const global = (module, name) => Buffer.from(`c${module}\n${name}\n`);
const tuple = (...items) => Buffer.concat([Buffer.from("("), ...items, Buffer.from("t")]);

/**
 * Returns a file like those of `torch.save` for a dictionary of F32 tensors that are all in one storage. Each tensor has
 * a `name`, a `shape`, and the `offset` of its first element in the storage.
 */
export function torchFile(storage, tensors) {
  const elements = storage.length / 4;
  const pairs = tensors.flatMap(({ name, shape, offset }) => {
    const strides = shape.map((_, i) => shape.slice(i + 1).reduce((a, b) => a * b, 1));
    const place = tuple(text("storage"), global("torch", "FloatStorage"), text("0"), text("cpu"), number(elements));
    const hooks = Buffer.concat([global("collections", "OrderedDict"), Buffer.from(")R")]);
    const stored = [place, Buffer.from("Q"), number(offset), tuple(...shape.map(number)), tuple(...strides.map(number)), Buffer.from([0x89]), hooks];
    return [text(name), global("torch._utils", "_rebuild_tensor_v2"), tuple(...stored), Buffer.from("R")];
  });
  const pickle = Buffer.concat([Buffer.from([0x80, 2]), Buffer.from("}("), ...pairs, Buffer.from("u.")]);
  return zipFile({ "archive/data.pkl": pickle, "archive/byteorder": Buffer.from("little"), "archive/data/0": storage, "archive/version": Buffer.from("3\n") });
}
