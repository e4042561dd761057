/** The entry script of the page. */

import { App } from "./app.js";
import { Engine } from "./engine/client.js";
import { Turns } from "./engine/turns.js";
import { acceptDrops } from "./open/drop.js";
import { applyAppearance, isEmbedded } from "./page/appearance.js";
import { handleKeys } from "./page/keys.js";
import { getById } from "./page/element.js";
import { connectResizer } from "./page/resizer.js";
import { forgetPendingRoute } from "./page/route.js";
import { connectTabs } from "./page/tabs.js";

applyAppearance();
const engine = new Engine();
// A browser starts a worker only after the current task, so the page is set up in the next one.
await new Turns().next();
const app = new App(engine);

acceptDrops(getById("drop-veil"), (files) => app.drop(files));
connectResizer();
connectTabs();
addEventListener("popstate", () => {
  forgetPendingRoute();
  void app.follow();
});
handleKeys([
  { key: "/", does: "search tensors", act: () => app.search() },
  { key: "n", does: "next tensor of the list", act: () => app.step(1) },
  { key: "p", does: "previous tensor of the list", act: () => app.step(-1) },
  { key: "Escape", does: "back to the overview", act: () => app.leaveTensor() },
]);

const LINKS: Readonly<Record<string, () => void>> = {
  pack: () => app.showPacking(),
  model: () => app.showModel(),
  sample: () => app.openSample(false),
  comparison: () => app.openSample(true),
  about: () => getById<HTMLDialogElement>("about").showModal(),
};
for (const link of document.querySelectorAll<HTMLElement>("[data-go], [data-open]")) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    const { go, open } = link.dataset;
    if (open !== undefined) app.open({ text: open });
    else LINKS[go ?? ""]?.();
  });
}

await app.follow();
// The service worker comes last, so that its downloads do not delay the model.
if ("offline" in document.documentElement.dataset && !isEmbedded) await navigator.serviceWorker?.register("./offline-worker.js").catch(() => undefined);
