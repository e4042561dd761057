// Decodes the exponents of bfloat16 elements in shared memory, and joins them with
// signs and mantissas directly out of the source. One block per Huffman-coded stream.
//
// Exponents are most of the work and mantissas most of the bytes, so this saves writing
// the planes to memory and reading them again.
#pragma once

#include "join.cu"
#include "segments.cu"

// Returns the mantissa of element `k`, which is in `segment`.
DEVICE u32 mantissa_of(
    const Launch& launch, const PlannedPlane& plane, const Segment& segment, u64 k
) {
    const u8* coded = launch.source + segment.source;
    const u32 at = (u32)(k - segment.position);
    if (segment.coding == FLAT && segment.parameter == 7) {
        return flat_symbol(coded, segment.len, 7, at);
    }
    return segment.coding == STORED ? coded[at] : launch.scratch[plane.at + k];
}

// Returns the mantissas of the elements from `k` to `k + 7`, of which the first is in
// the topmost bits, for a flat segment that contains all of them.
DEVICE u64 eight_flat(const Launch& launch, const Segment& segment, u64 k) {
    u64 last = segment.len - 8 - (k - segment.position);
    u64 bit = 8 * segment.source + 7 * last;
    const u32* words = (const u32*)launch.source + (bit >> 5);
    u32 shift = (u32)bit & 31;
    // 56 bits may lie in three words. The third one is read only if they do.
    u64 bits = (words[0] | (u64)words[1] << 32) >> shift;
    if (shift > 8) bits |= (u64)words[2] << (64 - shift);
    return bits << 8;
}

DEVICE void join_bfloat16(const Block& block, const Launch& launch, const Tile& tile, u8* memory) {
    const JoinedTensor tensor = launch.tensors[tile.tensor];
    const PlannedPlane* planes = launch.planes + tensor.first_plane;
    const PlannedPlane mantissas = planes[2];
    const u32 last_segment = mantissas.first_segment + mantissas.segments - 1;
    const u8* signs = tile.signs & IN_SCRATCH ? launch.scratch + (tile.signs & ~IN_SCRATCH)
                                              : launch.source + tile.signs;
    u8* out = launch.output + tensor.output;
    StreamShared& shared = *(StreamShared*)memory;
    const u8* exponents = shared.symbols;
    if (tile.exponents == NONE) {
        exponents = launch.scratch + planes[1].at + tile.first;
    } else if (!decode_stream(block, launch, launch.segments[tile.exponents], shared)) {
        return report_segment(launch, tile.exponents);
    }
    const u64 end = tile.first + tile.count;
    phase(block, [&](u32 thread) {
        u32 number = tile.mantissas, wide = 0;
        Segment segment = launch.segments[number];
        // Each thread joins groups of eight elements that share a byte of signs.
        for (u64 group = tile.first / 8 + thread; 8 * group < end; group += block.threads) {
            u64 k = 8 * group, stop = k + 8 < end ? k + 8 : end;
            if (k < tile.first) k = tile.first;
            while (number < last_segment && k >= segment.position + segment.len) {
                segment = launch.segments[++number];
            }
            bool is_fast = k % 8 == 0 && stop == k + 8 && segment.coding == FLAT &&
                segment.parameter == 7 && stop <= segment.position + segment.len &&
                (u64)(out + 2 * k) % 16 == 0;
            if (is_fast) {
                u64 bits = eight_flat(launch, segment, k);
                u32 sign = signs[group], words[4];
                const u8* first = exponents + (k - tile.first);
                const u64 eight = four_bytes(first) | (u64)four_bytes(first + 4) << 32;
                for (u32 j = 0; j < 8; j++) {
                    u32 exponent = (u32)(eight >> (8 * j)) & 255;
                    u32 mantissa = (u32)(bits >> (57 - 7 * j)) & 127;
                    u32 element = (sign >> (7 - j) & 1) << 15 | exponent << 7 | mantissa;
                    words[j / 2] = j % 2 ? words[j / 2] | element << 16 : element;
                }
#ifdef __CUDACC__
                *(uint4*)(out + 2 * k) = make_uint4(words[0], words[1], words[2], words[3]);
#else
                for (u32 j = 0; j < 4; j++) ((u32*)(out + 2 * k))[j] = words[j];
#endif
                continue;
            }
            u32 slow_number = number;
            Segment slow = segment;
            for (; k < stop; k++) {
                while (slow_number < last_segment && k >= slow.position + slow.len) {
                    slow = launch.segments[++slow_number];
                }
                u32 mantissa = mantissa_of(launch, mantissas, slow, k);
                wide |= mantissa >> 7;
                u32 exponent = exponents[k - tile.first];
                u32 element = sign_bit(signs, k) << 15 | exponent << 7 | (mantissa & 127);
                out[2 * k] = (u8)element;
                out[2 * k + 1] = (u8)(element >> 8);
            }
        }
        bool is_last = end == tensor.elements;
        if (is_last && thread == 0 && !is_padding_zero(signs, tensor.elements)) wide = 1;
        if (wide) report_tensor(launch, tile.tensor);
    });
}

#ifdef __CUDACC__
STREAM_KERNEL join_bfloat16_tiles(Launch launch, const Tile* tiles) {
    extern __shared__ __align__(16) u8 memory[];
    join_bfloat16({blockDim.x, false}, launch, tiles[blockIdx.x], memory);
}
#endif
