// Decodes segments into their planes, one block per segment: stored bytes, runs, flat
// codes and Huffman-coded streams.
#pragma once

#include "stream.h"

// Reads symbol `k` of `count` symbols with `bits` bits each.
DEVICE u8 flat_symbol(const u8* coded, u32 count, u32 bits, u32 k) {
    u64 bit = (u64)(count - 1 - k) * bits;
    u32 low = coded[bit >> 3], shift = (u32)bit & 7;
    u32 high = shift + bits > 8 ? coded[(bit >> 3) + 1] : 0;
    return (u8)((low | high << 8) >> shift & ((1u << bits) - 1));
}

// Returns whether a flat segment has exactly the bits of its symbols.
DEVICE bool is_flat_exact(const Segment& segment) {
    u64 bits = (u64)segment.len * segment.parameter;
    return segment.parameter >= 1 && segment.parameter <= 7 && segment.source_len == bits / 8 + 1;
}

DEVICE void decode_segment(const Block& block, const Launch& launch, u32 number, u8* memory) {
    const Segment segment = launch.segments[number];
    const u8* coded = launch.source + segment.source;
    u8* out = plane_bytes(launch, launch.planes[segment.plane], segment.position);
    StreamShared& shared = *(StreamShared*)memory;
    bool is_good = true;
    if (segment.coding == HUFFMAN) {
        is_good = decode_stream(block, launch, segment, shared);
    } else if (segment.coding == FLAT) {
        is_good = is_flat_exact(segment);
    } else if (segment.coding == STORED) {
        is_good = segment.source_len == segment.len;
    }
    if (!is_good) return report_segment(launch, number);
    phase(block, [&](u32 thread) {
        for (u32 k = thread; k < segment.len; k += block.threads) {
            switch (segment.coding) {
            case STORED: out[k] = coded[k]; break;
            case RUN: out[k] = (u8)segment.parameter; break;
            case FLAT: out[k] = flat_symbol(coded, segment.len, segment.parameter, k); break;
            case HUFFMAN: out[k] = shared.symbols[k]; break;
            }
        }
    });
}

#ifdef __CUDACC__
KERNEL decode_segments(Launch launch, const u32* numbers) {
    extern __shared__ __align__(16) u8 memory[];
    decode_segment({blockDim.x, false}, launch, numbers[blockIdx.x], memory);
}
#endif
