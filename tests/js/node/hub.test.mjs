/** `zstn/hub` and `hf://` addresses, read from a hub and compared with `@huggingface/hub`. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createServer } from "node:http";
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, beforeEach, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { downloadFile, listFiles } from "@huggingface/hub";
import { open, pack } from "zstn";
import { HubError, HubFileError, hub, listModelFiles, parseHubAddress } from "zstn/hub";
import { safetensors } from "../support/checkpoint.mjs";
import { pack as packFile } from "../support/cli.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { READER, TOKEN, stubHub } from "../support/stub-hub.mjs";

// The tests do not use the login of this machine.
for (const name of Object.keys(process.env)) if (/^(HF_|HUGGING_FACE_|XDG_CACHE_HOME$)/.test(name)) delete process.env[name];

const scratch = scratchFolder();
process.env.HF_HOME = join(scratch, "home");

const f32 = (...values) => ({ dtype: "F32", shape: [values.length], bytes: new Uint8Array(Float32Array.from(values).buffer) });
const plain = (...values) => new Uint8Array(safetensors({ a: f32(...values), b: f32(7) }));
const shards = (seed) => ({
  "model-00001-of-00002.safetensors": safetensors({ a: f32(seed) }),
  "model-00002-of-00002.safetensors": safetensors({ b: f32(seed + 1) }),
  "model.safetensors.index.json": Buffer.from('{"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}'),
});
const valuesOf = async (model) => [...(await model.tensor("a")).data, ...(await model.tensor("b")).data];

let server;
let packed;
let commit;
let at;
before(async () => {
  writeFileSync(join(scratch, "model.safetensors"), plain(1, 2));
  await packFile(join(scratch, "model.safetensors"), join(scratch, "model.zstn"));
  packed = readFileSync(join(scratch, "model.zstn"));
  server = await stubHub("--page", "2");
  at = { endpoint: server.endpoint };
  commit = await server.add("me/both", { "README.md": Buffer.from("hello"), "model.safetensors": plain(5, 6), "model.zstn": packed, "unet/model.safetensors": plain(8) });
  await server.add("me/sharded", shards(1));
  await server.add("me/private", { "model.safetensors": plain(3) }, { private: true });
  await server.add("me/gated", { "model.safetensors": plain(4) });
  await server.gate("me/gated");
  await server.add("me/several", { "a.safetensors": plain(1), "b.safetensors": plain(2), "pytorch_model.bin": Buffer.from("x") });
  await server.add("me/pytorch", { "README.md": Buffer.from("hello"), "pytorch_model.bin": Buffer.from("x"), "saved_model.pb": Buffer.from("y") });
  await server.add("me/pipeline", { "model_index.json": Buffer.from("{}"), "unet/diffusion_pytorch_model.safetensors": plain(1), "vae/diffusion_pytorch_model.safetensors": plain(2) });
  await server.add("me/dotted", { "Qwen2.5-7B/model.safetensors": plain(4), "zstn/model.safetensors": plain(5) });
  await server.add("me/nested", { "onnx/x.onnx": Buffer.from("x"), "weights/only.safetensors": plain(9) });
});
after(() => server?.stop());
beforeEach(async () => {
  await server.heal();
  await server.clearLog();
});

test("a repository opens by its name: packed before plain, all of one commit", async () => {
  const model = await open(hub("me/both", at));
  assert.equal(model.kind, "zstn");
  assert.deepEqual(await valuesOf(model), [1, 2, 7]);
  const paths = (await server.log()).map(({ path }) => path);
  assert.equal(paths[0], "/api/models/me/both/revision/main");
  assert.ok(paths.length > 1 && paths.slice(1).every((path) => path.startsWith(`/me/both/resolve/${commit}/`) || !path.startsWith("/me/")), paths.join());
});

for (const [what, input, values] of [
  ["a file", () => hub("me/both", { ...at, file: "model.safetensors" }), [5, 6, 7]],
  ["a file after the name", () => hub("me/both/model.safetensors", at), [5, 6, 7]],
  ["a folder", () => hub("me/both", { ...at, file: "unet" }), [8, 7]],
  ["a file of a commit", () => hub(`hf://me/both@${commit}/model.safetensors`, at), [5, 6, 7]],
  ["a page", () => hub(`${server.endpoint}/me/both/tree/main/unet`), [8, 7]],
  ["the page of a file", () => hub(`${server.endpoint}/me/both/blob/main/model.safetensors`), [5, 6, 7]],
  ["a download link", () => hub(`${server.endpoint}/me/both/resolve/main/model.safetensors?download=true`), [5, 6, 7]],
  ["the only file, in a folder", () => hub("me/nested", at), [9, 7]],
  ["an index", () => hub("me/sharded", at), [1, 2]],
]) {
  test(`${what} opens`, async () => assert.deepEqual(await valuesOf(await open(input())), values));
}

test("a file of a commit needs no other request; what was asked for is what is in the location", async () => {
  const location = await hub(`me/both@${commit}/unet/model.safetensors`, at).locate();
  assert.equal(location.url.href, `${server.endpoint}/me/both/resolve/${commit}/unet/model.safetensors`);
  assert.deepEqual(await server.log(), []);
  const { repository, revision, file } = await hub("me/sharded", at).locate();
  assert.deepEqual([repository, file], ["me/sharded", "model.safetensors.index.json"]);
  assert.match(revision, /^[0-9a-f]{40}$/);
});

test("a folder of a commit is one whatever its name", async () => {
  const { revision } = await hub("me/dotted/Qwen2.5-7B", at).locate();
  assert.deepEqual(await valuesOf(await open(hub(`me/dotted@${revision}/Qwen2.5-7B`, at))), [4, 7]);
  assert.deepEqual(await valuesOf(await open(hub(`me/dotted@${revision}/zstn`, at))), [5, 7]);
});

test("shards are those of the index, even if somebody pushes meanwhile", async () => {
  await server.add("me/moving", shards(10));
  const location = await hub("me/moving", at).locate();
  await server.add("me/moving", shards(20));
  assert.deepEqual(await valuesOf(await open(location.url)), [10, 11]);
  assert.deepEqual(await valuesOf(await open(hub("me/moving", at))), [20, 21]);
});

test("packing a repository in several files is refused with its index", async () => {
  const expected = { code: "invalid_input", message: /model\.safetensors\.index\.json is the index of a model in several files/ };
  await assert.rejects(pack(hub("me/sharded", at)), expected);
  await assert.rejects(pack("hf://me/sharded", at), expected);
});

test("hf:// addresses are read from the hub of the environment", async () => {
  process.env.HF_ENDPOINT = `${server.endpoint}/`;
  try {
    assert.deepEqual(await valuesOf(await open("hf://me/both/model.safetensors")), [5, 6, 7]);
    assert.deepEqual(await valuesOf(await open(new URL("hf://me/both@main/unet/model.safetensors"))), [8, 7]);
    assert.deepEqual(await valuesOf(await open("HF://me/sharded")), [1, 2]);
    const { blob } = await pack("hf://me/both/model.safetensors", { base: "hf://me/both/unet/model.safetensors" });
    assert.deepEqual(await valuesOf(await open(blob, { base: hub("me/both/unet/model.safetensors") })), [5, 6, 7]);
    await assert.rejects(open("hf://me/both/missing.zstn"), { code: "http", reason: "file" });
    await assert.rejects(open("hf://me//x"), { code: "invalid_input", message: /hf:\/\/owner\/name\/file/ });
  } finally {
    delete process.env.HF_ENDPOINT;
  }
});

test("an endpoint is the hub that hf:// addresses mean, and the token goes to it alone", async () => {
  const elsewhere = await answering((_, response) => response.writeHead(404).end());
  process.env.HF_ENDPOINT = elsewhere.endpoint;
  try {
    for (const work of [
      () => open("hf://me/private", { endpoint: server.endpoint, token: TOKEN }),
      () => open(new URL("hf://me/private"), { endpoint: `${server.endpoint}/`, token: TOKEN }),
      () => pack("hf://me/both/model.safetensors", { endpoint: server.endpoint, token: TOKEN, base: "hf://me/both/unet/model.safetensors" }),
      () => open("hf://me/sharded", { endpoint: server.endpoint, token: TOKEN }),
    ]) {
      await work();
      assert.deepEqual(await tokensSent(), [`Bearer ${TOKEN}`]);
    }
    assert.deepEqual(elsewhere.asked, [], "no request to the hub of the environment");
    await assert.rejects(open("hf://me/private", { endpoint: "ftp://hub.example" }), { code: "invalid_input", message: /address of a hub is an http/ });
  } finally {
    delete process.env.HF_ENDPOINT;
    await elsewhere[Symbol.asyncDispose]();
  }
});

test("a refusal of the base blames the base's repository, and none of another server is the hub's", async () => {
  const elsewhere = await answering((_, response) => response.writeHead(404).end());
  const gated = { reason: "gated", repository: "me/gated" };
  try {
    const input = () => hub("me/both/model.safetensors", at);
    await assert.rejects(pack(input(), { base: hub("me/gated", at) }), gated);
    await assert.rejects(open(await pack(input(), { base: plain(1, 2) }).then(({ blob }) => blob), { base: hub("me/gated", at) }), gated);
    const plainRefusal = (error) => error.code === "http" && error.status === 404 && error.reason === undefined;
    await assert.rejects(pack(input(), { base: `${elsewhere.endpoint}/base.safetensors` }), plainRefusal);
    await assert.rejects(open(hub("me/sharded", at), { siblings: (name) => `${elsewhere.endpoint}/${name}` }), plainRefusal);
  } finally {
    await elsewhere[Symbol.asyncDispose]();
  }
});

test("a hub of another copy of the package says the same", async () => {
  const copy = join(scratch, "copy");
  cpSync(fileURLToPath(new URL("../../../wasm/dist", import.meta.url)), copy, { recursive: true });
  writeFileSync(join(copy, "package.json"), '{"type":"module"}');
  const other = (await import(pathToFileURL(join(copy, "hub/node.js")).href)).hub;
  const input = () => other("me/both/model.safetensors", at);
  await assert.rejects(open(other(`me/both@${commit}/missing.safetensors`, at)), { code: "http", reason: "file", message: /no file missing\.safetensors in me\/both/ });
  await server.inject({ path: `/me/both/resolve/${commit}/model.safetensors`, times: 1, status: 403 });
  await assert.rejects(open(input()), { code: "http", reason: "forbidden" });
  const parts = { "model.safetensors": safetensors({ "a.weight_packed": f32(1), b: f32(2) }) };
  await server.add("me/parts", parts);
  assert.equal((await open(other("me/parts", at))).tensors.size, 2, "without a config.json");
});

/**
 * Returns the tokens that the hub has received since the last call. The server of large files, the same program under
 * another name, receives none.
 */
