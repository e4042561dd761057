/** Reads the `config.json` next to a model. */

import type { ModelSource } from "./protocol.js";

/** The longest `config.json` that is read, in bytes. One that lists every module has a few hundred kilobytes. */
const MAX_CONFIG_BYTES = 2e6;

/** Returns the text of the `config.json` in the folder of a model; `undefined` if there is none, or it cannot be read. */
export async function readConfigFile(source: ModelSource, token: string | undefined, signal: AbortSignal): Promise<string | undefined> {
  if ("file" in source) {
    const file = source.siblings.find(({ name }) => name === "config.json");
    return file && file.size <= MAX_CONFIG_BYTES ? file.text() : undefined;
  }
  const address = configAddress(source.address);
  if (!address) return undefined;
  const response = await fetch(address, { signal, headers: token === undefined ? {} : { authorization: `Bearer ${token}` } });
  if (!response.ok || !response.body) return undefined;
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let length = 0;
  const reader = response.body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    length += value.length;
    if (length > MAX_CONFIG_BYTES) {
      await reader.cancel();
      return undefined;
    }
    parts.push(value);
  }
  return new Blob(parts).text();
}

/** Returns the address of the configuration. Its query is that of the model, which may contain an access key. */
function configAddress(address: string): URL | undefined {
  if (!URL.canParse(address)) return undefined;
  const model = new URL(address);
  if (!/^https?:$/.test(model.protocol)) return undefined;
  const config = new URL("config.json", model);
  config.search = model.search;
  return config;
}
