/** Sentences at the top of the page. */

import { button, byId, element } from "./element.js";
import { sentenceOf, wasStopped, wayOut } from "./sentence.js";

export interface Action {
  label: string;
  act: () => void;
}

/** Tells people who listen rather than look. */
export function announce(sentence: string): void {
  byId("status").textContent = sentence;
}

export function clearNotice(): void {
  byId("notice").replaceChildren();
}

/** An error as a sentence with ways out. What the person stopped is not mentioned. `help` stands for the usual advice. */
export function showError(error: unknown, actions: readonly Action[] = [], help?: readonly Node[]): void {
  if (wasStopped(error)) return clearNotice();
  byId("notice").replaceChildren(errorBox(error, actions, clearNotice, help));
}

export function errorBox(error: unknown, actions: readonly Action[], dismiss?: () => void, help: readonly Node[] = usualHelp(error)): HTMLElement {
  const buttons = actions.map(({ label, act }) => button(label, act));
  if (dismiss) buttons.push(button("Dismiss", dismiss));
  return element(
    "div",
    { class: "notice error", role: "alert" },
    element("div", { class: "words" }, element("p", {}, sentenceOf(error)), ...help),
    buttons.length > 0 && element("div", { class: "buttons" }, ...buttons),
  );
}

function usualHelp(error: unknown): Node[] {
  const help = wayOut(error);
  return help === undefined ? [] : [element("p", { class: "help" }, help)];
}
