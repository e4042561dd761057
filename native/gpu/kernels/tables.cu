// Expands Huffman codes, one block per code.
#pragma once

#include "lists.h"

struct TableShared {
    u8 weights[256];
    // For the next LOOKUP_BITS bits: the first symbol, and above it the length of its
    // code in bits.
    u16 first[1 << LOOKUP_BITS];
};

DEVICE void expand_table(const Block& block, const Launch& launch, u32 number, u8* memory) {
    TableShared& shared = *(TableShared*)memory;
    const HuffmanTable& code = launch.huffman_tables[number];
    DecodeTable& table = launch.decode_tables[number];
    const u32 bits = code.bits, entries = 1u << LOOKUP_BITS;
    phase(block, [&](u32 thread) {
        for (u32 symbol = thread; symbol < 256; symbol += block.threads) {
            u8 weight = code.weights[symbol / 2] >> (symbol % 2 * 4) & 15;
            shared.weights[symbol] = weight;
            table.lens[symbol] = weight ? (u8)(bits + 1 - weight) : 0;
        }
    });
    phase(block, [&](u32 thread) {
        for (u32 symbol = thread; symbol < 256; symbol += block.threads) {
            u32 weight = shared.weights[symbol];
            if (weight == 0) continue;
            // Entries are ordered by descending code length, then by symbol.
            u32 start = 0;
            for (u32 other = 0; other < 256; other++) {
                u32 w = shared.weights[other];
                bool is_before = w < weight || (w == weight && other < symbol);
                if (w && is_before) start += 1u << (w - 1);
            }
            u32 scale = LOOKUP_BITS - bits;
            u32 end = smaller((start + (1u << (weight - 1))) << scale, entries);
            u16 entry = (u16)(symbol | (bits + 1 - weight) << 8);
            for (u32 k = start << scale; k < end; k++) shared.first[k] = entry;
        }
    });
    phase(block, [&](u32 thread) {
        for (u32 k = thread; k < entries; k += block.threads) {
            u32 symbols = 0, taken = 0, count = 0;
            while (count < 3) {
                u32 next = shared.first[k << taken & (entries - 1)];
                // Only the first code is certain to lie in the known bits.
                if (taken + (next >> 8) > LOOKUP_BITS) break;
                symbols |= (next & 255) << (8 * count);
                taken += next >> 8;
                count++;
            }
            table.several[k] = symbols | taken << 24 | count << 28;
        }
    });
}

#ifdef __CUDACC__
KERNEL expand_tables(Launch launch) {
    __shared__ TableShared shared;
    expand_table({blockDim.x, false}, launch, blockIdx.x, (u8*)&shared);
}
#endif
