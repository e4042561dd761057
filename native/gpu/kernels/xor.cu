// XORs decoded bytes with the base's (docs/formats/z4ai-containers.md 3). The output contains
// the base's bytes before anything is decoded; they are copied to the scratch buffer first.
#pragma once

#include "lists.h"

DEVICE void save_base(const Block& block, const Launch& launch, const XorTile& tile) {
    const u8* from = launch.output + tile.output;
    u8* to = launch.scratch + tile.base;
    phase(block, [&](u32 thread) {
        for (u32 i = 4 * thread; i < tile.len; i += 4 * block.threads) {
            if (i + 4 <= tile.len) {
                *(u32*)(to + i) = four_bytes(from + i);
            } else {
                for (u32 k = i; k < tile.len; k++) to[k] = from[k];
            }
        }
    });
}

DEVICE void apply_xor(const Block& block, const Launch& launch, const XorTile& tile) {
    const u8* base = launch.scratch + tile.base;
    u8* out = launch.output + tile.output;
    const bool is_aligned = (u64)out % 4 == 0;
    phase(block, [&](u32 thread) {
        for (u32 i = 4 * thread; i < tile.len; i += 4 * block.threads) {
            if (is_aligned && i + 4 <= tile.len) {
                *(u32*)(out + i) ^= *(const u32*)(base + i);
            } else {
                for (u32 k = i; k < i + 4 && k < tile.len; k++) out[k] ^= base[k];
            }
        }
    });
}

#ifdef __CUDACC__
KERNEL save_bases(Launch launch, const XorTile* tiles) {
    save_base({blockDim.x, false}, launch, tiles[blockIdx.x]);
}

KERNEL apply_xors(Launch launch, const XorTile* tiles) {
    apply_xor({blockDim.x, false}, launch, tiles[blockIdx.x]);
}
#endif
