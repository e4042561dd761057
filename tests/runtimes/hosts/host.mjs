/** Runs the scenario in a runtime with a file system, and prints the outcomes: `host.mjs INPUT.json`. Nothing is closed at the end, so that a program which does not end by itself is seen. */

import { readFileSync } from "node:fs";
import * as zstn from "zstn";
import { runScenario } from "./scenario.mjs";

const input = JSON.parse(readFileSync(process.argv[2], "utf8"));
const outcomes = await runScenario(zstn, { ...input, threads: () => import("zstn/threads") });
// A pool that is left open is the default.
const model = await zstn.open(input.packed);
await model.tensor(input.large);
console.log(`OUTCOMES ${JSON.stringify(outcomes)}`);
