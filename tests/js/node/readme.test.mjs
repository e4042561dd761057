/** Runs the code of the documentation. The only replacement is the address, which becomes the address of a local server. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { program, serve } from "../support/cli.mjs";
import { ggufFile } from "../support/gguf.mjs";
import { installTarball } from "../support/packed.mjs";
import { WEIGHTS, block, blocks, writeModels } from "../support/readme.mjs";
import { scratchFolder } from "../support/scratch.mjs";

const run = promisify(execFile);
const scratch = scratchFolder();
const served = join(scratch, "served");
const project = join(scratch, "project");
let server;
const here = (text) => text.replaceAll("https://example.org/", server.url);

before(async () => {
  mkdirSync(served);
  mkdirSync(project);
  await writeModels(served);
  server = await serve(served);
  await installTarball(project);
  copyFileSync(join(served, "tuned.z4dm"), join(project, "tuned.z4dm"));
});
after(() => server?.stop());

/** Runs a block as a module, followed by `more`, which prints one line of JSON. */
async function module(name, code, more) {
  writeFileSync(join(project, name), `${here(code)}\n${more}\n`);
  const { stdout, stderr } = await run(process.execPath, [name], { cwd: project });
  assert.equal(stderr, "");
  const lines = stdout.trimEnd().split("\n");
  return { last: JSON.parse(lines.pop()), lines };
}

test("docs/tour.md: reading", async () => {
  const code = block("docs/tour.md", "js", "await open(");
  const more = "console.log(JSON.stringify({ stats: model.stats, data: [...tensor.data], floats: tensor.toFloat32().length, tuned: [...(await tuned.tensor('wte.weight')).data] }));";
  const { last, lines } = await module("read.mjs", code, more);
  assert.deepEqual(last.data, [...WEIGHTS]);
  assert.deepEqual(last.tuned, [...WEIGHTS].map((bits, i) => (i === 17 ? bits ^ 3 : bits)));
  assert.equal(last.floats, WEIGHTS.length);
  assert.ok(last.stats.requests <= 3);
  assert.match(lines.join("\n"), /wte\.weight BF16 \[ 1500, 4 \]/);
});

test("wasm/README.md: reading", async () => {
  const code = block("wasm/README.md", "js", "console.log(name, dtype, shape, byteLength, storedLength)");
  const { last, lines } = await module("use.mjs", code, "console.log(JSON.stringify({ shape: t.shape, requests: model.stats.requests }));");
  assert.deepEqual(last.shape, [100, 60]);
  assert.ok(last.requests <= 3);
  assert.equal(lines.length, 2);
});

test("wasm/README.md: a fine-tune and its base", async () => {
  for (const name of ["model.safetensors", "tuned.safetensors"]) copyFileSync(join(served, name), join(project, name));
  const code = block("wasm/README.md", "js", 'pack("tuned.safetensors"');
  const { last } = await module("tune.mjs", code, "console.log(JSON.stringify([[...weight.data], Buffer.from(original).toString('hex')]));");
  assert.deepEqual(last[0], [...WEIGHTS].map((bits, i) => (i === 17 ? bits ^ 3 : bits)));
  assert.equal(last[1], readFileSync(join(served, "tuned.safetensors")).toString("hex"));
});

/** A model without tensors, whose bytes are text. */
const GGUF = ggufFile({ "general.name": "small" }, []);

// The code blocks of a page build on each other. Blocks for browsers only are marked as such.
const PAGES = {
  reading: ["JSON.stringify([t.shape, some.shape, whole, changed.shape, tuned.base.stats.requests > 0, same.stats.requests])", [[1500, 4], [10, 4], true, [100, 60], true, 0]],
  workers: ["pool.size", 3],
  safetensors: ["JSON.stringify([Number(head) < file.size, file.isOriginal])", [true, true]],
  packing: [
    "JSON.stringify([bytes.length, same[17], tensors.map(({ base }) => base), restored.length === tuned.originalSize, original, kind, await gguf.text()])",
    [4096, 3, ["delta", "copy"], true, { kind: "gguf" }, "gguf", GGUF.toString()],
  ],
};
for (const [page, [found, expected]] of Object.entries(PAGES)) {
  test(`docs/npm/${page}.md`, async () => {
    for (const name of ["model.safetensors", "tuned.safetensors"]) copyFileSync(join(served, name), join(project, name));
    writeFileSync(join(project, "model.gguf"), GGUF);
    const code = blocks(`docs/npm/${page}.md`, "js").join("\n");
    const { last } = await module(`${page}.mjs`, code, `console.log(${found}); process.exit();`);
    assert.deepEqual(last, expected);
  });
}

test("README.md and docs/tour.md: the command line", { skip: process.platform === "win32" && "a shell of POSIX" }, async () => {
  const folder = join(scratch, "commands");
  mkdirSync(join(folder, "llama"), { recursive: true });
  await writeModels(folder, { packed: false });
  mkdirSync(join(folder, "models"));
  for (const copy of ["llama", "models"]) copyFileSync(join(folder, "model.safetensors"), join(folder, copy, "model.safetensors"));
  const lines = [...blocks("README.md", "sh"), ...blocks("docs/tour.md", "sh")].join("").split("\n").map((line) => line.split(/\s+#/)[0].trim());
  // Both pages pack the same model.
  const commands = new Set(lines.filter((line) => /^zstn (?!serve|view)/.test(line)));
  assert.ok(commands.size >= 10, `only ${[...commands]}`);
  const env = { ...process.env, PATH: `${dirname(program())}${delimiter}${process.env.PATH}` };
  for (const command of commands) await run("sh", ["-c", here(command)], { cwd: folder, env, maxBuffer: 1 << 26 });
  const original = readFileSync(join(folder, "model.safetensors"));
  for (const same of ["restored.safetensors", "restored/model.safetensors"]) assert.ok(original.equals(readFileSync(join(folder, same))), same);
  for (const made of ["model.zstn", "wte.npy", "tuned.z4dm", "llama-zstn/model.zstn", "model.safetensors.index.json"]) assert.ok(existsSync(join(folder, made)), made);
});
