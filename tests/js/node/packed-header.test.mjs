/**
 * TypeScript lists files that were packed from safetensors, and passes the files that it does not accept to the core, which
 * explains why. Here both read the same files: valid ones, forged ones and thousands of mutations.
 */

import assert from "node:assert/strict";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { open } from "zstn";
import { parseSection } from "../../../wasm/dist/zstn/section.js";
import { xxh3 } from "../../../wasm/dist/zstn/xxh3.js";
import { bf16Tensor, safetensors, xorshift } from "../support/checkpoint.mjs";
import { pack } from "../support/cli.mjs";
import { corePackedOutcome, packedOutcome } from "../support/core-reader.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { isAll } from "../support/tier.mjs";

const scratch = scratchFolder();
const FOOTER_BYTES = 20;
/** The length of the section's fields after its payload, and of its checksum, in bytes. */
const TRAILER_BYTES = 16;

/** Returns the positions of the index and of the integrity section of a packed file. */
function placesOf(file) {
  const footer = file.length - FOOTER_BYTES;
  const index = Number(file.readBigUInt64LE(footer));
  return { index, section: index + Number(file.readBigUInt64LE(footer + 8)), footer, prefix: 22 + Number(file.readBigUInt64LE(6)) };
}

/** Returns a copy of a packed file with other bytes at some places, and with the checksums that belong to them. */
function forged(file, change) {
  const bytes = Buffer.from(file);
  change(bytes);
  const { index, section, footer, prefix } = placesOf(file);
  const head = bytes.indexOf("HEAD", section);
  const sum = section < footer ? footer - TRAILER_BYTES - 8 : -1;
  if (head >= 0 && head + 28 <= sum) {
    bytes.writeBigUInt64LE(xxh3(bytes.subarray(0, prefix)), head + 12);
    bytes.writeBigUInt64LE(xxh3(bytes.subarray(index, section)), head + 20);
  }
  if (sum >= 0) bytes.writeBigUInt64LE(xxh3(bytes.subarray(section, sum)), sum);
  return bytes;
}

/** Returns whether the integrity section of a valid file has digests of the tensors but no other checksums of them. */
function hasOnlyDigests(file) {
  const { section, footer } = placesOf(file);
  const records = parseSection(file.subarray(section, footer));
  return records?.has("TENS") && !records.has("FRMS");
}

/** Checks that both accept a file with the same contents, or both refuse it. Returns whether it was accepted. */
async function agree(bytes, label) {
  const [ours, core] = [await packedOutcome(bytes), await corePackedOutcome(bytes)];
  if (ours || core.refused) assert.deepEqual(ours ?? { refused: core.refused }, core, label());
  // Virtual headers are read by the core, and so are files with digests but no other checksums of the tensors.
  else assert.ok((bytes[5] & 8) > 0 || hasOnlyDigests(bytes), `${label()}: the core reads it`);
  return ours !== undefined;
}

/** The files that are mutated: the usual one, one with all records, and one with an alias and an empty tensor. */
const files = {};

before(async () => {
  const random = xorshift(3);
  const small = { a: { dtype: "U8", shape: [3], bytes: Uint8Array.of(1, 2, 3) }, b: { dtype: "F32", shape: [2, 2], bytes: new Uint8Array(16).fill(7) } };
  const aliased = { ...small, é: { dtype: "I8", shape: [3, 1], bytes: Uint8Array.of(1, 2, 3) }, empty: { dtype: "I64", shape: [0, 5], bytes: new Uint8Array(0) } };
  const blocked = { w: { dtype: "BF16", shape: [1024, 512], bytes: bf16Tensor(1024 * 512, random) }, ...aliased };
  const many = Object.fromEntries(Array.from({ length: 600 }, (_, i) => [`model.layers.${i}.self_attn.q_proj.weight`, { dtype: "U8", shape: [1], bytes: Uint8Array.of(i & 255) }]));
  for (const [name, tensors] of Object.entries({ small, aliased, blocked, many })) {
    writeFileSync(join(scratch, `${name}.safetensors`), safetensors(tensors));
    await pack(join(scratch, `${name}.safetensors`), join(scratch, `${name}.zstn`));
    files[name] = readFileSync(join(scratch, `${name}.zstn`));
  }
});

