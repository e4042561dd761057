/**
 * Recognises files of other formats, which users mistake for models, by the first bytes of the file. The Rust library
 * returns the same sentences (tests/other-formats.json).
 */

const saveFile = (library: string, weights: string) => `save_file from safetensors.${library}: save_file(${weights}, "model.safetensors").`;

const PYTORCH = saveFile(
  "torch",
  '{name: tensor.contiguous().clone() for name, tensor in torch.load(path, map_location="cpu", weights_only=True).items()}',
);

const SENTENCES = {
  html: "This is a web page (HTML), not a model file. On a model hub, use the download link of the file, not the page that shows it.",
  xml: "This is an XML document, not a model file. Object stores send one when they refuse access.",
  lfs: "This is a Git LFS pointer, not the model file itself. Download the file with `git lfs pull`, or use the download link of the hub.",
  json: "This is a JSON file, not a model file. To open a model in several files, use its index, whose name ends in .index.json.",
  ggml: "This is a GGML file, the format of llama.cpp before GGUF. Open the model's original .safetensors instead.",
  pickle: `This is a Python pickle, which can run code when it is loaded. If torch.load reads it, convert it with ${PYTORCH}`,
  onnx: "This is an ONNX model, but its name does not end in .onnx, by which these models are recognised. Rename it, and open it again.",
  savedModel: `This is the graph of a TensorFlow SavedModel; its weights are in other files of the same folder. Convert them with ${saveFile("numpy", "{variable.name: variable.numpy() for variable in tf.saved_model.load(folder).variables}")}`,
  gzip: "This file is compressed with gzip. Decompress it, and open what comes out.",
} as const;

type Format = keyof typeof SENTENCES;

/** The magic numbers of formats, one character for each byte. The first match wins. */
const MAGICS: readonly (readonly [string, Format])[] = [
  ["lmgg", "ggml"],
  ["fmgg", "ggml"],
  ["tjgg", "ggml"],
  ["algg", "ggml"],
  ["\x80\x02", "pickle"],
  ["\x80\x03", "pickle"],
  ["\x80\x04\x95", "pickle"],
  ["\x80\x05\x95", "pickle"],
  ["\x1f\x8b\x08", "gzip"],
];

/**
 * Returns a sentence that names the actual format of the file and the next step; `undefined` if the format is not
 * recognised.
 */
export function describeNonModel(head: Uint8Array): string | undefined {
  const format = formatOf(head);
  return format && SENTENCES[format];
}

function formatOf(head: Uint8Array): Format | undefined {
  const start = latin1(head.subarray(0, 256));
  // A header length below 4 GiB and the first byte of a header: this is a safetensors file, possibly a damaged one.
  if (/^[^]{4}\0{4}($|[{ \t\r\n])/.test(start)) return undefined;
  return (
    textFormat(start) ??
    MAGICS.find(([magic]) => start.startsWith(magic))?.[1] ??
    protobufFormat(head)
  );
}

function textFormat(start: string): Format | undefined {
  const text = start.trimStart();
  if (/^<(!doctype html|html|head)/i.test(text)) return "html";
  if (text.startsWith("<?xml")) return "xml";
  if (text.startsWith("version https://git-lfs.github.com/")) return "lfs";
  // A safetensors file begins with a 64-bit length that contains zero bytes, so eight printable bytes rule it out.
  return /^[{[]/.test(text) && /^[\t\n\r\x20-\x7e]{8}/.test(start) ? "json" : undefined;
}

/** Recognises protocol buffer messages, which have no magic number, by their first fields. */
function protobufFormat([field, version, next, length = 0, first]: Uint8Array): Format | undefined {
  if (field !== 0x08 || version === undefined) return undefined;
  // SavedModel: a schema version of 1, and a long graph that begins with its description.
  if (version === 1 && next === 0x12 && length >= 0x80) return "savedModel";
  // ONNX: a format version, followed by the name of a producer, an operator set or the graph.
  const isName = next === 0x12 && length > 0 && length < 0x80 && first !== undefined && first >= 0x20 && first < 0x7f;
  const isMessage = (next === 0x3a || next === 0x42) && length > 0;
  return version >= 3 && version < 0x40 && (isName || isMessage) ? "onnx" : undefined;
}

const latin1 = (bytes: Uint8Array): string => String.fromCharCode(...bytes);

/** Returns the error message for a file of unknown format, in the same words as the Rust library. */
export function describeUnknown(head: Uint8Array): string {
  if (/^[ \t\n\f\r]*$/.test(latin1(head))) return "the file is empty";
  return `this is not a ZSTN, Z4DM, zTensor, Gauss, GGUF, NPY, NPZ, PyTorch, ONNX, msgpack, TFLite, HDF5, tar or safetensors file: its first bytes are ${printable(head.subarray(0, 8))}`;
}

function printable(bytes: Uint8Array): string {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    if (!/\p{Cc}/u.test(text)) return `"${text}"`;
  } catch {
    // The bytes are not valid UTF-8.
  }
  return [...bytes].map((byte) => byte.toString(16).toUpperCase().padStart(2, "0")).join(" ");
}
