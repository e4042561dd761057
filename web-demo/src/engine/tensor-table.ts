/**
 * The tensors of a model in columns, which pass between threads without an object for each tensor: cloning 100,000
 * objects would block the page.
 */

import type { StoredPart, TensorInfo } from "zstn";
import { typeOf } from "../tree/dtype-family.js";
import { atOnce } from "./turns.js";
import type { Steps } from "./turns.js";

/** A tensor with its position in its model. */
export interface ListedTensor extends TensorInfo {
  readonly index: number;
}

/** The columns. The entries of a list begin where the entries of the previous tensor end. */
export interface TensorColumns {
  readonly size: number;
  /** All names, each with a line feed before and after it. `nameEnds` has the position after each name. */
  readonly names: string;
  readonly nameEnds: Uint32Array<ArrayBuffer>;
  /** The different types, and the index of each tensor's type. */
  readonly types: readonly Pick<TensorInfo, "dtype" | "format">[];
  readonly typeOf: Uint16Array<ArrayBuffer>;
  readonly dimensions: Float64Array<ArrayBuffer>;
  readonly dimensionEnds: Uint32Array<ArrayBuffer>;
  /** The `byteLength`, `storedLength` and `originalLength` of each tensor, in bytes; NaN if there is none. */
  readonly lengths: Float64Array<ArrayBuffer>;
  /** The file, offset and length of each part. `partEnds` counts numbers. */
  readonly parts: Float64Array<ArrayBuffer>;
  readonly partEnds: Uint32Array<ArrayBuffer>;
  /** The position in `BASES`. */
  readonly bases: Uint8Array<ArrayBuffer>;
  /** The index of the name in `aliasOf`, or -1. Names of tensors that are not listed follow the names of the tensors. */
  readonly aliases: Int32Array<ArrayBuffer>;
}

const BASES = [undefined, "copy", "delta"] as const;

/** Arranges tensors in columns. */
export function columnsOf(tensors: readonly TensorInfo[]): TensorColumns {
  const size = tensors.length;
  const total = (of: (tensor: TensorInfo) => number): number => tensors.reduce((sum, tensor) => sum + of(tensor), 0);
  const columns = {
    typeOf: new Uint16Array(size),
    dimensions: new Float64Array(total(({ shape }) => shape.length)),
    dimensionEnds: new Uint32Array(size),
    lengths: new Float64Array(3 * size),
    parts: new Float64Array(3 * total(({ parts }) => parts.length)),
    partEnds: new Uint32Array(size),
    bases: new Uint8Array(size),
    aliases: new Int32Array(size).fill(-1),
  };
  const types: Pick<TensorInfo, "dtype" | "format">[] = [];
  const typeNumbers = new Map<string, number>();
  const names = tensors.map(({ name }) => name);
  let byName: Map<string, number> | undefined;
  let [dimension, number] = [0, 0];
  // Values are assigned one by one, because `set` with a new array per tensor is slow for 100,000 tensors.
  for (const [i, { dtype, format, shape, byteLength, storedLength, originalLength = Number.NaN, parts, base, aliasOf }] of tensors.entries()) {
    const key = format === undefined ? dtype : `${dtype} ${format}`;
    let type = typeNumbers.get(key);
    if (type === undefined) {
      typeNumbers.set(key, (type = types.length));
      types.push({ dtype, ...(format !== undefined && { format }) });
    }
    columns.typeOf[i] = type;
    for (const length of shape) columns.dimensions[dimension++] = length;
    columns.dimensionEnds[i] = dimension;
    columns.lengths[3 * i] = byteLength;
    columns.lengths[3 * i + 1] = storedLength;
    columns.lengths[3 * i + 2] = originalLength;
    for (const { file, offset, length } of parts) {
      columns.parts[number++] = file;
      columns.parts[number++] = offset;
      columns.parts[number++] = length;
    }
    columns.partEnds[i] = number;
    columns.bases[i] = BASES.indexOf(base);
    if (aliasOf === undefined) continue;
    byName ??= new Map(names.map((name, at) => [name, at]));
    let alias = byName.get(aliasOf);
    if (alias === undefined) {
      byName.set(aliasOf, (alias = names.length));
      names.push(aliasOf);
    }
    columns.aliases[i] = alias;
  }
  const nameEnds = new Uint32Array(names.length);
  let end = 0;
  for (const [i, name] of names.entries()) nameEnds[i] = end += 1 + name.length;
  return { ...columns, size, types, names: `\n${names.join("\n")}\n`, nameEnds };
}

