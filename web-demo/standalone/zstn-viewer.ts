/** The custom element `<zstn-viewer src="…">`, which shows a model in an iframe of the viewer (`docs/embedding.md`). */

import { NAMES } from "../src/page/route.js";

/** The attributes that become query parameters of the viewer. */
const PARAMETERS: readonly string[] = [...NAMES, "theme"];

/** The height until the viewer has reported its own, and the limits of a reported height, in CSS pixels. */
const FIRST_HEIGHT = 600;
const MIN_HEIGHT = 160;
const MAX_HEIGHT = 20_000;

/** The URL of this script. A module has no `currentScript`. */
const script = (document.currentScript ?? document.querySelector('script[src*="zstn-viewer.js"]')) as HTMLScriptElement | null;

/** The viewer's folder, if the element does not name another one. */
const folder = new URL(".", script?.src || document.baseURI).href;

class ZstnViewer extends HTMLElement {
  static readonly observedAttributes = [...PARAMETERS, "viewer", "title"];
  readonly #frame = document.createElement("iframe");
  readonly #style = new CSSStyleSheet();
  #listening = new AbortController();
  #isStale = false;
  #isLoaded = false;

  constructor() {
    super();
    // An author's styles for the element outrank these, so that a page can set another height.
    const shadow = this.attachShadow({ mode: "open" });
    shadow.adoptedStyleSheets = [this.#style];
    this.#resize(FIRST_HEIGHT);
    this.#frame.allow = "clipboard-write";
    this.#frame.loading = "lazy";
    // Until its script has run, the viewer has a header and the system's colour scheme.
    this.#frame.addEventListener("load", () => {
      this.#isLoaded = true;
      this.#frame.style.opacity = "1";
    });
    shadow.append(this.#frame);
  }

  connectedCallback(): void {
    this.#listening = new AbortController();
    addEventListener("message", (event) => this.#onMessage(event), { signal: this.#listening.signal });
    this.#frame.title = this.#title();
    this.#isLoaded = false;
    // Browsers load a frame again whenever it is inserted.
    this.#frame.src = this.#url();
  }

  disconnectedCallback(): void {
    this.#listening.abort();
  }

  attributeChangedCallback(): void {
    if (!this.isConnected || this.#isStale) return;
    // Attributes that a script sets together load the viewer once.
    this.#isStale = true;
    queueMicrotask(() => {
      this.#isStale = false;
      this.#frame.title = this.#title();
      // After the first load, setting `src` would add an entry to the history of the page.
      if (this.#isLoaded) this.#frame.contentWindow?.location.replace(this.#url());
      else this.#frame.src = this.#url();
    });
  }

  /** Returns the URL of the viewer with this element's attributes. Throws if `viewer` is no web address. */
  #url(): string {
    const url = new URL(this.getAttribute("viewer") ?? folder, document.baseURI);
    if (!/^https?:$/.test(url.protocol)) throw new TypeError("The attribute `viewer` has to be the web address of a viewer's folder.");
    url.searchParams.set("embed", "1");
    for (const name of PARAMETERS) {
      const value = this.getAttribute(name);
      // The path of a model belongs to this page, not to the viewer's site.
      const isPath = (name === "src" || name === "with") && /^\.{0,2}\//.test(value ?? "");
      if (value !== null) url.searchParams.set(name, isPath ? new URL(value, document.baseURI).href : value);
    }
    return url.href;
  }

  #title(): string {
    return this.getAttribute("title") ?? `Contents of the model ${this.getAttribute("src") ?? ""}`.trim();
  }

  #onMessage({ source, data }: MessageEvent): void {
    const height = Number((data as { zstnHeight?: unknown } | null)?.zstnHeight);
    if (source === this.#frame.contentWindow && height > 0) this.#resize(Math.min(Math.max(height, MIN_HEIGHT), MAX_HEIGHT));
  }

  #resize(height: number): void {
    this.#style.replaceSync(`:host{display:block;height:${height}px}:host([hidden]){display:none}iframe{display:block;width:100%;height:100%;border:0;opacity:0}`);
  }
}

if (!customElements.get("zstn-viewer")) customElements.define("zstn-viewer", ZstnViewer);
