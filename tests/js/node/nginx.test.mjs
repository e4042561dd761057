/** Reads from a real nginx, if one is installed (on the PATH, in /usr/sbin, or named in ZSTN_NGINX). */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { delimiter, join } from "node:path";
import { after, before, test } from "node:test";
import { open } from "zstn";
import { readAndCheck, version } from "../support/faulty-model.mjs";
import { scratchFolder } from "../support/scratch.mjs";

const places = [...(process.env.PATH ?? "").split(delimiter), "/usr/sbin"].map((folder) => join(folder, "nginx"));
const program = process.env.ZSTN_NGINX ?? places.find((path) => existsSync(path));
const skip = program ? false : "there is no nginx; name one in ZSTN_NGINX";

const scratch = scratchFolder();
const file = version();
const path = join(scratch, "files/model.safetensors");
let port;
let server;

async function freePort() {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address();
  probe.close();
  await once(probe, "close");
  return port;
}

const configuration = () => `
daemon off; master_process off; pid ${scratch}/nginx.pid; error_log stderr crit;
events { worker_connections 64; }
http {
  access_log off; default_type application/octet-stream;
  ${["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((kind) => `${kind}_temp_path ${scratch}/${kind};`).join(" ")}
  limit_req_zone $binary_remote_addr zone=slow:1m rate=4r/s;
  server {
    listen 127.0.0.1:${port};
    root ${scratch}/files;
    location /plain/ { alias ${scratch}/files/; }
    location /gzip/ { alias ${scratch}/files/; gzip on; gzip_types *; gzip_min_length 1; }
    location /whole/ { alias ${scratch}/files/; max_ranges 0; }
    location /dated/ { alias ${scratch}/files/; etag off; }
    location /limited/ { alias ${scratch}/files/; limit_req zone=slow; limit_req_status 429; }
    location /moved/ { rewrite ^/moved/(.*) /plain/$1 redirect; }
  }
}`;

const url = (location) => `http://127.0.0.1:${port}/${location}/model.safetensors`;

if (!skip) {
  before(async () => {
    mkdirSync(join(scratch, "files"));
    writeFileSync(path, file.bytes);
    port = await freePort();
    writeFileSync(join(scratch, "nginx.conf"), configuration());
    server = spawn(program, ["-e", "stderr", "-p", scratch, "-c", join(scratch, "nginx.conf")], { stdio: "inherit" });
    for (let tries = 0; tries < 100; tries++) {
      if (await fetch(url("plain")).then((answer) => answer.body.cancel().then(() => true), () => false)) return;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error("nginx does not answer");
  });
  after(async () => {
    if (server?.exitCode !== null) return;
    server.kill();
    await once(server, "exit");
  });
}

for (const location of ["plain", "gzip", "dated", "moved"]) {
  test(`/${location}: every tensor, by ranges`, { skip }, async () => {
    const model = await open(url(location));
    for (const name of model.tensors.keys()) await readAndCheck(model, file, name);
    assert.equal(model.stats.requests, 1 + model.tensors.size);
  });
}

test("/whole: one answer for everything", { skip }, async () => {
  const model = await open(url("whole"));
  for (const name of model.tensors.keys()) await readAndCheck(model, file, name);
  assert.equal(model.stats.requests, 1);
});

test("/limited: tried again until there is leave", { skip }, async () => {
  const model = await open(url("limited"), { retries: 10 });
  await Promise.all(["a", "d"].map((name) => readAndCheck(model, file, name)));
  assert.ok(model.stats.retries > 0);
});

for (const location of ["plain", "dated"]) {
  test(`/${location}: a file put in the place of another is noticed`, { skip }, async () => {
    const model = await open(url(location));
    const other = `${path}.new`;
    writeFileSync(other, version(50).bytes);
    // Last-Modified has a resolution of one second.
    await new Promise((resolve) => setTimeout(resolve, 1100));
    writeFileSync(other, version(50).bytes);
    renameSync(other, path);
    try {
      await assert.rejects(model.tensor("a"), { code: "changed" });
      await readAndCheck(await open(url(location)), version(50), "a");
    } finally {
      writeFileSync(path, file.bytes);
    }
  });
}
