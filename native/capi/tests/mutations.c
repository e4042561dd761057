#include <stdlib.h>
#include <string.h>

#include "check.h"

static uint32_t state = 12345;

static uint32_t random_below(uint32_t bound) {
    state = state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(state >> 8) * bound >> 24);
}

static long right, refused;

/* Counts successes and failures; a status for a defect is not acceptable. */
static int is_answer(zstn_status status) {
    right += status == ZSTN_OK;
    refused += status != ZSTN_OK;
    return status == ZSTN_OK || (status < 0 && status != ZSTN_ERROR_PANIC);
}

/* Reads a changed file in every way. The file has checksums, so after a single change
 * every read either fails or returns the original bytes. */
static void read_changed(const fixture *files, file_bytes changed, int is_one_change) {
    const unsigned char *data = files->plain.bytes + files->plain.len - 64;
    unsigned char out[4096];
    memory_file memory = memory_of(changed);
    zstn_io io = io_of(&memory);
    zstn_status status;
    zstn_reader *reader;
    zstn_model *model = open_without_io(changed.bytes, changed.len, &status);
    CHECK(is_answer(status));
    if (model != NULL) {
        status = decode_without_io(model, changed.bytes, changed.len, "small", 0, ZSTN_ALL_ROWS,
                                   out, sizeof out);
        CHECK(is_answer(status));
        CHECK(status != ZSTN_OK || !is_one_change || memcmp(out, data, 60) == 0);
        status = decode_without_io(model, changed.bytes, changed.len, "big",
                                   random_below(600), random_below(600), out, sizeof out);
        CHECK(is_answer(status));
    }
    zstn_model_free(model);
    status = zstn_open_io(&io, changed.len, NULL, &reader, &failure);
    CHECK(is_answer(status));
    if (reader != NULL) {
        size_t offset = random_below(1048640);
        size_t len = random_below(sizeof out);
        status = zstn_read(reader, "small", out, sizeof out, &failure);
        CHECK(is_answer(status));
        CHECK(status != ZSTN_OK || !is_one_change || memcmp(out, data, 60) == 0);
        status = zstn_unpacked_read_at(reader, offset, out, len, &failure);
        CHECK(is_answer(status));
        CHECK(status != ZSTN_OK || !is_one_change ||
              memcmp(out, files->plain.bytes + offset, len) == 0);
    }
    zstn_reader_free(reader);
    CHECK(memory.released == 1);
}

/* Changes a packed file in pseudorandom places, most of them in its header or index,
 * and reads it. Every run makes the same changes. */
void test_mutations(const fixture *files) {
    const size_t len = files->packed.len;
    unsigned char *bytes = (unsigned char *)malloc(len);
    int round;
    CHECK(bytes != NULL);
    for (round = 0; round < 3000; round++) {
        file_bytes changed;
        uint32_t changes = 1 + (round % 3 == 0 ? random_below(8) : 0), change;
        changed.bytes = bytes;
        changed.len = len;
        memcpy(bytes, files->packed.bytes, len);
        for (change = 0; change < changes; change++) {
            /* In the header, at the end (where the index is), or anywhere. */
            uint32_t place = random_below(3);
            size_t at = place == 0   ? random_below(600)
                        : place == 1 ? len - 1 - random_below(1200)
                                     : random_below((uint32_t)len);
            bytes[at] = (unsigned char)(round % 2 == 0 ? bytes[at] ^ (1u << random_below(8))
                                                       : random_below(256));
        }
        if (round % 10 == 0) {
            changed.len = random_below((uint32_t)len);
        }
        read_changed(files, changed, changes == 1);
    }
    free(bytes);
    /* Both outcomes were frequent. */
    CHECK(right > 3000 && refused > 3000);
}
