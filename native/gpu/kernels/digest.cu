// Compares bytes of the output with their BLAKE3 digests. A block hashes a tile, which is a
// whole subtree of the hash except at the end; then a block for each digest combines the
// chaining values of all tiles.
#pragma once

#include "lists.h"

static const u32 HASH_BLOCK_BYTES = 64, HASH_CHUNK_BYTES = 1024;
// The number of chunks of a tile, a power of two.
static const u32 TILE_CHUNKS = 256;
// Flags of a compression.
static const u32 CHUNK_START = 1, CHUNK_END = 2, PARENT = 4, ROOT = 8;

struct ChainingValue {
    u32 words[8];
};

struct DigestShared {
    // The values of a level of the tree, and of the next one.
    ChainingValue values[2][TILE_CHUNKS];
};

DEVICE u32 initial_word(u32 number) {
    switch (number) {
        case 0: return 0x6A09E667;
        case 1: return 0xBB67AE85;
        case 2: return 0x3C6EF372;
        case 3: return 0xA54FF53A;
        case 4: return 0x510E527F;
        case 5: return 0x9B05688C;
        case 6: return 0x1F83D9AB;
        default: return 0x5BE0CD19;
    }
}

DEVICE u32 rotated(u32 word, u32 bits) { return word >> bits | word << (32 - bits); }

DEVICE void mix(u32& a, u32& b, u32& c, u32& d, u32 x, u32 y) {
    a += b + x;
    d = rotated(d ^ a, 16);
    c += d;
    b = rotated(b ^ c, 12);
    a += b + y;
    d = rotated(d ^ a, 8);
    c += d;
    b = rotated(b ^ c, 7);
}

// Replaces `value` by the value after a block of 16 words. `m` is used up.
DEVICE void compress(ChainingValue& value, u32* m, u64 counter, u32 len, u32 flags) {
    u32 s[16];
    for (u32 k = 0; k < 8; k++) s[k] = value.words[k];
    for (u32 k = 0; k < 4; k++) s[8 + k] = initial_word(k);
    s[12] = (u32)counter;
    s[13] = (u32)(counter >> 32);
    s[14] = len;
    s[15] = flags;
    // Unrolled, the rounds would be most of the code of all kernels.
#ifdef __CUDACC__
#pragma unroll 1
#endif
    for (u32 round = 0; round < 7; round++) {
        mix(s[0], s[4], s[8], s[12], m[0], m[1]);
        mix(s[1], s[5], s[9], s[13], m[2], m[3]);
        mix(s[2], s[6], s[10], s[14], m[4], m[5]);
        mix(s[3], s[7], s[11], s[15], m[6], m[7]);
        mix(s[0], s[5], s[10], s[15], m[8], m[9]);
        mix(s[1], s[6], s[11], s[12], m[10], m[11]);
        mix(s[2], s[7], s[8], s[13], m[12], m[13]);
        mix(s[3], s[4], s[9], s[14], m[14], m[15]);
        const u32 next[16] = {m[2], m[6], m[3], m[10], m[7], m[0], m[4], m[13],
                              m[1], m[11], m[12], m[5], m[9], m[14], m[15], m[8]};
        for (u32 k = 0; k < 16; k++) m[k] = next[k];
    }
    for (u32 k = 0; k < 8; k++) value.words[k] = s[k] ^ s[8 + k];
}

// Returns the value of a chunk of up to 1024 bytes.
DEVICE ChainingValue hash_chunk(const u8* bytes, u32 len, u64 counter, u32 root) {
    ChainingValue value;
    for (u32 k = 0; k < 8; k++) value.words[k] = initial_word(k);
    u32 at = 0;
    do {
        const u32 left = smaller(len - at, HASH_BLOCK_BYTES);
        u32 m[16];
        for (u32 k = 0; k < 16; k++) {
            m[k] = 0;
            if (4 * k + 4 <= left) {
                m[k] = four_bytes(bytes + at + 4 * k);
            } else {
                for (u32 j = 4 * k; j < left; j++) m[k] |= (u32)bytes[at + j] << (8 * (j % 4));
            }
        }
        const bool is_last = at + left == len;
        u32 flags = (at == 0 ? CHUNK_START : 0) | (is_last ? CHUNK_END | root : 0);
        compress(value, m, counter, left, flags);
        at += left;
    } while (at < len);
    return value;
}

