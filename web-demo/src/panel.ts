/** The panel beside the list: one tensor, read and described. */

import type { Tensor, TensorInfo } from "zstn";
import { element } from "./element.js";
import { formatBytes, formatCount, formatDuration, formatShape, formatShare, formatValue, plural } from "./format.js";
import { histogramPicture } from "./histogram.js";
import type { Opened } from "./opened.js";
import { sentenceOf } from "./sentence.js";
import { histogramOf, isNumeric, statisticsOf } from "./statistics.js";
import type { Statistics } from "./statistics.js";
import { dtypeChip } from "./tensor-row.js";
import { firstValues } from "./values.js";

const BINS = 72;

/** What the panel tells the rest of the page. */
export interface PanelEvents {
  /** Bytes have been fetched. */
  onTraffic: () => void;
  onClose: () => void;
  /** A sentence for people who listen rather than look. */
  announce: (sentence: string) => void;
}

export class Panel {
  readonly #host: HTMLElement;
  readonly #opened: Opened;
  readonly #events: PanelEvents;
  #reading = new AbortController();

  constructor(host: HTMLElement, opened: Opened, events: PanelEvents) {
    this.#host = host;
    this.#opened = opened;
    this.#events = events;
    this.close();
  }

  close(): void {
    this.#reading.abort();
    this.#host.hidden = true;
    this.#host.replaceChildren();
  }

  /** Reads the tensor and shows it; a read still under way for another one is stopped. */
  async show(info: TensorInfo): Promise<void> {
    this.#reading.abort();
    const reading = new AbortController();
    this.#reading = reading;
    const body = element("div", { class: "panel-body" });
    this.#host.replaceChildren(this.#head(info), body);
    this.#host.hidden = false;
    this.#host.scrollTop = 0;
    try {
      const tensor = await this.#read(info, body, reading.signal);
      await describe(tensor, body, reading.signal);
      this.#events.announce(`${info.name} has been read.`);
    } catch (error) {
      if (reading.signal.aborted) return;
      const sentence = sentenceOf(error);
      body.replaceChildren(element("p", { class: "notice error", role: "alert" }, sentence));
    } finally {
      this.#events.onTraffic();
    }
  }

  #head(info: TensorInfo): HTMLElement {
    const close = element("button", { type: "button", class: "close", "aria-label": "Close" }, "×");
    close.addEventListener("click", () => this.#events.onClose());
    const elements = info.shape.reduce((product, size) => product * size, 1);
    const facts = element("p", { class: "facts" }, dtypeChip(info.dtype), element("span", {}, formatShape(info.shape)), element("span", {}, plural(elements, "value")));
    const ranges = info.parts.map(({ offset, length }) => `${formatCount(offset)} to ${formatCount(offset + length)}`);
    const place = element(
      "p",
      { class: "place" },
      `${formatBytes(info.byteLength)}, stored in ${formatBytes(info.storedLength)} at bytes ${ranges.join(", ")}`,
      info.sharedWith !== undefined && `, shared with ${info.sharedWith}`,
    );
    return element("header", { class: "panel-head" }, close, element("h2", {}, info.name || "(no name)"), facts, place);
  }

  async #read(info: TensorInfo, body: HTMLElement, signal: AbortSignal): Promise<Tensor> {
    const bar = element("progress", { max: Math.max(1, info.storedLength), value: 0, "aria-label": "Bytes fetched" });
    const note = element("p", { class: "reading" }, `Fetching ${formatBytes(info.storedLength)}…`);
    body.replaceChildren(note, bar);
    const { stats } = this.#opened.model;
    const before = { ...counters(stats) };
    const start = performance.now();
    const tensor = await this.#opened.model.tensor(info.name, {
      signal,
      onProgress: ({ loadedBytes }) => {
        bar.value = loadedBytes;
        if (loadedBytes >= info.storedLength) note.textContent = "Decoding…";
      },
    });
    const took = performance.now() - start;
    const bytes = stats.bytesFetched - before.bytesFetched;
    const share = info.byteLength > 0 ? ` (${formatShare(bytes / info.byteLength)} of its size)` : "";
    const cost = `Read in ${formatDuration(took)}: ${formatBytes(bytes)} fetched${share} in ${plural(stats.requests - before.requests, "request")}.`;
    body.replaceChildren(element("p", { class: "cost" }, cost));
    this.#events.onTraffic();
    return tensor;
  }
}

const counters = ({ requests, bytesFetched }: { requests: number; bytesFetched: number }) => ({ requests, bytesFetched });

async function describe(tensor: Tensor, body: HTMLElement, signal: AbortSignal): Promise<void> {
  if (tensor.data.length === 0) {
    body.append(element("p", { class: "notice" }, "This tensor is empty."));
    return;
  }
  const values = firstValues(tensor);
  if (!isNumeric(tensor)) {
    body.append(element("p", { class: "notice" }, `${tensor.dtype} is shown as stored; this page cannot turn it into numbers yet.`), values);
    return;
  }
  const figures = element("div", { class: "statistics", "aria-busy": "true" }, element("p", { class: "reading" }, "Computing…"));
  body.append(figures, values);
  const statistics = await statisticsOf(tensor, signal);
  figures.replaceChildren(figureList(statistics));
  if (statistics.max > statistics.min) figures.append(await distribution(tensor, statistics, signal));
  figures.removeAttribute("aria-busy");
}

function figureList(statistics: Statistics): HTMLElement {
  const { count, zeros, nans, infinities } = statistics;
  const entries: [string, string][] = [
    ["min", formatValue(statistics.min)],
    ["max", formatValue(statistics.max)],
    ["mean", formatValue(statistics.mean)],
    ["std. dev.", formatValue(statistics.standardDeviation)],
  ];
  const list = element("dl", { class: "statistic-list" });
  for (const [label, value] of entries) list.append(element("div", {}, element("dt", {}, label), element("dd", {}, value)));
  const odd = [zeros > 0 && `${formatShare(zeros / count)} zeros`, nans > 0 && `${formatCount(nans)} NaN`, infinities > 0 && `${formatCount(infinities)} infinite`].filter(Boolean);
  return odd.length === 0 ? list : element("div", {}, list, element("p", { class: "odd" }, odd.join(", ")));
}

async function distribution(tensor: Tensor, statistics: Statistics, signal: AbortSignal): Promise<HTMLElement> {
  const histogram = await histogramOf(tensor, statistics, BINS, signal);
  const outside = histogram.outside > 0 && `${formatCount(histogram.outside)} further out`;
  return element(
    "figure",
    { class: "distribution" },
    histogramPicture(histogram),
    element("figcaption", {}, element("span", {}, formatValue(histogram.low, 3)), element("span", {}, outside), element("span", {}, formatValue(histogram.high, 3))),
  );
}
