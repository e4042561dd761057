/** Which tensors are listed, and in which order. Pure. */

import type { TensorInfo } from "zstn";

export type Column = "name" | "dtype" | "shape" | "byteLength" | "storedLength" | "ratio";

/** `undefined` is the order of the file. */
export type Order = { column: Column; descending: boolean } | undefined;

/** How many times smaller the tensor is stored; shared ones take nothing of their own. */
export function ratioOf(tensor: TensorInfo): number {
  if (tensor.byteLength === 0) return 1;
  return tensor.sharedWith === undefined ? tensor.byteLength / tensor.storedLength : Number.POSITIVE_INFINITY;
}

/** The tensors whose name, dtype or shape contains every word of `filter`, ordered. */
export function arrange(tensors: readonly TensorInfo[], filter: string, order: Order): TensorInfo[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const listed = tensors.filter((tensor) => {
    const text = `${tensor.name} ${tensor.dtype} ${tensor.shape.join("x")} ${tensor.shape.join("×")}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  if (order) {
    const compare = COMPARISONS[order.column];
    listed.sort((a, b) => (order.descending ? compare(b, a) : compare(a, b)));
  }
  return listed;
}

/** Columns of numbers start with the largest, columns of text with A. A third click gives the file's order back. */
export function nextOrder(order: Order, column: Column): Order {
  const largestFirst = column !== "name" && column !== "dtype";
  if (order?.column !== column) return { column, descending: largestFirst };
  return order.descending === largestFirst ? { column, descending: !largestFirst } : undefined;
}

type Compare = (a: TensorInfo, b: TensorInfo) => number;

// Numbers inside names count as numbers: layer 2 comes before layer 10.
const collator = new Intl.Collator("en", { numeric: true });

const COMPARISONS: Record<Column, Compare> = {
  name: (a, b) => collator.compare(a.name, b.name),
  dtype: (a, b) => collator.compare(a.dtype, b.dtype),
  shape: (a, b) => elements(a) - elements(b),
  byteLength: (a, b) => a.byteLength - b.byteLength,
  storedLength: (a, b) => storedOwn(a) - storedOwn(b),
  ratio: (a, b) => byRatio(ratioOf(a), ratioOf(b)),
};

const elements = (tensor: TensorInfo) => tensor.shape.reduce((product, dimension) => product * dimension, 1);
const storedOwn = (tensor: TensorInfo) => (tensor.sharedWith === undefined ? tensor.storedLength : 0);
const byRatio = (a: number, b: number) => (a === b ? 0 : a < b ? -1 : 1);
