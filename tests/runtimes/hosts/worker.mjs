/** Runs the scenario in a Cloudflare Worker: the input is the body of a request, the outcomes are its answer. */

import * as zstn from "zstn";
import { runScenario } from "./scenario.mjs";

export default {
  async fetch(request) {
    const input = await request.json();
    return Response.json(await runScenario(zstn, { ...input, threads: () => import("zstn/threads") }));
  },
};
