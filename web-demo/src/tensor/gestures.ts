/** Pans and zooms a viewport with pointer, wheel, pinch and keys. */

import type { Viewport } from "./viewport.js";

/** The fraction of the view that an arrow key pans. */
const KEY_STEP = 0.2;
const KEY_ZOOM = 1.6;
/** The wheel distance that zooms by a factor of e, in CSS pixels. */
const WHEEL_PIXELS = 1200;
/** The longest pointer movement that still counts as a click, in CSS pixels. */
const CLICK_PIXELS = 4;

export interface GestureHandlers {
  /** Called with the position of the click as fractions of the width and the height of the view. */
  readonly onClick: (across: number, down: number) => void;
  /** Called when the wheel scrolls the page instead of zooming because the plot has no focus. */
  readonly onIgnoredWheel: () => void;
  /** Handles other keys. Returns whether the key was used. */
  readonly onKey: (event: KeyboardEvent) => boolean;
}

/** Attaches gestures to a focusable element. Until the element has the focus, the wheel and touches scroll the page. */
export function attachGestures(node: HTMLElement, viewport: Viewport, { onClick, onIgnoredWheel, onKey }: GestureHandlers): void {
  const pointers = new Map<number, { x: number; y: number; isIdle: boolean }>();
  let moved = 0;
  const size = () => ({ width: Math.max(1, node.clientWidth), height: Math.max(1, node.clientHeight) });
  const hasFocus = () => document.activeElement === node;

  node.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    node.setPointerCapture(event.pointerId);
    // Touches pan the plot only after it has been tapped.
    pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY, isIdle: event.pointerType === "touch" && !hasFocus() });
    moved = 0;
  });
  node.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const now = { x: event.offsetX, y: event.offsetY, isIdle: before.isIdle };
    moved += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
    pointers.set(event.pointerId, now);
    if (before.isIdle) return;
    const { width, height } = size();
    const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      const factor = Math.hypot(now.x - other.x, now.y - other.y) / Math.max(1, Math.hypot(before.x - other.x, before.y - other.y));
      viewport.zoom(factor, (now.x + other.x) / 2 / width, (now.y + other.y) / 2 / height);
    }
    const shares = other ? 2 : 1;
    viewport.pan((before.x - now.x) / width / shares, (before.y - now.y) / height / shares);
  });
  const lifted = (event: PointerEvent) => {
    if (!pointers.delete(event.pointerId) || event.type !== "pointerup" || moved >= CLICK_PIXELS) return;
    node.focus({ preventScroll: true });
    const { width, height } = size();
    onClick(event.offsetX / width, event.offsetY / height);
  };
  node.addEventListener("pointerup", lifted);
  node.addEventListener("pointercancel", lifted);
  node.addEventListener(
    "wheel",
    (event) => {
      if (!hasFocus() && !event.ctrlKey) return onIgnoredWheel();
      event.preventDefault();
      const { width, height } = size();
      const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 30 : 1;
      viewport.zoom(Math.exp((-event.deltaY * lines) / WHEEL_PIXELS), event.offsetX / width, event.offsetY / height);
    },
    { passive: false },
  );
  node.addEventListener("dblclick", (event) => viewport.zoom(2.5, event.offsetX / size().width, event.offsetY / size().height));
  node.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const actions: Record<string, () => void> = {
      ArrowLeft: () => viewport.pan(-KEY_STEP, 0),
      ArrowRight: () => viewport.pan(KEY_STEP, 0),
      ArrowUp: () => viewport.pan(0, -KEY_STEP),
      ArrowDown: () => viewport.pan(0, KEY_STEP),
      "+": () => viewport.zoom(KEY_ZOOM),
      "=": () => viewport.zoom(KEY_ZOOM),
      "-": () => viewport.zoom(1 / KEY_ZOOM),
      "0": () => viewport.fit(),
      f: () => viewport.fit(),
      F: () => viewport.fit(),
      Enter: () => onClick(0.5, 0.5),
    };
    if (!onKey(event)) {
      const action = actions[event.key];
      if (!action) return;
      action();
    }
    event.preventDefault();
    // The page's own shortcuts, such as Escape, must not run as well.
    event.stopPropagation();
  });
}
