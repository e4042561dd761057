/**
 * Runs the scenario in a Cloudflare Worker. The body of a request contains the input, and the response contains the
 * outcomes.
 */

import * as zstn from "zstn";
import { runScenario } from "./scenario.mjs";

export default {
  async fetch(request) {
    const input = await request.json();
    return Response.json(await runScenario(zstn, { ...input, threads: () => import("zstn/threads") }));
  },
};
