// Restores sparse tensors (docs/formats/z4ai-frames.md 9): the first plane is a bitmap of
// the elements that are not zero, the others have these elements.
//
// The place of a value depends on the number of bits before it. The bits of every tile are
// counted first, one block per tile; then the counts of a tensor are added up, one block
// per tensor; then the tiles are written.
#pragma once

#include "elements.h"
#include "join.cu"

static const u32 SPARSE_WORDS = MAX_TILE / 32;
// Number of parts in which words are added up, by a thread each.
static const u32 SPARSE_PARTS = 32;
static const u32 SPARSE_PART_WORDS = SPARSE_WORDS / SPARSE_PARTS;

struct SparseShared {
    // The bits of 32 elements, of which the first is the topmost. Bits after the last
    // element of the tile are zero.
    u32 words[SPARSE_WORDS];
    // Number of bits of a word, then of all words before it.
    u16 before[SPARSE_WORDS];
    // Number of bits of a part, then of all parts before it.
    u32 sums[SPARSE_PARTS];
    // Number of bits of the tile.
    u32 total;
};

// Reads the bits of a tile, and counts them in words and in parts.
DEVICE void count_tile(
    const Block& block, const Launch& launch, const SparseTile& tile, SparseShared& shared
) {
    const JoinedTensor tensor = launch.tensors[tile.tensor];
    const u64 bitmap_at = launch.planes[tensor.first_plane].at;
    const u8* bitmap = launch.scratch + bitmap_at + tile.first / 8;
    const u32 bytes = (tile.count + 7) / 8;
    phase(block, [&](u32 thread) {
        for (u32 k = thread; k < SPARSE_WORDS; k += block.threads) {
            u32 word = 0;
            for (u32 j = 0; j < 4; j++) {
                const u32 at = 4 * k + j;
                word = word << 8 | (at < bytes ? bitmap[at] : 0);
            }
            const u32 past = 32 * (k + 1);
            if (past > tile.count && past - tile.count < 32) word &= ~0u << (past - tile.count);
            shared.words[k] = word;
            shared.before[k] = (u16)count_bits(word);
        }
    });
    phase(block, [&](u32 thread) {
        for (u32 part = thread; part < SPARSE_PARTS; part += block.threads) {
            u32 sum = 0;
            for (u32 k = 0; k < SPARSE_PART_WORDS; k++) {
                sum += shared.before[SPARSE_PART_WORDS * part + k];
            }
            shared.sums[part] = sum;
        }
    });
    phase(block, [&](u32 thread) {
        if (thread > 0) return;
        u32 sum = 0;
        for (u32 part = 0; part < SPARSE_PARTS; part++) {
            u32 next = shared.sums[part];
            shared.sums[part] = sum;
            sum += next;
        }
        shared.total = sum;
    });
}

// Writes the number of values of a tile.
DEVICE void count_sparse(
    const Block& block, const Launch& launch, const SparseTile& tile, u8* memory
) {
    SparseShared& shared = *(SparseShared*)memory;
    count_tile(block, launch, tile, shared);
    phase(block, [&](u32 thread) {
        if (thread == 0) *(u64*)(launch.scratch + tile.before) = shared.total;
    });
}

// Returns the number of values of a sparse tensor.
DEVICE u64 value_count(const Launch& launch, const JoinedTensor& tensor) {
    if (tensor.planes == 1) return 0;
    const u64 len = launch.planes[tensor.first_plane + 1].len;
    return tensor.planes == 2 ? len / tensor.item_bytes : len;
}

struct SumShared {
    // Number of values of a thread's tiles, then of all tiles before them.
    u64 sums[MAX_THREADS];
};

// Replaces the number of values of every tile by the number of values before it.
DEVICE void add_up_sparse(
    const Block& block, const Launch& launch, const SparseSum& sum, u8* memory
) {
    SumShared& shared = *(SumShared*)memory;
    u64* counts = (u64*)(launch.scratch + sum.before);
    const u64 part_len = (sum.tiles + block.threads - 1) / block.threads;
    // The first tile of a thread. Its tiles end where those of the next thread start.
    auto start = [&](u32 thread) {
        const u64 first = part_len * thread;
        return first < sum.tiles ? first : sum.tiles;
    };
    phase(block, [&](u32 thread) {
        u64 total = 0;
        for (u64 k = start(thread); k < start(thread + 1); k++) total += counts[k];
        shared.sums[thread] = total;
    });
    phase(block, [&](u32 thread) {
        if (thread > 0) return;
        u64 total = 0;
        for (u32 k = 0; k < block.threads; k++) {
            u64 next = shared.sums[k];
            shared.sums[k] = total;
            total += next;
        }
        const JoinedTensor tensor = launch.tensors[sum.tensor];
        if (total != value_count(launch, tensor)) report_tensor(launch, sum.tensor);
    });
    phase(block, [&](u32 thread) {
        u64 before = shared.sums[thread];
        for (u64 k = start(thread); k < start(thread + 1); k++) {
            u64 next = counts[k];
            counts[k] = before;
            before += next;
        }
    });
}

