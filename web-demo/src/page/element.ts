/** Creates page elements. Text is always inserted as text, never as markup. */

type Child = Node | string | number | undefined | false;

/** Properties by their DOM names. `class`, `aria-…`, `data-…` and `role` are attributes, and `on…` are listeners. */
export type Properties = Record<string, unknown>;

/** Creates an element with properties and children. */
export function element<K extends keyof HTMLElementTagNameMap>(tag: K, properties: Properties = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined) continue;
    if (name === "class") node.className = String(value);
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value as EventListener);
    else if (name.includes("-") || name === "role") node.setAttribute(name, String(value));
    else Object.assign(node, { [name]: value });
  }
  for (const child of children) {
    if (child !== undefined && child !== false) node.append(typeof child === "number" ? String(child) : child);
  }
  return node;
}

/** Creates a button with a label. */
export function button(label: string, onclick: (event: MouseEvent) => void, properties: Properties = {}): HTMLButtonElement {
  return element("button", { type: "button", class: "button", onclick, ...properties }, label);
}

/** Creates a drop-down list with a label. `onChange` is called with the value that the user chooses. */
export function select(label: string, options: readonly (readonly [value: string, text: string])[], chosen: string, onChange: (value: string) => void): HTMLLabelElement {
  const list = element("select", { "aria-label": label }, ...options.map(([value, text]) => element("option", { value, selected: value === chosen }, text)));
  list.addEventListener("change", () => onChange(list.value));
  return element("label", { class: "choice" }, element("span", {}, label), list);
}

/** Creates a data element: formatted text, with the exact value as an attribute. */
export function dataValue(value: number, text: string, properties: Properties = {}): HTMLDataElement {
  return element("data", { value: String(value), ...properties }, text);
}

/** Returns the element with this id. Throws if there is none. */
export function getById<T extends HTMLElement = HTMLElement>(id: string): T {
  const node = document.getElementById(id);
  if (!node) throw new Error(`The page has no element #${id}.`);
  return node as T;
}

/** Returns a colour of the current palette. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/**
 * Resizes a canvas to the device pixels of its box. The returned context draws in CSS pixels; `undefined` if the box is
 * empty.
 */
export function fitCanvas(canvas: HTMLCanvasElement): { ctx: CanvasRenderingContext2D; width: number; height: number } | undefined {
  const { clientWidth: width, clientHeight: height } = canvas;
  const ctx = canvas.getContext("2d");
  if (!ctx || width === 0 || height === 0) return undefined;
  const density = Math.min(devicePixelRatio, 2);
  const [across, down] = [Math.round(width * density), Math.round(height * density)];
  if (canvas.width !== across || canvas.height !== down) {
    canvas.width = across;
    canvas.height = down;
  }
  ctx.setTransform(density, 0, 0, density, 0, 0);
  return { ctx, width, height };
}
