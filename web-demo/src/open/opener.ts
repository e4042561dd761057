/** The form at the top of the page: the model to open, and the second one. */

import { getById } from "../page/element.js";
import { originOf } from "./origins.js";
import type { Origins } from "./origins.js";
import type { UserInput } from "./resolve-input.js";
import { HUGGING_FACE } from "./parse-input.js";
import { TokenFields } from "./token-fields.js";
import type { Tokens } from "./tokens.js";

export interface OpenerHost {
  readonly tokens: Tokens;
  readonly origins: Origins;
  onOpen: (input: UserInput) => void;
  onSecond: (input: UserInput) => void;
}

export class Opener {
  readonly #address = getById<HTMLInputElement>("address");
  readonly #second = getById<HTMLInputElement>("second");
  readonly #more = getById<HTMLDetailsElement>("more");
  readonly #tokenFields: TokenFields;
  #secondFiles: readonly File[] = [];

  constructor({ tokens, origins, onOpen, onSecond }: OpenerHost) {
    this.#tokenFields = new TokenFields(getById("tokens"), tokens, origins);
    this.#showTokens();
    getById("opener").addEventListener("submit", (event) => {
      event.preventDefault();
      const text = this.#address.value.trim();
      if (text === "") return this.#address.focus();
      this.#more.open = false;
      onOpen({ text });
    });
    chosenFiles("files", (files) => onOpen({ files }));
    chosenFiles("second-files", (files) => {
      this.#secondFiles = files;
      this.#second.value = "";
      this.#second.placeholder = files[0]!.name;
      this.#more.open = false;
      onSecond({ files });
    });
    getById("second-open").addEventListener("click", () => {
      const second = this.second;
      if (!second) return this.#second.focus();
      this.#more.open = false;
      onSecond(second);
    });
    this.#address.addEventListener("input", () => this.#showTokens());
    this.#second.addEventListener("input", () => (this.#secondFiles = []));
    // Not while typing: fields would appear and disappear with every letter of a host.
    this.#second.addEventListener("change", () => this.#showTokens());
    document.addEventListener("pointerdown", (event) => {
      if (this.#more.open && !this.#more.contains(event.target as Node)) this.#more.open = false;
    });
    this.#more.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      this.#more.open = false;
    });
  }

  get second(): UserInput | undefined {
    if (this.#secondFiles.length > 0) return { files: this.#secondFiles };
    const text = this.#second.value.trim();
    return text === "" ? undefined : { text };
  }

  show(src: string | undefined, second: string | undefined): void {
    this.#address.value = src ?? "";
    this.#second.value = second ?? "";
    if (second === undefined) {
      this.#secondFiles = [];
      this.#second.placeholder = SECOND_PLACEHOLDER;
    }
    this.#showTokens();
  }

  askSecond(): void {
    this.#more.open = true;
    this.#second.focus();
  }

  /** Focuses the token field of that server. */
  askToken(origin: string): void {
    this.#showTokens(origin);
    this.#more.open = true;
    this.#tokenFields.focus(origin);
  }

  close(): void {
    this.#more.open = false;
  }

  /** Shows the token fields of the servers in the address fields, and of `asking`. */
  #showTokens(asking?: string): void {
    const [first, second] = [this.#address, this.#second].map(({ value }) => (value.trim() === "" ? undefined : originOf(value)));
    const all = new Set([first ?? HUGGING_FACE, second, asking]);
    this.#tokenFields.show([...all].filter((origin) => origin !== undefined));
  }
}

const SECOND_PLACEHOLDER = "https://… or owner/name";

function chosenFiles(id: string, use: (files: File[]) => void): void {
  const input = getById<HTMLInputElement>(id);
  input.addEventListener("change", () => {
    const files = [...(input.files ?? [])];
    input.value = ""; // so that choosing the same file again is a change
    if (files.length > 0) use(files);
  });
}
