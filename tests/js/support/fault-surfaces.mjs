/** The ways in which the npm package reads from a server. A new source gets all cases of the table of faults by an entry here. */

import { open, pack } from "zstn";

/**
 * Each has a name, the operations of the table that concern it, and `read`: it returns the tensors it has read, by name.
 * Servers without ranges are a matter of `download`, so `read` refuses them. `kinds` are the kinds of file that can be
 * read in this way, all by default. `read` also gets the plain file that a right server restores. A surface without
 * `hasToken` does not pass the token on, and one with `versions` cannot tell the other versions of the file. One that reads
 * ahead says how many reads it has at a time, each of which meets the fault.
 */
export const SURFACES = [
  {
    name: "read",
    operations: ["read"],
    hasToken: true,
    async read(url, options) {
      const model = await open(url, { ...options, maxFullDownloadBytes: 0 });
      return { y: (await model.tensor("y")).bytes };
    },
  },
  {
    name: "stream",
    operations: ["read"],
    hasToken: true,
    async read(url, options) {
      const model = await open(url, { ...options, maxFullDownloadBytes: 0 });
      for await (const tensor of model.stream(["y"])) return { y: tensor.bytes };
    },
  },
  {
    name: "download",
    operations: ["plain"],
    hasToken: true,
    async read(url, options) {
      const model = await open(url, options);
      const tensors = {};
      for (const name of model.tensors.keys()) tensors[name] = (await model.tensor(name)).bytes;
      return tensors;
    },
  },
  {
    name: "pack",
    operations: ["read"],
    kinds: ["safetensors"],
    hasToken: true,
    readsAtOnce: 2,
    async read(url, options) {
      const { blob } = await pack(url, { ...options, maxFullDownloadBytes: 0 });
      return { y: (await (await open(blob)).tensor("y")).bytes };
    },
  },
  {
    name: "base of pack",
    operations: ["read"],
    // The file that is packed is not from there.
    hasToken: false,
    readsAtOnce: 2,
    versions: ["model"],
    async read(url, options, plain) {
      const { blob, tensors } = await pack(plain, { ...options, base: url, maxFullDownloadBytes: 0 });
      // A tensor with a single byte that came otherwise would not be a copy.
      if (!tensors.every(({ base }) => base === "copy")) throw new Error("other bytes of the base");
      return { y: (await (await open(blob, { base: plain })).tensor("y")).bytes };
    },
  },
];
