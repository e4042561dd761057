/** The state of the view of a tensor, as the parameters of the URL contain it. */

import type { Area } from "../engine/protocol.js";
import type { Viewport } from "./viewport.js";

/** The keys of the route for a tensor view. An absent key means the default. */
export interface ViewState {
  /** The visible area: `rows,columns`, or the indices of a vector; each as `begin-end`, with the end exclusive. */
  readonly at?: string | undefined;
  /** The shading of pixels, if the user has chosen one. */
  readonly shade?: string | undefined;
  readonly cells?: string | undefined;
  /** The pinned cell, `row,column`. */
  readonly pin?: string | undefined;
  /** `stored` to show the elements of a weight without the scales of their blocks. */
  readonly values?: string | undefined;
  /** The slice of a tensor of three to five axes: an index or `*` for each of the first ones. */
  readonly slice?: string | undefined;
}

/** The default view. */
export const NO_VIEW: ViewState = { at: undefined, shade: undefined, cells: undefined, pin: undefined, values: undefined, slice: undefined };

const RANGE = /^(-?\d+(?:\.\d+)?)-(-?\d+(?:\.\d+)?)$/;

/** Returns the visible area of a viewport as text; `undefined` if it shows everything. */
export function areaText({ isAll, area, rows }: Viewport): string | undefined {
  if (isAll) return undefined;
  const columns = `${text(area.columnBegin)}-${text(area.columnEnd)}`;
  return rows === 1 ? columns : `${text(area.rowBegin)}-${text(area.rowEnd)},${columns}`;
}

/** Parses the text of an area; `undefined` if it is invalid or the area is empty. */
export function parseArea(text: string | undefined, { rows }: Viewport): Area | undefined {
  const parts = text?.split(",") ?? [];
  const ranges = parts.map((part) => RANGE.exec(part)?.slice(1).map(Number));
  const [across, down] = rows === 1 ? [ranges[0], [0, 1]] : [ranges[1], ranges[0]];
  if (ranges.length !== (rows === 1 ? 1 : 2) || !across || !down || across[1]! <= across[0]! || down[1]! <= down[0]!) return undefined;
  return { rowBegin: down[0]!, rowEnd: down[1]!, columnBegin: across[0]!, columnEnd: across[1]! };
}

/** Parses row and column of a pinned cell; `undefined` if the text is not a cell of the matrix. */
export function parsePin(text: string | undefined, { rows, columns }: Viewport): readonly [number, number] | undefined {
  const [, row, column] = /^(\d+),(\d+)$/.exec(text ?? "") ?? [];
  const pin = [Number(row), Number(column)] as const;
  return pin[0] < rows && pin[1] < columns ? pin : undefined;
}

const text = (position: number) => String(Math.round(position * 10) / 10);
