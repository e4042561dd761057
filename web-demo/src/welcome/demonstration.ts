/** The strip of the welcome page: the sample, of which the page really reads the index and one tensor. */

import type { TensorInfo } from "zstn";
import { Engine } from "../engine/client.js";
import type { NetworkStats } from "../engine/protocol.js";
import { element } from "../page/element.js";
import { formatBytes, formatCount, plural } from "../page/format.js";

/** The tensor that is read: somewhere in the middle, long enough to be seen. */
const TENSOR = "transformer.h.2.mlp.c_fc.weight";
/** How long the index is shown alone, in milliseconds. */
const PAUSE_MS = 1300;

export interface Demonstration {
  /** Ends it, whether or not it is complete. */
  stop: () => void;
}

/** Reads from the sample at `address`, and shows in `figure` what that fetches. Where that fails, the figure stays as it is. */
export function demonstrate(figure: HTMLElement, address: string, onPick: (tensor: string) => void): Demonstration {
  // A worker of its own, so that models that are opened meanwhile have nothing to do with it.
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
  strip = new Strip(first.tensors, first.sizeBytes, onPick);
  const caption = element("figcaption", {});
  figure.replaceChildren(strip.node, caption);
  await pause(120); // for the last word about the index
  strip.mark(early);
  const said = (what: string) => caption.replaceChildren(element("b", {}, stats ? `${plural(stats.requests, "request")} · ${formatBytes(stats.bytesFetched)} of ${formatBytes(first.sizeBytes)}` : ""), ` ${what}`);
  said(`list all ${formatCount(first.tensors.length)} tensors of this sample.`);
  await pause(PAUSE_MS);
  if (isStopped() || !first.tensors.some(({ name }) => name === TENSOR)) return;
  await engine.call("describe", { of: { slot: "first", tensor: TENSOR }, whole: true });
  await pause(120);
  if (!isStopped()) said(`with ${TENSOR}: only the tensor you open is downloaded.`);
}

const pause = (milliseconds: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** A file, drawn: its tensors where they are, and what was fetched of it. */
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
