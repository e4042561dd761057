import assert from "node:assert/strict";
import { test } from "node:test";
import { IdleTimeout, MIN_PROGRESS_BYTES } from "../../../wasm/dist/source/http/idle-timeout.js";
import { fakeClock } from "../support/clock.mjs";

function started() {
  const clock = fakeClock();
  return { clock, idle: new IdleTimeout(1000, clock, (limitMs) => new Error(`nothing for ${limitMs}`)) };
}

test("no answer within the limit is the end", () => {
  const { clock, idle } = started();
  clock.pass(999);
  assert.equal(idle.signal.aborted, false);
  clock.pass(1);
  assert.equal(idle.signal.reason.message, "nothing for 1000");
  assert.equal(idle.idleMs, 1000);
});

test("bytes count when there are enough of them", () => {
  const { clock, idle } = started();
  idle.answered();
  for (let second = 0; second < 10; second++) {
    clock.pass(900);
    idle.received(MIN_PROGRESS_BYTES);
  }
  assert.deepEqual([idle.signal.aborted, idle.idleMs], [false, 0]);
  for (let byte = 0; byte < 10; byte++) {
    clock.pass(100);
    idle.received(byte === 0 ? MIN_PROGRESS_BYTES - 10 : 1);
  }
  assert.equal(idle.signal.aborted, true);
});

test("the body of the first answer has the whole limit, later answers share it", () => {
  const { clock, idle } = started();
  clock.pass(900);
  idle.answered();
  clock.pass(900);
  assert.deepEqual([idle.signal.aborted, idle.idleMs], [false, 1800]);
  idle.received(10);
  idle.answered();
  clock.pass(99);
  assert.equal(idle.signal.aborted, false);
  clock.pass(1);
  assert.equal(idle.signal.aborted, true);
});

test("a timeout that was stopped does nothing", () => {
  const { clock, idle } = started();
  idle.stop();
  clock.pass(5000);
  assert.equal(idle.signal.aborted, false);
});
