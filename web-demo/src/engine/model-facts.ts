/** The facts about all tensors of a model that the page shows. They are computed here, so that the page stays responsive. */

import type { Model, TensorInfo } from "zstn";
import { factsOf } from "../overview/about/facts.js";
import type { Facts } from "../overview/about/facts.js";
import { reportOf } from "../overview/health/report.js";
import type { HealthReport } from "../overview/health/report.js";
import { encodeStacks } from "../overview/layers/encoded-stacks.js";
import type { EncodedStacks } from "../overview/layers/encoded-stacks.js";
import { boundedStacks, stacksOf } from "../overview/layers/stacks.js";
import { Structures, TreemapLayout } from "../overview/picture/layout.js";
import { layerFamilies } from "../tensor/layer-family.js";
import type { LayerFamily } from "../tensor/layer-family.js";
import { typeOf } from "../tree/dtype-family.js";
import { originalBytesOf, ownBytes, treeOf } from "../tree/node.js";
import type { Branch } from "../tree/node.js";
import { encodeRows } from "../tree/row-list.js";
import { firstOpen, listRows, modulesOf, treeRows } from "../tree/rows.js";
import { nearest, searchFor } from "../tree/search.js";
import { transfer } from "./transfer.js";
import type { Arranged, FactsRequest, ListFilter, ListRequest, TreemapCells, TreemapRequest } from "./protocol.js";
import { statisticsColumns } from "./statistics-table.js";
import type { Measured, StatisticsColumns } from "./statistics-table.js";
import { Turns } from "./turns.js";

export class ModelFacts {
  readonly model: Model;
  readonly tensors: readonly TensorInfo[];
  #positions: ReadonlyMap<TensorInfo, number> | undefined;
  #tree: Branch | undefined;
  #structures: Structures | undefined;
  #measured: ReadonlyMap<string, Measured> | undefined;

  constructor(model: Model) {
    this.model = model;
    this.tensors = [...model.tensors.values()];
  }

