/** The page: opens what it is given and keeps its parts in step. */

import { byId, element } from "./element.js";
import { acceptDrops } from "./drop.js";
import { openModel } from "./opened.js";
import type { Opened } from "./opened.js";
import { Panel } from "./panel.js";
import { sentenceOf } from "./sentence.js";
import { Summary } from "./summary.js";
import { TensorList } from "./tensor-list.js";
import type { TensorInfo } from "zstn";

const address = byId<HTMLInputElement>("address");
const notice = byId("notice");

/** What is on the page while a file is open. */
interface View {
  opened: Opened;
  list: TensorList;
  close: () => void;
  dismissPanel: () => void;
}

let opening = new AbortController();
let view: View | undefined;

async function show(input: string | File): Promise<void> {
  opening.abort();
  const attempt = new AbortController();
  opening = attempt;
  const name = typeof input === "string" ? input : input.name;
  say(`Opening ${name} …`);
  try {
    const opened = await openModel(input, attempt.signal, () => {});
    if (attempt.signal.aborted) return opened.model.close();
    view?.close();
    view = present(opened);
    notice.replaceChildren();
    document.title = `${opened.name} – zstn`;
    announce(`${opened.name} is open: ${opened.model.tensors.size} tensors.`);
  } catch (error) {
    if (attempt.signal.aborted) return;
    notice.replaceChildren(element("p", { class: "notice error", role: "alert" }, sentenceOf(error)));
  }
}

function present(opened: Opened): View {
  const { model } = opened;
  byId("welcome").hidden = true;
  byId("work").hidden = false;
  const pick = (tensor: TensorInfo) => {
    list.select(tensor);
    summary.map.select(tensor);
    document.body.classList.add("with-panel");
    void panel.show(tensor);
  };
  const dismissPanel = () => {
    panel.close();
    list.select(undefined);
    summary.map.select(undefined);
    document.body.classList.remove("with-panel");
  };
  const summary = new Summary(byId("summary"), opened, pick);
  const list = new TensorList(byId("list"), [...model.tensors.values()], pick);
  const panel = new Panel(byId("panel"), opened, { onTraffic: () => summary.update(), onClose: dismissPanel, announce });
  const close = () => {
    dismissPanel();
    list.close();
    model.close();
  };
  return { opened, list, close, dismissPanel };
}

function say(sentence: string): void {
  notice.replaceChildren(element("p", { class: "notice busy" }, sentence));
  announce(sentence);
}

function announce(sentence: string): void {
  byId("status").textContent = sentence;
}

/** The address bar follows, so that what is on the page can be sent to someone. */
function showAddress(src: string | undefined): void {
  const url = new URL(location.href);
  if (src === undefined) url.searchParams.delete("src");
  else url.searchParams.set("src", src);
  history.replaceState(null, "", url);
}

function openAddress(): void {
  const src = address.value.trim();
  if (src === "") return address.focus();
  showAddress(src);
  void show(src);
}

function openFile(file: File): void {
  address.value = "";
  showAddress(undefined);
  void show(file);
}

byId("opener").addEventListener("submit", (event) => {
  event.preventDefault();
  openAddress();
});
byId<HTMLInputElement>("file").addEventListener("change", ({ target }) => {
  const input = target as HTMLInputElement;
  const file = input.files?.[0];
  input.value = ""; // so that choosing the same file again counts
  if (file) openFile(file);
});
acceptDrops(byId("drop-veil"), openFile);
addEventListener("keydown", (event) => {
  if (event.key === "Escape") view?.dismissPanel();
  const typing = event.target instanceof HTMLInputElement;
  if (event.key === "/" && !typing && view) {
    event.preventDefault();
    view.list.focusFilter();
  }
});

const wanted = new URLSearchParams(location.search).get("src");
if (wanted) {
  address.value = wanted;
  openAddress();
}
