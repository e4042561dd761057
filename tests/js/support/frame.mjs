/** Just enough of the Z4AI frame (docs/formats/z4ai-frames.md, 3.1) to know how its planes are coded. */

/** The method of each plane. */
export function planeMethods(frame) {
  const planes = frame[8];
  let at = 9;
  at += 1 + frame[at]; // NumPy dtype
  at += 1 + frame[at]; // float format
  at += 1 + 8 * frame[at]; // shape
  at += 4 + frame.readUInt32LE(at); // tail
  const methods = [];
  for (let plane = 0; plane < planes; plane++) {
    methods.push(frame[at]);
    at += 17 + Number(frame.readBigUInt64LE(at + 9));
  }
  return methods;
}
