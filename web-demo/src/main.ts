/** The page: opens models and keeps its parts in sync with the URL. */

import type { TensorInfo } from "zstn";
import { Engine } from "./engine/client.js";
import type { ByteBreakdown } from "./engine/protocol.js";
import { acceptDrops } from "./open/drop.js";
import { linkFor, readLink } from "./open/link.js";
import { Loader } from "./open/loader.js";
import type { Loaded } from "./open/loader.js";
import { Opener } from "./open/opener.js";
import { Origins, originOf } from "./open/origins.js";
import type { UserInput } from "./open/resolve-input.js";
import { Tokens } from "./open/tokens.js";
import { overview } from "./overview/overview.js";
import { PackPanel } from "./pack/panel.js";
import { getById } from "./page/element.js";
import { announce, clearNotice } from "./page/notice.js";
import { writeRoute } from "./page/route.js";
import type { Route } from "./page/route.js";
import { TensorView } from "./tensor/view.js";
import type { Mode } from "./tensor/view.js";
import { TensorList } from "./tree/list.js";
import { Activities } from "./network/activity.js";
import { NetworkBar } from "./network/network-bar.js";

const engine = new Engine();
const activities = new Activities();
const networkBar = new NetworkBar(getById("wire"), activities);
engine.onNetworkStats = (stats) => networkBar.onUpdate(stats);

let route: Route = {};
/** The hub that a link named. URLs below it are repositories. */
let hub: string | undefined;
let loaded: Loaded | undefined;
/** The route that `loaded` was opened with. */
let shownRoute: Route = {};
let attempts = 0;
let list: TensorList | undefined;
let tensorView: TensorView | undefined;
let overviewNode: HTMLElement | undefined;
let packPanel: PackPanel | undefined;

const tokens = new Tokens();
const origins = new Origins();

const loader = new Loader(engine, activities, {
  tokens,
  origins,
  hub: () => hub,
  askToken: (origin) => opener.askToken(origin),
  askSecond: () => opener.askSecond(),
  open: (input) => openInput(input),
  openSecond: (input) => void openSecond(input),
  useSample: () => openInput({ text: SAMPLE }),
});

const opener = new Opener({
  tokens,
  origins,
  onOpen: (input) => openInput(input),
  onSecond: (input) => void openSecond(input),
});

const SAMPLE = "sample.zstn";
const TUNED_SAMPLE = "sample-tuned.zstn";

/** Opens another model at the user's request, with its base if that is known. */
function openInput(input: UserInput, base?: UserInput): void {
  const src = "text" in input ? input.text : undefined;
  // The second model of the previous one is not kept.
  const second = base ?? (loaded?.second ? undefined : opener.second);
  const secondText = second && "text" in second ? second.text : undefined;
  if (!second || secondText !== undefined) opener.show(src, secondText);
  for (const text of [src, secondText]) if (text !== undefined) origins.named(originOf(text), "person");
  go({ src, with: secondText });
  void open(input, second);
}

async function open(input: UserInput, second: UserInput | undefined): Promise<void> {
  const mine = ++attempts;
  const opened = await loader.open(input, second);
  if (mine !== attempts) return;
  if (!opened) {
    // The previous model stays open, and the URL shows it.
    if (loaded) go(shownRoute, true);
    return;
  }
  loaded = opened;
  shownRoute = { ...route, view: undefined };
  networkBar.begin(opened.first.sizeBytes);
  list = new TensorList(opened.first.tensors, pick);
  getById("sidebar").replaceChildren(list.node);
  announce(`${opened.first.name} is open: ${opened.first.tensors.length} tensors.`);
  overviewNode = undefined;
  // The user may have navigated meanwhile.
  render(true);
}

async function openSecond(input: UserInput): Promise<void> {
  if (!loaded) return openFirstAsked();
  if ("text" in input) origins.named(originOf(input.text), "person");
  const second = await loader.openSecond(input);
  if (!second || !loaded) return;
  loaded = { ...loaded, second };
  opener.close();
  overviewNode = undefined;
  go({ ...route, with: "text" in input ? input.text : undefined }, true);
  render(true);
}

function openFirstAsked(): void {
  getById("address").focus();
}

async function forgetSecond(): Promise<void> {
  await engine.call("closeSecond", undefined);
  if (loaded) loaded = { first: loaded.first, second: undefined };
  overviewNode = undefined;
  opener.show(route.src, undefined);
  go({ ...route, with: undefined }, true);
  render(true);
}

function pick(tensor: TensorInfo): void {
  go({ src: route.src, with: route.with, tensor: tensor.name, mode: loaded?.second ? route.mode : undefined });
  render();
}

