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
  readonly children: Node[];
  /** The number of tensors below, and their total lengths in bytes. */
  tensors: number;
  originalBytes: number;
  storedBytes: number;
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

/** Returns the tree, in file order. A module with a single child is joined with it. */
export function treeOf(tensors: Iterable<TensorInfo>): Branch {
  const root = branch("", "");
  const branches = new Map<string, Branch>([["", root]]);
  for (const tensor of tensors) {
    const parts = tensor.name.split(".");
    const last = parts.pop()!;
    let above = root;
    let path = "";
    for (const part of parts) {
      path += `${part}.`;
      let next = branches.get(path);
      if (!next) {
        next = branch(part, path);
        branches.set(path, next);
        above.children.push(next);
      }
      above = next;
    }
    above.children.push({ kind: "tensor", label: last, tensor });
  }
  return summed(joined(root));
}

function branch(label: string, path: string): Branch {
  return { kind: "module", label, path, children: [], tensors: 0, originalBytes: 0, storedBytes: 0 };
}

function joined(node: Branch): Branch {
  const children = node.children.map((child): Node => {
    if (child.kind === "tensor") return child;
    const below = joined(child);
    const only = below.children.length === 1 ? below.children[0]! : undefined;
    if (!only) return below;
    return { ...only, label: `${below.label}.${only.label}` };
  });
  return { ...node, children };
}

function summed(node: Branch): Branch {
  for (const child of node.children) {
    if (child.kind === "tensor") {
      node.tensors += 1;
      node.originalBytes += originalBytesOf(child.tensor);
      node.storedBytes += ownBytes(child.tensor);
    } else {
      summed(child);
      node.tensors += child.tensors;
      node.originalBytes += child.originalBytes;
      node.storedBytes += child.storedBytes;
    }
  }
  return node;
}
