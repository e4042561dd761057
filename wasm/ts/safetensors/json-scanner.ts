/**
 * A scanner for the JSON of headers and indices, which accepts exactly the texts that the parser of the Rust core
 * accepts. `JSON.parse` does not: it drops repeated names and the digits of large integers, and accepts unpaired
 * surrogates, infinite numbers and any depth of nesting.
 */

/** The deepest nesting of arrays and objects. */
const MAX_DEPTH = 127;

const MAX_U64 = 2n ** 64n - 1n;

/**
 * An unsigned 64-bit integer: a number below 2^53, otherwise a `bigint`. Headers of large models contain hundreds of
 * thousands of integers, and nearly all are small: numbers are several times faster than `bigint`.
 */
export type U64 = number | bigint;

/** Returns a `bigint` as `U64`; `undefined` if it exceeds 64 bits. */
const toU64 = (value: bigint): U64 | undefined => (value <= Number.MAX_SAFE_INTEGER ? Number(value) : value <= MAX_U64 ? value : undefined);

/** Returns the product of two integers; `undefined` if it exceeds 64 bits, or if `a` is `undefined` for that reason. */
export function product(a: U64 | undefined, b: U64): U64 | undefined {
  if (a === undefined) return a;
  const rounded = Number(a) * Number(b);
  return Number.isSafeInteger(rounded) ? rounded : toU64(BigInt(a) * BigInt(b));
}

/** The bytes of numbers. */
const NUMERIC = /* @__PURE__ */ new Set<number | undefined>(new TextEncoder().encode("0123456789.eE+-"));

const ZERO = 0x30;
const QUOTE = 0x22;
const COMMA = 0x2c;
const BACKSLASH = 0x5c;

/** The opening bytes of an array and an object. In ASCII each closing byte is two above its opening byte. */
export const ARRAY = 0x5b;
export const OBJECT = 0x7b;

/** Decodes UTF-8. If `fatal`, throws for invalid bytes; otherwise replaces them. */
export function decodeUtf8(bytes: Uint8Array, fatal: boolean): string {
  return new TextDecoder("utf-8", { fatal, ignoreBOM: true }).decode(bytes);
}

/** A syntax error; the message contains the problem and its position. */
export class JsonError extends Error {}

export class JsonScanner {
  readonly #bytes: Uint8Array;
  /** The same bytes as text if each character is one byte, for fast slices. */
  readonly #text: string | undefined;
  /** The position of the next byte. */
  #at = 0;

  constructor(bytes: Uint8Array, text?: string) {
    this.#bytes = bytes;
    this.#text = text?.length === bytes.byteLength ? text : undefined;
  }

  /** Skips white space and returns the next byte without consuming it; 0 at the end. */
  peek(): number {
    for (;;) {
      const byte = this.#bytes[this.#at];
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return byte ?? 0;
      this.#at++;
    }
  }

  /** Consumes the given character. Throws a `JsonError` if another one follows. */
  expect(character: string): void {
    if (this.peek() !== character.charCodeAt(0)) this.fail(`expected \`${character}\``);
    this.#at++;
  }

  /** Throws a `JsonError` unless only white space is left. */
  end(): void {
    this.peek();
    if (this.#at < this.#bytes.byteLength) this.fail("trailing characters");
  }

  fail(problem: string): never {
    const before = this.#bytes.subarray(0, this.#at);
    const line = before.reduce((count, byte) => count + (byte === 0x0a ? 1 : 0), 1);
    throw new JsonError(`${problem} at line ${line} column ${before.byteLength - before.lastIndexOf(0x0a)}`);
  }

  /** Reads an object. `member` is called with each name and must read its value. */
  object(member: (name: string) => void): void {
    this.expect("{");
    this.#list(OBJECT, member);
  }

  /** Reads an array with exactly the given elements. */
  tuple(...elements: (() => void)[]): void {
    this.expect("[");
    for (const [i, element] of elements.entries()) {
      if (i > 0) this.expect(",");
      element();
    }
    this.expect("]");
  }

  /** Reads an array of any length. */
  array(element: () => void): void {
    this.expect("[");
    this.#list(ARRAY, element);
  }

  /** Reads items up to the closing byte. `item` is called with the name of each member of an object. */
  #list(opening: number, item: (name: string) => void): void {
    if (this.peek() !== opening + 2) {
      for (;;) {
        item(opening === OBJECT ? this.#name() : "");
        if (this.peek() !== COMMA) break;
        this.#at++;
      }
    }
    this.expect(String.fromCharCode(opening + 2));
  }

  /** Reads the name of a member and the colon. */
  #name(lenient = false): string {
    const name = this.string(lenient);
    this.expect(":");
    return name;
  }

