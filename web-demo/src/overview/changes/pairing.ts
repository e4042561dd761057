/** Pairs the tensors of two models by name. */

import type { TensorInfo } from "zstn";

export interface Pairing {
  /** The tensors of the first model that can be compared with the tensor of the same name in the second model. */
  readonly shared: readonly TensorInfo[];
  /** Tensors of the same name, but with different shapes or types that cannot be compared. */
  readonly unlike: readonly TensorInfo[];
  readonly onlyFirst: readonly TensorInfo[];
  readonly onlySecond: readonly TensorInfo[];
  /** Maps each shared tensor that is tied to the same other tensor in both models to that tensor. */
  readonly owners: ReadonlyMap<string, string>;
}

export function pairingOf(first: readonly TensorInfo[], second: readonly TensorInfo[]): Pairing {
  const others = new Map(second.map((tensor) => [tensor.name, tensor]));
  const names = new Set(first.map(({ name }) => name));
  const shared: TensorInfo[] = [];
  const unlike: TensorInfo[] = [];
  const onlyFirst: TensorInfo[] = [];
  for (const tensor of first) {
    const other = others.get(tensor.name);
    if (!other) onlyFirst.push(tensor);
    else if (areAlike(tensor, other)) shared.push(tensor);
    else unlike.push(tensor);
  }
  const comparable = new Set(shared.map(({ name }) => name));
  const owners = new Map(shared.flatMap(({ name, aliasOf }) => (aliasOf !== undefined && comparable.has(aliasOf) && others.get(name)?.aliasOf === aliasOf ? [[name, aliasOf] as const] : [])));
  return { shared, unlike, onlyFirst, onlySecond: second.filter(({ name }) => !names.has(name)), owners };
}

function areAlike(a: TensorInfo, b: TensorInfo): boolean {
  const sameShape = a.shape.length === b.shape.length && a.shape.every((size, i) => size === b.shape[i]);
  // Elements shorter than a byte, and complex elements, can only be compared within the same dtype.
  const isPlain = ({ dtype }: TensorInfo): boolean => !/^(F[46](_|$)|C64)/.test(dtype);
  return sameShape && (a.dtype === b.dtype || (isPlain(a) && isPlain(b)));
}
