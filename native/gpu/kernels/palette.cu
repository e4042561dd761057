// Looks up the elements of palettes (docs/formats/z4ai-frames.md 10): the first plane is
// the codebook, the second one has an index for every element.
#pragma once

#include "elements.h"

// Returns number `k` of an index with 1, 2 or 4 bytes for each element.
DEVICE u32 palette_index(const u8* index, u32 index_bytes, u32 k) {
    if (index_bytes == 1) return index[k];
    return index_bytes == 2 ? ((const u16*)index)[k] : ((const u32*)index)[k];
}

template <class Element>
DEVICE void look_up(
    const Block& block, const Launch& launch, const Tile& tile, const JoinedTensor& tensor
) {
    const PlannedPlane* planes = launch.planes + tensor.first_plane;
    const PlannedPlane codebook = planes[0], indices = planes[1];
    const u64 entries = codebook.len / sizeof(Element);
    const Element* values = (const Element*)(launch.scratch + codebook.at);
    const u32 index_bytes = (u32)(indices.len / tensor.elements);
    const u8* index = launch.scratch + indices.at + tile.first * index_bytes;
    u8* out = launch.output + tensor.output + tile.first * sizeof(Element);
    phase(block, [&](u32 thread) {
        bool is_outside = false;
        for (u32 i = 4 * thread; i < tile.count; i += 4 * block.threads) {
            const u32 count = smaller(4, tile.count - i);
            Element four[4] = {0, 0, 0, 0};
            for (u32 n = 0; n < count; n++) {
                const u32 k = palette_index(index, index_bytes, i + n);
                if (k < entries) {
                    four[n] = values[k];
                } else {
                    is_outside = true;
                }
            }
            put_elements(out + (u64)i * sizeof(Element), four, count);
        }
        if (is_outside) report_tensor(launch, tile.tensor);
    });
}

DEVICE void join_palette(
    const Block& block, const Launch& launch, const Tile& tile, const JoinedTensor& tensor
) {
    if (tensor.item_bytes == 2) {
        look_up<u16>(block, launch, tile, tensor);
    } else if (tensor.item_bytes == 4) {
        look_up<u32>(block, launch, tile, tensor);
    } else {
        look_up<u64>(block, launch, tile, tensor);
    }
}
