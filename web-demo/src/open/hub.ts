/** Files of a repository on a hub. */

import { hostOf } from "../page/origin.js";
import { Refusal } from "../page/refusal.js";
import type { Source } from "./parse-input.js";
import type { Tokens } from "./tokens.js";

type Repository = Extract<Source, { kind: "repository" }>;

/** The files that can be opened, most likely first. */
const PREFERRED = [/^model\.zstn\.index\.json$/, /^model\.safetensors\.index\.json$/, /^model\.zstn$/, /^model\.safetensors$/, /^diffusion_pytorch_model\.safetensors(\.index\.json)?$/];
const READABLE = /(\.(safetensors|zstn|zt|gauss)|\.index\.json)$/i;
const SHARD = /-\d{5}-of-\d{5}\./;

/** Returns the URL of a file of the repository. */
function fileAddress({ hub, repository, revision }: Repository, path: string): string {
  const encoded = path.split("/").map(encodeURIComponent).join("/");
  return `${hub}/${repository}/resolve/${encodeURIComponent(revision)}/${encoded}`;
}

/** Returns one URL, or several files to choose from. */
export type Found = { readonly address: string } | { readonly files: readonly { path: string; address: string }[] };

export async function findFiles(wanted: Repository, tokens: Tokens, signal: AbortSignal): Promise<Found> {
  if (wanted.path !== undefined) return { address: fileAddress(wanted, wanted.path) };
  const paths = (await listed(wanted, tokens, signal)).filter((path) => READABLE.test(path));
  const best = PREFERRED.map((pattern) => paths.find((path) => pattern.test(path))).find((path) => path !== undefined);
  const whole = paths.filter((path) => !SHARD.test(path));
  const only = best ?? (whole.length === 1 ? whole[0] : undefined);
  if (only !== undefined) return { address: fileAddress(wanted, only) };
  const files = (whole.length > 0 ? whole : paths).map((path) => ({ path, address: fileAddress(wanted, path) }));
  if (files.length === 0) throw new Error(`The repository ${wanted.repository} has no file that this page reads: no .safetensors, .zstn, .zt or .gauss.`);
  return { files };
}

async function listed({ hub, repository, revision }: Repository, tokens: Tokens, signal: AbortSignal): Promise<string[]> {
  const address = new URL(`${hub}/api/models/${repository}/revision/${encodeURIComponent(revision)}`);
  const host = hostOf(address.origin);
  const token = tokens.at(address.origin);
  let response: Response;
  try {
    response = await fetch(address, { signal, ...(token && { headers: { authorization: `Bearer ${token}` } }) });
  } catch (cause) {
    signal.throwIfAborted();
    throw new Error(`${host} did not answer when asked for the files of ${repository}. Check the connection, or open a file of it by its address.`, { cause });
  }
  const { status } = response;
  if (status === 401 || status === 403 || status === 404) {
    throw new Refusal(`There is no repository ${repository} at ${host}, or it is not public (status ${status}).`, address.origin, status);
  }
  if (!response.ok) throw new Error(`${host} answered with status ${status} when asked for the files of ${repository}. Try again later.`);
  const { siblings } = (await response.json()) as { siblings?: { rfilename?: unknown }[] };
  if (!Array.isArray(siblings)) throw new Error(`The answer of ${host} does not list the files of ${repository}. Open one of them by its address.`);
  return siblings.flatMap(({ rfilename }) => (typeof rfilename === "string" ? [rfilename] : []));
}
