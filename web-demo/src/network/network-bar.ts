/** The bar at the bottom of the page: live network counters and running activities. */

import type { ByteRange, NetworkStats } from "../engine/protocol.js";
import { darkScheme } from "../page/appearance.js";
import { button, colour, element, dataValue, fitCanvas } from "../page/element.js";
import { formatBytes, formatCount, formatDuration, formatShare, plural } from "../page/format.js";
import type { Activities } from "./activity.js";

const NOTHING: NetworkStats = { requests: 0, roundTrips: 0, bytesFetched: 0, cacheHits: 0, cacheBytes: 0, retries: 0, busyMs: 0, uniqueBytes: 0, arrived: [] };
/** The minimum width of a mark on the map, in CSS pixels, so that short ranges are visible. */
const MIN_MARK_WIDTH = 2;

export class NetworkBar {
  readonly #host: HTMLElement;
  readonly #activities: Activities;
  readonly #map = element("canvas", { class: "wire-map", role: "img" });
  readonly #counters = element("dl", { class: "counters" });
  readonly #running = element("ul", { class: "running", "aria-label": "Under way" });
  /**
   * The total length of all open models, in bytes. `#fileBytes` is the length of the first model's file, which the map
   * shows; 0 if it has several files.
   */
  #sizeBytes = 0;
  #fileBytes = 0;
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

  /** Resets the map for another model, whose single file has `fileBytes` bytes; 0 if it has several files. */
  begin(fileBytes: number): void {
    this.#fileBytes = fileBytes;
    this.#fetched = [];
  }

  /** Sets the total length of all open models, in bytes. */
  resize(sizeBytes: number): void {
    this.#sizeBytes = sizeBytes;
    this.#count();
    this.#show();
  }

  onUpdate(stats: NetworkStats): void {
    this.#stats = stats;
    this.#fetched.push(...stats.arrived);
    this.#count();
    this.#show();
  }

  #show(): void {
    // Without any requests, for example while packing, the counters are hidden.
    this.#counters.hidden = this.#map.hidden = this.#sizeBytes === 0 || this.#stats.requests === 0;
    this.#host.hidden = this.#counters.hidden && this.#activities.running.length === 0;
    document.body.classList.toggle("with-wire", !this.#host.hidden);
    this.#drawMap();
  }

  #count(): void {
    const { requests, roundTrips, bytesFetched, uniqueBytes, cacheHits, retries, busyMs } = this.#stats;
    const unique = this.#sizeBytes > 0 ? Math.min(uniqueBytes, this.#sizeBytes) : uniqueBytes;
    const share = unique / Math.max(1, this.#sizeBytes);
    const ofAll = this.#sizeBytes > 0 ? (share === 1 ? ", all of it" : ` of ${formatBytes(this.#sizeBytes)} (${formatShare(share)})`) : "";
    const again = bytesFetched - unique;
    const entries: [string, string, number, string, string?][] = [
      ["Fetched", "fetched", unique, formatBytes(unique) + ofAll],
      ...(again > 0 ? [["Fetched twice", "again", again, formatBytes(again)] satisfies [string, string, number, string]] : []),
      ["", "requests", requests, plural(requests, "request"), `, ${plural(roundTrips, "round trip")}`],
      ["Network", "busy", busyMs, formatDuration(busyMs)],
    ];
    if (cacheHits > 0) entries.push(["Cache hits", "cache", cacheHits, formatCount(cacheHits)]);
    if (retries > 0) entries.push(["Retries", "retries", retries, formatCount(retries)]);
    this.#counters.replaceChildren(
      ...entries.map(([label, key, value, text, more]) => element("div", { class: key }, element("dt", { class: label ? "" : "unseen" }, label || "Requests"), element("dd", {}, dataValue(value, text, { "data-counter": key }), more !== undefined && element("span", { class: "trips" }, more)))),
    );
    this.#map.setAttribute("aria-label", `Fetched part of the file: ${formatShare(this.#sizeBytes > 0 ? share : 0)}`);
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
    // Shards have no common positions, so the bar shows the fetched fraction as its length.
    if (this.#fileBytes === 0) return ctx.fillRect(0, 0, (width * Math.min(1, this.#stats.uniqueBytes / Math.max(1, this.#sizeBytes))), height);
    const scale = width / this.#fileBytes;
    for (const { begin, end } of this.#fetched) {
      const long = Math.max(MIN_MARK_WIDTH, (end - begin) * scale);
      ctx.fillRect(Math.min(begin * scale, width - long), 0, long, height);
    }
  }
}
