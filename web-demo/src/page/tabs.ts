/** The tabs of narrow screens, where the model and the list of tensors have the screen in turn. */

import { getById } from "./element.js";

export type Tab = "model" | "list";

/** Shows one of both. On wide screens both are shown anyway. */
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
