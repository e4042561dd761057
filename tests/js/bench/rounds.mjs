/** Evaluates alternating rounds, in which a disturbance affects all candidates of a round alike. */

export function median(numbers) {
  return numbers.toSorted((a, b) => a - b)[numbers.length >> 1];
}

/** Returns the median of the ratios within each round. */
export function medianRatio(ours, theirs) {
  return median(ours.map((number, round) => number / theirs[round]));
}
