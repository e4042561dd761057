// Decodes streams of rANS symbols of order 0 (docs/formats/z4ai-frames.md 5), one warp
// per stream.
//
// The symbols of a stream belong to four states alternately, which share one sequence
// of bytes, so one thread decodes them. The other threads of the warp expand the table,
// and move input and output between global and shared memory.
#pragma once

#include "lists.h"

static const u32 RANS_BITS = 14;
static const u32 RANS_STATES = 4;
static const u32 RANS_HEAD_BYTES = 4 * RANS_STATES;
static const u32 RANS_LOWER = 1u << 23;
static const u32 RANS_UPPER = 1u << 31;
// Number of symbols between two transfers. Each takes at most two bytes.
static const u32 RANS_TILE = 1024;

struct RansShared {
    // The symbol of every slot.
    u8 slots[1 << RANS_BITS];
    // The frequency of every symbol, and its first slot in the upper half.
    u32 codes[256];
    u32 states[RANS_STATES];
    // Number of bytes of the stream that have been read.
    u32 read;
    bool is_damaged;
    u8 input[2 * RANS_TILE];
    u8 output[RANS_TILE];
};

// Decodes `count` symbols from `len` bytes of input.
DEVICE void decode_rans_tile(RansShared& shared, u32 count, u32 len) {
    // Registers instead of shared memory: the loops over states are unrolled.
    u32 states[RANS_STATES], at = 0;
    for (u32 k = 0; k < RANS_STATES; k++) states[k] = shared.states[k];
    for (u32 first = 0; first < count; first += RANS_STATES) {
#ifdef __CUDACC__
#pragma unroll
#endif
        for (u32 k = 0; k < RANS_STATES; k++) {
            if (first + k >= count) break;
            u32 slot = states[k] & ((1u << RANS_BITS) - 1);
            u8 symbol = shared.slots[slot];
            u32 code = shared.codes[symbol];
            u32 state = (code & 0xFFFF) * (states[k] >> RANS_BITS) + slot - (code >> 16);
            while (state < RANS_LOWER) {
                if (at == len) {
                    shared.is_damaged = true;
                    return;
                }
                state = state << 8 | shared.input[at++];
            }
            states[k] = state;
            shared.output[first + k] = symbol;
        }
    }
    for (u32 k = 0; k < RANS_STATES; k++) shared.states[k] = states[k];
    shared.read += at;
}

DEVICE void decode_rans(const Block& block, const Launch& launch, u32 number, u8* memory) {
    const Segment segment = launch.segments[number];
    const RansTable& table = launch.rans_tables[segment.parameter];
    const u8* coded = launch.source + segment.source;
    u8* out = plane_bytes(launch, launch.planes[segment.plane], segment.position);
    RansShared& shared = *(RansShared*)memory;
    if (segment.source_len < RANS_HEAD_BYTES) return report_segment(launch, number);
    phase(block, [&](u32 thread) {
        if (thread > 0) return;
        u32 start = 0;
        for (u32 symbol = 0; symbol < 256; symbol++) {
            u32 frequency = table.frequencies[symbol];
            shared.codes[symbol] = frequency | start << 16;
            start += frequency;
        }
        shared.is_damaged = start != 1u << RANS_BITS;
        shared.read = RANS_HEAD_BYTES;
        for (u32 k = 0; k < RANS_STATES; k++) {
            const u8* head = coded + 4 * k;
            u32 state = head[0] | head[1] << 8 | head[2] << 16 | (u32)head[3] << 24;
            shared.states[k] = state;
            if (state < RANS_LOWER || state >= RANS_UPPER) shared.is_damaged = true;
        }
    });
    if (shared.is_damaged) return report_segment(launch, number);
    phase(block, [&](u32 thread) {
        for (u32 symbol = thread; symbol < 256; symbol += block.threads) {
            u32 code = shared.codes[symbol];
            for (u32 k = 0; k < (code & 0xFFFF); k++) shared.slots[(code >> 16) + k] = (u8)symbol;
        }
    });
    for (u32 done = 0; done < segment.len; done += RANS_TILE) {
        const u32 count = smaller(RANS_TILE, segment.len - done);
        const u32 read = shared.read;
        const u32 len = smaller(2 * RANS_TILE, segment.source_len - read);
        phase(block, [&](u32 thread) {
            for (u32 k = thread; k < len; k += block.threads) shared.input[k] = coded[read + k];
        });
        phase(block, [&](u32 thread) {
            if (thread == 0) decode_rans_tile(shared, count, len);
        });
        if (shared.is_damaged) return report_segment(launch, number);
        phase(block, [&](u32 thread) {
            for (u32 k = thread; k < count; k += block.threads) out[done + k] = shared.output[k];
        });
    }
    bool is_exact = shared.read == segment.source_len;
    for (u32 k = 0; k < RANS_STATES; k++) is_exact &= shared.states[k] == RANS_LOWER;
    if (!is_exact) report_segment(launch, number);
}

#ifdef __CUDACC__
KERNEL decode_rans_streams(Launch launch, const u32* numbers) {
    __shared__ RansShared shared;
    decode_rans({blockDim.x, false}, launch, numbers[blockIdx.x], (u8*)&shared);
}
#endif
