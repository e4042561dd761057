/** Statistics of rounds that alternate between candidates, so that a disturbance affects all of them alike. */

export function median(numbers) {
  return numbers.toSorted((a, b) => a - b)[numbers.length >> 1];
}

/** Returns the median of the ratios within each round. */
export function medianRatio(ours, theirs) {
  return median(ours.map((number, round) => number / theirs[round]));
}
