/** Pairs the tensors of two models by name. */

import type { TensorInfo } from "zstn";
import type { Steps } from "../../engine/turns.js";

export interface Pairing {
  /** The tensors of the first model that can be compared with the tensor of the same name in the second model. */
  readonly shared: readonly TensorInfo[];
  /** Tensors of the same name, but with different shapes or types that cannot be compared. */
  readonly unlike: readonly TensorInfo[];
  readonly onlyFirst: readonly TensorInfo[];
  readonly onlySecond: readonly TensorInfo[];
  /** The tensors of the second model by name. */
  readonly others: ReadonlyMap<string, TensorInfo>;
  /** Maps each shared tensor that is tied to the same other tensor in both models to that tensor. */
  readonly owners: ReadonlyMap<string, string>;
}

/** Pairs tensors, one in each step. */
export function* pairingInSteps(first: readonly TensorInfo[], second: readonly TensorInfo[]): Steps<Pairing> {
  const others = new Map<string, TensorInfo>();
  const unpaired = new Map<string, TensorInfo>();
  for (const tensor of second) {
    others.set(tensor.name, tensor);
    unpaired.set(tensor.name, tensor);
    yield;
  }
  const shared: TensorInfo[] = [];
  const unlike: TensorInfo[] = [];
  const onlyFirst: TensorInfo[] = [];
  const tied: TensorInfo[] = [];
  const comparable = new Set<string>();
  for (const tensor of first) {
    yield;
    const { name, aliasOf } = tensor;
    const other = others.get(name);
    unpaired.delete(name);
    if (!other) onlyFirst.push(tensor);
    else if (!areAlike(tensor, other)) unlike.push(tensor);
    else {
      shared.push(tensor);
      comparable.add(name);
      if (aliasOf !== undefined && other.aliasOf === aliasOf) tied.push(tensor);
    }
  }
  const owners = new Map(tied.flatMap(({ name, aliasOf }) => (comparable.has(aliasOf!) ? [[name, aliasOf!] as const] : [])));
  return { shared, unlike, onlyFirst, onlySecond: [...unpaired.values()], others, owners };
}

function areAlike(a: TensorInfo, b: TensorInfo): boolean {
  const sameShape = a.shape.length === b.shape.length && a.shape.every((size, i) => size === b.shape[i]);
  // Elements shorter than a byte, and complex elements, can only be compared within the same dtype.
  const isPlain = ({ dtype }: TensorInfo): boolean => !/^(F[46](_|$)|C64)/.test(dtype);
  return sameShape && (a.dtype === b.dtype || (isPlain(a) && isPlain(b)));
}
