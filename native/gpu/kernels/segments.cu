// Decodes segments into their planes, one block per segment: Huffman-coded streams by one
// kernel; stored bytes, runs and flat codes by another one, which needs no shared memory.
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

// Reads the symbols from `k` to `k + 3`, of which the first becomes the lowest byte.
DEVICE u32 four_flat(const u8* coded, u32 count, u32 bits, u32 k) {
    const u64 bit = (u64)(count - 4 - k) * bits;
    const u32 shift = (u32)bit & 7, bytes = (shift + 4 * bits + 7) / 8;
    u64 window = 0;
    for (u32 j = 0; j < bytes; j++) window |= (u64)coded[(bit >> 3) + j] << (8 * j);
    u32 four = 0;
    for (u32 j = 0; j < 4; j++) {
        four |= ((u32)(window >> (shift + (3 - j) * bits)) & ((1u << bits) - 1)) << (8 * j);
    }
    return four;
}

// Writes `len` bytes with all threads: `four` returns the bytes from a position on as a
// word, and `one` the byte at a position.
template <class Four, class One>
DEVICE void write_bytes(const Block& block, u8* out, u32 len, Four four, One one) {
    // Bytes before the first whole word of the output.
    const u32 head = smaller(len, (u32)(4 - (u64)out % 4) % 4), words = (len - head) / 4;
    phase(block, [&](u32 thread) {
        for (u32 k = thread; k < words; k += block.threads) {
            *(u32*)(out + head + 4 * k) = four(head + 4 * k);
        }
        for (u32 k = thread; k < len - 4 * words; k += block.threads) {
            const u32 at = k < head ? k : k + 4 * words;
            out[at] = one(at);
        }
    });
}

DEVICE void decode_segment(const Block& block, const Launch& launch, u32 number, u8* memory) {
    const Segment segment = launch.segments[number];
    StreamShared& shared = *(StreamShared*)memory;
    if (segment.coding != HUFFMAN || !decode_stream(block, launch, segment, shared)) {
        return report_segment(launch, number);
    }
    const u8* symbols = shared.symbols;
    write_bytes(
        block, plane_bytes(launch, launch.planes[segment.plane], segment.position), segment.len,
        [&](u32 k) { return four_bytes(symbols + k); }, [&](u32 k) { return symbols[k]; }
    );
}

DEVICE void copy_segment(const Block& block, const Launch& launch, u32 number) {
    const Segment segment = launch.segments[number];
    const u8* coded = launch.source + segment.source;
    const u32 len = segment.len, bits = segment.parameter;
    u8* out = plane_bytes(launch, launch.planes[segment.plane], segment.position);
    if (segment.coding == STORED && segment.source_len == len) {
        write_bytes(
            block, out, len, [&](u32 k) { return four_bytes(coded + k); },
            [&](u32 k) { return coded[k]; }
        );
    } else if (segment.coding == RUN) {
        const u8 byte = (u8)segment.parameter;
        write_bytes(
            block, out, len, [&](u32) { return byte * 0x01010101u; }, [&](u32) { return byte; }
        );
    } else if (segment.coding == FLAT && is_flat_exact(segment)) {
        write_bytes(
            block, out, len, [&](u32 k) { return four_flat(coded, len, bits, k); },
            [&](u32 k) { return flat_symbol(coded, len, bits, k); }
        );
    } else {
        report_segment(launch, number);
    }
}

#ifdef __CUDACC__
STREAM_KERNEL decode_segments(Launch launch, const u32* numbers) {
    extern __shared__ __align__(16) u8 memory[];
    decode_segment({blockDim.x, false}, launch, numbers[blockIdx.x], memory);
}

KERNEL copy_segments(Launch launch, const u32* numbers) {
    copy_segment({blockDim.x, false}, launch, numbers[blockIdx.x]);
}
#endif
