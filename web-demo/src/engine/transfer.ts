/** The memory that a result of the worker gives away instead of copying it. */

const transferred = new WeakMap<object, Transferable[]>();

/** Marks memory of a result that nothing in this thread uses any more. Returns the result. */
export function transfer<T extends object>(result: T, memory: Transferable[]): T {
  transferred.set(result, memory);
  return result;
}

/** Returns the memory that a result gives away. */
export const transferOf = (result: unknown): Transferable[] => (typeof result === "object" && result !== null ? (transferred.get(result) ?? []) : []);
