/** Opens models, and suggests actions if that fails. */

import { EngineError } from "../engine/client.js";
import type { Engine } from "../engine/client.js";
import type { ModelSummary, ResolvedInput } from "../engine/protocol.js";
import { TensorTable } from "../engine/tensor-table.js";
import { button, getById, element } from "../page/element.js";
import { isMerged } from "../page/error-text.js";
import { clearNotice, showError } from "../page/notice.js";
import type { Action } from "../page/notice.js";
import { hostOf } from "../page/origin.js";
import { accessErrorOf, strangerWarning } from "../page/access-error.js";
import type { AccessError } from "../page/access-error.js";
import type { OpenedModel } from "../page/opened-model.js";
import type { Activities } from "../network/activity.js";
import type { Origins } from "./origins.js";
import { ChoiceNeeded, resolveInput } from "./resolve-input.js";
import type { UserInput } from "./resolve-input.js";
import type { Tokens } from "./tokens.js";

export interface Loaded {
  readonly first: OpenedModel;
  readonly second: OpenedModel | undefined;
}

/** The operations of the page that the loader needs. */
export interface LoaderHost {
  readonly tokens: Tokens;
  readonly origins: Origins;
  /** Returns the additional hub that a link has named, if any. */
  hub: () => string | undefined;
  askToken: (origin: string) => void;
  askSecond: () => void;
  open: (input: UserInput) => void;
  openSecond: (input: UserInput) => void;
  useSample: () => void;
}

export class Loader {
  readonly #engine: Engine;
  readonly #activities: Activities;
  readonly #host: LoaderHost;
  #opening = new AbortController();
  #openingSecond = new AbortController();

  constructor(engine: Engine, activities: Activities, host: LoaderHost) {
    this.#engine = engine;
    this.#activities = activities;
    this.#host = host;
  }

  /**
   * Opens one or two models. Resolves to `undefined` if that failed, which the page then shows, or if opening another
   * model has begun in the meantime.
   */
  async open(input: UserInput, secondInput: UserInput | undefined): Promise<Loaded | undefined> {
    this.#opening.abort();
    this.#openingSecond.abort();
    const attempt = new AbortController();
    this.#opening = attempt;
    clearNotice();
    let inRepository: string | undefined;
    try {
      return await this.#activities.run(
        `Opening ${labelOf(input)}`,
        async ({ signal, onStep }) => {
          const [first, second] = await Promise.all([this.#resolveInput(input, signal), secondInput && this.#resolveInput(secondInput, signal)]);
          inRepository = first.inRepository;
          const request = { ...this.#withToken(first), ...(second && { second: this.#withToken(second) }) };
          const opened = await this.#engine.call("open", request, { signal, onStep });
          if (opened.secondError) this.#explainSecond(new EngineError(opened.secondError), secondInput!);
          return { first: toOpenedModel(opened.first, first), second: opened.second && toOpenedModel(opened.second, second!) };
        },
        attempt.signal,
      );
    } catch (error) {
      if (attempt.signal.aborted) return undefined;
      this.#explain(error, input, inRepository);
      return undefined;
    }
  }

  /** Opens the second model. Resolves to `undefined` if that failed, or if opening another one has begun in the meantime. */
  async openSecond(input: UserInput): Promise<OpenedModel | undefined> {
    this.cancelSecond();
    const attempt = new AbortController();
    this.#openingSecond = attempt;
    clearNotice();
    try {
      const second = await this.#activities.run(
        `Opening ${labelOf(input)}`,
        async ({ signal, onStep }) => {
          const source = await this.#resolveInput(input, signal);
          return toOpenedModel(await this.#engine.call("openSecond", this.#withToken(source), { signal, onStep }), source);
        },
        attempt.signal,
      );
      return attempt.signal.aborted ? undefined : second;
    } catch (error) {
      if (attempt.signal.aborted) return undefined;
      this.#explainSecond(error, input);
      return undefined;
    }
  }

  /** Cancels opening a second model. */
  cancelSecond(): void {
    this.#openingSecond.abort();
  }

  /** Shows an error at the top of the page. */
  say(error: unknown): void {
    showError(error);
  }

  #resolveInput(input: UserInput, signal: AbortSignal): Promise<ResolvedInput> {
    return resolveInput(input, this.#engine, this.#host.hub(), this.#host.tokens, signal);
  }

  /** Adds the token for the input's own server. The other model may be on a different server. */
  #withToken(resolved: ResolvedInput): ResolvedInput & { token: string | undefined } {
    return { ...resolved, token: this.#host.tokens.for(resolved.source) };
  }

  /** Shows an error. `inRepository` is the address of a file of a repository that the user may have meant. */
  #explain(error: unknown, input: UserInput, inRepository: string | undefined): void {
    if (error instanceof ChoiceNeeded) return this.#choose(error, this.#host.open);
    const code = error instanceof EngineError ? error.code : undefined;
    const status = error instanceof EngineError ? error.status : undefined;
    const again = { label: "Retry", act: () => this.#host.open(input) };
    const sample = { label: "Open the sample", act: this.#host.useSample };
    if (status === 404 && inRepository !== undefined) {
      const help = element("p", { class: "help" }, "Addresses without https:// are read from this site. A file on Hugging Face is written ", element("code", {}, inRepository), ".");
      return showError(error, [{ label: "Open it from Hugging Face", act: () => this.#host.open({ text: inRepository }) }, again, sample], [help]);
    }
    const base = code === "base_required" && !isMerged(error) ? [{ label: "Choose base…", act: this.#host.askSecond }] : [];
    this.#show(error, [...base, again, sample]);
  }

  #explainSecond(error: unknown, input: UserInput): void {
    if (error instanceof ChoiceNeeded) return this.#choose(error, this.#host.openSecond);
    this.#show(error, [{ label: "Retry", act: () => this.#host.openSecond(input) }]);
  }

  /** Shows an error. If a server refused access, the actions include adding or changing the token for that server. */
  #show(error: unknown, actions: readonly Action[]): void {
    const refusal = accessErrorOf(error);
    if (!refusal) return showError(error, actions);
    const label = this.#host.tokens.at(refusal.origin) === undefined ? "Add a token" : "Change the token";
    showError(refusal, [{ label, act: () => this.#host.askToken(refusal.origin) }, ...actions], this.#advice(refusal));
  }

  #advice({ origin }: AccessError): Node[] {
    const host = element("b", {}, hostOf(origin));
    const advice =
      this.#host.tokens.at(origin) === undefined
        ? element("p", { class: "help" }, "If it is private or gated, add an access token for ", host, ".")
        : element("p", { class: "help" }, "The token for ", host, " was not accepted. Check it, and that your account has access.");
    return this.#host.origins.isStrange(origin) ? [advice, strangerWarning(hostOf(origin))] : [advice];
  }

  #choose({ message, files }: ChoiceNeeded, open: (input: UserInput) => void): void {
    const items = files.map(({ path, address }) => element("li", {}, button(path, () => open({ text: address }), { class: "link" })));
    getById("notice").replaceChildren(element("div", { class: "notice", role: "alert" }, element("p", {}, message), element("ul", { class: "plain" }, ...items)));
  }
}

function toOpenedModel({ columns, ...summary }: ModelSummary, { source }: ResolvedInput): OpenedModel {
  return { ...summary, source, tensors: new TensorTable(columns) };
}

const labelOf = (input: UserInput): string => ("text" in input ? input.text : (input.files[0]?.name ?? "files"));
