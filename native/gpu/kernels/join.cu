// Joins planes in the scratch buffer into elements: bytes, float16 and float32.
#pragma once

#include "lists.h"

// Returns the sign of element `k`.
DEVICE u32 sign_bit(const u8* signs, u64 k) { return signs[k >> 3] >> (7 - (k & 7)) & 1; }

// Returns whether the bits after the last of `elements` signs are zero.
DEVICE bool is_padding_zero(const u8* signs, u64 elements) {
    return elements % 8 == 0 || (u8)(signs[elements >> 3] << (elements % 8)) == 0;
}

DEVICE void join_tile(const Block& block, const Launch& launch, const Tile& tile) {
    const JoinedTensor tensor = launch.tensors[tile.tensor];
    const PlannedPlane* planes = launch.planes + tensor.first_plane;
    u8* out = launch.output + tensor.output;
    const u32 width = tensor.item_bytes;
    if (tensor.join == BYTES) {
        phase(block, [&](u32 thread) {
            for (u32 j = 0; j < width; j++) {
                const u8* plane = launch.scratch + planes[j].at;
                for (u32 i = thread; i < tile.count; i += block.threads) {
                    u64 k = tile.first + i;
                    out[k * width + j] = plane[k];
                }
            }
        });
        return;
    }
    const bool is_half = tensor.join == FLOAT16;
    const u32 exponent_bits = is_half ? 5 : 8, mantissa_bits = is_half ? 10 : 23;
    const u8* signs = launch.scratch + planes[0].at;
    const u8* exponents = launch.scratch + planes[1].at;
    const u8* mantissas = launch.scratch + planes[2].at;
    phase(block, [&](u32 thread) {
        u32 wide = 0;
        for (u32 i = thread; i < tile.count; i += block.threads) {
            u64 k = tile.first + i;
            u32 mantissa = 0;
            for (u32 part = 0; 8 * part < mantissa_bits; part++) {
                mantissa |= (u32)mantissas[part * tensor.elements + k] << (8 * part);
            }
            u32 exponent = exponents[k];
            wide |= mantissa >> mantissa_bits | exponent >> exponent_bits;
            u32 bits = (sign_bit(signs, k) << exponent_bits | exponent) << mantissa_bits | mantissa;
            for (u32 j = 0; j < width; j++) out[k * width + j] = (u8)(bits >> (8 * j));
        }
        bool is_last = tile.first + tile.count == tensor.elements;
        if (is_last && thread == 0 && !is_padding_zero(signs, tensor.elements)) wide = 1;
        if (wide) report_tensor(launch, tile.tensor);
    });
}

#ifdef __CUDACC__
KERNEL join_tiles(Launch launch, const Tile* tiles) {
    join_tile({blockDim.x, false}, launch, tiles[blockIdx.x]);
}
#endif
