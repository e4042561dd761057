/** The HTTP source with responses that no real server can be made to send, or that only some browsers pass on. */

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { remoteSource } from "../../../wasm/dist/source/remote.js";
import { sameVersion, strongEtag } from "../../../wasm/dist/source/http/validator.js";
import { Traffic } from "../../../wasm/dist/source/traffic.js";

const FILE = Uint8Array.from({ length: 50_000 }, (_, i) => (i * i) >> 5);
const URL_ = new URL("https://host.test/model?key=1#part");

/** Returns a response as a page sees it: the `type` "cors" hides all headers except those in `shown`. */
function answered(body, status, shown, type = "basic") {
  const response = new Response(body, { status, headers: shown });
  Object.defineProperty(response, "type", { value: type });
  return response;
}

const asked = (init) => {
  const [, first, last] = /(\d+)-(\d+)/.exec(new Headers(init.headers).get("range")).map(Number);
  const part = FILE.slice(first, last + 1);
  return { first, part, contentRange: `bytes ${first}-${first + part.length - 1}/${FILE.length}` };
};

const source = (fetch, options = {}) => remoteSource(URL_, { retries: 0, ...options, fetch }, undefined, new Traffic());

/** Simulates a page on another origin. */
function inPage() {
  globalThis.location = { origin: "https://page.test", href: "https://page.test/" };
}
afterEach(() => delete globalThis.location);

test("a body that was decoded on the way does not have the length announced, and is refused", async () => {
  inPage();
  for (const [declared, sent] of [["100", 32_768], ["100", 40_000]]) {
    const fetch = async () => answered(FILE.slice(0, sent), 206, { "content-length": declared }, "cors");
    await assert.rejects(source(fetch).size(), { code: "content_encoding", message: /announced 100 bytes/ });
  }
  const whole = async () => answered(FILE, 200, { "content-length": "100" }, "cors");
  await assert.rejects(source(whole).size(), { code: "content_encoding" });
  const shorter = async () => answered(FILE.slice(0, 90), 200, { "content-length": "100" }, "cors");
  await assert.rejects(source(shorter).size(), { code: "truncated", receivedBytes: 90, expectedBytes: 100 });
});

test("in a page a hidden range is measured by its length; outside a missing one is refused", async () => {
  const silent = async (_url, init) => (init.method === "HEAD" ? answered(null, 200, { "content-length": String(FILE.length) }, "cors") : answered(asked(init).part, 206, {}, "cors"));
  await assert.rejects(source(silent).size(), { code: "range_not_supported", message: /Content-Range/ });
  inPage();
  const file = source(silent);
  assert.equal(await file.size(), FILE.length);
  assert.deepEqual(await file.read(40_000, 5000), FILE.slice(40_000, 45_000));
  const wrong = source(async (url, init) => (/^bytes=4/.test(new Headers(init.headers).get("range")) ? answered(FILE.slice(0, 4999), 206, {}, "cors") : silent(url, init)));
  await wrong.size();
  await assert.rejects(wrong.read(40_000, 5000), { code: "truncated" });
});

test("in a page, a hidden range that is shorter than asked for is a right answer: the rest is asked for, without a retry", async () => {
  inPage();
  const seen = [];
  const parts = (validator) => async (_url, init) => {
    if (init.method === "HEAD") return answered(null, 200, { "content-length": String(FILE.length), ...validator }, "cors");
    const { first, part } = asked(init);
    seen.push(first);
    const sent = first === 0 ? part : part.slice(0, 2000);
    return answered(sent, 206, { "content-length": String(sent.length), ...validator }, "cors");
  };
  const dated = { "last-modified": "Mon, 01 Jan 2024 00:00:00 GMT" };
  const file = source(parts(dated));
  await file.size();
  assert.deepEqual(await file.read(40_000, 5000), FILE.slice(40_000, 45_000));
  assert.deepEqual(seen, [0, 40_000, 42_000, 44_000]);
  const unknown = source(parts({}));
  await unknown.size();
  await assert.rejects(unknown.read(40_000, 5000), { code: "truncated" }, "parts of what may be two versions are not put together");
});

