// Decodes differences from the base (docs/formats/zxd1.md). The output contains the elements
// of the base, which are replaced.
//
// A block of threads expands the tables of a tensor, and each of its warps decodes a block
// of elements. The symbols of the 8, 16 or 32 states of a block are decoded at once, by a
// thread each. The words that states take, and the raw bits, are in the order of the
// elements, so threads count those of the threads before them.
#pragma once

#include "lists.h"

// The number of blocks of elements that a block decodes.
static const u32 DIFFERENCE_WARPS = 8;
static const u32 DIFFERENCE_SLOT_BITS = 12;
static const u32 DIFFERENCE_SLOTS = 1 << DIFFERENCE_SLOT_BITS;
// Slots are expanded in parts of this number.
static const u32 DIFFERENCE_PART_SLOTS = 64;
static const u32 DIFFERENCE_PARTS = DIFFERENCE_SLOTS / DIFFERENCE_PART_SLOTS;
static const u32 DIFFERENCE_LOWER = 1 << 16;
static const u32 BY_MANTISSA = 254, UNCHANGED = 255;
static const u32 LAST_SCALED = 95, UNCHANGED_CONTEXT = 96, FIRST_MANTISSA = 97;
// Symbols below this one are values.
static const u32 DIRECT = 32;

struct ExpandedDifference {
    // The frequency of every symbol, and its first slot in the upper half.
    u32 codes[DIFFERENCE_SYMBOLS];
    // The symbol of every slot.
    u8 slots[DIFFERENCE_SLOTS];
};

struct DifferenceShared {
    u16 contexts[DIFFERENCE_CONTEXTS];
    i32 means[64];
    // As many as the tensor has.
    ExpandedDifference tables[1];
};

static_assert(sizeof(DifferenceShared) == 5024, "the launcher's `DIFFERENCE_SHARED_BYTES`");
static_assert(sizeof(ExpandedDifference) == 4440, "the launcher's `EXPANDED_TABLE_BYTES`");

DEVICE void expand_difference(
    const Block& block, const Launch& launch, const PlannedDifference& tensor,
    DifferenceShared& shared
) {
    const DifferenceTable* tables = launch.difference_tables + tensor.first_table;
    phase(block, [&](u32 thread) {
        for (u32 k = thread; k < DIFFERENCE_CONTEXTS; k += block.threads) {
            shared.contexts[k] = tensor.contexts[k];
        }
        for (u32 k = thread; k < 64; k += block.threads) shared.means[k] = tensor.means[k];
        for (u32 k = thread; k < tensor.tables; k += block.threads) {
            u32 start = 0;
            for (u32 symbol = 0; symbol < DIFFERENCE_SYMBOLS; symbol++) {
                const u32 frequency = tables[k].frequencies[symbol];
                shared.tables[k].codes[symbol] = frequency | start << 16;
                start += frequency;
            }
        }
    });
    phase(block, [&](u32 thread) {
        const u32 parts = tensor.tables * DIFFERENCE_PARTS;
        for (u32 part = thread; part < parts; part += block.threads) {
            ExpandedDifference& table = shared.tables[part / DIFFERENCE_PARTS];
            u32 slot = DIFFERENCE_PART_SLOTS * (part % DIFFERENCE_PARTS);
            const u32 end = slot + DIFFERENCE_PART_SLOTS;
            u32 symbol = 0;
            while (slot < end) {
                // The symbol that contains the slot. One does, as the frequencies of a plan
                // have the right sum.
                u32 code = table.codes[symbol];
                while (slot >= (code >> 16) + (code & 0xFFFF) && symbol + 1 < DIFFERENCE_SYMBOLS) {
                    code = table.codes[++symbol];
                }
                table.slots[slot++] = (u8)symbol;
            }
        }
    });
}

// Reads up to 57 bits that begin at bit `at` of the raw bits, `len` bytes at `bytes`. Bits
// after their end have no defined value.
DEVICE u64 raw_bits(const u8* bytes, u32 len, u32 at) {
    // Words are aligned, and none begins after the last byte.
    const u32 offset = (u32)((u64)bytes % 4), bit = 8 * offset + at, count = (offset + len + 3) / 4;
    const u32* words = (const u32*)(bytes - offset);
    const u32 word = bit / 32, shift = bit % 32;
    auto read = [&](u32 k) { return k < count ? words[k] : 0; };
    u64 bits = (read(word) | (u64)read(word + 1) << 32) >> shift;
    if (shift > 0) bits |= (u64)read(word + 2) << (64 - shift);
    return bits;
}

