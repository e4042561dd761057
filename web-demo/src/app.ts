/** The application: opens models and shows the view that the route names. */

import type { TensorInfo } from "zstn";
import type { Engine } from "./engine/client.js";
import type { ListedTensor } from "./engine/tensor-table.js";
import { Activities } from "./network/activity.js";
import { NetworkBar } from "./network/network-bar.js";
import { linkFor, readLink } from "./open/link.js";
import { Loader } from "./open/loader.js";
import type { Loaded } from "./open/loader.js";
import { LocalFiles } from "./open/local-files.js";
import { Opener } from "./open/opener.js";
import { Origins, originOf } from "./open/origins.js";
import type { UserInput } from "./open/resolve-input.js";
import { Tokens } from "./open/tokens.js";
import { Overview } from "./overview/overview.js";
import { PackPanel } from "./pack/panel.js";
import { isEmbedded } from "./page/appearance.js";
import { copyLinkButton, openOutside } from "./page/copy-link.js";
import { getById } from "./page/element.js";
import { plural } from "./page/format.js";
import { announce, clearNotice } from "./page/notice.js";
import { hasLike } from "./page/opened-model.js";
import { focusHeading, showSection } from "./page/visible-section.js";
import { showTab } from "./page/tabs.js";
import { overviewOf, writeRoute } from "./page/route.js";
import type { Route } from "./page/route.js";
import { MODES, TensorView } from "./tensor/view.js";
import type { Mode } from "./tensor/view.js";
import { NO_VIEW } from "./tensor/view-state.js";
import type { ViewState } from "./tensor/view-state.js";
import { TensorList } from "./tree/tensor-list.js";
import { demonstrate } from "./welcome/range-animation.js";
import type { Demonstration } from "./welcome/range-animation.js";

const SAMPLE = "sample.zstn";
const TUNED_SAMPLE = "sample-tuned.zstn";

/** The longest time between two steps through the list that count as one navigation, in milliseconds. */
const QUICK_STEP_MS = 1000;

export class App {
  readonly #engine: Engine;
  readonly #activities = new Activities();
  readonly #networkBar = new NetworkBar(getById("wire"), this.#activities);
  readonly #tokens = new Tokens();
  readonly #origins = new Origins();
  readonly #opener: Opener;
  readonly #loader: Loader;
  readonly #localFiles = new LocalFiles();
  #route: Route = {};
  /** The hub that a link has named. URLs below it are treated as repositories. */
  #hub: string | undefined;
  #loaded: Loaded | undefined;
  /** The route to restore if opening the next model fails. */
  #routeBefore: Route = {};
  #attempts = 0;
  #isOpening = false;
  #steppedAt = Number.NEGATIVE_INFINITY;
  #list: TensorList | undefined;
  #overview: Overview | undefined;
  #tensorView: TensorView | undefined;
  #packPanel: PackPanel | undefined;
  #demonstration: Demonstration | undefined;

  constructor(engine: Engine) {
    const [tokens, origins] = [this.#tokens, this.#origins];
    this.#engine = engine;
    this.#engine.onNetworkStats = (stats) => this.#networkBar.onUpdate(stats);
    this.#opener = new Opener({ tokens, origins, onOpen: (input) => this.open(input), onSecond: (input) => void this.#openSecond(input) });
    this.#loader = new Loader(this.#engine, this.#activities, {
      tokens,
      origins,
      hub: () => this.#hub,
      // An embedded page takes no tokens, and has no field for a second model.
      askToken: (origin) => (isEmbedded ? openOutside() : this.#opener.askToken(origin)),
      askSecond: () => this.#askSecond(),
      open: (input) => this.open(input),
      openSecond: (input) => void this.#openSecond(input),
      useSample: () => this.openSample(false),
    });
  }

