/**
 * Servers for the scenario: one serves models with ranges to every origin, and one serves an isolated page with the
 * installed package.
 */

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { bf16Tensor, safetensors, xorshift } from "../../js/support/checkpoint.mjs";
import { pack } from "../../js/support/cli.mjs";
import { answerRange, startSite, startServer } from "../../js/support/server.mjs";
import { sha256 } from "../../js/support/vectors.mjs";

const LARGE = "embeddings.weight";
const ISOLATED = { "cross-origin-opener-policy": "same-origin", "cross-origin-embedder-policy": "require-corp" };
const OPEN_TO_ALL = { "access-control-allow-origin": "*", "access-control-expose-headers": "Content-Range, ETag", "cross-origin-resource-policy": "cross-origin", "accept-ranges": "bytes", etag: '"1"' };

/** Writes a model to `folder`, plain and packed by the command line. Returns the input of the scenario without addresses. */
export async function writeModels(folder) {
  const random = xorshift(33);
  const bf16 = (...shape) => ({ dtype: "BF16", shape, bytes: bf16Tensor(shape.reduce((a, b) => a * b, 1), random) });
  const tensors = { [LARGE]: bf16(2000, 256), "lm_head.weight": bf16(512, 512) };
  for (let i = 0; i < 40; i++) tensors[`layers.${i}.weight`] = bf16(64, 256);
  tensors["norm.weight"] = { dtype: "F32", shape: [256], bytes: new Uint8Array(Float32Array.from({ length: 256 }, (_, i) => 1 + i / 1024).buffer) };
  const [plain, packed] = [join(folder, "model.safetensors"), join(folder, "model.zstn")];
  writeFileSync(plain, safetensors(tensors, { format: "pt" }));
  await pack(plain, packed);
  return {
    digests: Object.fromEntries(Object.entries(tensors).map(([name, { bytes }]) => [name, sha256(bytes)])),
    original: sha256(readFileSync(plain)),
    large: LARGE,
    path: packed,
    fileUrl: pathToFileURL(packed).href,
    cacheFolder: join(folder, "cache"),
  };
}

/** Serves the models in `folder` to every origin. */
export function serveModels(folder) {
  const files = Object.fromEntries(["model.safetensors", "model.zstn"].map((name) => [`/${name}`, readFileSync(join(folder, name))]));
  return startServer((request, response) => {
    const bytes = files[new URL(request.url, "http://localhost").pathname];
    if (!bytes) return response.writeHead(404, OPEN_TO_ALL).end();
    return answerRange(request, response, bytes, OPEN_TO_ALL);
  });
}

/** Serves the scenario as a page that may use threads, with the package that is installed in `project`. */
export function servePage(project, input) {
  const text = (name) => readFileSync(new URL(name, import.meta.url), "utf8");
  const pages = {
    "/": text("../hosts/page.html"),
    "/scenario.mjs": { type: "text/javascript", text: text("../scenario.mjs") },
    "/input.json": { type: "application/json", text: JSON.stringify({ ...input, cacheFolder: undefined }) },
  };
  return startSite({ "/package/": join(project, "node_modules/zstn/dist") }, pages, ISOLATED);
}
