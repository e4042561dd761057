/** The appearance that the URL names: `?theme=light` or `dark` instead of the system's, and `?embed` for an iframe. */

import { getById } from "./element.js";
import { pageParameter } from "./route.js";

/** Whether the page is part of another one. It then has no header and no footer. */
export const isEmbedded = pageParameter("embed") !== null;

const MEDIA: Readonly<Record<string, string>> = { dark: "all", light: "not all" };

/** Matches if the page is dark. */
export const darkScheme = matchMedia(MEDIA[pageParameter("theme") ?? ""] ?? "(prefers-color-scheme: dark)");

/** Whether the main pointer is a finger, and the word for using it. */
export const isTouch = matchMedia("(pointer: coarse)").matches;
export const press = isTouch ? "Tap" : "Click";

/** Applies the appearance. An embedded page reports its height to the page around it, which `<zstn-viewer>` follows. */
export function applyAppearance(): void {
  getById<HTMLLinkElement>("dark").media = darkScheme.media;
  if (!isEmbedded) return;
  const { body, documentElement } = document;
  documentElement.classList.add("embedded");
  new ResizeObserver(() => parent.postMessage({ zstnHeight: Math.ceil(body.getBoundingClientRect().height) }, "*")).observe(body);
}
