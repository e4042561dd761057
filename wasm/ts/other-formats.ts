/** The part of this package for files that only the module with all formats reads. It is loaded when the first one is opened. */

export { withOriginal } from "./original.js";
export { isPacked } from "./packed-magics.js";
