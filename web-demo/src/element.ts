/** Building page elements. Text always goes in as text, never as markup. */

type Child = Node | string | number | undefined | false;

/** Properties by their DOM names; `class`, `aria-…`, `data-…` and `role` as attributes. */
export type Properties = Record<string, unknown>;

/** An element with properties and children. */
export function element<K extends keyof HTMLElementTagNameMap>(tag: K, properties: Properties = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined) continue;
    if (name === "class") node.className = String(value);
    else if (name.includes("-") || name === "role") node.setAttribute(name, String(value));
    else Object.assign(node, { [name]: value });
  }
  for (const child of children) {
    if (child !== undefined && child !== false) node.append(typeof child === "number" ? String(child) : child);
  }
  return node;
}

/** The element of the page with that id. */
export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const node = document.getElementById(id);
  if (!node) throw new Error(`The page has no element #${id}.`);
  return node as T;
}
