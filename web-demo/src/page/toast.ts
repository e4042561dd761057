/** Short messages that disappear by themselves. */

import { element, getById } from "./element.js";

/** The time that a message is shown, in milliseconds. */
const SHOWN_MS = 2600;

/** Shows a short message at the bottom of the page. Screen readers announce it. */
export function toast(sentence: string): void {
  const node = element("p", { class: "toast" }, sentence);
  getById("toasts").replaceChildren(node);
  setTimeout(() => node.remove(), SHOWN_MS);
}
