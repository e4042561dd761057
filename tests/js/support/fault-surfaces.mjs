/** The ways in which the npm package reads from a server. A new source gets all cases of the table of faults by an entry here. */

import { open } from "zstn";

/**
 * Each has a name, the operations of the table that concern it, and `read`: it returns the tensors it has read, by name.
 * Servers without ranges are a matter of `download`, so `read` refuses them.
 */
export const SURFACES = [
  {
    name: "read",
    operations: ["read"],
    async read(url, options) {
      const model = await open(url, { ...options, maxFullDownloadBytes: 0 });
      return { y: (await model.tensor("y")).bytes };
    },
  },
  {
    name: "stream",
    operations: ["read"],
    async read(url, options) {
      const model = await open(url, { ...options, maxFullDownloadBytes: 0 });
      for await (const tensor of model.stream(["y"])) return { y: tensor.bytes };
    },
  },
  {
    name: "download",
    operations: ["plain"],
    async read(url, options) {
      const model = await open(url, options);
      const tensors = {};
      for (const name of model.tensors.keys()) tensors[name] = (await model.tensor(name)).bytes;
      return tensors;
    },
  },
];
