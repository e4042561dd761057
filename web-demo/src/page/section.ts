/** The sections of the page, of which one is shown. */

import { getById } from "./element.js";

const SECTIONS = ["welcome", "viewer", "pack"] as const;

export type Section = (typeof SECTIONS)[number];

/** Shows one section, under a title. */
export function showSection(section: Section, title: string): void {
  for (const id of SECTIONS) getById(id).hidden = id !== section;
  document.title = title;
}

/** Moves the focus to the heading, so that readers of the screen begin there. */
export function focusHeading(): void {
  document.querySelector<HTMLElement>("main h1[tabindex]:not([hidden] *)")?.focus({ preventScroll: true });
}
