/** Margins of estimates from a sample, computed by leaving out one group of rows at a time (the jackknife). */

/** The minimum number of groups that a margin can be computed from. */
const MIN_GROUPS = 4;
/**
 * Half the width of a confidence interval, in standard errors: `errors` with fewer than `groups` groups, otherwise
 * `ofMore`. By Student's t-distribution, both intervals have a confidence of at least 95 %.
 */
const FEW = { groups: 8, errors: 4, ofMore: 3 };

/**
 * Returns the margin of `estimate` over all `groups`: half the width of an interval of at least 95 %, provided that the
 * rest of the tensor resembles the groups. `share` is the fraction of the whole that was read. Returns `undefined` if
 * there are too few groups.
 */
export function marginOf<Group>(groups: readonly Group[], share: number, estimate: (groups: readonly Group[]) => number): number | undefined {
  if (groups.length < MIN_GROUPS) return undefined;
  const without = groups.map((_, left) => estimate(groups.filter((_, i) => i !== left)));
  const mean = without.reduce((sum, value) => sum + value / without.length, 0);
  const squares = without.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  const error = Math.sqrt(squares * (1 - 1 / groups.length) * Math.max(0, 1 - share));
  const margin = error * (groups.length < FEW.groups ? FEW.errors : FEW.ofMore);
  return Number.isFinite(margin) ? margin : undefined;
}
