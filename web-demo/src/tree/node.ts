/** Arranges tensors in a tree by the components of their names. */

import type { TensorInfo } from "zstn";

export interface Leaf {
  readonly kind: "tensor";
  /** The last components of the name. */
  readonly label: string;
  readonly tensor: TensorInfo;
}

export interface Branch {
  readonly kind: "module";
  /** The name components that all nodes below share, without the components of the parent. */
  readonly label: string;
  /** The common prefix of all names below. */
  readonly path: string;
  /** The first tensor below. */
  readonly first: TensorInfo | undefined;
  /** The nodes of the module, in file order. They are made when they are first needed. */
  readonly children: readonly Node[];
  /** The number of tensors below, and their total lengths in bytes. */
  readonly tensors: number;
  readonly originalBytes: number;
  readonly storedBytes: number;
}

export type Node = Leaf | Branch;

/** Returns the length of a tensor's own stored bytes; 0 if it shares the bytes of another one. */
export const ownBytes = ({ aliasOf, storedLength }: TensorInfo): number => (aliasOf === undefined ? storedLength : 0);

/**
 * Returns the length of a tensor before packing, in bytes, with which its stored length is compared. Quantised values
 * count as the original stores them, and not as the longer values that they are read as.
 */
export const originalBytesOf = ({ byteLength, originalLength = byteLength }: Pick<TensorInfo, "byteLength" | "originalLength">): number => originalLength;

/** Returns whether a tensor is stored in another length than before packing, or shares the bytes of another one. */
export const isPacked = (tensor: TensorInfo): boolean => tensor.aliasOf !== undefined || tensor.base !== undefined || tensor.storedLength !== originalBytesOf(tensor);

/**
 * Returns the tree, in file order. A module with a single child is joined with it. The children of a module are found
 * when they are first needed, so that the tree of a large model takes as long as the modules that are open.
 */
export const treeOf = (tensors: Iterable<TensorInfo>): Branch => new Module("", "", [...tensors]);

class Module implements Branch {
  readonly kind = "module";
  readonly label: string;
  readonly path: string;
  readonly originalBytes: number;
  readonly storedBytes: number;
  readonly #members: readonly TensorInfo[];
  #children: readonly Node[] | undefined;

  constructor(label: string, path: string, members: readonly TensorInfo[]) {
    this.label = label;
    this.path = path;
    this.#members = members;
    let [originalBytes, storedBytes] = [0, 0];
    for (const tensor of members) {
      originalBytes += originalBytesOf(tensor);
      storedBytes += ownBytes(tensor);
    }
    this.originalBytes = originalBytes;
    this.storedBytes = storedBytes;
  }

  get tensors(): number {
    return this.#members.length;
  }

  get first(): TensorInfo | undefined {
    return this.#members[0];
  }

  get children(): readonly Node[] {
    return (this.#children ??= childrenOf(this.#members, this.path.length));
  }
}

/** Returns the nodes of tensors whose names begin with the same `begin` characters. */
function childrenOf(members: readonly TensorInfo[], begin: number): Node[] {
  const groups = new Map<string, TensorInfo[]>();
  /** The group of the previous tensor, and the beginning of its names. Most tensors belong to the same module as the previous one. */
  let last: TensorInfo[] | undefined;
  let lastPath = "";
  for (const tensor of members) {
    const { name } = tensor;
    if (last && name.startsWith(lastPath, begin)) {
      last.push(tensor);
      continue;
    }
    const end = name.indexOf(".", begin);
    // No component contains a dot, so a tensor of this module has a key of its own.
    const key = end < 0 ? `.${name}` : name.slice(begin, end);
    const group = (end < 0 ? undefined : groups.get(key)) ?? [];
    if (group.push(tensor) === 1) groups.set(key, group);
    last = end < 0 ? undefined : group;
    lastPath = `${key}.`;
  }
  return [...groups].map(([key, group]): Node => {
    const [tensor] = group as [TensorInfo];
    if (group.length === 1) return { kind: "tensor", label: tensor.name.slice(begin), tensor };
    let end = begin + key.length + 1;
    for (let next = end; next > 0; ) {
      end = next;
      next = commonEnd(group, end);
    }
    return new Module(tensor.name.slice(begin, end - 1), tensor.name.slice(0, end), group);
  });
}

/** Returns the end of the next component of names, with its dot, if all of them have it in common; otherwise 0. */
function commonEnd(members: readonly TensorInfo[], begin: number): number {
  const first = members[0]!.name;
  const end = first.indexOf(".", begin) + 1;
  const part = first.slice(begin, end);
  return end > 0 && members.every(({ name }) => name.startsWith(part, begin)) ? end : 0;
}