  /** Opens another model at the user's request, with its base if one is given. */
  open(input: UserInput, base?: UserInput): void {
    const src = "text" in input ? input.text : undefined;
    // A second model that belonged to the previous model is not reused.
    const second = base ?? (this.#loaded?.second ? undefined : this.#opener.second);
    const secondText = second && "text" in second ? second.text : undefined;
    if (!second || secondText !== undefined) this.#opener.show(src, secondText);
    for (const text of [src, secondText]) if (text !== undefined) this.#origins.named(originOf(text), "person");
    // While another model is being opened, `#route` already belongs to that model.
    if (!this.#isOpening) this.#routeBefore = this.#route;
    this.#go({ src, with: secondText }, false, this.#localFiles.remember(input, second));
    void this.#open(input, second);
  }

  /** Opens the sample model, or its fine-tune compared with it. */
  openSample(compared: boolean): void {
    this.#loaded = undefined;
    this.#opener.show(compared ? TUNED_SAMPLE : SAMPLE, compared ? SAMPLE : undefined);
    this.open({ text: compared ? TUNED_SAMPLE : SAMPLE });
  }

  /** Opens dropped files. On the page that packs, a single file that is not packed yet is packed instead. */
  drop(files: readonly File[]): void {
    const [file] = files;
    const isPackable = files.length === 1 && !/\.(json|z4dm|zstn)$/i.test(file!.name);
    if (this.#route.view === "pack" && isPackable && this.#packPanel) return void this.#packPanel.pack(file!);
    this.open({ files });
  }

  /** Shows the page that packs. */
  showPacking(): void {
    clearNotice();
    this.#go({ ...this.#route, view: "pack" });
    this.#render();
  }

  /** Shows the overview of the open model, or the welcome page. */
  showModel(): void {
    clearNotice();
    this.#go({ ...overviewOf(this.#route), view: undefined });
    this.#render();
  }

  /** Returns to the overview. Returns `false` if no tensor is shown. */
  leaveTensor(): boolean {
    if (!this.#tensorView) return false;
    this.#leave();
    return true;
  }

  /** Focuses the tensor search. Returns `false` if there is none. */
  search(): boolean {
    if (!this.#list || !this.#loaded || this.#route.view !== undefined) return false;
    showTab("list");
    this.#list.focusSearch();
    return true;
  }

  /** Opens the next or the previous tensor in the list. Returns `false` if there is no list. */
  step(by: 1 | -1): boolean {
    if (!this.#list || !this.#loaded || this.#route.view !== undefined) return false;
    void this.#step(this.#list, by);
    return true;
  }

  async #step(list: TensorList, by: 1 | -1): Promise<void> {
    const tensor = await list.neighbour(by).catch(() => undefined);
    if (!tensor || list !== this.#list || this.#route.view !== undefined) return;
    // Steps in quick succession share a history entry.
    const now = performance.now();
    this.#pick(tensor, now - this.#steppedAt < QUICK_STEP_MS);
    this.#steppedAt = now;
  }

  /** Shows the state that the URL describes, on load and on navigation. */
  async follow(): Promise<void> {
    const before = this.#route;
    if (this.#loaded && !this.#isOpening) this.#routeBefore = before;
    try {
      this.#route = readLink();
    } catch (error) {
      return this.#loader.say(error);
    }
    const { src, with: second, hub, view } = this.#route;
    this.#hub = hub ?? this.#hub;
    for (const text of [src, second, hub]) if (text !== undefined) this.#origins.named(originOf(text), "link");
    this.#opener.show(src, second);
    const same = this.#loaded !== undefined && before.src === src && before.with === second;
    if (same || view === "pack" || src === undefined) {
      if (src === undefined && view === undefined && before.src !== undefined) this.#loaded = undefined;
      this.#render();
      if (!this.#loaded && src === undefined && view === undefined) await this.#localFiles.offer((input, base) => this.open(input, base));
      return;
    }
    await this.#open({ text: src }, second === undefined ? undefined : { text: second });
  }

  async #open(input: UserInput, second: UserInput | undefined): Promise<void> {
    const mine = ++this.#attempts;
    this.#isOpening = true;
    this.#demonstration?.stop();
    const { src } = this.#route;
    const opened = await this.#loader.open(input, second);
    if (mine !== this.#attempts) return;
    this.#isOpening = false;
    if (!opened) {
      // The previous model stays open and the URL shows it again, unless the user has navigated elsewhere in the meantime.
      if (this.#loaded && this.#route.src === src) this.#go({ ...this.#routeBefore, view: this.#route.view }, true);
      return;
    }
    this.#loaded = opened;
    this.#networkBar.begin(opened.first.fileCount === 1 ? opened.first.sizeBytes : 0);
    this.#list?.close();
    this.#list = new TensorList({ engine: this.#engine, model: opened.first, onPick: (tensor) => this.#pick(tensor), onRoute: (list) => this.#go({ ...this.#route, ...list }, true) });
    getById("sidebar").replaceChildren(this.#list.node);
    announce(`${opened.first.name} is open: ${plural(opened.first.tensors.size, "tensor")}.`);
    this.#forgetOverview();
    // The user may have navigated in the meantime.
    this.#render(true);
  }

  #askSecond(): void {
    if (isEmbedded) openOutside();
    else this.#opener.askSecond();
  }

  async #openSecond(input: UserInput): Promise<void> {
    if (!this.#loaded) return getById("address").focus();
    if ("text" in input) this.#origins.named(originOf(input.text), "person");
    const { first } = this.#loaded;
    const second = await this.#loader.openSecond(input);
    // The second model is only used with the model that it was opened for.
    if (!second || this.#loaded?.first !== first) return;
    this.#loaded = { first, second };
    this.#opener.close();
    this.#changeSecond("text" in input ? input.text : undefined);
  }

  async #forgetSecond(): Promise<void> {
    this.#loader.cancelSecond();
    await this.#engine.call("closeSecond", undefined);
    if (this.#loaded) this.#loaded = { first: this.#loaded.first, second: undefined };
    this.#opener.show(this.#route.src, undefined);
    this.#changeSecond(undefined);
  }

  #changeSecond(text: string | undefined): void {
    this.#forgetOverview();
    this.#go({ ...this.#route, with: text, picture: undefined, colour: undefined }, true);
    this.#render(true);
  }

  #forgetOverview(): void {
    const { first, second } = this.#loaded ?? {};
    this.#networkBar.resize((first?.sizeBytes ?? 0) + (second?.sizeBytes ?? 0));
    this.#overview?.close();
    this.#overview = undefined;
  }

  /** Shows a tensor, or a place in it. With a second model, the place is shown in the first one alone. */
  #pick(tensor: TensorInfo, replace = false, place?: ViewState): void {
    const mode = this.#loaded?.second ? (place ? "alone" : this.#route.mode) : undefined;
    this.#go({ ...overviewOf(this.#route), ...place, tensor: tensor.name, mode }, replace);
    this.#render();
  }

  #leave(): void {
    this.#go(overviewOf(this.#route));
    this.#render();
  }

  #compare(mode: Mode, against: string | undefined): void {
    const own = against === this.#route.tensor ? undefined : against;
    // If a second model is open, the difference is the default mode, so the route has to name the single view. The view
    // of a tensor does not apply to its difference from another tensor, so it is reset.
    const view = mode === "difference" || this.#route.mode === "difference" || own !== this.#route.against ? NO_VIEW : {};
    this.#go({ ...this.#route, ...view, mode: mode === "alone" && !this.#loaded?.second ? undefined : mode, against: own }, true);
    this.#render();
  }

  #go(next: Route, replace = false, state: unknown = history.state): void {
    this.#route = linkFor(next, this.#hub);
    writeRoute(this.#route, replace, state);
  }

  /** Renders the view that the current route names. */
  #render(opened = false): void {
    const { tensor, view } = this.#route;
    const loaded = this.#loaded;
    if (view === "pack") showSection("pack", "Compress a model – zstn");
    else if (loaded) showSection("viewer", `${tensor || loaded.first.name} – zstn`);
    else showSection("welcome", "zstn: see inside a model without downloading it");
    this.#tensorView?.close();
    this.#tensorView = undefined;
    if (view === "pack") return this.#showPack();
    if (!loaded) return this.#showWelcome();
    const info = tensor === undefined ? undefined : loaded.first.tensors.find(tensor);
    showTab("model");
    this.#list?.show(this.#route, info);
    if (info) this.#showTensor(loaded, info);
    else this.#showOverview(loaded);
    if (!info && tensor !== undefined) this.#loader.say(new Error(`The model has no tensor named ${tensor}. Search the list for a part of its name.`));
    if (!opened) focusHeading();
  }

  #showTensor({ first, second }: Loaded, info: ListedTensor): void {
    this.#tensorView = new TensorView({
      engine: this.#engine,
      activities: this.#activities,
      first,
      second,
      info,
      mode: MODES.find(([mode]) => mode === this.#route.mode)?.[0] ?? (this.#route.against === undefined && hasLike(second, info) ? "difference" : "alone"),
      against: this.#route.against,
      state: this.#route,
      onState: (state) => this.#go({ ...this.#route, ...state }, true),
      onPick: (tensor) => this.#pick(tensor),
      copyLink: copyLinkButton("file" in first.source),
      onLeave: () => this.#leave(),
      onCompare: (mode, against) => this.#compare(mode, against),
    });
    getById("stage").replaceChildren(this.#tensorView.node);
    scrollTo({ top: 0 });
  }

  #showOverview({ first, second }: Loaded): void {
    this.#overview ??= new Overview({
      engine: this.#engine,
      activities: this.#activities,
      first,
      second,
      onPick: (tensor, place) => this.#pick(tensor, false, place),
      onCompare: () => this.#askSecond(),
      onForgetSecond: () => void this.#forgetSecond(),
      onRoute: (change) => {
        this.#go({ ...this.#route, ...change });
        this.#overview?.show(this.#route);
      },
      copyLink: () => copyLinkButton("file" in first.source),
    });
    this.#overview.show(this.#route);
    getById("stage").replaceChildren(this.#overview.node);
  }

  #showWelcome(): void {
    this.#demonstration ??= demonstrate(getById("demonstration"), SAMPLE, (tensor) => {
      this.openSample(false);
      this.#go({ ...this.#route, tensor }, true);
    });
  }

  #showPack(): void {
    this.#packPanel ??= new PackPanel(this.#activities, (file, base) => this.open({ files: [file] }, base && { files: [base] }));
    getById("pack").replaceChildren(this.#packPanel.node);
    focusHeading();
  }
}