/** Returns the memory of columns. */
export const memoryOf = (columns: TensorColumns): ArrayBuffer[] => Object.values(columns).flatMap((column: unknown) => (ArrayBuffer.isView(column) ? [column.buffer as ArrayBuffer] : []));

/** Describes the tensors of a model. The object of a tensor is made when it is first needed, and only once. */
export class TensorTable {
  readonly columns: TensorColumns;
  readonly #made: (ListedTensor | undefined)[] = [];

  constructor(columns: TensorColumns) {
    this.columns = columns;
  }

  /** The number of tensors. */
  get size(): number {
    return this.columns.size;
  }

  nameAt(index: number): string {
    return this.columns.names.slice(this.#nameBegin(index), this.columns.nameEnds[index]);
  }

  /** Returns the type to show for a tensor. */
  typeAt(index: number): string {
    return typeOf(this.columns.types[this.columns.typeOf[index]!]!);
  }

  at(index: number): ListedTensor {
    return (this.#made[index] ??= this.#make(index));
  }

  /** Returns the tensor with this name. The search takes about a millisecond for 100,000 names. */
  find(name: string): ListedTensor | undefined {
    const { names, nameEnds, size } = this.columns;
    const wanted = `\n${name}\n`;
    // A name may contain line feeds.
    for (let at = names.indexOf(wanted); at >= 0; at = names.indexOf(wanted, at + 1)) {
      let [low, high] = [0, size];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (this.#nameBegin(middle) < at + 1) low = middle + 1;
        else high = middle;
      }
      if (low < size && this.#nameBegin(low) === at + 1 && nameEnds[low] === at + 1 + name.length) return this.at(low);
    }
    return undefined;
  }

  /** Returns all tensors. For a large model, this takes long. */
  all(): ListedTensor[] {
    return atOnce(this.allInSteps());
  }

  /** Returns all tensors, one in each step. */
  *allInSteps(): Steps<ListedTensor[]> {
    const all: ListedTensor[] = [];
    for (let index = 0; index < this.size; index++) {
      all.push(this.at(index));
      yield;
    }
    return all;
  }

  #nameBegin(index: number): number {
    return index === 0 ? 1 : this.columns.nameEnds[index - 1]! + 1;
  }

  #make(index: number): ListedTensor {
    const { types, typeOf: typeNumbers, dimensions, dimensionEnds, lengths, parts, partEnds, bases, aliases } = this.columns;
    const [byteLength, storedLength, originalLength] = lengths.subarray(3 * index, 3 * index + 3) as unknown as [number, number, number];
    const base = BASES[bases[index]!];
    const alias = aliases[index]!;
    const stored: StoredPart[] = [];
    for (let at = partEnds[index - 1] ?? 0; at < partEnds[index]!; at += 3) stored.push({ file: parts[at]!, offset: parts[at + 1]!, length: parts[at + 2]! });
    return {
      index,
      name: this.nameAt(index),
      ...types[typeNumbers[index]!]!,
      shape: Array.from(dimensions.subarray(dimensionEnds[index - 1] ?? 0, dimensionEnds[index])),
      byteLength,
      storedLength,
      parts: stored,
      ...(!Number.isNaN(originalLength) && { originalLength }),
      ...(base !== undefined && { base }),
      ...(alias >= 0 && { aliasOf: this.nameAt(alias) }),
    };
  }
}
