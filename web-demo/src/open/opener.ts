/** The form at the top: what to open, and what beside it. */

import { byId } from "../page/element.js";
import type { Given } from "./place.js";

export interface OpenerEvents {
  onOpen: (given: Given) => void;
  onSecond: (given: Given) => void;
}

export class Opener {
  readonly #address = byId<HTMLInputElement>("address");
  readonly #token = byId<HTMLInputElement>("token");
  readonly #second = byId<HTMLInputElement>("second");
  readonly #more = byId<HTMLDetailsElement>("more");
  #secondFiles: readonly File[] = [];

  constructor({ onOpen, onSecond }: OpenerEvents) {
    byId("opener").addEventListener("submit", (event) => {
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
      onSecond({ files });
    });
    byId("second-open").addEventListener("click", () => {
      const second = this.second;
      if (second) onSecond(second);
      else this.#second.focus();
    });
    this.#second.addEventListener("input", () => (this.#secondFiles = []));
    document.addEventListener("pointerdown", (event) => {
      if (this.#more.open && !this.#more.contains(event.target as Node)) this.#more.open = false;
    });
    this.#more.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      this.#more.open = false;
    });
  }

  /** Kept in memory alone. */
  get token(): string | undefined {
    return this.#token.value.trim() || undefined;
  }

  get second(): Given | undefined {
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
  }

  askSecond(): void {
    this.#more.open = true;
    this.#second.focus();
  }

  askToken(): void {
    this.#more.open = true;
    this.#token.focus();
  }

  close(): void {
    this.#more.open = false;
  }
}

const SECOND_PLACEHOLDER = "https://… or owner/name";

function chosenFiles(id: string, use: (files: File[]) => void): void {
  const input = byId<HTMLInputElement>(id);
  input.addEventListener("change", () => {
    const files = [...(input.files ?? [])];
    input.value = ""; // so that choosing the same file again counts
    if (files.length > 0) use(files);
  });
}