  /** Reads a string. With `lenient`, it may contain unpaired surrogates and bytes that are not UTF-8. */
  string(lenient = false): string {
    if (this.peek() !== QUOTE) this.fail("expected a string");
    const bytes = this.#bytes;
    const begin = this.#at;
    let at = begin + 1;
    let escaped = false;
    for (; bytes[at] !== QUOTE; at++) {
      const byte = bytes[at];
      if (byte === BACKSLASH) {
        escaped = true;
        at++;
      } else if (byte === undefined || byte < 0x20) {
        this.#at = at;
        this.fail(byte === undefined ? "a string does not end" : "a control character in a string");
      }
    }
    this.#at = at + 1;
    try {
      if (!escaped) return this.#slice(begin + 1, at, !lenient);
      const value = JSON.parse(this.#slice(begin, at + 1, !lenient)) as string;
      if (lenient || !/\p{Surrogate}/u.test(value)) return value;
    } catch {
      // Invalid escapes and invalid UTF-8 fail like unpaired surrogates, below.
    }
    return this.fail("an invalid escape or character in a string");
  }

  #slice(begin: number, end: number, fatal: boolean): string {
    return this.#text?.slice(begin, end) ?? decodeUtf8(this.#bytes.subarray(begin, end), fatal);
  }

  /** Reads an unsigned 64-bit integer. */
  u64(): U64 {
    const first = this.peek();
    let at = this.#at;
    let small = 0;
    for (let digit; (digit = this.#bytes[at]! - ZERO) >= 0 && digit <= 9; at++) small = 10 * small + digit;
    if (first !== ZERO && small > 0 && Number.isSafeInteger(small) && !NUMERIC.has(this.#bytes[at])) {
      this.#at = at;
      return small;
    }
    // Other texts are rare: zero, long integers, and numbers that are not integers.
    const { whole, fraction, exponent } = this.#number();
    // The limit of 20 digits rules out numbers that are too large and slow to convert.
    const value = /^\d{1,20}$/.test(whole) && !fraction && !exponent ? toU64(BigInt(whole)) : undefined;
    return value ?? this.fail("expected an unsigned 64-bit integer");
  }

  /**
   * Skips a value that is nested in `depth` arrays and objects. With `lenient`, it may also be nested more deeply than
   * the limit and contain infinite numbers.
   */
  skip(depth: number, lenient = false): void {
    /** The closing bytes of the arrays and objects that are open. */
    const open: number[] = [];
    do {
      const byte = this.peek();
      if (byte === ARRAY || byte === OBJECT) {
        this.#at++;
        open.push(byte + 2);
        if (!lenient && depth + open.length > MAX_DEPTH) this.fail("recursion limit exceeded");
        if (this.peek() !== byte + 2) {
          if (byte === OBJECT) this.#name(lenient);
          continue;
        }
      } else if (byte === QUOTE) this.string(lenient);
      else if (!this.#literal()) {
        const number = this.#number();
        if (!lenient && isInfinite(number)) this.fail("number out of range");
      }
      while (open.length > 0 && this.peek() === open.at(-1)) {
        this.#at++;
        open.pop();
      }
      if (open.length > 0) {
        this.expect(",");
        if (open.at(-1) === OBJECT + 2) this.#name(lenient);
      }
    } while (open.length > 0);
  }

  /** Consumes `null` if it comes next, and returns whether it does. */
  null(): boolean {
    return this.peek() === "n".charCodeAt(0) && this.#literal();
  }

  #literal(): boolean {
    const found = ["null", "true", "false"].find((word) => [...word].every((letter, i) => this.#bytes[this.#at + i] === letter.charCodeAt(0)));
    this.#at += found?.length ?? 0;
    return found !== undefined;
  }

  #number(): JsonNumber {
    this.peek();
    const begin = this.#at;
    while (NUMERIC.has(this.#bytes[this.#at])) this.#at++;
    const [, whole, fraction, exponent] = /^(-?(?:0|[1-9]\d*))(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(this.#slice(begin, this.#at, true)) ?? [];
    return whole === undefined ? this.fail("expected a value") : { whole, fraction, exponent };
  }
}

/** The parts of a number: the integer with its sign, the fraction and the exponent. */
interface JsonNumber {
  whole: string;
  fraction: string | undefined;
  exponent: string | undefined;
}

/**
 * Returns whether a number is too large for a 64-bit float. It rounds like the core: first the significand is truncated
 * to the digits that fit into 64 bits, then its product with a power of ten is rounded.
 */
function isInfinite({ whole, fraction = "", exponent = "0" }: JsonNumber): boolean {
  const power = Number(exponent);
  let significand = 0n;
  let shift = 0;
  let isFull = false;
  const append = (digit: string, afterPoint: number) => {
    const longer = 10n * significand + BigInt(digit);
    isFull ||= longer > MAX_U64;
    if (!isFull) significand = longer;
    shift += (isFull ? 1 : 0) - afterPoint;
  };
  for (const digit of whole.replace("-", "")) append(digit, 0);
  for (const digit of fraction) append(digit, 1);
  if (significand === 0n || shift + power < 0) return false;
  // The exponent is capped: numbers from 1e21 on would be formatted with an exponent of their own.
  return Number(significand) * Number(`1e${Math.min(shift + power, 999)}`) === Infinity;
}