function leaveTensor(): void {
  go({ ...route, tensor: undefined, mode: undefined, against: undefined });
  render();
}

function compare(mode: Mode, against: string | undefined): void {
  const own = against === route.tensor ? undefined : against;
  go({ ...route, mode: mode === "alone" ? undefined : mode, against: own }, true);
  render();
}

function go(next: Route, replace = false): void {
  route = linkFor(next, hub);
  writeRoute(route, replace);
}

/** Renders the route. */
function render(opened = false): void {
  const packing = route.view === "pack";
  const viewing = !packing && loaded !== undefined;
  getById("pack").hidden = !packing;
  getById("viewer").hidden = !viewing;
  getById("welcome").hidden = packing || viewing;
  document.title = packing ? "Pack a file – zstn" : loaded ? `${route.tensor ?? loaded.first.name} – zstn` : "zstn: look inside a model";
  tensorView?.close();
  tensorView = undefined;
  if (packing) return showPack();
  if (!loaded || !viewing) return;
  const info = route.tensor === undefined ? undefined : loaded.first.byName.get(route.tensor);
  document.body.classList.toggle("with-tensor", info !== undefined);
  list?.select(info);
  if (info) showTensor(info);
  else showOverview();
  if (!info && route.tensor !== undefined) loader.say(new Error(`The model has no tensor named ${route.tensor}. Search the list for a part of its name.`));
  if (!opened) focusHead();
}

function showTensor(info: TensorInfo): void {
  const { first, second } = loaded!;
  const mode = route.mode === "side" || route.mode === "difference" ? route.mode : "alone";
  tensorView = new TensorView({ engine, activities, first, second, info, mode, against: route.against, onLeave: leaveTensor, onCompare: compare });
  getById("stage").replaceChildren(tensorView.node);
  scrollTo({ top: 0 });
}

function showOverview(): void {
  const { first, second } = loaded!;
  overviewNode ??= overview(first, second, { onPick: pick, onCompare: () => opener.askSecond(), onForgetSecond: () => void forgetSecond(), breakdown });
  getById("stage").replaceChildren(overviewNode);
}

function breakdown(): Promise<ByteBreakdown> {
  return activities.run("Block tables", (options) => engine.call("breakdown", { slot: "first" }, options));
}

function showPack(): void {
  packPanel ??= new PackPanel(activities, (file, base) => openInput({ files: [file] }, base && { files: [base] }));
  getById("pack").replaceChildren(packPanel.node);
  focusHead();
}

function focusHead(): void {
  document.querySelector<HTMLElement>("main h1[tabindex]:not([hidden] *)")?.focus({ preventScroll: true });
}

/** Follows the URL, on load and on navigation. */
async function follow(): Promise<void> {
  const before = route;
  try {
    route = readLink();
  } catch (error) {
    return loader.say(error);
  }
  hub = route.hub ?? hub;
  for (const text of [route.src, route.with, route.hub]) if (text !== undefined) origins.named(originOf(text), "link");
  opener.show(route.src, route.with);
  const same = loaded !== undefined && before.src === route.src && before.with === route.with;
  if (same || route.view === "pack" || route.src === undefined) {
    if (route.src === undefined && route.view === undefined && before.src !== undefined) loaded = undefined;
    return render();
  }
  await open({ text: route.src }, route.with === undefined ? undefined : { text: route.with });
}

function dropped(files: File[]): void {
  const packable = files.length === 1 && /\.safetensors$/i.test(files[0]!.name);
  if (route.view === "pack" && packable && packPanel) return void packPanel.pack(files[0]!);
  openInput({ files });
}

acceptDrops(getById("drop-veil"), dropped);
addEventListener("popstate", () => void follow());
addEventListener("keydown", (event) => {
  const typing = event.target instanceof HTMLElement && /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === "Escape" && !typing && tensorView) leaveTensor();
  if (event.key === "/" && !typing && list && loaded && route.view === undefined) {
    event.preventDefault();
    list.focusFilter();
  }
});
for (const link of document.querySelectorAll<HTMLElement>("[data-go]")) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    clearNotice();
    const to = link.dataset["go"];
    if (to === "pack") go({ ...route, view: "pack" });
    if (to === "model") go({ ...route, view: undefined, ...(loaded && { tensor: undefined, mode: undefined, against: undefined }) });
    if (to === "sample") return openSample(undefined);
    if (to === "comparison") return openSample(TUNED_SAMPLE);
    render();
  });
}

function openSample(tuned: string | undefined): void {
  loaded = undefined;
  opener.show(SAMPLE, tuned);
  openInput({ text: SAMPLE });
}

void follow();
