/** A colour scale that several heatmaps share, so that equal colours in adjacent heatmaps mean equal values. */

import type { Shading } from "../engine/protocol.js";

interface Member {
  readonly shading: Shading;
  readonly limit: number;
}

export class SharedScale {
  readonly #members = new Map<() => void, Member>();

  /** Returns the common limit of heatmaps with this shading; `undefined` until one has reported. */
  limit(shading: Shading): number | undefined {
    const limits = [...this.#members.values()].filter((member) => member.shading === shading).map(({ limit }) => limit);
    return limits.length === 0 ? undefined : Math.max(...limits);
  }

  /**
   * Reports the limit that the view of a heatmap would have by itself. `recolour` identifies the heatmap. The
   * `recolour` of another heatmap is called if its common limit changes.
   */
  report(recolour: () => void, shading: Shading, limit: number): void {
    const before = new Map([...this.#members].map(([member, { shading }]) => [member, this.limit(shading)]));
    this.#members.set(recolour, { shading, limit });
    for (const [other, { shading }] of this.#members) if (other !== recolour && this.limit(shading) !== before.get(other)) other();
  }
}
