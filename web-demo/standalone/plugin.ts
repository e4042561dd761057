/** Builds the scripts that are not part of the page: the custom element for other sites, and the service worker. */

import { createHash } from "node:crypto";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";
import type { Plugin } from "vite";

/** The marker in the page that makes it register the service worker. The archive for `zstn view` leaves both out. */
export const OFFLINE_MARKER = " data-offline";
export const OFFLINE_WORKER = "offline-worker.js";
const isOffline = process.env["ZSTN_OFFLINE"] !== "off";

/** Returns a script of this folder as one minified file, which needs no module loader. */
async function bundled(name: string, constants: Readonly<Record<string, unknown>> = {}): Promise<string> {
  const define = Object.fromEntries(Object.entries(constants).map(([constant, value]) => [constant, JSON.stringify(value)]));
  const bundle = await rolldown({ input: fileURLToPath(new URL(name, import.meta.url)), tsconfig: false, transform: { define } });
  const { output } = await bundle.generate({ format: "iife", minify: true });
  await bundle.close();
  return output[0].code;
}

export const standaloneScripts: Plugin = {
  name: "standalone-scripts",
  apply: "build",
  transformIndexHtml: (html) => (isOffline ? html.replace("<html", `<html${OFFLINE_MARKER}`) : html),
  generateBundle: {
    order: "post",
    async handler(_, bundle) {
      const files = Object.values(bundle).filter(({ fileName }) => /\.(js|css|wasm)$/.test(fileName));
      const names = files.map(({ fileName }) => fileName).sort();
      const page = bundle["index.html"];
      if (page?.type !== "asset") this.error("The page is built after its service worker.");
      const entry = files.find((file) => file.type === "chunk" && file.isEntry);
      const known = [...names, "favicon.svg"];
      const constants = {
        // The names contain digests of the contents. The page has no such name.
        BUILD: createHash("sha256").update(names.join("\n")).update(page.source).digest("hex").slice(0, 16),
        ENTRY: entry?.fileName,
        // Without files, the worker that an earlier build installed unregisters itself.
        FILES: isOffline ? known : [],
        FIRST_FILES: known.filter((name) => !name.endsWith(".wasm") || name.includes("zstn_wasm")),
      };
      this.emitFile({ type: "asset", fileName: OFFLINE_WORKER, source: await bundled("offline-worker.ts", constants) });
      this.emitFile({ type: "asset", fileName: "zstn-viewer.js", source: await bundled("zstn-viewer.ts") });
    },
  },
};
