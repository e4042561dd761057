/** Sums the stored bytes of packed tensors by bit plane and encoding. */

import type { Model } from "zstn";
import { ownBytes } from "../tree/node.js";
import type { ByteBreakdown } from "./protocol.js";
import type { Context } from "./context.js";

/** Returns the breakdown of one tensor, or of all tensors that have stored bytes of their own. */
export async function byteBreakdown(model: Model, name: string | undefined, { signal, onStep }: Context): Promise<ByteBreakdown> {
  const tensors = name === undefined ? [...model.tensors.values()].filter((info) => ownBytes(info) > 0) : [model.tensors.get(name)!];
  const sums = new Map<string, ByteBreakdown["planes"][number]>();
  let [looked, otherBytes, done] = [0, 0, 0];
  // All tables are read concurrently, so that adjacent ones share a request.
  await Promise.all(
    tensors.map(async (info) => {
      const planes = await model.planes(info.name, { signal });
      onStep({ loadedBytes: ++done, totalBytes: tensors.length });
      if (!planes) return void (otherBytes += info.storedLength);
      looked += 1;
      for (const { name: plane, method, byteLength, storedLength } of planes) {
        const key = `${plane} ${method}`;
        const sum = sums.get(key) ?? { name: plane, method, byteLength: 0, storedLength: 0 };
        sums.set(key, { ...sum, byteLength: sum.byteLength + byteLength, storedLength: sum.storedLength + storedLength });
      }
    }),
  );
  return { planes: [...sums.values()].sort((a, b) => b.storedLength - a.storedLength), tensors: looked, otherBytes };
}
