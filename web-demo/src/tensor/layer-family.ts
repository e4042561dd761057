/** Finds the tensors of the same name in other layers. */

import type { TensorInfo } from "zstn";

/** Tensors whose names differ in one number, sorted by that number. */
export interface LayerFamily {
  /** The name with `*` in place of the number. */
  readonly pattern: string;
  readonly members: readonly { readonly number: number; readonly info: TensorInfo }[];
}

/**
 * Returns the families of a tensor: one for each number in its name that varies among other tensors. They are in the
 * order of these numbers, so that layers come before experts.
 */
export function layerFamilies(info: TensorInfo, tensors: readonly TensorInfo[]): LayerFamily[] {
  const parts = info.name.split(".");
  const families: LayerFamily[] = [];
  parts.forEach((part, i) => {
    if (!/^\d+$/.test(part)) return;
    const before = parts.slice(0, i).map((other) => `${other}.`).join("");
    const after = parts.slice(i + 1).map((other) => `.${other}`).join("");
    const members = tensors.flatMap((tensor) => {
      const { name } = tensor;
      if (!name.startsWith(before) || !name.endsWith(after) || name.length <= before.length + after.length) return [];
      const number = name.slice(before.length, name.length - after.length);
      return /^\d+$/.test(number) ? [{ number: Number(number), info: tensor }] : [];
    });
    if (members.length > 1) families.push({ pattern: `${before}*${after}`, members: members.sort((a, b) => a.number - b.number) });
  });
  return families;
}
