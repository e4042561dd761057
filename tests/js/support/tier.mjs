/** The two tiers of tests: `cargo xtask test --all` sets ZSTN_TESTS and runs whole tables; otherwise a sample of them runs. */

/** True if whole tables run, with the published modules. */
export const isAll = process.env.ZSTN_TESTS === "all";

/** The reason to skip a test that belongs to the larger tier, or `false`. */
export const onlyInAll = isAll ? false : "only in `cargo xtask test --all`";

/** The step between the bits that a test flips. It shares no factor with 8, so every bit position of a byte occurs. */
export const BIT_STEP = isAll ? 1 : 5;

/**
 * Returns all items, or a sample that contains every value of every key. The sample is the same in each run. `keys`
 * returns the keys of an item.
 */
export function chosen(items, keys) {
  if (isAll) return items;
  const seen = new Set();
  return shuffled(items).filter((item) => {
    const unseen = keys(item).map((key, index) => `${index} ${key}`).filter((key) => !seen.has(key));
    for (const key of unseen) seen.add(key);
    return unseen.length > 0;
  });
}

/**
 * Shuffles the items. In their original order, the first fault of a table would meet every surface, and every other
 * fault only the first surface.
 */
function shuffled(items) {
  const order = [...items];
  let state = 34;
  for (let end = order.length - 1; end > 0; end--) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0; // Numerical Recipes
    const pick = state % (end + 1);
    [order[end], order[pick]] = [order[pick], order[end]];
  }
  return order;
}
