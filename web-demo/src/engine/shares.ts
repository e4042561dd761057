/** Where the bytes of packed tensors go: to which part of the elements, and how it is coded. */

import type { Model } from "zstn";
import { ownBytes } from "../tree/node.js";
import type { ByteShares } from "./protocol.js";
import type { Context } from "./worker.js";

/** Of one tensor, or of all that have bytes of their own. */
export async function byteShares(model: Model, name: string | undefined, { signal, onStep }: Context): Promise<ByteShares> {
  const tensors = name === undefined ? [...model.tensors.values()].filter((info) => ownBytes(info) > 0) : [model.tensors.get(name)!];
  const sums = new Map<string, ByteShares["planes"][number]>();
  let [looked, otherBytes, done] = [0, 0, 0];
  // Asked for together, so that tables that lie side by side come in one request.
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
