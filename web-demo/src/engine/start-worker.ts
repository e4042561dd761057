/**
 * The script of the page's worker, which loads everything else. WebKit runs the script of a module worker once more when
 * a script that is loaded later imports it, and the worker would then have two of every variable: so nothing is in here
 * that others import.
 */

const early: MessageEvent[] = [];
const keep = (event: MessageEvent) => void early.push(event);

addEventListener("message", keep);
void import("./worker.js").then(() => {
  removeEventListener("message", keep);
  for (const { data, ports } of early) dispatchEvent(new MessageEvent("message", { data, ports: [...ports] }));
});
