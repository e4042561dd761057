/** Files of a repository on a hub. */

import type { Typed } from "./source-text.js";

type Repository = Extract<Typed, { kind: "repository" }>;

/** What can be opened, the most likely first. */
const PREFERRED = [/^model\.zstn\.index\.json$/, /^model\.safetensors\.index\.json$/, /^model\.zstn$/, /^model\.safetensors$/, /^diffusion_pytorch_model\.safetensors(\.index\.json)?$/];
const READABLE = /(\.(safetensors|zstn|zt|gauss)|\.index\.json)$/i;
const SHARD = /-\d{5}-of-\d{5}\./;

/** Where a file of the repository is. */
export function fileAddress(hub: string, { repository, revision }: Repository, path: string): string {
  const encoded = path.split("/").map(encodeURIComponent).join("/");
  return `${hub.replace(/\/$/, "")}/${repository}/resolve/${encodeURIComponent(revision)}/${encoded}`;
}

/** One address, or several files to choose from. */
export type Found = { readonly address: string } | { readonly files: readonly { path: string; address: string }[] };

export async function findFiles(hub: string, wanted: Repository, token: string | undefined, signal: AbortSignal): Promise<Found> {
  if (wanted.path !== undefined) return { address: fileAddress(hub, wanted, wanted.path) };
  const paths = (await listed(hub, wanted, token, signal)).filter((path) => READABLE.test(path));
  const best = PREFERRED.map((pattern) => paths.find((path) => pattern.test(path))).find((path) => path !== undefined);
  const whole = paths.filter((path) => !SHARD.test(path));
  const only = best ?? (whole.length === 1 ? whole[0] : undefined);
  if (only !== undefined) return { address: fileAddress(hub, wanted, only) };
  const files = (whole.length > 0 ? whole : paths).map((path) => ({ path, address: fileAddress(hub, wanted, path) }));
  if (files.length === 0) throw new Error(`The repository ${wanted.repository} has no file that this page reads: no .safetensors, .zstn, .zt or .gauss.`);
  return { files };
}

async function listed(hub: string, { repository, revision }: Repository, token: string | undefined, signal: AbortSignal): Promise<string[]> {
  const address = `${hub.replace(/\/$/, "")}/api/models/${repository}/revision/${encodeURIComponent(revision)}`;
  let response: Response;
  try {
    response = await fetch(address, { signal, ...(token && { headers: { authorization: `Bearer ${token}` } }) });
  } catch (cause) {
    signal.throwIfAborted();
    throw new Error(`${new URL(address).host} did not answer when asked for the files of ${repository}. Check the connection, or open a file of it by its address.`, { cause });
  }
  if (response.status === 401 || response.status === 403 || response.status === 404) {
    throw new Error(`There is no repository ${repository} at ${new URL(address).host}, or it is not public (status ${response.status}). Check the name; for a private one put a token under “More”.`);
  }
  if (!response.ok) throw new Error(`${new URL(address).host} answered with status ${response.status} when asked for the files of ${repository}. Try again later.`);
  const { siblings } = (await response.json()) as { siblings?: { rfilename?: unknown }[] };
  if (!Array.isArray(siblings)) throw new Error(`The answer of ${new URL(address).host} does not list the files of ${repository}. Open one of them by its address.`);
  return siblings.flatMap(({ rfilename }) => (typeof rfilename === "string" ? [rfilename] : []));
}
