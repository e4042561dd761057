/** A worker that tests names with a regular expression. The page terminates it if that takes too long. */

import type { ExpressionRequest, ExpressionReply } from "./expression-search.js";

const send = (message: ExpressionReply) => postMessage(message);

addEventListener("message", ({ data: { expression, names } }: MessageEvent<ExpressionRequest>) => {
  send("begun");
  const pattern = new RegExp(expression, "i");
  send(names.flatMap((name, i) => (pattern.test(name) ? [i] : [])));
});