DEVICE ChainingValue hash_parent(const ChainingValue& left, const ChainingValue& right, u32 root) {
    ChainingValue value;
    u32 m[16];
    for (u32 k = 0; k < 8; k++) {
        value.words[k] = initial_word(k);
        m[k] = left.words[k];
        m[8 + k] = right.words[k];
    }
    compress(value, m, 0, HASH_BLOCK_BYTES, PARENT | root);
    return value;
}

// Combines `count` values, at least one, by pairs; the last value of an odd number moves up
// as it is. Returns the place of the only one that is left. `root` is the flag of the last
// compression.
DEVICE const ChainingValue* combine(
    const Block& block, ChainingValue* values, ChainingValue* other, u32 count, u32 root
) {
    while (count > 1) {
        const u32 pairs = count / 2, flag = count == 2 ? root : 0;
        phase(block, [&](u32 thread) {
            for (u32 k = thread; k < pairs; k += block.threads) {
                other[k] = hash_parent(values[2 * k], values[2 * k + 1], flag);
            }
            if (thread == 0 && count % 2) other[pairs] = values[count - 1];
        });
        ChainingValue* next = other;
        other = values;
        values = next;
        count = pairs + count % 2;
    }
    return values;
}

DEVICE void hash_tile(
    const Block& block, const Launch& launch, const DigestTile& tile, u8* memory
) {
    DigestShared& shared = *(DigestShared*)memory;
    const PlannedDigest& digest = launch.digests[tile.digest];
    const u8* bytes = launch.output + digest.output + tile.first;
    // No bytes are one chunk.
    const u32 chunks = tile.len ? (tile.len - 1) / HASH_CHUNK_BYTES + 1 : 1;
    const u32 root = tile.len == digest.len ? ROOT : 0;
    phase(block, [&](u32 thread) {
        for (u32 k = thread; k < chunks; k += block.threads) {
            const u32 at = HASH_CHUNK_BYTES * k;
            shared.values[0][k] = hash_chunk(
                bytes + at, smaller(tile.len - at, HASH_CHUNK_BYTES),
                tile.first / HASH_CHUNK_BYTES + k, chunks == 1 ? root : 0
            );
        }
    });
    const ChainingValue* value =
        combine(block, shared.values[0], shared.values[1], chunks, root);
    phase(block, [&](u32 thread) {
        if (thread == 0) *(ChainingValue*)(launch.scratch + tile.value) = *value;
    });
}

DEVICE void compare_digest(const Block& block, const Launch& launch, const DigestSum& sum) {
    ChainingValue* values = (ChainingValue*)(launch.scratch + sum.values);
    const ChainingValue* value = combine(block, values, values + sum.tiles, sum.tiles, ROOT);
    phase(block, [&](u32 thread) {
        const u8* expected = launch.digests[sum.digest].expected;
        bool is_equal = true;
        for (u32 k = 0; k < 4; k++) is_equal &= value->words[k] == four_bytes(expected + 4 * k);
        if (thread == 0 && !is_equal) report_digest(launch, sum.digest);
    });
}

#ifdef __CUDACC__
KERNEL hash_tiles(Launch launch, const DigestTile* tiles) {
    __shared__ DigestShared shared;
    hash_tile({blockDim.x, false}, launch, tiles[blockIdx.x], (u8*)&shared);
}

KERNEL compare_digests(Launch launch, const DigestSum* sums) {
    compare_digest({blockDim.x, false}, launch, sums[blockIdx.x]);
}
#endif
