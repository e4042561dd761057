/** The exports that both platform entries have in common. */

export { HUGGING_FACE, parseHubAddress } from "./address.js";
export type { HubAddress, RepositoryKind } from "./address.js";
export { HubError, HubFileError } from "./error.js";
export type { HubRefusal } from "./error.js";
export { hub } from "./hub-input.js";
export type { HubOptions } from "./hub-input.js";
export type { RepositoryOptions } from "./login.js";
export { listModelFiles } from "./listing.js";
export type { ListOptions, ModelFile } from "./listing.js";
export type { HubInput, HubLocation, LocateOptions } from "../model-input.js";
