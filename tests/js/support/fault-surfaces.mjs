/** How the npm package can read from a server. A source that is added here is tested with all cases of the fault table. */

import { open, pack } from "zstn";

/**
 * Each surface has a name, the operations of the table that apply to it, and `read`, which returns the tensors it has
 * read, by name. Servers without ranges belong to the operation `download`, so `read` rejects them. `kinds` are the
 * file types that can be read in this way, all by default. `read` also receives the plain file that a correct server
 * restores. A surface without `hasToken` does not pass the token on, and one with `versions` cannot distinguish the
 * other versions of the file. A surface that reads ahead states the number of concurrent reads, each of which meets the
 * fault.
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
    // The packed file itself does not come from the server.
    hasToken: false,
    readsAtOnce: 2,
    versions: ["model"],
    async read(url, options, plain) {
      const { blob, tensors } = await pack(plain, { ...options, base: url, maxFullDownloadBytes: 0 });
      // If a single byte of a tensor were wrong, it would not be a copy.
      if (!tensors.every(({ base }) => base === "copy")) throw new Error("other bytes of the base");
      return { y: (await (await open(blob, { base: plain })).tensor("y")).bytes };
    },
  },
];
