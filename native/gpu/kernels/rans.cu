// Decodes streams of rANS symbols of order 0 (docs/formats/z4ai-frames.md 5). One block
// decodes up to eight streams that have the same table.
//
// The symbols of a stream belong to four states alternately, which share one sequence
// of bytes. One thread decodes a stream: the four states depend on each other only by the
// number of bytes that they take, so a processor works on all four at the same time. All
// threads of the block expand the table.
#pragma once

#include "stream.h"

static const u32 RANS_BITS = 14;
static const u32 RANS_SLOTS = 1 << RANS_BITS;
static const u32 RANS_STATES = 4;
static const u32 RANS_HEAD_BYTES = 4 * RANS_STATES;
static const u32 RANS_LOWER = 1u << 23;
static const u32 RANS_UPPER = 1u << 31;
// The table is expanded in this number of parts of symbols, and of slots. Parts of slots
// begin in different banks of the shared memory.
static const u32 RANS_PARTS = 32;
static const u32 RANS_PART_SYMBOLS = 256 / RANS_PARTS;
static const u32 RANS_PART_SLOTS = RANS_SLOTS / RANS_PARTS + 4;

struct RansShared {
    // The symbol of every slot.
    u8 slots[RANS_SLOTS];
    // The frequency of every symbol, and its first slot in the upper half.
    u32 codes[256];
    // The sum of the frequencies of a part, then its first slot.
    u32 sums[RANS_PARTS];
    bool is_damaged;
};

// Expands a table. Returns false, in all threads, if its frequencies have another sum than
// the number of slots.
DEVICE bool expand_rans_table(const Block& block, const RansTable& table, RansShared& shared) {
    phase(block, [&](u32 thread) {
        for (u32 part = thread; part < RANS_PARTS; part += block.threads) {
            u32 sum = 0;
            for (u32 k = 0; k < RANS_PART_SYMBOLS; k++) {
                sum += table.frequencies[RANS_PART_SYMBOLS * part + k];
            }
            shared.sums[part] = sum;
        }
    });
    phase(block, [&](u32 thread) {
        if (thread > 0) return;
        u32 sum = 0;
        for (u32 part = 0; part < RANS_PARTS; part++) {
            u32 next = shared.sums[part];
            shared.sums[part] = sum;
            sum += next;
        }
        shared.is_damaged = sum != RANS_SLOTS;
    });
    if (shared.is_damaged) return false;
    phase(block, [&](u32 thread) {
        for (u32 part = thread; part < RANS_PARTS; part += block.threads) {
            u32 start = shared.sums[part];
            for (u32 k = 0; k < RANS_PART_SYMBOLS; k++) {
                const u32 symbol = RANS_PART_SYMBOLS * part + k;
                const u32 frequency = table.frequencies[symbol];
                shared.codes[symbol] = frequency | start << 16;
                start += frequency;
            }
        }
    });
    phase(block, [&](u32 thread) {
        for (u32 part = thread; part < RANS_PARTS; part += block.threads) {
            u32 slot = RANS_PART_SLOTS * part;
            const u32 end = smaller(RANS_SLOTS, slot + RANS_PART_SLOTS);
            while (slot < end) {
                // The last symbol that starts at the slot or before it contains it, as the
                // frequencies have the right sum. So each round fills a slot at least.
                u32 symbol = 0;
                for (u32 step = 128; step > 0; step /= 2) {
                    if (shared.codes[symbol + step] >> 16 <= slot) symbol += step;
                }
                const u32 code = shared.codes[symbol];
                const u32 stop = smaller(end, (code >> 16) + (code & 0xFFFF));
                for (; slot < stop; slot++) shared.slots[slot] = (u8)symbol;
            }
        }
    });
    return true;
}

// Reads the bytes of a stream forwards, a word at a time. The next word is read before it
// is needed. After the last word, it reads zeros.
struct RansBytes {
    const u32* words;
    u32 word_count;
    // The index of the word after `next`.
    u32 index;
    u32 next;
    // The bytes that have been read and not taken, and how many bits they have.
    u64 window;
    u32 bits;
    // Number of bytes that have been taken.
    u32 taken;

    DEVICE u32 read() {
        const u32 at = index++;
        return at < word_count ? words[at] : 0;
    }