// Returns value `k` of a sparse tensor: its bytes are in one plane or in a plane each.
template <class Element>
DEVICE Element sparse_value(const Launch& launch, const JoinedTensor& tensor, u64 k) {
    const PlannedPlane* planes = launch.planes + tensor.first_plane + 1;
    if (tensor.planes == 2) return ((const Element*)(launch.scratch + planes[0].at))[k];
    u64 value = 0;
    for (u32 j = 0; j < sizeof(Element); j++) {
        value |= (u64)launch.scratch[planes[j].at + k] << (8 * j);
    }
    return (Element)value;
}

template <class Element>
DEVICE void write_sparse(
    const Block& block, const Launch& launch, const SparseTile& tile, const JoinedTensor& tensor,
    const SparseShared& shared
) {
    const u64 values = value_count(launch, tensor), base = *(u64*)(launch.scratch + tile.before);
    u8* out = launch.output + tensor.output + tile.first * sizeof(Element);
    phase(block, [&](u32 thread) {
        for (u32 i = 4 * thread; i < tile.count; i += 4 * block.threads) {
            const u32 word = shared.words[i / 32], shift = i % 32;
            // Bits of the word before element `i`.
            const u32 earlier = shift ? word >> (32 - shift) : 0;
            u64 k = base + shared.before[i / 32] + count_bits(earlier);
            Element four[4] = {0, 0, 0, 0};
            for (u32 n = 0; n < 4; n++) {
                if (!(word >> (31 - shift - n) & 1)) continue;
                // A bitmap with more bits than values has been reported.
                if (k < values) four[n] = sparse_value<Element>(launch, tensor, k);
                k++;
            }
            put_elements(out + (u64)i * sizeof(Element), four, smaller(4, tile.count - i));
        }
    });
}

DEVICE void join_sparse(
    const Block& block, const Launch& launch, const SparseTile& tile, u8* memory
) {
    SparseShared& shared = *(SparseShared*)memory;
    const JoinedTensor tensor = launch.tensors[tile.tensor];
    count_tile(block, launch, tile, shared);
    phase(block, [&](u32 thread) {
        for (u32 part = thread; part < SPARSE_PARTS; part += block.threads) {
            u32 sum = shared.sums[part];
            for (u32 k = SPARSE_PART_WORDS * part; k < SPARSE_PART_WORDS * (part + 1); k++) {
                u32 next = shared.before[k];
                shared.before[k] = (u16)sum;
                sum += next;
            }
        }
        const u8* bitmap = launch.scratch + launch.planes[tensor.first_plane].at;
        const bool is_last = tile.first + tile.count == tensor.elements;
        if (is_last && thread == 0 && !is_padding_zero(bitmap, tensor.elements)) {
            report_tensor(launch, tile.tensor);
        }
    });
    if (tensor.item_bytes == 1) {
        write_sparse<u8>(block, launch, tile, tensor, shared);
    } else if (tensor.item_bytes == 2) {
        write_sparse<u16>(block, launch, tile, tensor, shared);
    } else if (tensor.item_bytes == 4) {
        write_sparse<u32>(block, launch, tile, tensor, shared);
    } else {
        write_sparse<u64>(block, launch, tile, tensor, shared);
    }
}

#ifdef __CUDACC__
KERNEL count_sparse_tiles(Launch launch, const SparseTile* tiles) {
    __shared__ SparseShared shared;
    count_sparse({blockDim.x, false}, launch, tiles[blockIdx.x], (u8*)&shared);
}

KERNEL add_up_sparse_tensors(Launch launch, const SparseSum* sums) {
    __shared__ SumShared shared;
    add_up_sparse({blockDim.x, false}, launch, sums[blockIdx.x], (u8*)&shared);
}

KERNEL join_sparse_tiles(Launch launch, const SparseTile* tiles) {
    __shared__ SparseShared shared;
    join_sparse({blockDim.x, false}, launch, tiles[blockIdx.x], (u8*)&shared);
}
#endif
