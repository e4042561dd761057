/** Macrotasks, in browsers and in Node. */

/** Runs `work` after the current task and its microtasks. Unlike a timer it is not throttled in background tabs. */
export function queueMacrotask(work: () => void): void {
  if (typeof setImmediate === "function") {
    setImmediate(work);
    return;
  }
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => {
    port1.close();
    work();
  };
  port2.postMessage(undefined);
}
