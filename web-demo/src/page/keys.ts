/** Handles the keyboard shortcuts of the page, and the sheet that lists them. */

import { button, element } from "./element.js";

export interface Key {
  readonly key: string;
  readonly does: string;
  /** Runs the action. Returns `false` if there is nothing to do, so that the browser can handle the key. */
  readonly act: () => boolean | void;
}

/** Shortcuts that single elements handle while they have the focus. */
const ELSEWHERE: readonly (readonly [keys: string, does: string])[] = [
  ["Enter", "in the search: open the first match"],
  ["↑ ↓", "in the search and the list: move"],
  ["← →", "in the list: close and open a module"],
  ["arrows", "in the layer matrix and the heatmap: move"],
  ["+ − 0", "in the heatmap: zoom in, zoom out, show all"],
];

/** Handles keys that are pressed outside of input fields, and shows all shortcuts on "?". */
export function handleKeys(keys: readonly Key[]): void {
  const sheet = keySheet(keys);
  document.body.append(sheet);
  addEventListener("keydown", (event) => {
    const { target } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || sheet.open) return;
    if (target instanceof HTMLElement && (/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName) || target.closest("dialog"))) return;
    if (event.key === "?") return sheet.showModal();
    const known = keys.find(({ key }) => key === event.key);
    if (known && known.act() !== false) event.preventDefault();
  });
}

function keySheet(keys: readonly Key[]): HTMLDialogElement {
  const row = (key: string, does: string): HTMLElement => element("div", {}, element("dt", {}, ...key.split(" ").map((part) => element("kbd", {}, part))), element("dd", {}, does));
  const rows = [...keys.map(({ key, does }) => row(key === "Escape" ? "Esc" : key, does)), row("?", "show these keys"), ...ELSEWHERE.map(([key, does]) => row(key, does))];
  const dialog: HTMLDialogElement = element("dialog", { class: "sheet-dialog", "aria-label": "Keys" }, element("h2", {}, "Keys"), element("dl", { class: "keys" }, ...rows), button("Close", () => dialog.close()));
  return dialog;
}
