/** The tabs of narrow screens, which show either the model or the tensor list. */

import { getById } from "./element.js";

export type Tab = "model" | "list";

/** Selects a tab. Wide screens show both the model and the list. */
export function showTab(tab: Tab): void {
  document.body.classList.toggle("show-list", tab === "list");
  for (const button of getById("tabs").querySelectorAll<HTMLElement>("[data-tab]")) button.setAttribute("aria-pressed", String(button.dataset["tab"] === tab));
}

export function connectTabs(): void {
  for (const button of getById("tabs").querySelectorAll<HTMLElement>("[data-tab]")) {
    button.addEventListener("click", () => {
      showTab(button.dataset["tab"] as Tab);
      scrollTo({ top: 0 });
    });
  }
}
