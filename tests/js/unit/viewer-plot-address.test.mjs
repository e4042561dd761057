/** The address on a saved image leads to the view and contains no secret. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const entry = fileURLToPath(new URL("../../../web-demo/src/tensor/plot-address.ts", import.meta.url));
const { outputFiles } = await build({ entryPoints: [entry], bundle: true, format: "esm", write: false });
globalThis.location = new URL("https://viewer.example/zstn/?X-Amz-Signature=secret#secret");
const { plotAddress } = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);

for (const [name, route, expected] of [
  ["a local file has none", { tensor: "a.weight" }, ""],
  ["the view of a relative address", { src: "models/a.zstn", tensor: "a.weight", at: "0-10,0-20" }, "https://viewer.example/zstn/?src=models/a.zstn&tensor=a.weight&at=0-10%2C0-20"],
  ["a signed address", { src: "https://store.example/a.zstn?X-Amz-Signature=secret#secret" }, "https://viewer.example/zstn/?src=https://store.example/a.zstn"],
  ["a name and a password", { src: "https://me:secret@store.example/a.zstn", with: "//me:secret@store.example/b.zstn?key=secret", hub: "http://me:secret@hub.example" }, "https://viewer.example/zstn/?src=https://store.example/a.zstn&with=//store.example/b.zstn&hub=http://hub.example"],
  ["a revision of a repository", { src: "owner/name@v1" }, "https://viewer.example/zstn/?src=owner/name%40v1"],
]) {
  test(`the address on an image: ${name}`, () => assert.equal(plotAddress(route), expected));
}