test("a size that cannot be had in any way is said so", async () => {
  inPage();
  for (const head of [answered(null, 403, {}, "cors"), answered(null, 200, {}, "cors")]) {
    const fetch = async (_url, init) => (init.method === "HEAD" ? head : answered(asked(init).part, 206, {}, "cors"));
    await assert.rejects(source(fetch).size(), { code: "range_not_supported", message: /the size of the file/ });
  }
});

test("the size must be of the version whose head was read", async () => {
  inPage();
  const modified = (day) => ({ "last-modified": `Mon, 0${day} Jan 2024 00:00:00 GMT` });
  const fetch = async (_url, init) => (init.method === "HEAD" ? answered(null, 200, { "content-length": "70000", ...modified(8) }, "cors") : answered(asked(init).part, 206, modified(1), "cors"));
  await assert.rejects(source(fetch).size(), { code: "changed" });
});

test("If-Range is sent outside of browsers, and in them on the page's own origin", async () => {
  const sent = async (type) => {
    const seen = [];
    const file = source(async (_url, init) => {
      seen.push(new Headers(init.headers).get("if-range"));
      const { part, contentRange } = asked(init);
      return answered(part, 206, { "content-range": contentRange, etag: '"1"' }, type);
    });
    await file.size();
    await file.read(40_000, 10);
    return seen;
  };
  assert.deepEqual(await sent("cors"), [null, '"1"']);
  inPage();
  assert.deepEqual(await sent("basic"), [null, '"1"']);
  assert.deepEqual(await sent("cors"), [null, null]);
  assert.deepEqual(await sent("default"), [null, null]);
});

test("the address goes out without its fragment, and with its query", async () => {
  const seen = [];
  await assert.rejects(source(async (url) => (seen.push(url), new Response(null, { status: 404 }))).size(), { code: "http" });
  assert.deepEqual(seen, ["https://host.test/model?key=1"]);
});

test("several ranges in one answer are not taken for the one asked for", async () => {
  const fetch = async () => answered("--x\r\nContent-Range: bytes 0-1/3\r\n\r\nab\r\n--x--", 206, { "content-type": "multipart/byteranges; boundary=x" });
  await assert.rejects(source(fetch).size(), { code: "range_not_supported" });
});

test("a size that leaves no memory for a read is an error of its own", async () => {
  const fetch = async (_url, init) => {
    const range = new Headers(init.headers).get("range").replace("=", " ");
    return answered(asked(init).part, 206, { "content-range": `${range}/${2 ** 52}` });
  };
  const file = source(fetch);
  assert.equal(await file.size(), 2 ** 52);
  await assert.rejects(file.read(0, 2 ** 51), { code: "limit" });
});

test("strong ETags are those in plain quotes", () => {
  const strong = (etag) => strongEtag({ etag, lastModified: undefined });
  assert.deepEqual(['"a"', '""', 'W/"a"', "a", '"a"b"', undefined].map(strong), ['"a"', '""', undefined, undefined, undefined, undefined]);
});

test("versions: what differs is another, what is missing is not trusted", () => {
  const v = (etag, lastModified) => ({ etag, lastModified });
  for (const [pinned, answered, vouched, same] of [
    [v("1", "x"), v("1", "y"), false, true],
    [v("1", "x"), v("2", "x"), true, false],
    [v("1", "x"), v(undefined, "x"), false, true],
    [v("1", "x"), v(undefined, "y"), true, false],
    [v("1"), v(), false, false],
    [v("1"), v(), true, true],
    [v(), v("1", "x"), false, true],
    [v(), v(), false, true],
  ]) {
    assert.equal(sameVersion(pinned, answered, vouched), same, JSON.stringify([pinned, answered, vouched]));
  }
});
