/** The running activities, each with its progress and a way to cancel it. */

import type { Step } from "../engine/protocol.js";

export interface Activity {
  readonly label: string;
  /** The completed fraction, from 0 to 1; `undefined` at first. */
  share: number | undefined;
  readonly stop: () => void;
}

export class Activities {
  /** Called when an activity starts, progresses or ends. */
  onChange: () => void = () => {};
  readonly #running = new Set<Activity>();

  get running(): Activity[] {
    return [...this.#running];
  }

  /** Runs `work` as a listed activity. Its signal aborts when the user stops the activity, or with `outer`. */
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
