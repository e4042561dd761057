/** Opening what was asked for, with a way out where that fails. */

import type { TensorInfo } from "zstn";
import { EngineError } from "../engine/client.js";
import type { Engine } from "../engine/client.js";
import type { ModelSummary } from "../engine/protocol.js";
import { button, byId, element } from "../page/element.js";
import { clearNotice, showError } from "../page/notice.js";
import type { Action } from "../page/notice.js";
import { hostOf } from "../page/origin.js";
import { refusalOf, strangerWarning } from "../page/refusal.js";
import type { Refusal } from "../page/refusal.js";
import type { OpenModel } from "../tensor/view.js";
import type { Activities } from "../wire/activity.js";
import type { Origins } from "./origins.js";
import { ChoiceNeeded, locate } from "./place.js";
import type { Given, Located } from "./place.js";
import { asFileOfRepository } from "./source-text.js";
import type { Tokens } from "./tokens.js";

export interface Loaded {
  readonly first: OpenModel;
  readonly second: OpenModel | undefined;
}

/** What the loader needs of the page. */
export interface LoaderHost {
  readonly tokens: Tokens;
  readonly origins: Origins;
  /** The hub besides Hugging Face. */
  hub: () => string | undefined;
  askToken: (origin: string) => void;
  askSecond: () => void;
  open: (given: Given) => void;
  openSecond: (given: Given) => void;
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
          const [first, second] = await Promise.all([this.#locate(given, signal), secondGiven && this.#locate(secondGiven, signal)]);
          const request = { ...this.#withToken(first), ...(second && { second: this.#withToken(second) }) };
          const opened = await this.#engine.call("open", request, { signal, onStep });
          if (opened.secondError) this.#explainSecond(new EngineError(opened.secondError), secondGiven!);
          return { first: withPlace(opened.first, first), second: opened.second && withPlace(opened.second, second!) };
        },
        attempt.signal,
      );
    } catch (error) {
      if (attempt.signal.aborted) return undefined;
      this.#explain(error, given);
      return undefined;
    }
  }

  async openSecond(given: Given): Promise<OpenModel | undefined> {
    clearNotice();
    try {
      return await this.#activities.run(`Opening ${labelOf(given)}`, async ({ signal, onStep }) => {
        const place = await this.#locate(given, signal);
        return withPlace(await this.#engine.call("openSecond", this.#withToken(place), { signal, onStep }), place);
      });
    } catch (error) {
      this.#explainSecond(error, given);
      return undefined;
    }
  }

  /** A sentence at the top of the page. */
  say(error: unknown): void {
    showError(error);
  }

  #locate(given: Given, signal: AbortSignal): Promise<Located> {
    return locate(given, this.#host.hub(), this.#host.tokens, signal);
  }

  /** With the token for its own server: the other model may be anywhere. */
  #withToken(located: Located): Located & { token: string | undefined } {
    return { ...located, token: this.#host.tokens.for(located.place) };
  }

  #explain(error: unknown, given: Given): void {
    if (error instanceof ChoiceNeeded) return this.#choose(error, this.#host.open);
    const code = error instanceof EngineError ? error.code : undefined;
    const status = error instanceof EngineError ? error.status : undefined;
    const again = { label: "Try again", act: () => this.#host.open(given) };
    const sample = { label: "Open the sample", act: this.#host.useSample };
    const inRepository = status === 404 && "text" in given ? asFileOfRepository(given.text) : undefined;
    if (inRepository !== undefined) {
      const help = element("p", { class: "help" }, "Addresses without https:// are read from this site. A file on Hugging Face is written ", element("code", {}, inRepository), ".");
      return showError(error, [{ label: "Open it from Hugging Face", act: () => this.#host.open({ text: inRepository }) }, again, sample], [help]);
    }
    const base = code === "base_required" ? [{ label: "Name its base", act: this.#host.askSecond }] : [];
    this.#show(error, [...base, again, sample]);
  }

  #explainSecond(error: unknown, given: Given): void {
    if (error instanceof ChoiceNeeded) return this.#choose(error, this.#host.openSecond);
    this.#show(error, [{ label: "Try again", act: () => this.#host.openSecond(given) }]);
  }

  /** The error; where a server has refused, it asks for that server's token. */
  #show(error: unknown, actions: readonly Action[]): void {
    const refusal = refusalOf(error);
    if (!refusal) return showError(error, actions);
    const label = this.#host.tokens.at(refusal.origin) === undefined ? "Add a token" : "Change the token";
    showError(refusal, [{ label, act: () => this.#host.askToken(refusal.origin) }, ...actions], this.#advice(refusal));
  }

  #advice({ origin }: Refusal): Node[] {
    const host = element("b", {}, hostOf(origin));
    const advice =
      this.#host.tokens.at(origin) === undefined
        ? element("p", { class: "help" }, "If it is private or gated, add an access token for ", host, ".")
        : element("p", { class: "help" }, "The token for ", host, " was not accepted. Check it, and that your account has access.");
    return this.#host.origins.isStrange(origin) ? [advice, strangerWarning(hostOf(origin))] : [advice];
  }

  #choose({ message, files }: ChoiceNeeded, open: (given: Given) => void): void {
    const items = files.map(({ path, address }) => element("li", {}, button(path, () => open({ text: address }), { class: "link" })));
    byId("notice").replaceChildren(element("div", { class: "notice", role: "alert" }, element("p", {}, message), element("ul", { class: "plain" }, ...items)));
  }
}

function withPlace(summary: ModelSummary, { place }: Located): OpenModel {
  return { ...summary, place, byName: new Map(summary.tensors.map((tensor): [string, TensorInfo] => [tensor.name, tensor])) };
}

const labelOf = (given: Given): string => ("text" in given ? given.text : (given.files[0]?.name ?? "files"));
