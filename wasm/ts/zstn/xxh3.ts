/** XXH3 with 64 bits and the seed 0: the checksum of ZSTN files (docs/formats/zstn-integrity.md 3). */

/** The default secret of XXH3, which long inputs are mixed with. */
const SECRET = viewOf(Uint8Array.from(atob("uP5sOSOkS758AYEs9yGtHN7UbemDkJfbckCkpLezZx/LeeZOzMDleIJa0H3M/3IhuAhGdPdDJI7gNZDmgTomTDwoUruRwwDLiNBlixtTLqNxZEiXog35TjgZ70ap3qzYqPp2P+OcND/53LvHxwtPHYpR4EvNtFkxyJ9+ydl4c2TqxayDNNPrw8WBoP/6E2PrFw3dUbfw2knTFlUmKdRonisWvlh9R6H8j/i40XrQMc5FyzqPlRYEKK/X+8q7S0B+"), (character) => character.charCodeAt(0)));

const PRIMES = [0x9e3779b185ebca87n, 0xc2b2ae3d27d4eb4fn, 0x165667b19e3779f9n, 0x85ebca77c2b2ae63n, 0x27d4eb2f165667c5n] as const;
const PRIMES_32 = [0x9e3779b1, 0x85ebca77, 0xc2b2ae3d] as const;

/** The lengths of a stripe and of a block of stripes, in bytes. After each block, the accumulators are scrambled. */
const STRIPE = 64;
const BLOCK = 1024;

/** Returns the checksum of `bytes`, an unsigned integer of 64 bits. */
export function xxh3(bytes: Uint8Array): bigint {
  const view = viewOf(bytes);
  const length = bytes.byteLength;
  if (length > 240) return long(view);
  if (length > 16) return medium(view);
  if (length > 8) {
    const low = word(view, 0) ^ secret(24) ^ secret(32);
    const high = word(view, length - 8) ^ secret(40) ^ secret(48);
    return avalanche(BigInt(length) + swapped(low) + high + fold(low, high));
  }
  if (length > 3) return mixed((BigInt(view.getUint32(0, true)) << 32n) + BigInt(view.getUint32(length - 4, true)), length);
  if (length === 0) return avalanche64(secret(56) ^ secret(64));
  const combined = (bytes[0]! << 16) | (bytes[length >> 1]! << 24) | bytes[length - 1]! | (length << 8);
  return avalanche64(BigInt((combined ^ SECRET.getUint32(0, true) ^ SECRET.getUint32(4, true)) >>> 0));
}

function viewOf({ buffer, byteOffset, byteLength }: Uint8Array): DataView {
  return new DataView(buffer, byteOffset, byteLength);
}

const u64 = (value: bigint): bigint => BigInt.asUintN(64, value);
const word = (view: DataView, at: number): bigint => view.getBigUint64(at, true);
const secret = (at: number): bigint => word(SECRET, at);

/** Returns the upper half of a product of two 64-bit integers, combined with the lower half. */
function fold(a: bigint, b: bigint): bigint {
  const product = u64(a) * u64(b);
  return u64(product) ^ (product >> 64n);
}

function swapped(value: bigint): bigint {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, value, true);
  return view.getBigUint64(0);
}

function avalanche(value: bigint): bigint {
  const hash = u64(value);
  const product = u64((hash ^ (hash >> 37n)) * 0x165667919e3779f9n);
  return product ^ (product >> 32n);
}

function avalanche64(value: bigint): bigint {
  const first = u64((value ^ (value >> 33n)) * PRIMES[1]);
  const second = u64((first ^ (first >> 29n)) * PRIMES[2]);
  return second ^ (second >> 32n);
}

/** Returns the checksum of four to eight bytes from their first and last four bytes. */
function mixed(input: bigint, length: number): bigint {
  const keyed = input ^ secret(8) ^ secret(16);
  const rotated = (bits: bigint) => u64(keyed << bits) | (keyed >> (64n - bits));
  const first = u64((keyed ^ rotated(49n) ^ rotated(24n)) * 0x9fb21c651e98df25n);
  const second = u64((first ^ ((first >> 35n) + BigInt(length))) * 0x9fb21c651e98df25n);
  return second ^ (second >> 28n);
}

