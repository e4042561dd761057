/** The rows of the list as numbers, which pass from the worker to the page without an object for each row. */

import type { TensorInfo } from "zstn";
import type { ListedTensor, TensorTable } from "../engine/tensor-table.js";
import type { Row } from "./rows.js";

/**
 * The numbers of a row: the index of its first tensor; the part of that tensor's name that is the label, where the end
 * is 0 for the row of the tensor itself; the level, the position and the number of siblings; and the number of tensors
 * of a module, with their lengths.
 */
const WIDTH = 9;

/** Writes rows as numbers. */
export function encodeRows(rows: readonly Row[], indexOf: (tensor: TensorInfo) => number): Float64Array<ArrayBuffer> {
  const numbers = new Float64Array(WIDTH * rows.length);
  for (const [i, { node, level, position, siblings }] of rows.entries()) {
    const place = [level, position, siblings];
    if (node.kind === "tensor") numbers.set([indexOf(node.tensor), node.tensor.name.length - node.label.length, 0, ...place], WIDTH * i);
    else numbers.set([indexOf(node.first!), node.path.length - 1 - node.label.length, node.path.length, ...place, node.tensors, node.originalBytes, node.storedBytes], WIDTH * i);
  }
  return numbers;
}

/** A module, as its row shows it. */
export interface ModuleNode {
  readonly kind: "module";
  readonly label: string;
  readonly path: string;
  readonly tensors: number;
  readonly originalBytes: number;
  readonly storedBytes: number;
}

export interface TensorNode {
  readonly kind: "tensor";
  readonly label: string;
  readonly tensor: ListedTensor;
}

/** The data of a row that is drawn. */
export interface ShownRow extends Omit<Row, "node"> {
  readonly node: ModuleNode | TensorNode;
}

/** The rows of the list. Their objects are made when they are drawn. */
export class RowList {
  readonly length: number;
  readonly #numbers: Float64Array;
  readonly #table: TensorTable;

  constructor(numbers: Float64Array, table: TensorTable) {
    this.length = numbers.length / WIDTH;
    this.#numbers = numbers;
    this.#table = table;
  }

  /** Returns the row at a position; `undefined` if there is none. */
  at(position: number): ShownRow | undefined {
    if (position < 0 || position >= this.length) return undefined;
    const [index, begin, end, level, own, siblings, tensors, originalBytes, storedBytes] = this.#numbers.subarray(WIDTH * position, WIDTH * (position + 1)) as unknown as [number, number, number, number, number, number, number, number, number];
    const name = this.#table.nameAt(index);
    const node: ShownRow["node"] = end === 0 ? { kind: "tensor", label: name.slice(begin), tensor: this.#table.at(index) } : { kind: "module", label: name.slice(begin, end - 1), path: name.slice(0, end), tensors, originalBytes, storedBytes };
    return { node, level, position: own, siblings };
  }

  /** Returns the level of a row; 0 if there is no such row. */
  levelAt(position: number): number {
    return this.#numbers[WIDTH * position + 3] ?? 0;
  }

  /** Returns the position of a tensor's row, or -1. */
  positionOf(tensor: ListedTensor | undefined): number {
    return this.#find((index, end) => end === 0 && index === tensor?.index);
  }

  /** Returns the position of the row of a module, or -1. */
  positionOfModule(path: string): number {
    return this.#find((index, end) => end === path.length && this.#table.nameAt(index).startsWith(path));
  }

  /** Returns the first tensor among the rows. */
  get firstTensor(): ListedTensor | undefined {
    const position = this.#find((_, end) => end === 0);
    return position < 0 ? undefined : this.#table.at(this.#numbers[WIDTH * position]!);
  }

  #find(is: (index: number, end: number) => boolean): number {
    for (let position = 0; position < this.length; position++) {
      if (is(this.#numbers[WIDTH * position]!, this.#numbers[WIDTH * position + 2]!)) return position;
    }
    return -1;
  }
}
