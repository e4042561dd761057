/** What is under way: each with its progress and a way to stop it. */

import type { Step } from "../engine/protocol.js";

export interface Activity {
  readonly label: string;
  /** What has been done of the whole, 0 to 1; unknown at first. */
  share: number | undefined;
  readonly stop: () => void;
}

export class Activities {
  /** Called when one begins, goes on or ends. */
  onChange: () => void = () => {};
  readonly #running = new Set<Activity>();

  get running(): Activity[] {
    return [...this.#running];
  }

  /** Runs `work`, which is listed meanwhile; it is also stopped by `outer`. */
  async run<T>(label: string, work: (options: { signal: AbortSignal; onStep: (step: Step) => void }) => Promise<T>, outer?: AbortSignal): Promise<T> {
    const own = new AbortController();
    const signal = outer ? AbortSignal.any([outer, own.signal]) : own.signal;
    const activity: Activity = { label, share: undefined, stop: () => own.abort() };
    this.#running.add(activity);
    this.onChange();
    try {
      return await work({
        signal,
        onStep: ({ loadedBytes, totalBytes }) => {
          activity.share = totalBytes > 0 ? Math.min(1, loadedBytes / totalBytes) : undefined;
          this.onChange();
        },
      });
    } finally {
      this.#running.delete(activity);
      this.onChange();
    }
  }
}
