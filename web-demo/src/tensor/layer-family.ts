/** Finds the tensors of the same name in other layers. */

import type { TensorInfo } from "zstn";

/** Tensors whose names differ in one number, sorted by that number. */
export interface LayerFamily<T = TensorInfo> {
  /** The name with `*` in place of the number. */
  readonly pattern: string;
  readonly members: readonly { readonly number: number; readonly info: T }[];
  /** The number of further tensors, which are not among the members because there are too many. */
  readonly more: number;
}

/** The maximum number of members of a family: those around the tensor itself. */
const MAX_MEMBERS = 512;

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
    if (members.length < 2) return;
    members.sort((a, b) => a.number - b.number);
    const begin = Math.max(0, Math.min(members.findIndex((member) => member.info === info) - (MAX_MEMBERS >> 1), members.length - MAX_MEMBERS));
    const shown = members.slice(begin, begin + MAX_MEMBERS);
    families.push({ pattern: `${before}*${after}`, members: shown, more: members.length - shown.length });
  });
  return families;
}
