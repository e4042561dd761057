/**
 * The animated strip of the welcome page. It shows the ranges that the page actually reads from the sample: its index
 * and one tensor.
 */

import type { TensorInfo } from "zstn";
import { TensorTable } from "../engine/tensor-table.js";
import { Engine } from "../engine/client.js";
import type { NetworkStats } from "../engine/protocol.js";
import { element } from "../page/element.js";
import { formatBytes, formatCount, plural } from "../page/format.js";

/** The tensor that is read. It is near the middle of the file and long enough to be visible. */
const TENSOR = "transformer.h.2.mlp.c_fc.weight";
/** The time before the tensor is read, in milliseconds. */
const PAUSE_MS = 1300;

export interface Demonstration {
  /** Stops the demonstration, whether or not it is complete. */
  stop: () => void;
}

/**
 * Reads from the sample at `address`, and shows the fetched ranges in `figure`. If reading fails, the figure stays
 * unchanged.
 */
export function demonstrate(figure: HTMLElement, address: string, onPick: (tensor: string) => void): Demonstration {
  // The demonstration has its own worker, so that models opened in the meantime are not affected.
  const engine = new Engine();
  let stopped = false;
  void run(engine, figure, address, onPick, () => stopped)
    .catch(() => undefined)
    .finally(() => engine.stop());
  return {
    stop: () => {
      stopped = true;
      engine.stop();
    },
  };
}

async function run(engine: Engine, figure: HTMLElement, address: string, onPick: (tensor: string) => void, isStopped: () => boolean): Promise<void> {
  let stats: NetworkStats | undefined;
  let strip: Strip | undefined;
  const early: NetworkStats["arrived"][number][] = [];
  engine.onNetworkStats = (now) => {
    stats = now;
    if (strip) strip.mark(now.arrived);
    else early.push(...now.arrived);
  };
  const { first } = await engine.call("open", { source: { address: new URL(address, document.baseURI).href }, name: address });
  if (isStopped()) return;
  const tensors = new TensorTable(first.columns);
  strip = new Strip(tensors.all(), first.sizeBytes, onPick);
  const caption = element("figcaption", {});
  figure.replaceChildren(strip.node, caption);
  await pause(120); // waits for the last network update about the index
  strip.mark(early);
  const said = (what: string) => caption.replaceChildren(element("b", {}, stats ? `${plural(stats.requests, "request")} · ${formatBytes(stats.bytesFetched)} of ${formatBytes(first.sizeBytes)}` : ""), ` ${what}`);
  said(`list all ${formatCount(tensors.size)} tensors of this sample.`);
  await pause(PAUSE_MS);
  if (isStopped() || !tensors.find(TENSOR)) return;
  await engine.call("describe", { of: { slot: "first", tensor: TENSOR }, whole: true });
  await pause(120);
  if (!isStopped()) said(`with ${TENSOR}: only the tensor you open is downloaded.`);
}

const pause = (milliseconds: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** A drawing of a file: its tensors at their positions, and the ranges that were fetched. */
class Strip {
  readonly node: HTMLElement;
  readonly #sizeBytes: number;

  constructor(tensors: readonly TensorInfo[], sizeBytes: number, onPick: (tensor: string) => void) {
    this.#sizeBytes = sizeBytes;
    const pieces = tensors.flatMap(({ name, aliasOf, parts }) => {
      const [part] = parts;
      if (!part || aliasOf !== undefined) return [];
      const piece = element("i", { title: name });
      this.#place(piece, part.offset, part.length);
      piece.addEventListener("click", () => onPick(name));
      return [piece];
    });
    this.node = element("div", { class: "strip real", "aria-hidden": "true" }, ...pieces);
  }

  mark(ranges: readonly { begin: number; end: number }[]): void {
    for (const { begin, end } of ranges) {
      const mark = element("b", {});
      this.#place(mark, begin, Math.min(end, this.#sizeBytes) - begin);
      this.node.append(mark);
    }
  }

  #place(node: HTMLElement, offset: number, length: number): void {
    node.style.left = `${(100 * offset) / this.#sizeBytes}%`;
    node.style.width = `${(100 * length) / this.#sizeBytes}%`;
  }
}
