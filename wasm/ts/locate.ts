/** Inputs whose URL is found when they are opened. */

import type { HubInput, LocateOptions, ModelInput } from "./model-input.js";
import { platform } from "./platform.js";

/** Returns whether `input` is a model in a repository. */
export const isHubInput = (input: unknown): input is HubInput => typeof (input as Partial<HubInput> | null | undefined)?.locate === "function";

/** Returns `input`, with an address that begins with `hf://` as a model in a repository. */
export async function withHub<Input>(input: Input): Promise<Input | HubInput> {
  if ((typeof input !== "string" && !(input instanceof URL)) || !/^hf:/i.test(String(input))) return input;
  return (await platform.loadHub()).hub(String(input));
}

/** Returns `input` and the options to read it with; if it is a model in a repository, its URL. */
export async function located<Options extends LocateOptions>(input: ModelInput, options: Options): Promise<[ModelInput, Options]> {
  const wanted = await withHub(input);
  if (!isHubInput(wanted)) return [wanted, options];
  const { url, options: ofHub } = await wanted.locate(options);
  return [url, { ...options, ...ofHub }];
}