async function tokensSent() {
  const all = await server.log();
  await server.clearLog();
  const [ofHub, ofFiles] = [true, false].map((isHub) => all.filter(({ path }) => /^\/(api|me)\//.test(path) === isHub).map(({ headers }) => headers.authorization));
  assert.ok(ofHub.length > 0);
  assert.deepEqual(ofFiles.filter((token) => token !== undefined), []);
  return [...new Set(ofHub)];
}

test("the token goes to the hub and to no other server, whoever gives it", async () => {
  const bearer = (token) => [`Bearer ${token}`];
  for (const work of [
    () => open(hub("me/private", { ...at, token: TOKEN })),
    () => open(hub("me/private", at), { token: TOKEN }),
    () => open(hub("me/private", at), { headers: { authorization: `Bearer ${TOKEN}` } }),
    () => listModelFiles("me/private", { ...at, token: TOKEN }),
    () => open(hub("me/private", at), { token: TOKEN, base: undefined, config: hub("me/private", at) }),
  ]) {
    await work();
    assert.deepEqual(await tokensSent(), bearer(TOKEN));
  }
  await open(hub("me/private", { ...at, token: TOKEN }), { token: "other" });
  assert.deepEqual(await tokensSent(), bearer(TOKEN), "the nearer one");
});

test("the token of a file's URL is for its siblings after hf:// too, if they are of the same hub", async () => {
  await server.add("me/secret", shards(3), { private: true });
  const settings = { HF_ENDPOINT: server.endpoint, HF_HUB_DISABLE_IMPLICIT_TOKEN: "1" };
  Object.assign(process.env, settings);
  try {
    const index = `${server.endpoint}/me/secret/resolve/main/model.safetensors.index.json`;
    const model = await open(index, { token: TOKEN, siblings: (name) => `hf://me/secret/${name}` });
    assert.deepEqual(await valuesOf(model), [3, 4]);
    assert.deepEqual(await tokensSent(), [`Bearer ${TOKEN}`]);
  } finally {
    for (const name of Object.keys(settings)) delete process.env[name];
  }
});

test("the person's token is for their hub alone", async () => {
  const home = join(scratch, "home");
  mkdirSync(home, { recursive: true });
  writeFileSync(join(home, "token"), `${READER}\n`);
  const settings = { HF_TOKEN: "", HUGGING_FACE_HUB_TOKEN: "", HF_ENDPOINT: server.endpoint, HF_TOKEN_PATH: "", HF_HUB_DISABLE_IMPLICIT_TOKEN: "" };
  const read = async (changed, input = () => hub("me/both")) => {
    Object.assign(process.env, settings, changed);
    try {
      await open(input());
    } finally {
      for (const name of Object.keys(settings)) delete process.env[name];
    }
    return tokensSent();
  };
  assert.deepEqual(await read({}), [`Bearer ${READER}`], "the file that `hf auth login` writes");
  assert.deepEqual(await read({ HUGGING_FACE_HUB_TOKEN: TOKEN }), [`Bearer ${TOKEN}`]);
  assert.deepEqual(await read({ HF_TOKEN: ` ${TOKEN} `, HUGGING_FACE_HUB_TOKEN: "x" }), [`Bearer ${TOKEN}`]);
  assert.deepEqual(await read({ HF_TOKEN_PATH: join(scratch, "none") }), [undefined]);
  assert.deepEqual(await read({ HF_TOKEN: TOKEN, HF_HUB_DISABLE_IMPLICIT_TOKEN: "1" }), [undefined]);
  assert.deepEqual(await read({ HF_TOKEN: TOKEN, HF_ENDPOINT: "https://elsewhere.invalid" }, () => hub("me/both", at)), [undefined], "another hub, by an option");
  assert.deepEqual(await read({ HF_TOKEN: TOKEN, HF_ENDPOINT: "" }, () => hub(`${server.endpoint}/me/both`)), [undefined], "another hub, by a page");
  assert.deepEqual(await read({ HF_TOKEN: TOKEN }, () => hub("me/both", { token: READER })), [`Bearer ${READER}`]);
});

test("the same variables mean the same for the command line", async () => {
  writeFileSync(join(scratch, "home", "token"), READER);
  const environment = { ...process.env, HF_ENDPOINT: server.endpoint };
  await promisify(execFile)(process.env.ZSTN_BIN ?? "target/debug/zstn", ["ls", "hf://me/both/model.zstn"], { env: environment });
  assert.deepEqual(await tokensSent(), [`Bearer ${READER}`]);
});

for (const [what, input, expected] of [
  ["a private repository", () => hub("me/private", at), { reason: "repository", message: /no repository me\/private, or it is private.*hf auth login.*`token`/ }],
  ["no repository", () => hub("me/none", { ...at, token: READER }), { reason: "repository", status: 404, message: /the token may not read it.*settings\/tokens/ }],
  ["a name without owner", () => hub("nothing", at), { message: /nothing/ }],
  ["no revision", () => hub("me/both@v9", at), { reason: "revision", status: 404, message: /me\/both has no branch, tag or commit v9/ }],
  ["no file", () => hub("me/both/missing.zstn", at), { reason: "file", status: 404, message: /no file missing\.zstn in me\/both at main/ }],
  ["a gated repository", () => hub("me/gated", at), { reason: "gated", message: /me\/gated is gated\. Accept its terms at http.*\/me\/gated then log in/ }],
  ["a gated repository, with a token", () => hub("me/gated", { ...at, token: READER }), { reason: "gated", status: 403, message: /with the account that the token belongs to/ }],
  ["a wrong token", () => hub("me/both", { ...at, token: "wrong" }), { reason: "credentials", status: 401, message: /does not accept the token/ }],
]) {
  test(`${what} is said to be that, with what to do`, async () => {
    const error = await open(input()).then(assert.fail, (error) => error);
    assert.equal(error.code, "http");
    if (expected.reason) assert.ok(error instanceof HubError);
    for (const name of ["reason", "status"]) if (expected[name] !== undefined) assert.equal(error[name], expected[name], error.message);
    assert.match(error.message, expected.message);
    assert.ok(!error.message.includes("wrong"), "no token in messages");
  });
}

test("several models, and none: what is there is in the error", async () => {
  const several = await open(hub("me/several", at)).then(assert.fail, (error) => error);
  assert.ok(several instanceof HubFileError);
  assert.equal(several.code, "hub_file");
  assert.deepEqual(several.candidates, ["a.safetensors", "b.safetensors"]);
  assert.match(several.message, /option `file`: a\.safetensors, b\.safetensors\.$/);
  assert.deepEqual(await valuesOf(await open(hub("me/several", { ...at, file: several.candidates[1] }))), [2, 7]);
  await assert.rejects(open(hub("me/pipeline", at)), { candidates: ["unet/diffusion_pytorch_model.safetensors", "vae/diffusion_pytorch_model.safetensors"] });
  assert.deepEqual(await valuesOf(await open(hub("me/pipeline/vae", at))), [2, 7]);
  const none = await open(hub("me/pytorch", at)).then(assert.fail, (error) => error);
  assert.deepEqual(none.candidates, []);
  assert.ok(none.files.includes("pytorch_model.bin"));
  assert.match(none.message, /no file that can be read.*It has pytorch_model\.bin \(PyTorch\), saved_model\.pb \(TensorFlow\)\. PyTorch files are opened by their own address; convert/);
});

test("a listing has what @huggingface/hub lists, of one commit, over several pages", async () => {
  const found = await listModelFiles("me/both", at);
  const theirs = [];
  for await (const { type, path, size, lfs } of listFiles({ repo: "me/both", hubUrl: server.endpoint, recursive: true, revision: commit })) {
    if (type === "file" && /\.(zstn|safetensors)$/.test(path)) theirs.push({ path, sizeBytes: size, sha256: lfs?.oid });
  }
  assert.deepEqual(found.map(({ path, sizeBytes, sha256 }) => ({ path, sizeBytes, sha256 })), theirs.sort((a, b) => (a.path < b.path ? -1 : 1)));
  assert.ok((await server.log()).filter(({ query }) => query.includes("cursor")).length > 0, "more than one page");
  assert.deepEqual(found.map(({ path, isDefault }) => [path, isDefault]), [["model.safetensors", false], ["model.zstn", true], ["unet/model.safetensors", false]]);
  assert.ok(found.every(({ revision, url }) => revision === commit && url.href.includes(commit)));
  assert.deepEqual(await valuesOf(await open(found[1].url)), [1, 2, 7]);
  assert.deepEqual((await listModelFiles("me/both/unet", at)).map(({ path }) => path), ["unet/model.safetensors"]);
  await assert.rejects(listModelFiles("me/both/none", at), { code: "invalid_input", message: /no folder none/ });
});

test("the Blob of @huggingface/hub opens with the same bytes", async () => {
  const blob = await downloadFile({ repo: "me/both", path: "model.zstn", hubUrl: server.endpoint });
  assert.deepEqual(await valuesOf(await open(blob)), await valuesOf(await open(hub("me/both", at))));
});

test("a hub that fails for a while is asked again, and an abort ends that", async () => {
  await server.inject({ path: "/api/models/me/both", times: 2, status: 503 });
  assert.deepEqual(await valuesOf(await open(hub("me/both", at))), [1, 2, 7]);
  await server.inject({ path: "/api/models/me/both", status: 503 });
  await assert.rejects(open(hub("me/both", at), { retries: 0 }), { code: "http", status: 503 });
  const reason = new Error("enough");
  const stop = new AbortController();
  await server.heal();
  await server.inject({ path: "/api/models/me/both", wait_ms: 60_000 });
  const opening = open(hub("me/both", at), { signal: stop.signal });
  setTimeout(() => stop.abort(reason), 50);
  await assert.rejects(opening, (error) => error === reason);
});

test("requests for files and for answers of the hub have the option `cache` in browsers alone", async () => {
  const caches = async () => {
    const seen = new Set();
    await open(hub("me/both", at), { fetch: (url, init) => (seen.add(`${url.includes("/api/")} ${init.cache}`), fetch(url, { ...init, cache: undefined })) });
    return [...seen];
  };
  assert.deepEqual(await caches(), ["true undefined", "false undefined"]);
  globalThis.location = new URL("http://localhost/");
  try {
    assert.deepEqual(await caches(), ["true no-store", "false no-store"]);
  } finally {
    delete globalThis.location;
  }
});

test("arguments that make no sense are refused at once", async () => {
  for (const [text, options] of [
    ["me/both@v1", { revision: "v2" }], ["me/both", { revision: "" }], ["me/both", { revision: ".." }], ["me/both", { revision: "a/../b" }], [{ ...parseHubAddress("me/both"), revision: ".." }, {}], ["me/both/a.zstn", { file: "b.zstn" }], ["me/both", { file: "../x" }], ["me/both", { file: "" }],
    ["me/both", { endpoint: "hub" }], ["me/both", { endpoint: "ftp://hub" }], ["https://huggingface.co/me/both", { endpoint: "https://mirror.example" }],
  ]) {
    assert.throws(() => hub(text, options), { code: "invalid_input" }, `${text} ${JSON.stringify(options)}`);
  }
  await assert.rejects(open(hub("me/both", { ...at, token: "a\nb" })), { code: "invalid_input" });
});

/** Starts a hub with one answer, for behaviour of real hubs that the stub lacks. */
async function answering(answer) {
  const asked = [];
  const server = createServer((request, response) => {
    asked.push({ url: request.url, authorization: request.headers.authorization });
    answer(request, response);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { endpoint: `http://127.0.0.1:${server.address().port}`, asked, [Symbol.asyncDispose]: () => new Promise((resolve) => (server.closeAllConnections(), server.close(resolve))) };
}

test("an old name leads to the new one; a next page elsewhere is not followed", async () => {
  const sha = "0123456789abcdef0123456789abcdef01234567";
  const elsewhere = await answering((_, response) => response.end("[]"));
  const old = await answering((request, response) => {
    const url = request.url.split("?")[0];
    if (url === "/api/models/gpt2/revision/main") return response.end(JSON.stringify({ id: "openai-community/gpt2", sha, siblings: [{ rfilename: "model.safetensors" }] }));
    if (url === `/api/models/openai-community/gpt2/tree/${sha}`) return response.setHeader("link", `<${elsewhere.endpoint}/next>; rel="next"`).end('[{"type":"file","path":"model.safetensors","size":3}]');
    response.writeHead(404).end();
  });
  try {
    const { url, repository } = await hub("gpt2", { endpoint: old.endpoint }).locate();
    assert.deepEqual([url.href, repository], [`${old.endpoint}/openai-community/gpt2/resolve/${sha}/model.safetensors`, "openai-community/gpt2"]);
    const [file] = await listModelFiles("gpt2", { endpoint: old.endpoint, token: "secret" });
    assert.equal(file.sizeBytes, 3);
    assert.deepEqual(elsewhere.asked, []);
  } finally {
    await old[Symbol.asyncDispose]();
    await elsewhere[Symbol.asyncDispose]();
  }
});

test("answers that no hub gives are typed errors", async () => {
  for (const [body, expected] of [
    ["<html>", { code: "malformed", message: /not JSON/ }],
    ["null", { code: "malformed", message: /does not list/ }],
    ['{"siblings":3}', { code: "malformed" }],
    ['{"siblings":[null,{"rfilename":7}]}', { code: "hub_file", message: /It is empty/ }],
    ['{"id":"../../x","sha":"../..","siblings":[{"rfilename":"model.zstn"}]}', { code: "http", status: 404 }],
  ]) {
    const odd = await answering((request, response) => (request.url.startsWith("/api/") ? response.end(body) : response.writeHead(404).end()));
    try {
      await assert.rejects(open(hub("o/n", { endpoint: odd.endpoint })), expected, body);
      assert.ok(odd.asked.every(({ url }) => /^\/(api\/models\/o\/n\/revision\/main|o\/n\/resolve\/main\/model\.zstn)$/.test(url)), JSON.stringify(odd.asked));
    } finally {
      await odd[Symbol.asyncDispose]();
    }
  }
});
