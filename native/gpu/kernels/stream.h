// Decodes one Huffman-coded stream with all threads of a block.
//
// A decoder that starts at a wrong bit of a prefix code soon meets the boundaries of
// the right symbols. Each thread owns an equal number of bits. It starts some bits
// before them, and takes the first boundary that it meets among its own bits as its
// start. Then it counts the symbols that start among its bits, and finds the boundary
// where the next thread has to start. Threads whose guess was wrong count again, until
// all neighbours agree. The first thread knows its start, so the result is exact. A
// prefix sum of the counts gives the positions of the symbols.
#pragma once

#include "lists.h"

// The largest number of symbols of a stream, a quarter of a block of zstd.
static const u32 MAX_SYMBOLS = 32768;
// Number of parts in which counts are added up, by a thread each.
static const u32 SUMS = 32;
// Number of bits that a thread decodes before its own.
static const u32 WARM_UP_BITS = 64;
// Words before and after the stream, which lookups may read.
static const u32 PAD_WORDS = 2;

// The count of a thread that has to count again.
static const u16 OUTDATED = 0xFFFF;

struct StreamShared {
    DecodeTable table;
    // Where a thread starts and ends, as a number of bits after the first of its own bits
    // and of the next thread's bits. A symbol has at most LOOKUP_BITS bits, so the numbers
    // are smaller.
    u8 starts[MAX_THREADS], ends[MAX_THREADS];
    // The number of a thread's symbols, then the position of its first symbol.
    u16 counts[MAX_THREADS];
    u32 sums[SUMS];
    u32 wrong_guesses;
    u32 symbol_count;
    u8 symbols[MAX_SYMBOLS];
    // The stream, at the same offset in a word as in the source, with padding. The
    // launcher makes the memory long enough for the longest stream.
    u32 words[1];
};

static_assert(sizeof(StreamShared) == 43404, "the launcher's `STREAM_SHARED_BYTES`");
static_assert(MAX_SYMBOLS + 1 < OUTDATED && LOOKUP_BITS < 256, "the types of `StreamShared`");

// Returns the bits of a stream below `position`, in the topmost bits; at least 33.
DEVICE u64 bits_below(const u32* words, u32 position) {
    u32 word = (position - 33) >> 5;
    u64 both = words[word] | (u64)words[word + 1] << 32;
    return both << (64 - (position - 32 * word));
}

DEVICE u32 entry_symbols(u32 entry) { return entry & 0xFFFFFF; }
DEVICE u32 entry_bits(u32 entry) { return entry >> 24 & 15; }
DEVICE u32 entry_count(u32 entry) { return entry >> 28; }

// Decodes the symbols that start above `end`, beginning at `position`, and calls `put`
// with up to three symbols and their number. Returns the position after the last one.
template <class Put>
DEVICE u32 decode_down_to(
    const u32* words, const DecodeTable& table, u32 position, u32 end, Put put
) {
    while (position >= end + 3 * LOOKUP_BITS) {
        u64 bits = bits_below(words, position);
        for (u32 k = 0; k < 3; k++) {
            u32 entry = table.several[bits >> (64 - LOOKUP_BITS)];
            put(entry_symbols(entry), entry_count(entry));
            bits <<= entry_bits(entry);
            position -= entry_bits(entry);
        }
    }
    while (position >= end + LOOKUP_BITS) {
        u32 entry = table.several[bits_below(words, position) >> (64 - LOOKUP_BITS)];
        put(entry_symbols(entry), entry_count(entry));
        position -= entry_bits(entry);
    }
    while (position > end) {
        u32 entry = table.several[bits_below(words, position) >> (64 - LOOKUP_BITS)];
        u32 symbol = entry & 255;
        put(symbol, 1);
        position -= table.lens[symbol];
    }
    return position;
}

// Writes symbols, four at a time. Words at both ends, which may contain symbols of other
// threads, are written by bytes.
struct SymbolWriter {
    u8* out;
    u64 waiting;
    u32 count;

    // Adds up to four symbols.
    DEVICE void put(u32 symbols, u32 number) {
        waiting |= (u64)symbols << (8 * count);
        count += number;
        while (count > 0 && (u64)out % 4 != 0) put_byte();
        if (count >= 4) {
            *(u32*)out = (u32)waiting;
            out += 4;
            waiting >>= 32;
            count -= 4;
        }
    }

    DEVICE void put_byte() {
        *out++ = (u8)waiting;
        waiting >>= 8;
        count--;
    }

    DEVICE void finish() {
        while (count > 0) put_byte();
    }
};