// The fields of an element's dtype.
struct DifferenceFloat {
    u32 mantissa_bits, exponent_mask, bias;
};

// Returns the context of an element of a group with this code.
DEVICE u32 context_of(const DifferenceFloat& fields, u32 code, u32 predicted) {
    if (code == UNCHANGED) return UNCHANGED_CONTEXT;
    if (code == BY_MANTISSA) {
        return FIRST_MANTISSA + (predicted >> (fields.mantissa_bits - 6) & 63);
    }
    const u32 exponent = predicted >> fields.mantissa_bits & fields.exponent_mask;
    const i32 context = 2 * ((i32)exponent - (i32)fields.bias) - ((i32)code - 100) + 16;
    return context < 0 ? 0 : smaller((u32)context, LAST_SCALED);
}

// Returns all ones if an element is negative, and 0 otherwise.
template <class Element>
DEVICE Element sign_of(Element element) {
    return (Element)(0 - (element >> (8 * sizeof(Element) - 1)));
}

// Returns an element whose difference from the predicted one has this value.
template <class Element>
DEVICE Element element_of(Element predicted, Element value, i32 mean) {
    const Element sign = sign_of(predicted);
    Element step = (Element)((value >> 1) ^ (Element)(0 - (value & 1)));
    step = (Element)(step + (Element)mean);
    step = (Element)((step ^ sign) - sign);
    const Element order = (Element)((predicted ^ sign >> 1) + step);
    return (Element)(order ^ sign_of(order) >> 1);
}

template <class Element>
DEVICE Element read_element(const u8* from, bool is_aligned) {
    if (is_aligned) return *(const Element*)from;
    u32 bits = 0;
    for (u32 k = 0; k < sizeof(Element); k++) bits |= (u32)from[k] << (8 * k);
    return (Element)bits;
}

template <class Element>
DEVICE void write_element(u8* to, Element element, bool is_aligned) {
    if (is_aligned) {
        *(Element*)to = element;
        return;
    }
    for (u32 k = 0; k < sizeof(Element); k++) to[k] = (u8)((u32)element >> (8 * k));
}