  /** Returns the rows of the list. */
  async list({ open, reveal, closed, ...filter }: ListRequest, signal: AbortSignal): Promise<Arranged> {
    const found = await this.#found(filter, signal);
    const isFiltered = found !== this.tensors;
    const { order } = filter;
    let opened: ReadonlySet<string> | undefined;
    const isOpen = (root: Branch): ((path: string) => boolean) => {
      if (isFiltered) return (path) => !closed.includes(path);
      opened = new Set(open ?? [...firstOpen(root), ...(reveal === undefined ? [] : modulesOf(reveal))]);
      return (path) => opened!.has(path);
    };
    const rows = order === "tree" ? this.#rowsOf(found, isOpen) : listRows(found, order);
    const numbers = encodeRows(rows, (tensor) => this.#indexOf(tensor));
    return transfer({ rows: numbers, found: found.length, ...(opened && { open: [...opened] }) }, [numbers.buffer]);
  }

  /** Returns the indices of the tensors in the order of the list, including those in closed modules. */
  async sequence(filter: ListFilter, signal: AbortSignal): Promise<Int32Array<ArrayBuffer>> {
    const found = await this.#found(filter, signal);
    const rows = filter.order === "tree" ? this.#rowsOf(found, () => () => true) : listRows(found, filter.order);
    return this.#indices(rows.flatMap(({ node }) => (node.kind === "tensor" ? [node.tensor] : [])));
  }

  /** Returns the indices of the tensors whose names are most similar to a text. */
  async nearest(text: string, signal: AbortSignal): Promise<number[]> {
    return (await nearest(text, this.tensors, signal)).map((tensor) => this.#indexOf(tensor));
  }

  facts({ name, config }: FactsRequest): Facts {
    const { metadata, fileCount } = this.model;
    return factsOf({ name, tensors: this.tensors, metadata, fileCount }, config);
  }

  layers(): EncodedStacks {
    return encodeStacks(boundedStacks(stacksOf(this.tensors)), (tensor) => this.#indexOf(tensor));
  }

  treemap({ width, height, measure }: TreemapRequest): TreemapCells {
    const root = this.#root;
    this.#structures ??= new Structures(root);
    const bytesOf = measure === "stored" ? { tensor: ownBytes, module: "storedBytes" as const } : { tensor: originalBytesOf, module: "originalBytes" as const };
    const { cells, frames } = new TreemapLayout(root, { x: 0, y: 0, width, height }, this.#structures, (node) => (node.kind === "tensor" ? bytesOf.tensor(node.tensor) : node[bytesOf.module]));
    const rectangles = new Float32Array(4 * cells.length);
    for (const [i, { x, y, width: across, height: down }] of cells.entries()) rectangles.set([x, y, across, down], 4 * i);
    const tensors = this.#indices(cells.map(({ tensor }) => tensor));
    return transfer({ rectangles, tensors, frames }, [rectangles.buffer, tensors.buffer]);
  }

  /** Returns the names of tensors with the shape of `like`, without `like` itself, at most `limit`. */
  namesLike(like: TensorInfo, limit: number): string[] {
    const names: string[] = [];
    for (const tensor of this.tensors) {
      if (names.length === limit) break;
      if (tensor !== like && tensor.shape.length === like.shape.length && tensor.shape.every((size, i) => size === like.shape[i])) names.push(tensor.name);
    }
    return names;
  }

  families(name: string): LayerFamily<number>[] {
    return layerFamilies(this.model.tensors.get(name)!, this.tensors).map(({ members, ...family }) => ({ ...family, members: members.map(({ number, info }) => ({ number, info: this.#indexOf(info) })) }));
  }

  /** Returns the statistics of the tensors; `undefined` if there are none. */
  async statistics(): Promise<StatisticsColumns | undefined> {
    return this.#columns(await this.model.statistics());
  }

  /** Keeps statistics that were measured, and returns them. */
  measured(found: ReadonlyMap<string, Measured>): StatisticsColumns | undefined {
    const all = new Map(found);
    // Tensors with the same bytes have the same statistics.
    for (const { name, aliasOf } of this.tensors) {
      const shared = aliasOf === undefined ? undefined : all.get(aliasOf);
      if (shared) all.set(name, shared);
    }
    this.#measured = all;
    return this.#columns(all);
  }

  /** Checks the statistics of the tensors: the measured ones, if they have been measured. */
  async health(): Promise<HealthReport> {
    return reportOf(this.tensors, this.#measured ?? (await this.model.statistics()) ?? new Map(), (tensor) => this.#indexOf(tensor));
  }

  #columns(statistics: Parameters<typeof statisticsColumns>[1]): StatisticsColumns | undefined {
    const columns = statisticsColumns(this.tensors, statistics);
    return columns && transfer(columns, [columns.buffer]);
  }

  get #root(): Branch {
    return (this.#tree ??= treeOf(this.tensors));
  }

  #rowsOf(found: readonly TensorInfo[], isOpen: (root: Branch) => (path: string) => boolean): ReturnType<typeof treeRows> {
    const root = found === this.tensors ? this.#root : treeOf(found);
    return treeRows(root, isOpen(root));
  }

  /** Returns the tensors that a filter leaves: all of them in the same array if there is no filter. */
  async #found({ q, dtype, matches }: ListFilter, signal: AbortSignal): Promise<readonly TensorInfo[]> {
    const search = matches ? undefined : searchFor(q);
    if (search && !("matches" in search)) return [];
    if (!search && !matches && dtype === "") return this.tensors;
    const found: TensorInfo[] = [];
    const turns = new Turns();
    for (const tensor of matches ? Array.from(matches, (i) => this.tensors[i]!) : this.tensors) {
      if ((dtype === "" || typeOf(tensor) === dtype) && (!search || search.matches(tensor))) found.push(tensor);
      // A later search stops this one.
      if (turns.isOver()) await turns.next(signal);
    }
    return found.length === this.tensors.length ? this.tensors : found;
  }

  #indexOf(tensor: TensorInfo): number {
    this.#positions ??= new Map(this.tensors.map((one, i) => [one, i]));
    return this.#positions.get(tensor)!;
  }

  #indices(tensors: readonly TensorInfo[]): Int32Array<ArrayBuffer> {
    return Int32Array.from(tensors, (tensor) => this.#indexOf(tensor));
  }
}
