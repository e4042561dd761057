/** Workers whose script is on another origin than the page, such as that of a CDN. */

/** Starts a worker from a script of the page's own origin that imports the one at `address`, which the other origin has to allow (CORS). */
export function startFromBlob(address: string): Worker {
  const script = URL.createObjectURL(new Blob([`import ${JSON.stringify(address)};`], { type: "text/javascript" }));
  const worker = new Worker(script, { type: "module", name: "zstn" });
  const revoke = () => URL.revokeObjectURL(script);
  // The script is loaded by then, or has failed.
  worker.addEventListener("message", revoke, { once: true });
  worker.addEventListener("error", revoke, { once: true });
  return worker;
}