// Decodes a block of elements with a warp. Returns false, to all threads, if its parts do not
// end with its last element.
template <class Element>
DEVICE bool decode_elements(
    const Block& block, const Launch& launch, const PlannedDifference& tensor,
    const DifferenceBlock& coded, const DifferenceShared& shared
) {
    const u32 states = tensor.states;
    if (coded.rans_len < 4 * states || (coded.rans_len - 4 * states) % 2) return false;
    const u8* rans = launch.source + coded.rans;
    const u8* words = rans + 4 * states;
    const u8* raw = rans + coded.rans_len;
    const u32 word_count = (coded.rans_len - 4 * states) / 2;
    const DifferenceFloat fields = tensor.dtype == DTYPE_BFLOAT16 ? DifferenceFloat{7, 0xFF, 127}
        : tensor.dtype == DTYPE_FLOAT16                           ? DifferenceFloat{10, 0x1F, 15}
                                                                  : DifferenceFloat{23, 0xFF, 127};
    const u64 first = (u64)coded.number * tensor.block_elements;
    const u64 left = tensor.elements - first;
    const u32 count = left < tensor.block_elements ? (u32)left : tensor.block_elements;
    const u8* codes = launch.difference_codes + tensor.first_code;
    u8* out = launch.output + tensor.output + first * sizeof(Element);
    const bool is_aligned = (u64)out % sizeof(Element) == 0;
    // The group of a thread's element, and the number of the element there.
    PerLane<u64> group, in_group;
    PerLane<u32> state, raw_at, lead, code_of_group;
    PerLane<Element> predicted;
    PerLane<u8> len;
    u32 taken = 0;
    // At most 54 bits for each of 2^20 elements.
    u32 raw_taken = 0;
    u32 wrong = vote(block, [&](u32 lane) {
        state[lane] = lane < states ? four_bytes(rans + 4 * lane) : DIFFERENCE_LOWER;
        group[lane] = (first + lane) / tensor.group_elements;
        in_group[lane] = (first + lane) % tensor.group_elements;
        return state[lane] < DIFFERENCE_LOWER;
    });
    if (wrong) return false;
    for (u32 start = 0; start < count; start += states) {
        const u32 live = smaller(states, count - start);
        const u32 refilled = vote(block, [&](u32 lane) {
            raw_at[lane] = 0;
            if (lane >= live) return false;
            code_of_group[lane] = codes[group[lane]];
            predicted[lane] =
                read_element<Element>(out + (u64)(start + lane) * sizeof(Element), is_aligned);
            const u32 context = context_of(fields, code_of_group[lane], predicted[lane]);
            const u32 choice = shared.contexts[context];
            const ExpandedDifference& table = shared.tables[choice >> DIFFERENCE_SLOT_BITS];
            const u32 slot = state[lane] & (DIFFERENCE_SLOTS - 1), symbol = table.slots[slot];
            const u32 code = table.codes[symbol];
            state[lane] = (code & 0xFFFF) * (state[lane] >> DIFFERENCE_SLOT_BITS) + slot -
                (code >> 16);
            const u32 shift = choice & 31, extra = symbol < DIRECT ? 0 : symbol / 2 - 12;
            const u32 top = symbol < DIRECT ? symbol : (2 + symbol % 2) << extra;
            lead[lane] = top << shift;
            len[lane] = (u8)(extra + shift);
            raw_at[lane] = extra + shift;
            return state[lane] < DIFFERENCE_LOWER;
        });
        const u32 raw_len = add_up(raw_at);
        lanes(block, [&](u32 lane) {
            if (lane >= live) return;
            if (refilled >> lane & 1) {
                const u32 word = taken + count_bits(refilled & ((1u << lane) - 1));
                // Zeros after the end are counted like words, so a stream that is too short
                // differs.
                u32 next = 0;
                if (word < word_count) next = words[2 * word] | (u32)words[2 * word + 1] << 8;
                state[lane] = state[lane] << 16 | next;
            }
            u64 value = lead[lane];
            if (len[lane] > 0) {
                const u64 bits = raw_bits(raw, coded.raw_len, raw_taken + raw_at[lane]);
                value += bits & ((1ull << len[lane]) - 1);
            }
            i32 mean = 0;
            if (code_of_group[lane] == BY_MANTISSA) {
                mean = shared.means[predicted[lane] >> (fields.mantissa_bits - 6) & 63];
            }
            write_element<Element>(
                out + (u64)(start + lane) * sizeof(Element),
                element_of<Element>(predicted[lane], (Element)value, mean), is_aligned
            );
            in_group[lane] += states;
            if (in_group[lane] >= tensor.group_elements) {
                group[lane] += in_group[lane] / tensor.group_elements;
                in_group[lane] %= tensor.group_elements;
            }
        });
        taken += count_bits(refilled);
        raw_taken += raw_len;
    }
    wrong = vote(block, [&](u32 lane) { return state[lane] != DIFFERENCE_LOWER; });
    if (wrong || taken != word_count || (raw_taken + 7) / 8 != coded.raw_len) return false;
    return raw_taken % 8 == 0 || raw[coded.raw_len - 1] >> (raw_taken % 8) == 0;
}

DEVICE void decode_differences(
    const Block& block, const Launch& launch, const DifferenceBlocks& blocks, u8* memory
) {
    DifferenceShared& shared = *(DifferenceShared*)memory;
    const PlannedDifference& tensor =
        launch.differences[launch.difference_blocks[blocks.first].difference];
    expand_difference(block, launch, tensor, shared);
    each_warp<DIFFERENCE_WARPS>([&](u32 warp) {
        if (warp >= blocks.count) return;
        const DifferenceBlock coded = launch.difference_blocks[blocks.first + warp];
        const bool is_right = tensor.item_bytes == 2
            ? decode_elements<u16>(block, launch, tensor, coded, shared)
            : decode_elements<u32>(block, launch, tensor, coded, shared);
        if (!is_right) report_block(launch, blocks.first + warp);
    });
}

#ifdef __CUDACC__
KERNEL decode_difference_blocks(Launch launch, const DifferenceBlocks* blocks) {
    extern __shared__ __align__(16) u8 memory[];
    decode_differences({blockDim.x, false}, launch, blocks[blockIdx.x], memory);
}
#endif
