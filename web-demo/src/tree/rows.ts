/** The rows of the list: a tree with some branches open, or sorted tensors. */

import type { TensorInfo } from "zstn";
import { originalBytesOf, ownBytes } from "./node.js";
import type { Branch, Node } from "./node.js";

export interface Row {
  readonly node: Node;
  /** The depth in the tree, counted from 1; always 1 in a flat list. */
  readonly level: number;
  /** The position among its siblings, counted from 1; `siblings` is their number. */
  readonly position: number;
  readonly siblings: number;
}

export type Order = "tree" | "file" | "name" | "largest" | "ratio";

/** Returns the compression ratio of a tensor; infinity if it has no stored bytes of its own. */
export function ratioOf(tensor: TensorInfo): number {
  if (tensor.byteLength === 0) return 1;
  const own = ownBytes(tensor);
  return own === 0 ? Number.POSITIVE_INFINITY : originalBytesOf(tensor) / own;
}

/** The maximum number of rows of a tree that is shown with all branches open. */
const OPEN_ROWS = 40;
/** The minimum number of rows that are shown at first. */
const FEW_ROWS = 8;

/** Returns the branches to open at first. */
export function firstOpen(root: Branch): Set<string> {
  const open = new Set<string>();
  if (root.tensors <= OPEN_ROWS) {
    const visit = (branch: Branch): void => {
      open.add(branch.path);
      for (const child of branch.children) if (child.kind === "module") visit(child);
    };
    visit(root);
    return open;
  }
  let level: Branch[] = [root];
  let rows = 0;
  // A single module that contains all layers is opened, because its layers are the interesting part.
  while (level.length > 0) {
    // Each module has at least one child, and finding the children of thousands of modules would take long.
    if (rows >= FEW_ROWS && rows + level.length > OPEN_ROWS) break;
    const below = level.reduce((sum, { children }) => sum + children.length, 0);
    if (rows >= FEW_ROWS && rows + below > OPEN_ROWS) break;
    rows += below;
    for (const { path } of level) open.add(path);
    level = level.flatMap(({ children }) => children.filter((child): child is Branch => child.kind === "module"));
  }
  return open;
}

/** Returns the paths of the modules that contain a tensor, from the outermost. */
export function modulesOf(name: string): string[] {
  const paths: string[] = [];
  for (let at = name.indexOf("."); at >= 0; at = name.indexOf(".", at + 1)) paths.push(name.slice(0, at + 1));
  return paths;
}

/** Returns the rows of a tree with some branches open. */
export function treeRows(root: Branch, isOpen: (path: string) => boolean): Row[] {
  const rows: Row[] = [];
  const visit = ({ children }: Branch, level: number): void => {
    for (const [i, node] of children.entries()) {
      rows.push({ node, level, position: i + 1, siblings: children.length });
      if (node.kind === "module" && isOpen(node.path)) visit(node, level + 1);
    }
  };
  visit(root, 1);
  return rows;
}

// Numbers in names compare as numbers: layer 2 comes before layer 10.
const collator = new Intl.Collator("en", { numeric: true });

const COMPARISONS: Readonly<Record<Exclude<Order, "tree" | "file">, (a: TensorInfo, b: TensorInfo) => number>> = {
  name: (a, b) => collator.compare(a.name, b.name),
  largest: (a, b) => originalBytesOf(b) - originalBytesOf(a),
  ratio: (a, b) => (ratioOf(a) === ratioOf(b) ? 0 : ratioOf(a) < ratioOf(b) ? 1 : -1),
};

export function listRows(tensors: readonly TensorInfo[], order: Exclude<Order, "tree">): Row[] {
  const ordered = order === "file" ? tensors : [...tensors].sort(COMPARISONS[order]);
  return ordered.map((tensor, i) => ({ node: { kind: "tensor", label: tensor.name, tensor }, level: 1, position: i + 1, siblings: ordered.length }));
}

