// Writes elements of 1, 2, 4 or 8 bytes.
#pragma once

#include "lists.h"

// Writes the first `count` of four elements, as words if there are four of them and the
// place allows it.
template <class Element>
DEVICE void put_elements(u8* out, const Element* elements, u32 count) {
    constexpr u32 WIDTH = sizeof(Element);
    if (count == 4 && (u64)out % 4 == 0) {
        u32* words = (u32*)out;
        // Four elements have as many words as an element has bytes.
        for (u32 n = 0; n < WIDTH; n++) {
            u32 word = 0;
            if constexpr (WIDTH < 4) {
                constexpr u32 PER_WORD = 4 / WIDTH;
                for (u32 j = 0; j < PER_WORD; j++) {
                    word |= (u32)elements[PER_WORD * n + j] << (8 * WIDTH * j);
                }
            } else {
                constexpr u32 WORDS = WIDTH / 4;
                word = (u32)((u64)elements[n / WORDS] >> (32 * (n % WORDS)));
            }
            words[n] = word;
        }
        return;
    }
    for (u32 n = 0; n < count; n++) {
        for (u32 j = 0; j < WIDTH; j++) {
            out[WIDTH * n + j] = (u8)((u64)elements[n] >> (8 * j));
        }
    }
}
