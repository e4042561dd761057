/** The page's worker, which owns the models and does all reading and computing, so that the page stays responsive. */

import { pack } from "zstn";
import type { Context } from "./context.js";
import { storedFigures } from "./bands.js";
import { describe } from "./describe.js";
import { serializeError } from "./serialized-error.js";
import { OpenModels } from "./open-models.js";
import type { ModelFacts } from "./model-facts.js";
import type { CallName, Calls, FromWorker, OfModel, Step, ToWorker } from "./protocol.js";
import { probe, raster } from "./raster.js";
import { resolve } from "./resolve.js";
import { save } from "./save.js";
import { transferOf } from "./transfer.js";
import { locate } from "./locate.js";
import { measure } from "./measure.js";
import { matrixShape } from "./shape.js";
import { thumbnail } from "./thumbnail.js";
import { statedChanges } from "./recorded-changes.js";
import { vectorSeries } from "./vector.js";
import { byteBreakdown } from "./byte-breakdown.js";
import { valuesOf } from "./values.js";

type Handlers = { [N in CallName]: (request: Calls[N]["request"], context: Context) => Promise<Calls[N]["result"]> };

const send = (message: FromWorker, transfer: Transferable[] = []) => postMessage(message, { transfer });
const models = new OpenModels((network) => send({ network }));

const factsOf = ({ slot, generation }: OfModel): ModelFacts => models.facts(slot, generation);

const handlers: Handlers = {
  resolve: (request, { signal }) => resolve(request, signal),
  open: (request, context) => models.open(request, context),
  openSecond: (request, context) => models.openSecond(request, context),
  closeSecond: async () => models.closeSecond(),
  raster: (request, context) => raster(models.matrix(request.of, request.minus), request, context),
  describe: (request, context) => describe(models.matrix(request.of, request.minus), request.whole, context),
  decoded: async ({ of }) => models.decoded(of),
  levels: async ({ of }) => models.levels(of),
  probe: async ({ of, minus, area }) => probe(models.matrix(of, minus), area),
  vector: (request, context) => vectorSeries(models.matrix(request.of, request.minus), request, context),
  thumbnail: ({ of, width, height, maxBytes }, context) => thumbnail(models.sampledMatrix(of, maxBytes), width, height, context),
  values: (request, context) => valuesOf(models.matrix(request.of, request.minus), request.area, context),
  breakdown: ({ slot, tensor, generation }, context) => byteBreakdown(models.model(slot, generation), tensor, context),
  stated: ({ tensors }) => statedChanges(models.model("first"), models.model("second"), tensors),
  changes: (request, context) => models.comparison().compare(request, context),
  list: (request, { signal }) => factsOf(request).list(request, signal),
  sequence: (request, { signal }) => factsOf(request).sequence(request, signal),
  nearest: (request, { signal }) => factsOf(request).nearest(request.text, signal),
  facts: async (request) => factsOf(request).facts(request),
  layers: async (request) => factsOf(request).layers(),
  treemap: async (request) => factsOf(request).treemap(request),
  health: (request) => factsOf(request).health(),
  alike: async ({ of, limit }) => models.namesLike(of, limit),
  families: async ({ of }) => models.facts(of.slot, of.generation).families(of.tensor),
  statistics: ({ slot }) => models.facts(slot).statistics(),
  bands: async ({ of }, { signal }) => {
    const model = models.model(of.slot, of.generation);
    const info = model.tensors.get(of.tensor);
    return info && storedFigures(model, info, matrixShape(info.shape).columns, signal);
  },
  locate: (request, context) => locate(models.matrix(request.of), request, context),
  measure: async ({ slot }, context) => {
    const facts = models.facts(slot);
    return facts.measured(await measure(facts.model, context));
  },
  config: (_, { signal }) => models.config(signal),
  save: ({ of, format }, context) => save(models.model(of.slot, of.generation), of.tensor, format, context),
  pack: ({ file, base, effort, extended }, { signal, onStep }) => {
    const options = { effort, extended, signal, onProgress: onStep };
    return base ? pack(file, { ...options, base }) : pack(file, options);
  },
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
    send({ id, result }, transferOf(result));
  } catch (error) {
    send({ id, error: serializeError(error) });
  } finally {
    running.delete(id);
    models.publish();
  }
}

/** Returns a progress callback that reports at most once in 50 milliseconds. */
function stepsOf(id: number): (step: Step) => void {
  let last = 0;
  return ({ loadedBytes, totalBytes }) => {
    models.publish();
    const now = performance.now();
    if (now - last < 50 && loadedBytes < totalBytes) return;
    last = now;
    send({ id, step: { loadedBytes, totalBytes } });
  };
}
