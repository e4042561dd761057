/** Panning and zooming a viewport with pointer, wheel, pinch and keys. */

import type { Viewport } from "./viewport.js";

/** The fraction of the view that an arrow key pans. */
const KEY_STEP = 0.2;
const KEY_ZOOM = 1.6;
/** The longest movement of a click, in CSS pixels. */
const CLICK_PIXELS = 4;

export function attachGestures(canvas: HTMLCanvasElement, viewport: Viewport, onClick: (across: number, down: number) => void): void {
  const pointers = new Map<number, { x: number; y: number }>();
  let moved = 0;
  const size = () => ({ width: Math.max(1, canvas.clientWidth), height: Math.max(1, canvas.clientHeight) });

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    moved = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const now = { x: event.offsetX, y: event.offsetY };
    const { width, height } = size();
    const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      const factor = Math.hypot(now.x - other.x, now.y - other.y) / Math.max(1, Math.hypot(before.x - other.x, before.y - other.y));
      viewport.zoom(factor, (now.x + other.x) / 2 / width, (now.y + other.y) / 2 / height);
    }
    const shares = other ? 2 : 1;
    viewport.pan((before.x - now.x) / width / shares, (before.y - now.y) / height / shares);
    moved += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
    pointers.set(event.pointerId, now);
  });
  const lifted = (event: PointerEvent) => {
    if (!pointers.delete(event.pointerId) || event.type !== "pointerup" || moved >= CLICK_PIXELS) return;
    const { width, height } = size();
    onClick(event.offsetX / width, event.offsetY / height);
  };
  canvas.addEventListener("pointerup", lifted);
  canvas.addEventListener("pointercancel", lifted);
  canvas.addEventListener(
    "wheel",
    (event) => {
      // The page scrolls, unless the heatmap has focus.
      if (document.activeElement !== canvas && !event.ctrlKey) return;
      event.preventDefault();
      const { width, height } = size();
      const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 30 : 1;
      viewport.zoom(Math.exp((-event.deltaY * lines) / 400), event.offsetX / width, event.offsetY / height);
    },
    { passive: false },
  );
  canvas.addEventListener("dblclick", (event) => viewport.zoom(2.5, event.offsetX / size().width, event.offsetY / size().height));
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const actions: Record<string, () => void> = {
      ArrowLeft: () => viewport.pan(-KEY_STEP, 0),
      ArrowRight: () => viewport.pan(KEY_STEP, 0),
      ArrowUp: () => viewport.pan(0, -KEY_STEP),
      ArrowDown: () => viewport.pan(0, KEY_STEP),
      "+": () => viewport.zoom(KEY_ZOOM),
      "=": () => viewport.zoom(KEY_ZOOM),
      "-": () => viewport.zoom(1 / KEY_ZOOM),
      "0": () => viewport.reset(),
      Enter: () => onClick(0.5, 0.5),
    };
    const action = actions[event.key];
    if (!action) return;
    action();
    event.preventDefault();
  });
}
