/** The message about a base that is a delta and was not opened with its own base. */
export const BASE_OF_BASE = "The base is a delta itself: open it with its own base, and pass that model as `base`.";
