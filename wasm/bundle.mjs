/**
 * Bundles the package into one file for `<script type="module">` from a CDN, and its worker script into another. The
 * files that they load are in the same folder.
 */

import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const dist = fileURLToPath(new URL("./dist/", import.meta.url));

/** Replaces the URL of the worker script, which imports many files, by the URL of the bundled worker. */
const ownWorker = {
  name: "own worker",
  setup({ onLoad }) {
    onLoad({ filter: /web-worker-handle\.js$/ }, async ({ path }) => {
      const text = await readFile(path, "utf8");
      const contents = text.replace('new URL("./web-worker.js"', 'new URL("./zstn-worker.min.js"');
      if (contents === text) throw new Error(`${path} does not name ./web-worker.js any more`);
      return { contents };
    });
  },
};

const options = { bundle: true, minify: true, format: "esm", target: "es2022", charset: "utf8", legalComments: "none", logLevel: "warning" };

await build({
  ...options,
  // The hub is part of this bundle, since a separate file would contain another copy of the package.
  stdin: { contents: 'export * from "./web.js"; export * from "./hub/web.js";', resolveDir: dist },
  outfile: `${dist}zstn.min.js`,
  // These scripts are loaded on first use, from their own files.
  external: ["./core/zstn_formats.js", "./core/zstn_coder.js", "./core/zstn_gpu.js"],
  plugins: [ownWorker],
});

await build({ ...options, entryPoints: [`${dist}decode/web-worker.js`], outfile: `${dist}zstn-worker.min.js` });
