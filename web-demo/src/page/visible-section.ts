/** The sections of the page. Only one of them is visible. */

import { getById } from "./element.js";

const SECTIONS = ["welcome", "viewer", "pack"] as const;

export type Section = (typeof SECTIONS)[number];

/** Shows one section and sets the title of the page. */
export function showSection(section: Section, title: string): void {
  for (const id of SECTIONS) getById(id).hidden = id !== section;
  document.title = title;
}

/** Moves the focus to the heading, so that screen readers begin there. */
export function focusHeading(): void {
  document.querySelector<HTMLElement>("main h1[tabindex]:not([hidden] *)")?.focus({ preventScroll: true });
}
