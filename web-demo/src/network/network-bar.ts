/** The bar at the bottom of the page: live network counters, and running activities. */

import type { ByteRange, NetworkStats } from "../engine/protocol.js";
import { button, colour, darkScheme, element, dataValue, fitCanvas } from "../page/element.js";
import { formatBytes, formatCount, formatDuration, formatShare, plural } from "../page/format.js";
import type { Activities } from "./activity.js";

const NOTHING: NetworkStats = { requests: 0, roundTrips: 0, bytesFetched: 0, cacheHits: 0, cacheBytes: 0, retries: 0, busyMs: 0, arrived: [] };
/** Wide enough to be visible where little was fetched, in CSS pixels. */
const MIN_MARK_WIDTH = 2;

export class NetworkBar {
  readonly #host: HTMLElement;
  readonly #activities: Activities;
  readonly #map = element("canvas", { class: "wire-map", role: "img" });
  readonly #counters = element("dl", { class: "counters" });
  readonly #running = element("ul", { class: "running", "aria-label": "Under way" });
  #sizeBytes = 0;
  #stats = NOTHING;
  #fetched: ByteRange[] = [];
  #rows = new Map<unknown, { bar: HTMLProgressElement; row: HTMLElement }>();

  constructor(host: HTMLElement, activities: Activities) {
    this.#host = host;
    this.#activities = activities;
    host.replaceChildren(this.#map, element("div", { class: "wire-line" }, this.#counters, this.#running));
    activities.onChange = () => this.#list();
    new ResizeObserver(() => this.#drawMap()).observe(this.#map);
    darkScheme.addEventListener("change", () => this.#drawMap());
    this.#count();
  }

  /** Starts again for another model, with files of `sizeBytes` in all. */
  begin(sizeBytes: number): void {
    this.#sizeBytes = sizeBytes;
    this.#fetched = [];
    this.#count();
    this.#show();
  }

  onUpdate(stats: NetworkStats): void {
    this.#stats = stats;
    this.#fetched.push(...stats.arrived);
    this.#count();
    if (stats.arrived.length > 0) this.#drawMap();
  }

  #show(): void {
    this.#host.hidden = this.#sizeBytes === 0 && this.#activities.running.length === 0;
    document.body.classList.toggle("with-wire", !this.#host.hidden);
    this.#drawMap();
  }

  #count(): void {
    const { requests, roundTrips, bytesFetched, cacheHits, retries, busyMs } = this.#stats;
    const share = this.#sizeBytes > 0 ? ` of ${formatBytes(this.#sizeBytes)} (${formatShare(bytesFetched / this.#sizeBytes)})` : "";
    const entries: [string, string, number, string][] = [
      ["Fetched", "fetched", bytesFetched, formatBytes(bytesFetched) + share],
      ["Requests", "requests", requests, `${formatCount(requests)}, ${plural(roundTrips, "round trip")}`],
      ["Network", "busy", busyMs, formatDuration(busyMs)],
      ["Cache hits", "cache", cacheHits, formatCount(cacheHits)],
    ];
    if (retries > 0) entries.push(["Retries", "retries", retries, formatCount(retries)]);
    this.#counters.replaceChildren(
      ...entries.map(([label, key, value, text]) => element("div", { class: key }, element("dt", {}, label), element("dd", {}, dataValue(value, text, { "data-counter": key })))),
    );
    this.#map.setAttribute("aria-label", `Fetched part of the file: ${formatShare(this.#sizeBytes > 0 ? bytesFetched / this.#sizeBytes : 0)}`);
  }

  #list(): void {
    const running = this.#activities.running;
    for (const [activity, { row }] of this.#rows) {
      if (running.includes(activity as never)) continue;
      row.remove();
      this.#rows.delete(activity);
    }
    for (const activity of running) {
      const shown = this.#rows.get(activity) ?? this.#row(activity.label, activity.stop);
      if (!this.#rows.has(activity)) {
        this.#rows.set(activity, shown);
        this.#running.append(shown.row);
      }
      if (activity.share === undefined) shown.bar.removeAttribute("value");
      else shown.bar.value = activity.share;
    }
    this.#show();
  }

  #row(label: string, stop: () => void): { bar: HTMLProgressElement; row: HTMLElement } {
    const bar = element("progress", { max: 1, "aria-label": label });
    const cancel = button("Cancel", stop, { class: "button small", "aria-label": `Cancel: ${label}` });
    return { bar, row: element("li", {}, element("span", { class: "what" }, label), bar, cancel) };
  }

  #drawMap(): void {
    const canvas = fitCanvas(this.#map);
    if (!canvas) return;
    const { ctx, width, height } = canvas;
    ctx.fillStyle = colour("map-empty");
    ctx.fillRect(0, 0, width, height);
    ctx.fillStyle = colour("accent");
    const scale = width / Math.max(1, this.#sizeBytes);
    for (const { begin, end } of this.#fetched) {
      const long = Math.max(MIN_MARK_WIDTH, (end - begin) * scale);
      ctx.fillRect(Math.min(begin * scale, width - long), 0, long, height);
    }
  }
}
