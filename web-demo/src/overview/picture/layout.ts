/** The layout of a treemap, in which equal layers are arranged equally. */

import type { TensorInfo } from "zstn";
import type { Branch, Node } from "../../tree/node.js";
import { arrange, placed } from "./ordered-layout.js";
import type { Rectangle } from "./ordered-layout.js";

/** The area of the smallest rectangle that is divided further, in square pixels, and the area that each of its nodes then has at least. */
const MIN_AREA = 14;
const MIN_NODE_AREA = 6;
export const LABEL_HEIGHT = 17;
/** The maximum depth of frames with labels. */
const MAX_FRAMES = 3;

export interface TensorCell extends Rectangle {
  readonly tensor: TensorInfo;
}

export interface Frame extends Rectangle {
  readonly label: string;
}

interface Placed {
  readonly node: Branch;
  readonly room: Rectangle;
}

/** Places the tensors of a model, in a rectangle of a given size. */
export class TreemapLayout {
  readonly cells: TensorCell[] = [];
  readonly frames: Frame[] = [];
  readonly #structures: Structures;
  readonly #sizeOf: (node: Node) => number;

  constructor(root: Branch, room: Rectangle, structures: Structures, sizeOf: (node: Node) => number) {
    this.#structures = structures;
    this.#sizeOf = sizeOf;
    this.#place([{ node: root, room }], 0);
  }

  /** Divides modules of equal structure in the same way. Their mean sizes determine the arrangement of their children. */
  #place(modules: readonly Placed[], depth: number): void {
    const { children } = modules[0]!.node;
    const sizes = modules.map(({ node }) => node.children.map(this.#sizeOf));
    const means = children.map((_, i) => sizes.reduce((sum, own) => sum + own[i]!, 0) / modules.length);
    const room = { width: mean(modules.map((one) => one.room.width)), height: mean(modules.map((one) => one.room.height)) };
    const series = this.#structures.seriesOf(modules[0]!.node);
    const arrangement = arrange(means, room, series.some(({ length }) => length > 1));
    const places = modules.map((one, m) => placed(sizes[m]!, arrangement, one.room));
    for (const members of series) {
      const all = members.flatMap((i) => modules.map(({ node }, m) => ({ node: node.children[i]!, room: places[m]![i]! })));
      const sized = all.filter(({ room: { width, height } }) => width > 0 && height > 0);
      if (sized.length > 0) this.#placeEqual(sized, depth);
    }
  }

  /** Places tensors, or modules of equal structure. */
  #placeEqual(nodes: readonly { readonly node: Node; readonly room: Rectangle }[], depth: number): void {
    const width = mean(nodes.map(({ room }) => room.width));
    const height = mean(nodes.map(({ room }) => room.height));
    const isFramed = depth < MAX_FRAMES && width > 54 && height > 44;
    const inside: Placed[] = [];
    for (const { node, room } of nodes) {
      if (node.kind === "tensor") {
        this.cells.push({ ...room, tensor: node.tensor });
      } else if (width * height < Math.max(MIN_AREA, MIN_NODE_AREA * node.children.length)) {
        const tensor = largest(node);
        if (tensor) this.cells.push({ ...room, tensor });
      } else if (isFramed) {
        this.frames.push({ ...room, label: node.label });
        inside.push({ node, room: { x: room.x + 2, y: room.y + LABEL_HEIGHT, width: Math.max(1, room.width - 5), height: Math.max(1, room.height - LABEL_HEIGHT - 3) } });
      } else inside.push({ node, room });
    }
    if (inside.length > 0) this.#place(inside, depth + 1);
  }
}

/**
 * The structures of the modules of a tree. Two modules have equal structure if they contain the same names and shapes;
 * dtypes may differ, as they do between layers of quantised models.
 */
export class Structures {
  readonly #numbers = new Map<string, number>();
  readonly #structures = new Map<Node, number>();
  readonly #series = new Map<Branch, number[][]>();

  constructor(root: Branch) {
    this.#structureOf(root);
  }

  /**
   * Returns the indices of the children of a module, in groups: numbered modules of equal structure, such as layers, are
   * one group, and each other child is a group of its own.
   */
  seriesOf(module: Branch): readonly (readonly number[])[] {
    let series = this.#series.get(module);
    if (!series) {
      const groups = new Map<string, number[]>();
      for (const [i, child] of module.children.entries()) {
        const key = isNumbered(child) ? `${this.#structures.get(child)} ${child.kind} ${rest(child.label)}` : `alone ${i}`;
        const group = groups.get(key);
        if (group) group.push(i);
        else groups.set(key, [i]);
      }
      this.#series.set(module, (series = [...groups.values()]));
    }
    return series;
  }

  #structureOf(node: Node): number {
    const text = node.kind === "tensor" ? node.tensor.shape.join() : node.children.map((child) => `${child.label} ${this.#structureOf(child)}`).join("\n");
    const key = `${node.kind} ${text}`;
    let number = this.#numbers.get(key);
    if (number === undefined) this.#numbers.set(key, (number = this.#numbers.size));
    this.#structures.set(node, number);
    return number;
  }
}

const isNumbered = ({ label }: Node): boolean => /^\d+(\.|$)/.test(label);

/** Returns a label without its leading number. */
const rest = (label: string): string => label.replace(/^\d+/, "");

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

/** Returns the largest tensor of a module, which represents a module that is too small to be divided. */
function largest({ children }: Branch): TensorInfo | undefined {
  let best: TensorInfo | undefined;
  for (const child of children) {
    const tensor = child.kind === "tensor" ? child.tensor : largest(child);
    if (tensor && (!best || tensor.byteLength > best.byteLength)) best = tensor;
  }
  return best;
}
