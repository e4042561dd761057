/** The handle that changes the width of the tensor list. */

import { getById } from "./element.js";
import { readPreference, writePreference } from "./preference.js";

const MIN_PX = 240;
const MAX_PX = 760;
const STEP_PX = 24;

export function connectResizer(): void {
  const [handle, viewer, sidebar] = [getById("resizer"), getById("viewer"), getById("sidebar")];
  const set = (width: number): void => {
    const px = Math.round(Math.max(MIN_PX, Math.min(MAX_PX, width)));
    viewer.style.setProperty("--list-width", `${px}px`);
    handle.setAttribute("aria-valuenow", String(px));
    writePreference("list-width", String(px));
  };
  handle.setAttribute("aria-valuemin", String(MIN_PX));
  handle.setAttribute("aria-valuemax", String(MAX_PX));
  const kept = Number(readPreference("list-width"));
  if (kept >= MIN_PX) set(kept);
  else handle.setAttribute("aria-valuenow", "400");
  handle.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    handle.setPointerCapture(event.pointerId);
    const from = sidebar.clientWidth - event.clientX;
    const move = ({ clientX }: PointerEvent): void => set(from + clientX);
    handle.addEventListener("pointermove", move);
    handle.addEventListener("lostpointercapture", () => handle.removeEventListener("pointermove", move), { once: true });
  });
  handle.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -STEP_PX, ArrowRight: STEP_PX }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    set(sidebar.clientWidth + step);
  });
  // A double click restores the default width.
  handle.addEventListener("dblclick", () => {
    viewer.style.removeProperty("--list-width");
    writePreference("list-width", undefined);
  });
}
