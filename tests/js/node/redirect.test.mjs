/** Addresses that redirect to another origin, as on model hubs, and the servers that receive secrets. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { open } from "zstn";
import { redirect, startFaultServer, status } from "../support/fault-server.mjs";
import { readAndCheck, version } from "../support/faulty-model.mjs";

const file = version();
let cdn;
let hub;
before(async () => {
  cdn = await startFaultServer(file);
  hub = await startFaultServer(file, { always: redirect(cdn.origin) });
});
after(() => Promise.all([hub?.stop(), cdn?.stop()]));

test("every range goes by way of the address given, and the token stays there", async () => {
  const model = await open(hub.url, { token: "t0ken", headers: { "X-Trace": "1" } });
  await readAndCheck(model, file, "a");
  assert.deepEqual([hub.log.length, cdn.log.length, model.stats.requests], [2, 2, 2]);
  assert.ok(hub.log.every(({ headers }) => headers.authorization === "Bearer t0ken"));
  assert.ok(cdn.log.every(({ headers, path }) => headers.authorization === undefined && path.startsWith("/signed/")));
  assert.ok(cdn.log.every(({ headers }) => headers["x-trace"] === "1"), "other headers go along, as the documentation says");
  assert.equal(cdn.log.at(-1).headers["if-range"], file.etag);
});

test("a signed address that has expired is asked for anew at the next attempt", async () => {
  const model = await open(hub.url, { token: "t0ken" });
  const before = hub.log.length;
  cdn.faults.push(status(503));
  await readAndCheck(model, file, "a");
  assert.equal(hub.log.length, before + 2);
});

test("the base of a delta gets the token only from the same origin", async () => {
  const seen = [];
  const fetch = async (url, init) => {
    seen.push([new URL(url).pathname, new Headers(init.headers).get("authorization")]);
    return new Response("no", { status: 404 });
  };
  await assert.rejects(open("http://a.test/delta", { base: "http://a.test/base", token: "t", fetch }), { status: 404 });
  await assert.rejects(open("http://a.test/delta", { base: "http://b.test/base", token: "t", fetch }), { status: 404 });
  assert.deepEqual(seen, [["/delta", "Bearer t"], ["/base", "Bearer t"], ["/delta", "Bearer t"], ["/base", null]]);
});

test("shards get the token only from the origin of their index", async () => {
  const index = new TextEncoder().encode(JSON.stringify({ weight_map: { "a.weight": "part.safetensors" } }));
  const seen = new Map();
  const fetch = async (url, init) => {
    const { host, pathname } = new URL(url);
    seen.set(`${host}${pathname}`, new Headers(init.headers).get("authorization"));
    if (!pathname.endsWith(".index.json")) return new Response("no", { status: 404 });
    return new Response(index, { status: 206, headers: { "content-range": `bytes 0-${index.length - 1}/${index.length}` } });
  };
  const address = "http://a.test/model.safetensors.index.json";
  await assert.rejects(open(address, { token: "t", fetch }), { status: 404 });
  assert.equal(seen.get("a.test/part.safetensors"), "Bearer t");
  seen.clear();
  await assert.rejects(open(address, { token: "t", fetch, siblings: (name) => `http://b.test/${name}` }), { status: 404 });
  assert.deepEqual(Object.fromEntries(seen), { "a.test/model.safetensors.index.json": "Bearer t", "b.test/part.safetensors": null });
});
