// Computes the elements of lattices (docs/formats/zxq1.md): each is the value of a symbol
// times the scale of its group, rounded.
#pragma once

#include "elements.h"

DEVICE u32 bits_of_float(float value) {
#ifdef __CUDACC__
    return __float_as_uint(value);
#else
    u32 bits;
    __builtin_memcpy(&bits, &value, 4);
    return bits;
#endif
}

DEVICE float float_of_bits(u32 bits) {
#ifdef __CUDACC__
    return __uint_as_float(bits);
#else
    float value;
    __builtin_memcpy(&value, &bits, 4);
    return value;
#endif
}

// Multiplies with the rounding of IEEE 754, to the nearest and ties to even. Neither
// operands nor products are flushed to zero.
DEVICE float product_of(float a, float b) {
#ifdef __CUDACC__
    return __fmul_rn(a, b);
#else
    return a * b;
#endif
}

// Rounds a float32 that is not NaN to bfloat16.
DEVICE u32 round_to_bfloat16(u32 bits) { return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16; }

// Rounds a float32 that is not NaN to float16.
DEVICE u32 round_to_float16(u32 bits) {
    const u32 sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
    const u32 exponent = magnitude >> 23;
    // Numbers from 2^16 on are infinite; the largest ones below become so by rounding.
    if (exponent >= 127 + 16) return sign | 0x7C00;
    if (exponent >= 127 - 14) {
        return sign | (magnitude - (112u << 23) + 0xFFF + (magnitude >> 13 & 1)) >> 13;
    }
    // Subnormal: multiples of 2^-24. Numbers below 2^-25 become zero.
    if (exponent < 127 - 25) return sign;
    const u32 mantissa = (magnitude & 0x7FFFFF) | 1u << 23, shift = 126 - exponent;
    const u32 whole = mantissa >> shift, half = 1u << (shift - 1);
    const u32 rest = mantissa & (2 * half - 1);
    return sign | (whole + (rest > half || (rest == half && (whole & 1))));
}

template <class Element>
DEVICE void fill_lattice(
    const Block& block, const Launch& launch, const Tile& tile, const JoinedTensor& tensor
) {
    const Lattice& lattice = launch.lattices[tensor.parameter];
    const LatticeGroup* groups = launch.lattice_groups + lattice.first_group;
    const u8* symbols = launch.scratch + launch.planes[tensor.first_plane].at + tile.first;
    u8* out = launch.output + tensor.output + tile.first * sizeof(Element);
    const u32 columns = lattice.columns, dtype = lattice.dtype;
    const u32 group_rows = lattice.group_rows, group_columns = lattice.group_columns;
    const u32 across = (columns - 1) / group_columns + 1;
    const u32 negative_zero = lattice.negative_zero;
    phase(block, [&](u32 thread) {
        bool is_wrong = false;
        for (u32 i = 4 * thread; i < tile.count; i += 4 * block.threads) {
            u32 row = (u32)((tile.first + i) / columns);
            u32 column = (u32)((tile.first + i) % columns);
            const u32 count = smaller(4, tile.count - i);
            Element four[4] = {0, 0, 0, 0};
            for (u32 n = 0; n < count; n++) {
                const LatticeGroup& group =
                    groups[(u64)(row / group_rows) * across + column / group_columns];
                const u32 symbol = symbols[i + n];
                float value = float_of_bits(lattice.values[symbol]);
                is_wrong |= value != value;
                if (negative_zero != NONE && symbol != negative_zero) value += (float)group.offset;
                u32 bits = bits_of_float(product_of(value, float_of_bits(group.scale)));
                if (dtype == DTYPE_BFLOAT16) {
                    bits = round_to_bfloat16(bits);
                } else if (dtype == DTYPE_FLOAT16) {
                    bits = round_to_float16(bits);
                }
                four[n] = (Element)bits;
                if (++column == columns) {
                    column = 0;
                    row++;
                }
            }
            put_elements(out + (u64)i * sizeof(Element), four, count);
        }
        if (is_wrong) report_tensor(launch, tile.tensor);
    });
}

DEVICE void join_lattice(const Block& block, const Launch& launch, const Tile& tile) {
    const JoinedTensor tensor = launch.tensors[tile.tensor];
    if (tensor.item_bytes == 2) {
        fill_lattice<u16>(block, launch, tile, tensor);
    } else {
        fill_lattice<u32>(block, launch, tile, tensor);
    }
}

#ifdef __CUDACC__
KERNEL join_lattice_tiles(Launch launch, const Tile* tiles) {
    join_lattice({blockDim.x, false}, launch, tiles[blockIdx.x]);
}
#endif
