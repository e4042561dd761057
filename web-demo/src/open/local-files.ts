/**
 * Reopens local files after a reload. Their handles are stored if the browser provides them; otherwise the page asks
 * the user to drop the files again.
 */

import { button, element, getById } from "../page/element.js";
import type { UserInput } from "./resolve-input.js";

/** The state of a history entry with open local files. */
interface LocalEntry {
  readonly local: { readonly names: readonly string[]; readonly key: string };
}

interface HandleRecord {
  readonly first: readonly FileSystemFileHandle[];
  readonly second: readonly FileSystemFileHandle[];
}

type PermittedHandle = FileSystemFileHandle & { requestPermission?: (options: { mode: "read" }) => Promise<PermissionState> };

/** The time that handles are stored, in milliseconds. */
const KEPT_MS = 7 * 24 * 3600e3;

/** The handles of dropped or chosen files, by file. */
const handles = new WeakMap<File, FileSystemFileHandle>();

/** Remembers the handle of a file, so that the file can be opened again after a reload. */
export function keepHandle(file: File, handle: FileSystemFileHandle): void {
  handles.set(file, handle);
}

export class LocalFiles {
  /** Returns the state of the history entry for these inputs; `null` if the URL identifies them. */
  remember(input: UserInput, second: UserInput | undefined): LocalEntry | null {
    const files = "files" in input ? input.files : [];
    if (files.length === 0) return null;
    const others = second && "files" in second ? second.files : [];
    const key = String(Date.now());
    const all = [...files, ...others];
    if (all.every((file) => handles.has(file))) {
      const record: HandleRecord = { first: files.map((file) => handles.get(file)!), second: others.map((file) => handles.get(file)!) };
      void withStore("readwrite", (store) => {
        store.delete(IDBKeyRange.upperBound(String(Date.now() - KEPT_MS)));
        return store.put(record, key);
      }).catch(() => undefined);
    }
    return { local: { names: all.map(({ name }) => name), key } };
  }

  /** Offers, after a reload, to open the files of this history entry again, or asks the user to drop them again. */
  async offer(open: (input: UserInput, base: UserInput | undefined) => void): Promise<void> {
    const entry = history.state as LocalEntry | null;
    const names = entry?.local?.names;
    if (!names) return;
    const record = (await withStore("readonly", (store) => store.get(entry.local.key)).catch(() => undefined)) as HandleRecord | undefined;
    const name = names.length === 1 ? names[0]! : `${names[0]!} and ${names.length - 1} more`;
    if (!record) return show(`${name} is not stored by this page; drop it again.`);
    const again = button(`Open ${name} again`, () => {
      Promise.all([record.first, record.second].map((list) => Promise.all(list.map(fileOf)))).then(
        ([first, second]) => open({ files: first! }, second!.length > 0 ? { files: second! } : undefined),
        () => show(`${name} could not be read again; drop it again.`),
      );
    });
    show(`${name} was open here.`, again);
  }
}

function show(sentence: string, ...buttons: HTMLElement[]): void {
  getById("notice").replaceChildren(element("div", { class: "notice", role: "status" }, element("p", {}, sentence), buttons.length > 0 && element("div", { class: "buttons" }, ...buttons)));
}

async function fileOf(handle: PermittedHandle): Promise<File> {
  if ((await handle.requestPermission?.({ mode: "read" })) === "denied") throw new Error("You can't read this file.");
  const file = await handle.getFile();
  keepHandle(file, handle);
  return file;
}

/** Runs one request on the database of handles. */
function withStore<T>(mode: IDBTransactionMode, request: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open("zstn-viewer", 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore("files");
    opening.onerror = () => reject(opening.error ?? new Error("No database."));
    opening.onsuccess = () => {
      const asked = request(opening.result.transaction("files", mode).objectStore("files"));
      asked.onsuccess = () => resolve(asked.result);
      asked.onerror = () => reject(asked.error ?? new Error("The database could not be read."));
    };
  });
}
