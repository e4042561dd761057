// Joins planes in the scratch buffer into elements: bytes, float16, float32, and palettes.
#pragma once

#include "palette.cu"

// Returns the sign of element `k`.
DEVICE u32 sign_bit(const u8* signs, u64 k) { return signs[k >> 3] >> (7 - (k & 7)) & 1; }

// Returns whether the bits after the last of `elements` signs are zero.
DEVICE bool is_padding_zero(const u8* signs, u64 elements) {
    return elements % 8 == 0 || (u8)(signs[elements >> 3] << (elements % 8)) == 0;
}

// Joins four elements of two planes of bytes: a word has a byte of each element.
DEVICE void put_pairs(u32* out, u32 low, u32 high) {
    for (u32 n = 0; n < 2; n++) {
        u32 a = low >> (16 * n), b = high >> (16 * n);
        out[n] = (a & 255) | (b & 255) << 8 | (a >> 8 & 255) << 16 | (b >> 8 & 255) << 24;
    }
}

// The same for four planes.
DEVICE void put_quads(u32* out, u32 a, u32 b, u32 c, u32 d) {
    for (u32 n = 0; n < 4; n++) {
        u32 shift = 8 * n;
        out[n] = (a >> shift & 255) | (b >> shift & 255) << 8 | (c >> shift & 255) << 16 |
            (d >> shift & 255) << 24;
    }
}

DEVICE void join_bytes(
    const Block& block, const Launch& launch, const Tile& tile, const JoinedTensor& tensor
) {
    const PlannedPlane* planes = launch.planes + tensor.first_plane;
    const u32 width = tensor.item_bytes;
    u8* out = launch.output + tensor.output + tile.first * width;
    const bool is_fast = (width == 2 || width == 4) && (u64)out % 4 == 0;
    phase(block, [&](u32 thread) {
        for (u32 i = 4 * thread; i < tile.count; i += 4 * block.threads) {
            auto plane = [&](u32 j) { return launch.scratch + planes[j].at + tile.first + i; };
            if (is_fast && i + 4 <= tile.count) {
                u32* words = (u32*)(out + (u64)i * width);
                u32 a = four_bytes(plane(0)), b = four_bytes(plane(1));
                if (width == 2) {
                    put_pairs(words, a, b);
                } else {
                    put_quads(words, a, b, four_bytes(plane(2)), four_bytes(plane(3)));
                }
                continue;
            }
            for (u32 j = 0; j < width; j++) {
                const u8* bytes = plane(j);
                for (u32 n = 0; n < 4 && i + n < tile.count; n++) {
                    out[(u64)(i + n) * width + j] = bytes[n];
                }
            }
        }
    });
}

// The fields of float16 or float32.
struct Fields {
    u32 exponent_bits, mantissa_bits;

    // Returns an element, and sets `wide` if a field has too many bits.
    DEVICE u32 join(u32 sign, u32 exponent, u32 mantissa, u32& wide) const {
        wide |= mantissa >> mantissa_bits | exponent >> exponent_bits;
        return (sign << exponent_bits | exponent) << mantissa_bits | mantissa;
    }
};

DEVICE void join_floats(
    const Block& block, const Launch& launch, const Tile& tile, const JoinedTensor& tensor
) {
    const PlannedPlane* planes = launch.planes + tensor.first_plane;
    const u32 width = tensor.item_bytes;
    const Fields fields = tensor.join == FLOAT16 ? Fields{5, 10} : Fields{8, 23};
    const u8* signs = launch.scratch + planes[0].at;
    const u8* exponents = launch.scratch + planes[1].at;
    const u8* mantissas = launch.scratch + planes[2].at;
    u8* out = launch.output + tensor.output;
    const bool is_aligned = (u64)(out + tile.first * width) % 4 == 0;
    phase(block, [&](u32 thread) {
        u32 wide = 0;
        for (u32 i = 4 * thread; i < tile.count; i += 4 * block.threads) {
            const u64 first = tile.first + i;
            // A block of eight elements shares a byte of signs.
            if (is_aligned && first % 4 == 0 && i + 4 <= tile.count) {
                u32 sign = (u32)signs[first >> 3] >> (4 - (first & 4)) & 15;
                u32 exponent = four_bytes(exponents + first), parts[3] = {0, 0, 0};
                for (u32 part = 0; 8 * part < fields.mantissa_bits; part++) {
                    parts[part] = four_bytes(mantissas + part * tensor.elements + first);
                }
                u32 elements[4];
                for (u32 n = 0; n < 4; n++) {
                    u32 mantissa = parts[0] >> (8 * n) & 255;
                    mantissa |= (parts[1] >> (8 * n) & 255) << 8;
                    mantissa |= (parts[2] >> (8 * n) & 255) << 16;
                    elements[n] = fields.join(
                        sign >> (3 - n) & 1, exponent >> (8 * n) & 255, mantissa, wide
                    );
                }
                u32* words = (u32*)(out + first * width);
                if (width == 4) {
                    for (u32 n = 0; n < 4; n++) words[n] = elements[n];
                } else {
                    words[0] = (elements[0] & 0xFFFF) | elements[1] << 16;
                    words[1] = (elements[2] & 0xFFFF) | elements[3] << 16;
                }
                continue;
            }
            for (u32 n = i; n < i + 4 && n < tile.count; n++) {
                const u64 k = tile.first + n;
                u32 mantissa = 0;
                for (u32 part = 0; 8 * part < fields.mantissa_bits; part++) {
                    mantissa |= (u32)mantissas[part * tensor.elements + k] << (8 * part);
                }
                u32 bits = fields.join(sign_bit(signs, k), exponents[k], mantissa, wide);
                for (u32 j = 0; j < width; j++) out[k * width + j] = (u8)(bits >> (8 * j));
            }
        }
        bool is_last = tile.first + tile.count == tensor.elements;
        if (is_last && thread == 0 && !is_padding_zero(signs, tensor.elements)) wide = 1;
        if (wide) report_tensor(launch, tile.tensor);
    });
}

DEVICE void join_tile(const Block& block, const Launch& launch, const Tile& tile) {
    const JoinedTensor tensor = launch.tensors[tile.tensor];
    if (tensor.join == BYTES) {
        join_bytes(block, launch, tile, tensor);
    } else if (tensor.join == PALETTE) {
        join_palette(block, launch, tile, tensor);
    } else {
        join_floats(block, launch, tile, tensor);
    }
}

#ifdef __CUDACC__
KERNEL join_tiles(Launch launch, const Tile* tiles) {
    join_tile({blockDim.x, false}, launch, tiles[blockIdx.x]);
}
#endif
