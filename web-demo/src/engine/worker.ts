/** The page's worker: holds the models, reads and computes, so that the page stays free to draw. */

import { pack } from "zstn";
import { describe } from "./describe.js";
import { failure } from "./failure.js";
import { OpenModels } from "./open-models.js";
import type { CallName, Calls, FromWorker, Step, ToWorker } from "./protocol.js";
import { raster } from "./raster.js";
import { save } from "./save.js";
import { byteShares } from "./shares.js";
import { valuesOf } from "./values.js";

/** What every call is given besides its request. */
export interface Context {
  readonly signal: AbortSignal;
  readonly onStep: (step: Step) => void;
}

type Handlers = { [N in CallName]: (request: Calls[N]["request"], context: Context) => Promise<Calls[N]["result"]> };

const send = (message: FromWorker, transfer: Transferable[] = []) => postMessage(message, { transfer });
const models = new OpenModels((wire) => send({ wire }));

const handlers: Handlers = {
  open: (request, context) => models.open(request, context),
  openSecond: (request, context) => models.openSecond(request, context),
  closeSecond: async () => models.closeSecond(),
  raster: (request, context) => raster(models.matrix(request.of, request.minus), request, context),
  describe: (request, context) => describe(models.matrix(request.of, request.minus), request.whole, context),
  values: (request, context) => valuesOf(models.matrix(request.of, request.minus), request.area, context),
  shares: ({ slot, tensor }, context) => byteShares(models.model(slot), tensor, context),
  save: ({ of, format }, context) => save(models.model(of.slot), of.tensor, format, context),
  pack: ({ file, effort }, { signal, onStep }) => pack(file, { effort, signal, onProgress: onStep }),
};

const running = new Map<number, AbortController>();

addEventListener("message", ({ data }: MessageEvent<ToWorker>) => {
  if ("abort" in data) running.get(data.id)?.abort();
  else void answer(data.id, data.call, data.request);
});

async function answer(id: number, call: CallName, request: unknown): Promise<void> {
  const stop = new AbortController();
  running.set(id, stop);
  const handler = handlers[call] as (request: unknown, context: Context) => Promise<unknown>;
  try {
    const result = await handler(request, { signal: stop.signal, onStep: stepsOf(id) });
    send({ id, result }, result && typeof result === "object" && "rgba" in result ? [(result.rgba as Uint8ClampedArray<ArrayBuffer>).buffer] : []);
  } catch (error) {
    send({ id, failure: failure(error) });
  } finally {
    running.delete(id);
    models.tell();
  }
}

/** Word on the way, not more often than anyone can see. */
function stepsOf(id: number): (step: Step) => void {
  let last = 0;
  return ({ loadedBytes, totalBytes }) => {
    models.tell();
    const now = performance.now();
    if (now - last < 50 && loadedBytes < totalBytes) return;
    last = now;
    send({ id, step: { loadedBytes, totalBytes } });
  };
}
