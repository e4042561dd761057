/** The form at the top of the page, for the first and the second model. */

import { getById } from "../page/element.js";
import { originOf } from "./origins.js";
import type { Origins } from "./origins.js";
import type { UserInput } from "./resolve-input.js";
import { HUGGING_FACE } from "./parse-input.js";
import { TokenFields } from "./token-fields.js";
import type { Tokens } from "./tokens.js";
import { keepHandle } from "./local-files.js";

export interface OpenerHost {
  readonly tokens: Tokens;
  readonly origins: Origins;
  onOpen: (input: UserInput) => void;
  onSecond: (input: UserInput) => void;
}

export class Opener {
  readonly #address = getById<HTMLInputElement>("address");
  readonly #second = getById<HTMLInputElement>("second");
  readonly #compareMenu = getById<HTMLDetailsElement>("compare-menu");
  readonly #tokenMenu = getById<HTMLDetailsElement>("token-menu");
  readonly #tokenFields: TokenFields;
  #secondFiles: readonly File[] = [];

  constructor({ tokens, origins, onOpen, onSecond }: OpenerHost) {
    this.#tokenFields = new TokenFields(getById("tokens"), tokens, origins);
    this.#showTokens();
    getById("opener").addEventListener("submit", (event) => {
      event.preventDefault();
      const text = this.#address.value.trim();
      if (text === "") return this.#address.focus();
      this.close();
      onOpen({ text });
    });
    chosenFiles("files", (files) => onOpen({ files }));
    chosenFiles("second-files", (files) => {
      this.#secondFiles = files;
      this.#second.value = "";
      this.#second.placeholder = files[0]!.name;
      this.close();
      onSecond({ files });
    });
    getById("second-open").addEventListener("click", () => {
      const second = this.second;
      if (!second) return this.#second.focus();
      this.close();
      onSecond(second);
    });
    this.#address.addEventListener("input", () => this.#showTokens());
    this.#second.addEventListener("input", () => (this.#secondFiles = []));
    // The fields are not updated while typing, since they would appear and disappear with every letter of a host.
    this.#second.addEventListener("change", () => this.#showTokens());
    for (const menu of [this.#compareMenu, this.#tokenMenu]) closeAsMenu(menu);
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
    this.#compareMenu.open = true;
    this.#second.focus();
  }

  /** Opens the token menu and focuses the field for the given server. */
  askToken(origin: string): void {
    this.#showTokens(origin);
    this.close();
    this.#tokenMenu.open = true;
    this.#tokenFields.focus(origin);
  }

  close(): void {
    this.#compareMenu.open = false;
    this.#tokenMenu.open = false;
  }

  /** Shows the token fields for the servers in the address fields, and for the server with the origin `asking`. */
  #showTokens(asking?: string): void {
    const [first, second] = [this.#address, this.#second].map(({ value }) => (value.trim() === "" ? undefined : originOf(value)));
    const all = new Set([first ?? HUGGING_FACE, second, asking]);
    this.#tokenFields.show([...all].filter((origin) => origin !== undefined));
  }
}

const SECOND_PLACEHOLDER = "https://… or owner/name";

/** Closes an open menu when the user presses outside of it, or Escape. */
function closeAsMenu(menu: HTMLDetailsElement): void {
  document.addEventListener("pointerdown", (event) => {
    if (menu.open && !menu.contains(event.target as Node)) menu.open = false;
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    event.stopPropagation();
    menu.open = false;
    menu.querySelector("summary")!.focus();
  });
}

type FilePicker = (options: { multiple: boolean }) => Promise<FileSystemFileHandle[]>;

/**
 * Calls `use` with the files that the user chooses. If the browser provides file handles, they are stored, so that the
 * files can be reopened after a reload.
 */
function chosenFiles(id: string, use: (files: File[]) => void): void {
  const input = getById<HTMLInputElement>(id);
  input.addEventListener("change", () => {
    const files = [...(input.files ?? [])];
    input.value = ""; // otherwise choosing the same file again would cause no event
    if (files.length > 0) use(files);
  });
  const pick = (window as { showOpenFilePicker?: FilePicker }).showOpenFilePicker;
  if (!pick) return;
  for (const label of document.querySelectorAll(`label[for="${id}"]`)) {
    label.addEventListener("click", (event) => {
      event.preventDefault();
      const chosen = pick({ multiple: true }).then((handles) =>
        Promise.all(
          handles.map(async (handle) => {
            const file = await handle.getFile();
            keepHandle(file, handle);
            return file;
          }),
        ),
      );
      // Cancelling the picker is not an error. If the picker is not allowed, the file input is used instead.
      chosen.then(use, (error: unknown) => (error instanceof DOMException && error.name === "AbortError" ? undefined : input.click()));
    });
  }
}
