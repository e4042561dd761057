/** Notices at the top of the page. */

import { button, getById, element } from "./element.js";
import { errorDetails, errorText, isAbort, suggestedAction } from "./error-text.js";

export interface Action {
  label: string;
  act: () => void;
}

/** Announces a sentence to screen readers. */
export function announce(sentence: string): void {
  getById("status").textContent = sentence;
}

export function clearNotice(): void {
  getById("notice").replaceChildren();
}

/** Shows an error with actions; if the user cancelled, only clears the notice. `help` replaces the usual advice. */
export function showError(error: unknown, actions: readonly Action[] = [], help?: readonly Node[]): void {
  if (isAbort(error)) return clearNotice();
  getById("notice").replaceChildren(errorBox(error, actions, clearNotice, help));
}

export function errorBox(error: unknown, actions: readonly Action[], dismiss?: () => void, help: readonly Node[] = usualHelp(error)): HTMLElement {
  const buttons = actions.map(({ label, act }) => button(label, act));
  const details = errorDetails(error);
  if (dismiss) buttons.push(button("Dismiss", dismiss));
  return element(
    "div",
    { class: "notice error", role: "alert" },
    element("div", { class: "words" }, element("p", {}, errorText(error)), ...help, details !== undefined && element("details", { class: "help" }, element("summary", {}, "Details"), element("p", {}, details))),
    buttons.length > 0 && element("div", { class: "buttons" }, ...buttons),
  );
}

function usualHelp(error: unknown): Node[] {
  const help = suggestedAction(error);
  return help === undefined ? [] : [element("p", { class: "help" }, help)];
}
