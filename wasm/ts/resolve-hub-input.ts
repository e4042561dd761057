/** Resolution of inputs whose URL is only known when they are opened: models in hub repositories. */

import { InvalidInputError } from "./errors.js";
import type { HubInput, LocateOptions, ModelInput } from "./model-input.js";
import { platform } from "./platform.js";

/** Returns whether `input` is a model in a hub repository. */
export const isHubInput = (input: unknown): input is HubInput => typeof (input as Partial<HubInput> | null | undefined)?.locate === "function";

const isHubAddress = (input: unknown): boolean => (typeof input === "string" || input instanceof URL) && /^hf:/i.test(String(input));

/** Throws an `InvalidInputError` if an `endpoint` is given, but no `hf://` address among `inputs` and the arrays in them. */
export function checkEndpoint(endpoint: string | undefined, inputs: readonly unknown[]): void {
  if (endpoint !== undefined && !inputs.flat().some(isHubAddress)) throw new InvalidInputError("`endpoint` is for hf:// addresses.");
}

/** Returns `input`; an address that begins with `hf://` is replaced by a model in a repository of the hub at `endpoint`. */
export async function withHub<Input>(input: Input, endpoint: string | undefined): Promise<Input | HubInput> {
  if (!isHubAddress(input)) return input;
  return (await platform.loadHub()).hub(String(input), endpoint === undefined ? {} : { endpoint });
}

/** Returns `input` and the options to read it with. A model in a hub repository is replaced by its URL. */
export async function located<Options extends LocateOptions>(input: ModelInput, options: Options): Promise<[ModelInput, Options]> {
  const wanted = await withHub(input, options.endpoint);
  if (!isHubInput(wanted)) return [wanted, options];
  const { url, options: ofHub } = await wanted.locate(options);
  return [url, { ...options, ...ofHub }];
}
