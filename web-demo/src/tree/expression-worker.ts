/** A worker that tests names with a regular expression. The page terminates it if that takes too long. */

import type { ExpressionRequest, ExpressionReply } from "./expression-search.js";

const send = (message: ExpressionReply) => postMessage(message);

addEventListener("message", ({ data: { expression, columns } }: MessageEvent<ExpressionRequest>) => {
  send("begun");
  const pattern = new RegExp(expression, "i");
  const { size, names, nameEnds } = columns;
  const found: number[] = [];
  for (let i = 0, begin = 1; i < size; begin = nameEnds[i++]! + 1) if (pattern.test(names.slice(begin, nameEnds[i]))) found.push(i);
  send(Int32Array.from(found));
});