/** Returns the checksum of 17 to 240 bytes. */
function medium(view: DataView): bigint {
  const length = view.byteLength;
  const mix = (at: number, key: number) => fold(word(view, at) ^ secret(key), word(view, at + 8) ^ secret(key + 8));
  let sum = BigInt(length) * PRIMES[0];
  if (length <= 128) {
    for (let i = 0; i < length / 32; i++) sum += mix(16 * i, 32 * i) + mix(length - 16 * (i + 1), 32 * i + 16);
    return avalanche(sum);
  }
  for (let i = 0; i < 8; i++) sum += mix(16 * i, 16 * i);
  sum = avalanche(sum);
  for (let i = 8; i < Math.floor(length / 16); i++) sum += mix(16 * i, 16 * (i - 8) + 3);
  return avalanche(sum + mix(length - 16, 119));
}

/** Returns the checksum of more than 240 bytes. */
function long(view: DataView): bigint {
  const length = view.byteLength;
  // Each of the eight accumulators is stored as its lower and its upper 32 bits, because integers of 64 bits are slow.
  const initial = [PRIMES_32[2], ...PRIMES.slice(0, 4), PRIMES_32[1], PRIMES[4], PRIMES_32[0]].map(BigInt);
  const sums = Uint32Array.from(initial.flatMap((value) => [Number(value & 0xffffffffn), Number(value >> 32n)]));
  const blocks = Math.floor((length - 1) / BLOCK);
  let at = 0;
  for (let block = 0; block < blocks; block++) {
    for (let key = 0; key < 128; key += 8, at += STRIPE) accumulate(sums, view, at, key);
    scramble(sums);
  }
  for (let key = 0; at + STRIPE < length; key += 8, at += STRIPE) accumulate(sums, view, at, key);
  accumulate(sums, view, length - STRIPE, 121);
  const sum = (lane: number) => BigInt(sums[2 * lane]!) | (BigInt(sums[2 * lane + 1]!) << 32n);
  let result = BigInt(length) * PRIMES[0];
  for (let i = 0; i < 4; i++) result += fold(sum(2 * i) ^ secret(11 + 16 * i), sum(2 * i + 1) ^ secret(19 + 16 * i));
  return avalanche(result);
}

/** Adds a stripe to the accumulators. */
function accumulate(sums: Uint32Array, view: DataView, at: number, key: number): void {
  for (let lane = 0; lane < 16; lane += 2) {
    const low = view.getUint32(at + 4 * lane, true);
    const high = view.getUint32(at + 4 * lane + 4, true);
    add(sums, lane ^ 2, low, high);
    addProduct(sums, lane, (low ^ SECRET.getUint32(key + 4 * lane, true)) >>> 0, (high ^ SECRET.getUint32(key + 4 * lane + 4, true)) >>> 0);
  }
}

function scramble(sums: Uint32Array): void {
  for (let lane = 0; lane < 16; lane += 2) {
    const high = sums[lane + 1]!;
    const low = (sums[lane]! ^ (high >>> 15) ^ SECRET.getUint32(128 + 4 * lane, true)) >>> 0;
    sums[lane] = 0;
    sums[lane + 1] = Math.imul(high ^ SECRET.getUint32(132 + 4 * lane, true), PRIMES_32[0]);
    addProduct(sums, lane, low, PRIMES_32[0]);
  }
}

function add(sums: Uint32Array, lane: number, low: number, high: number): void {
  const sum = sums[lane]! + low;
  sums[lane] = sum;
  sums[lane + 1] = sums[lane + 1]! + high + (sum > 0xffffffff ? 1 : 0);
}

/** Adds the product of two 32-bit integers, computed from halves of 16 bits, whose products numbers hold exactly. */
function addProduct(sums: Uint32Array, lane: number, a: number, b: number): void {
  const [aLow, aHigh, bLow, bHigh] = [a & 0xffff, a >>> 16, b & 0xffff, b >>> 16];
  const low = aLow * bLow;
  const first = aHigh * bLow + (low >>> 16);
  const second = aLow * bHigh + (first & 0xffff);
  add(sums, lane, ((second << 16) | (low & 0xffff)) >>> 0, aHigh * bHigh + (first >>> 16) + (second >>> 16));
}
