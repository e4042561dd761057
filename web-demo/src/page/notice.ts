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

/** An error as a sentence with ways out. What the person stopped is not mentioned. */
export function showError(error: unknown, actions: readonly Action[] = []): void {
  if (wasStopped(error)) return clearNotice();
  byId("notice").replaceChildren(errorBox(error, actions, clearNotice));
}

export function errorBox(error: unknown, actions: readonly Action[], dismiss?: () => void): HTMLElement {
  const help = wayOut(error);
  const buttons = actions.map(({ label, act }) => button(label, act));
  if (dismiss) buttons.push(button("Dismiss", dismiss));
  return element(
    "div",
    { class: "notice error", role: "alert" },
    element("p", {}, sentenceOf(error), help !== undefined && element("span", { class: "help" }, ` ${help}`)),
    buttons.length > 0 && element("div", { class: "buttons" }, ...buttons),
  );
}
