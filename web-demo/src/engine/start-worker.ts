/**
 * The script of the page's worker, which only loads the rest. WebKit runs the script of a module worker again when a
 * script that is loaded later imports it, and the worker would then have two copies of every variable. So this file
 * exports nothing that other modules import.
 */

const early: MessageEvent[] = [];
const keep = (event: MessageEvent) => void early.push(event);

addEventListener("message", keep);
void import("./worker.js").then(() => {
  removeEventListener("message", keep);
  for (const { data, ports } of early) dispatchEvent(new MessageEvent("message", { data, ports: [...ports] }));
});
