/** The findings of a checkup in the lines that the page shows. */

import type { TensorInfo } from "zstn";
import type { Measured } from "../../engine/statistics-table.js";
import { placeOf } from "../layers/stacks.js";
import { checkup, PROBLEMS } from "./checks.js";
import type { Checkup, Finding, Problem } from "./checks.js";

/** A line about one tensor, or about several of the same module. */
export interface HealthLine {
  /** The name of the tensor, or the common name of several with `*` for the components that differ. */
  readonly name: string;
  /** The index of the first tensor, and the number of tensors. */
  readonly index: number;
  readonly tensors: number;
  /** The finding in the first tensor. */
  readonly text: string;
}

export interface HealthReport extends Omit<Checkup, "findings"> {
  readonly findings: number;
  /** The number of tensors with findings. */
  readonly affected: number;
  /** The problems that were found. `hidden` is the number of further lines. */
  readonly problems: readonly { readonly problem: Problem; readonly findings: number; readonly lines: readonly HealthLine[]; readonly hidden: number }[];
}

/** The maximum number of lines for a problem. */
const MAX_LINES = 60;
/** Findings of one module in more tensors than this share a line. */
const MAX_ALONE = 3;

export function reportOf(tensors: readonly TensorInfo[], statistics: ReadonlyMap<string, Measured>, indexOf: (tensor: TensorInfo) => number): HealthReport {
  const { findings, ...checked } = checkup(tensors, statistics);
  const lineOf = (some: readonly Finding[]): HealthLine => {
    const { tensor, text } = some[0]!;
    return { name: some.length > 1 ? patternOf(some) : tensor.name, index: indexOf(tensor), tensors: some.length, text };
  };
  const problems = PROBLEMS.flatMap((problem) => {
    const own = findings.filter((finding) => finding.problem === problem);
    const lines = linesOf(own);
    return own.length === 0 ? [] : [{ problem, findings: own.length, lines: lines.slice(0, MAX_LINES).map(lineOf), hidden: Math.max(0, lines.length - MAX_LINES) }];
  });
  return { ...checked, findings: findings.length, affected: new Set(findings.map(({ tensor }) => tensor)).size, problems };
}

/** Arranges findings in lines. Many tensors of the same module, such as a bias in every layer, share a line. */
function linesOf(findings: readonly Finding[]): (readonly Finding[])[] {
  const groups = new Map<string, Finding[]>();
  for (const finding of findings) {
    const place = placeOf(finding.tensor);
    const key = place ? `${place.prefix} ${place.kind}` : finding.tensor.name;
    const group = groups.get(key);
    if (group) group.push(finding);
    else groups.set(key, [finding]);
  }
  return [...groups.values()].flatMap((group) => (group.length > MAX_ALONE ? [group] : group.map((finding) => [finding])));
}

/** Returns the common name of tensors, with `*` for the components that differ. */
function patternOf(findings: readonly Finding[]): string {
  const [first, ...others] = findings.map(({ tensor }) => tensor.name.split("."));
  return first!.map((part, i) => (others.every((other) => other[i] === part) ? part : "*")).join(".");
}