    DEVICE RansBytes(const u8* bytes, u32 len) {
        const u32 offset = (u32)((u64)bytes % 4);
        words = (const u32*)(bytes - offset);
        word_count = (offset + len + 3) / 4;
        index = taken = 0;
        window = (u64)read() >> (8 * offset);
        bits = 32 - 8 * offset;
        next = read();
    }

    // Makes four bytes or more available.
    DEVICE void fill() {
        if (bits >= 32) return;
        window |= (u64)next << bits;
        bits += 32;
        next = read();
    }

    // Moves `count` bytes, at most two, into the lowest bytes of a state.
    DEVICE u32 take(u32 state, u32 count) {
        const u32 two = (u32)(window & 255) << 8 | (u32)(window >> 8 & 255), len = 8 * count;
        window >>= len;
        bits -= len;
        taken += count;
        return state << len | two >> (16 - len);
    }
};

// Decodes a symbol. States are from RANS_LOWER to RANS_UPPER − 1 before and after it, so
// that at most two bytes are taken.
DEVICE u32 rans_symbol(const RansShared& shared, RansBytes& bytes, u32& state) {
    const u32 slot = state & (RANS_SLOTS - 1);
    const u32 symbol = shared.slots[slot], code = shared.codes[symbol];
    const u32 next = (code & 0xFFFF) * (state >> RANS_BITS) + slot - (code >> 16);
    state = bytes.take(next, (next < RANS_LOWER) + (next < RANS_LOWER >> 8));
    return symbol;
}

// Decodes a stream. Returns false if it does not end with its last symbol.
DEVICE bool decode_rans_stream(
    const Launch& launch, const Segment& segment, const RansShared& shared
) {
    if (segment.source_len < RANS_HEAD_BYTES) return false;
    const u8* coded = launch.source + segment.source;
    // Registers instead of an array in memory: the loops over states are unrolled.
    u32 states[RANS_STATES];
    bool is_right = true;
    for (u32 k = 0; k < RANS_STATES; k++) {
        states[k] = four_bytes(coded + 4 * k);
        is_right &= states[k] >= RANS_LOWER && states[k] < RANS_UPPER;
    }
    if (!is_right) return false;
    const u32 len = segment.source_len - RANS_HEAD_BYTES, last = segment.len % RANS_STATES;
    RansBytes bytes(coded + RANS_HEAD_BYTES, len);
    const PlannedPlane& plane = launch.planes[segment.plane];
    SymbolWriter writer = {plane_bytes(launch, plane, segment.position), 0, 0};
    for (u32 left = segment.len; left >= RANS_STATES; left -= RANS_STATES) {
        u32 symbols = 0;
#ifdef __CUDACC__
#pragma unroll
#endif
        for (u32 k = 0; k < RANS_STATES; k++) {
            if (k % 2 == 0) bytes.fill();
            symbols |= rans_symbol(shared, bytes, states[k]) << (8 * k);
        }
        writer.put(symbols, RANS_STATES);
    }
#ifdef __CUDACC__
#pragma unroll
#endif
    for (u32 k = 0; k < RANS_STATES; k++) {
        if (k >= last) break;
        bytes.fill();
        writer.put(rans_symbol(shared, bytes, states[k]), 1);
    }
    writer.finish();
    // Zeros after the end are counted like bytes, so a stream that is too short differs.
    for (u32 k = 0; k < RANS_STATES; k++) is_right &= states[k] == RANS_LOWER;
    return is_right && bytes.taken == len;
}

DEVICE void decode_rans(
    const Block& block, const Launch& launch, const RansChunks& chunks, u8* memory
) {
    RansShared& shared = *(RansShared*)memory;
    const RansTable& table = launch.rans_tables[launch.segments[chunks.first].parameter];
    if (!expand_rans_table(block, table, shared)) return report_segment(launch, chunks.first);
    phase(block, [&](u32 thread) {
        for (u32 k = thread; k < chunks.count; k += block.threads) {
            const u32 number = chunks.first + k;
            const Segment segment = launch.segments[number];
            if (!decode_rans_stream(launch, segment, shared)) report_segment(launch, number);
        }
    });
}

#ifdef __CUDACC__
KERNEL decode_rans_streams(Launch launch, const RansChunks* chunks) {
    __shared__ RansShared shared;
    decode_rans({blockDim.x, false}, launch, chunks[blockIdx.x], (u8*)&shared);
}
#endif
