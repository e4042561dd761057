/** Starts workers whose script is on another origin than the page, such as a CDN. */

/**
 * Starts a worker from a script of the page's own origin that imports the script at `address`. The other origin has to
 * allow the import (CORS).
 */
export function startFromBlob(address: string): Worker {
  const script = URL.createObjectURL(new Blob([`import ${JSON.stringify(address)};`], { type: "text/javascript" }));
  const worker = new Worker(script, { type: "module", name: "zstn" });
  const revoke = () => URL.revokeObjectURL(script);
  // When the first message or error arrives, the script has been loaded or has failed to load.
  worker.addEventListener("message", revoke, { once: true });
  worker.addEventListener("error", revoke, { once: true });
  return worker;
}
