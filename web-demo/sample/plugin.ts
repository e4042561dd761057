/** Adds the sample models to the page as files, packed during the build. */

import type { Plugin } from "vite";
import { pack } from "zstn";
import { sampleModel } from "./model.js";

const FILES: Readonly<Record<string, boolean>> = { "sample.zstn": false, "sample-tuned.zstn": true };

async function packed(tuned: boolean): Promise<Uint8Array> {
  const { blob } = await pack(sampleModel(tuned));
  return new Uint8Array(await blob.arrayBuffer());
}

export const sampleFiles: Plugin = {
  name: "sample-files",
  // `cargo xtask demo` first builds the page in the mode `reading`, when the module that packs is not available yet.
  apply: (_, { mode }) => mode !== "reading",
  async generateBundle() {
    for (const [fileName, tuned] of Object.entries(FILES)) this.emitFile({ type: "asset", fileName, source: await packed(tuned) });
  },
  configureServer({ middlewares }) {
    middlewares.use(async (request, response, next) => {
      const tuned = FILES[(request.url ?? "").replace(/^\//, "").replace(/\?.*$/, "")];
      if (tuned === undefined) return next();
      response.setHeader("content-type", "application/octet-stream");
      response.end(await packed(tuned));
    });
  },
};
