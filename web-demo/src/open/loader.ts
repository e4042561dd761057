/** Opening what was asked for, with a way out where that fails. */

import type { TensorInfo } from "zstn";
import { EngineError } from "../engine/client.js";
import type { Engine } from "../engine/client.js";
import type { ModelSummary } from "../engine/protocol.js";
import { button, byId, element } from "../page/element.js";
import { clearNotice, showError } from "../page/notice.js";
import type { Action } from "../page/notice.js";
import type { OpenModel } from "../tensor/view.js";
import type { Activities } from "../wire/activity.js";
import { ChoiceNeeded, locate } from "./place.js";
import type { Given, Located } from "./place.js";
import { DEFAULT_HUB } from "./source-text.js";

export interface Loaded {
  readonly first: OpenModel;
  readonly second: OpenModel | undefined;
}

/** What the loader needs of the page. */
export interface LoaderHost {
  token: () => string | undefined;
  hub: () => string | undefined;
  askToken: () => void;
  askSecond: () => void;
  open: (given: Given) => void;
  useSample: () => void;
}

export class Loader {
  readonly #engine: Engine;
  readonly #activities: Activities;
  readonly #host: LoaderHost;
  #opening = new AbortController();

  constructor(engine: Engine, activities: Activities, host: LoaderHost) {
    this.#engine = engine;
    this.#activities = activities;
    this.#host = host;
  }

  /** The model, and the one beside it; `undefined` if there is none, which the page says, or if another one is being opened by now. */
  async open(given: Given, secondGiven: Given | undefined): Promise<Loaded | undefined> {
    this.#opening.abort();
    const attempt = new AbortController();
    this.#opening = attempt;
    clearNotice();
    try {
      return await this.#activities.run(
        `Opening ${labelOf(given)}`,
        async ({ signal, onStep }) => {
          const token = this.#host.token();
          const [place, second] = await Promise.all([this.#locate(given, signal), secondGiven && this.#locate(secondGiven, signal)]);
          const request = { ...place, token, ...(second && { second: { ...second, token } }) };
          const opened = await this.#engine.call("open", request, { signal, onStep });
          if (opened.secondError) showError(new EngineError(opened.secondError));
          return { first: withPlace(opened.first, place), second: opened.second && withPlace(opened.second, second!) };
        },
        attempt.signal,
      );
    } catch (error) {
      if (attempt.signal.aborted) return undefined;
      this.#explain(error, () => this.#host.open(given));
      return undefined;
    }
  }

  async openSecond(given: Given): Promise<OpenModel | undefined> {
    clearNotice();
    try {
      return await this.#activities.run(`Opening ${labelOf(given)}`, async ({ signal, onStep }) => {
        const place = await this.#locate(given, signal);
        return withPlace(await this.#engine.call("openSecond", { ...place, token: this.#host.token() }, { signal, onStep }), place);
      });
    } catch (error) {
      showError(error);
      return undefined;
    }
  }

  /** A sentence at the top of the page. */
  say(error: unknown): void {
    showError(error);
  }

  #locate(given: Given, signal: AbortSignal): Promise<Located> {
    return locate(given, this.#host.hub() ?? DEFAULT_HUB, this.#host.token(), signal);
  }

  #explain(error: unknown, again: () => void): void {
    if (error instanceof ChoiceNeeded) return this.#choose(error);
    const actions: Action[] = [{ label: "Try again", act: again }];
    const code = error instanceof EngineError ? error.code : undefined;
    const status = error instanceof EngineError ? error.status : undefined;
    if (code === "base_required") actions.unshift({ label: "Name its base", act: this.#host.askSecond });
    if (status === 401 || status === 403 || /token under/.test(String(error))) actions.unshift({ label: "Put a token", act: this.#host.askToken });
    actions.push({ label: "Open the sample", act: this.#host.useSample });
    showError(error, actions);
  }

  #choose({ message, files }: ChoiceNeeded): void {
    const items = files.map(({ path, address }) => element("li", {}, button(path, () => this.#host.open({ text: address }), { class: "link" })));
    byId("notice").replaceChildren(element("div", { class: "notice", role: "alert" }, element("p", {}, message), element("ul", { class: "plain" }, ...items)));
  }
}

function withPlace(summary: ModelSummary, { place }: Located): OpenModel {
  return { ...summary, place, byName: new Map(summary.tensors.map((tensor): [string, TensorInfo] => [tensor.name, tensor])) };
}

const labelOf = (given: Given): string => ("text" in given ? given.text : (given.files[0]?.name ?? "files"));