// Decodes the stream of `segment` into `shared.symbols`. Returns false, in all threads,
// if the stream does not end with its last symbol.
DEVICE bool decode_stream(
    const Block& block, const Launch& launch, const Segment& segment, StreamShared& shared
) {
    const u32 len = segment.source_len, threads = block.threads;
    const u8* coded = launch.source + segment.source;
    const bool fits = len > 0 && segment.len <= MAX_SYMBOLS &&
        8ull * (len - 1) <= (u64)LOOKUP_BITS * segment.len && coded[len - 1] != 0;
    if (!fits) return false;
    const u32 offset = (u32)(segment.source & 3);
    u32 mark = 7;
    while (!(coded[len - 1] >> mark)) mark--;
    const u32 low = 32 * PAD_WORDS + 8 * offset;
    const u32 total = 8 * (len - 1) + mark;
    // The lowest bit position of a thread.
    auto bound = [&](u32 thread) { return low + total - (u32)((u64)total * thread / threads); };
    phase(block, [&](u32 thread) {
        const u32* from = (const u32*)(coded - offset);
        const u32 count = (offset + len + 3) / 4;
        for (u32 k = thread; k < count; k += threads) shared.words[PAD_WORDS + k] = from[k];
        if (thread < PAD_WORDS) {
            shared.words[thread] = 0;
            shared.words[PAD_WORDS + count + thread] = 0;
        }
        const u32* table = (const u32*)&launch.decode_tables[segment.parameter];
        for (u32 k = thread; k < sizeof(DecodeTable) / 4; k += threads) {
            ((u32*)&shared.table)[k] = table[k];
        }
    });
    auto ignore = [](u32, u32) {};
    auto count = [&](u32 thread) {
        u32 counted = 0;
        const u32 next = bound(thread + 1);
        const u32 end = decode_down_to(
            shared.words, shared.table, bound(thread) - shared.starts[thread], next,
            [&](u32, u32 symbols) { counted += symbols; }
        );
        shared.ends[thread] = (u8)(next - end);
        // A count that is larger than all symbols together is refused below.
        shared.counts[thread] = (u16)smaller(counted, MAX_SYMBOLS + 1);
    };
    phase(block, [&](u32 thread) {
        u32 guess = smaller(low + total, bound(thread) + WARM_UP_BITS);
        const u32 first = bound(thread);
        shared.starts[thread] =
            (u8)(first - decode_down_to(shared.words, shared.table, guess, first, ignore));
        count(thread);
    });
    for (;;) {
        phase(block, [&](u32 thread) {
            if (thread == 0) shared.wrong_guesses = 0;
        });
        phase(block, [&](u32 thread) {
            bool is_wrong = thread > 0 && shared.ends[thread - 1] != shared.starts[thread];
            if (is_wrong) {
                shared.starts[thread] = shared.ends[thread - 1];
                shared.wrong_guesses = 1;
            }
            if (is_wrong) shared.counts[thread] = OUTDATED;
        });
        if (!shared.wrong_guesses) break;
        phase(block, [&](u32 thread) {
            if (shared.counts[thread] == OUTDATED) count(thread);
        });
    }
    const u32 part_len = (threads + SUMS - 1) / SUMS;
    phase(block, [&](u32 thread) {
        for (u32 part = thread; part < SUMS; part += threads) {
            const u32 end = smaller(threads, part_len * (part + 1));
            u32 sum = 0;
            for (u32 k = part_len * part; k < end; k++) sum += shared.counts[k];
            shared.sums[part] = sum;
        }
    });
    phase(block, [&](u32 thread) {
        if (thread > 0) return;
        u32 sum = 0;
        for (u32 k = 0; k < SUMS; k++) {
            u32 next = shared.sums[k];
            shared.sums[k] = sum;
            sum += next;
        }
        shared.symbol_count = sum;
    });
    if (shared.symbol_count != segment.len || shared.ends[threads - 1] != 0) return false;
    phase(block, [&](u32 thread) {
        for (u32 part = thread; part < SUMS; part += threads) {
            const u32 end = smaller(threads, part_len * (part + 1));
            u32 sum = shared.sums[part];
            for (u32 k = part_len * part; k < end; k++) {
                u32 next = shared.counts[k];
                shared.counts[k] = (u16)sum;
                sum += next;
            }
        }
    });
    phase(block, [&](u32 thread) {
        SymbolWriter writer = {shared.symbols + shared.counts[thread], 0, 0};
        decode_down_to(
            shared.words, shared.table, bound(thread) - shared.starts[thread], bound(thread + 1),
            [&](u32 symbols, u32 number) { writer.put(symbols, number); }
        );
        writer.finish();
    });
    return true;
}
