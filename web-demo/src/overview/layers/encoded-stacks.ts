/** Stacks as numbers, which pass from the worker to the page without an object for each tensor. */

import type { TensorInfo } from "zstn";
import type { TensorTable } from "../../engine/tensor-table.js";
import type { BoundedStacks, Cell, Column, PictureCell } from "./stacks.js";

interface EncodedStack {
  readonly prefix: string;
  readonly columns: readonly Column[];
  readonly moreKinds: number;
  readonly moreRows: number;
  readonly layers: Int32Array;
  /** The indices of the tensors in all cells, row by row, and the position after the last one of each cell. */
  readonly members: Int32Array;
  readonly ends: Uint32Array;
}

export interface EncodedStacks extends Omit<BoundedStacks, "stacks" | "outside"> {
  readonly stacks: readonly EncodedStack[];
  readonly outside: Int32Array;
}

export function encodeStacks({ stacks, outside, ...more }: BoundedStacks, indexOf: (tensor: TensorInfo) => number): EncodedStacks {
  const indices = (tensors: readonly TensorInfo[]): Int32Array => Int32Array.from(tensors, indexOf);
  return {
    ...more,
    outside: indices(outside),
    stacks: stacks.map(({ rows, ...stack }) => {
      const cells = rows.flatMap((row) => row.cells);
      let end = 0;
      return { ...stack, layers: Int32Array.from(rows, ({ layer }) => layer), members: indices(cells.flatMap((cell) => cell?.tensors ?? [])), ends: Uint32Array.from(cells, (cell) => (end += cell?.tensors.length ?? 0)) };
    }),
  };
}

export function decodeStacks({ stacks, outside, ...more }: EncodedStacks, table: TensorTable): BoundedStacks {
  return {
    ...more,
    outside: Array.from(outside, (index) => table.at(index)),
    stacks: stacks.map(({ layers, members, ends, ...stack }) => {
      const width = stack.columns.length;
      const cellAt = (at: number): PictureCell | undefined => {
        const own = members.subarray(ends[at - 1] ?? 0, ends[at]);
        return own.length === 0 ? undefined : new LaterCell(own, table);
      };
      return { ...stack, rows: Array.from(layers, (layer, row) => ({ layer, cells: stack.columns.map((_, i) => cellAt(row * width + i)) })) };
    }),
  };
}

/** A cell whose tensors are taken from the table when they are first needed. */
class LaterCell implements PictureCell {
  readonly #indices: Int32Array;
  readonly #table: TensorTable;
  #tensors: Cell | undefined;

  constructor(indices: Int32Array, table: TensorTable) {
    this.#indices = indices;
    this.#table = table;
  }

  get tensors(): Cell {
    return (this.#tensors ??= Array.from(this.#indices, (index) => this.#table.at(index)));
  }
}