test("the usual files are listed without the core, with the same contents", async () => {
  for (const [name, file] of Object.entries(files)) assert.ok(await agree(file, () => name), name);
  const { order, tensors, statistics } = await packedOutcome(files.blocked);
  assert.equal(tensors.find(({ name }) => name === "é").aliasOf, "a");
  assert.ok(order.length >= 9 && statistics.length > 8 && tensors.every(({ digest }) => /^[0-9a-f]{32}$/.test(digest)));
});

test("a long header is restored from its copy, in two requests", async () => {
  assert.ok(placesOf(files.many).prefix > 32768 && (files.many[5] & 2) > 0, "the header has a copy");
  const model = await open(join(scratch, "many.zstn"));
  assert.deepEqual([model.tensors.size, model.stats.requests], [600, 2]);
  assert.deepEqual([...(await model.tensor("model.layers.77.self_attn.q_proj.weight")).data], [77]);
  assert.deepEqual(Buffer.from(await model.asSafetensorsBlob().bytes()), readFileSync(join(scratch, "many.safetensors")));
});

test("the packed vectors, valid and damaged", async (t) => {
  const vectors = fileURLToPath(new URL("../../vectors/", import.meta.url));
  const counts = { listed: 0, refused: 0 };
  for (const name of readdirSync(vectors, { recursive: true }).filter((name) => /\.(zstn|bin)$/.test(name))) {
    const bytes = readFileSync(join(vectors, name));
    // The others are left to the core because of their first bytes.
    if (bytes.subarray(0, 5).toString("latin1") !== "ZSTN\x03" || bytes[5] & 8) continue;
    counts[(await agree(bytes, () => name)) ? "listed" : "refused"] += 1;
  }
  t.diagnostic(JSON.stringify(counts));
  assert.ok(counts.listed > 20 && counts.refused > 40, "both verdicts occur");
});

test("a file cut anywhere, and every bit before and after its frames flipped, with checksums that match and without", async (t) => {
  const file = files.aliased;
  const counts = { true: 0, false: 0 };
  const count = async (bytes, label) => (counts[await agree(bytes, label)] += 1);
  for (let end = 14; end < file.length; end += 1) await count(file.subarray(0, end), () => `cut to ${end} bytes`);
  const { index, prefix } = placesOf(file);
  for (let at = 5; at < file.length; at++) {
    if (at >= prefix && at < index) continue;
    for (let bit = 0; bit < 8; bit++) {
      const flip = (bytes) => (bytes[at] ^= 1 << bit);
      const flipped = Buffer.from(file);
      flip(flipped);
      await count(flipped, () => `byte ${at}, bit ${bit}`);
      await count(forged(file, flip), () => `byte ${at}, bit ${bit}, forged`);
    }
  }
  t.diagnostic(JSON.stringify(counts));
  assert.ok(counts.true > 100 && counts.false > 1000, "both verdicts occur");
});

const MUTATIONS = isAll ? 10_000 : 1500;

test(`${MUTATIONS} forged files`, async (t) => {
  const random = xorshift(11);
  const below = (limit) => random() % limit;
  const counts = { true: 0, false: 0 };
  const sources = [files.small, files.aliased, files.blocked];
  for (let number = 0; number < MUTATIONS; number++) {
    const file = sources[below(sources.length)];
    const { index, section, footer, prefix } = placesOf(file);
    const [begin, end] = [[6, prefix], [index, section], [index, section], [section, footer - TRAILER_BYTES - 8], [footer, file.length]][below(5)];
    const mutated = forged(file, (bytes) => {
      for (let i = below(3); i >= 0; i--) {
        const at = begin + below(end - begin);
        // Whole fields are more often copied from elsewhere than invented.
        if (below(2)) bytes[at] = below(256);
        else bytes.copyWithin(at, begin + below(end - begin), Math.min(end, begin + below(end - begin) + 9));
      }
    });
    const verdict = await agree(mutated, () => `mutation ${number}`);
    counts[verdict] += 1;
  }
  t.diagnostic(JSON.stringify(counts));
  assert.ok(counts.true > MUTATIONS / 100 && counts.false > MUTATIONS / 4, "both verdicts occur");
});

test("a file that is refused is refused with the words of the core", async () => {
  const { index } = placesOf(files.small);
  const damaged = Buffer.from(files.small);
  damaged[index + 6] ^= 1;
  await assert.rejects(open(damaged), { code: "malformed", rule: "zstn.head_checksum", message: /^The index does not have the checksum in the file/ });
  await assert.rejects(open(files.small.subarray(0, 200)), { code: "malformed", rule: "zstn.footer" });
});
