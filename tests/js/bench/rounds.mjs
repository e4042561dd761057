/** Numbers of rounds in which the things compared take turns: what disturbs a round disturbs all of them. */

export function median(numbers) {
  return numbers.toSorted((a, b) => a - b)[numbers.length >> 1];
}

/** Of the ratios within each round. */
export function medianRatio(ours, theirs) {
  return median(ours.map((number, round) => number / theirs[round]));
}
