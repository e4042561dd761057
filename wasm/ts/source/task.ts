/** The turn after this one. */

/** Runs `work` once whatever runs now, and what it has started without waiting, is done. Unlike a timer it is not slowed down in pages out of sight. */
export function nextTask(work: () => void): void {
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
