/** Packs the built page into one file, the embedded viewer that the command line serves with `zstn view` (native/serve/build.rs). */

import { readdir, readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import type { Plugin } from "vite";
import { OFFLINE_MARKER, OFFLINE_WORKER } from "./standalone/plugin.js";

const FILE = fileURLToPath(new URL("../native/serve/viewer/page.archive", import.meta.url));
const PUBLIC = new URL("./public/", import.meta.url);

/**
 * Writes the built files, each compressed with gzip, the best encoding that browsers accept over plain HTTP. The
 * archive is the length of the list as a 32-bit number, the list as JSON, `[[path, length], …]`, and the files. It
 * leaves out the samples, which are larger than all other files together, the preview picture for links from other
 * sites, and the service worker, which has no use for a page that this machine serves.
 */
export const archive: Plugin = {
  name: "archive",
  apply: "build",
  async writeBundle(_, bundle) {
    const built = Object.values(bundle).map((file) => [file.fileName, file.type === "chunk" ? file.code : file.source] as const);
    const copied = (await readdir(PUBLIC)).map(async (name) => [name, await readFile(new URL(name, PUBLIC))] as const);
    const files = [...built, ...(await Promise.all(copied))]
      .filter(([path]) => !/\.(map|zstn|png)$/.test(path) && path !== OFFLINE_WORKER)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([path, content]) => [path, gzipSync(path === "index.html" ? String(content).replace(OFFLINE_MARKER, "") : content, { level: 9 })] as const);
    const list = Buffer.from(JSON.stringify(files.map(([path, { length }]) => [path, length])));
    const length = Buffer.alloc(4);
    length.writeUInt32LE(list.length);
    await writeFile(FILE, Buffer.concat([length, list, ...files.map(([, bytes]) => bytes)]));
  },
};
