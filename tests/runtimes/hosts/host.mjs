/**
 * Runs the scenario in a runtime with a file system, and prints the outcomes: `host.mjs INPUT.json`. It closes nothing
 * at the end, so a program that does not end by itself fails the test.
 */

import { readFileSync } from "node:fs";
import * as zstn from "zstn";
import { runScenario } from "./scenario.mjs";

const input = JSON.parse(readFileSync(process.argv[2], "utf8"));
const outcomes = await runScenario(zstn, { ...input, threads: () => import("zstn/threads") });
// The default pool stays open.
const model = await zstn.open(input.packed);
await model.tensor(input.large);
console.log(`OUTCOMES ${JSON.stringify(outcomes)}`);
