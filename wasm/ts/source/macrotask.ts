/** Queues macrotasks on every platform. */

/**
 * Runs `work` after the current task and its microtasks. Unlike a timer, it is not throttled in background tabs of
 * browsers.
 */
export function queueMacrotask(work: () => void): void {
  if (typeof setImmediate === "function") setImmediate(work);
  else if (typeof MessageChannel === "function") queueMessage(work);
  else setTimeout(work); // Cloudflare Workers before the compatibility date 2025-08-15
}

function queueMessage(work: () => void): void {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => {
    port1.close();
    work();
  };
  port2.postMessage(undefined);
}
