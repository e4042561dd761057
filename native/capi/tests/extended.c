#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

/* Tests files with extension frames, which the option `extended` writes. */

#define ROWS 96
#define COLUMNS 256
#define TENSOR_LEN ((size_t)ROWS * COLUMNS * 2)

static void put_bf16(unsigned char *out, float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    bits >>= 16;
    out[0] = (unsigned char)bits;
    out[1] = (unsigned char)(bits >> 8);
}

static uint32_t next(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Writes a checkpoint of two BF16 tensors: `grid` contains integers times a scale for
 * each row; `near` contains weights with `change` added. */
static void write_checkpoint(const char *path, float change) {
    static const char header[] =
        "{\"grid\":{\"dtype\":\"BF16\",\"shape\":[96,256],\"data_offsets\":[0,49152]},"
        "\"near\":{\"dtype\":\"BF16\",\"shape\":[96,256],\"data_offsets\":[49152,98304]}}";
    unsigned char prefix[8] = {0}, element[2];
    uint32_t state = 11;
    int row, column;
    FILE *out = fopen(path, "wb");
    CHECK(out != NULL);
    prefix[0] = (unsigned char)(sizeof header - 1);
    CHECK(sizeof header - 1 < 256);
    fwrite(prefix, 1, 8, out);
    fwrite(header, 1, sizeof header - 1, out);
    for (row = 0; row < ROWS; row++) {
        float scale = (float)(16 + next(&state) % 16) / 4096.0f;
        for (column = 0; column < COLUMNS; column++) {
            int step = (int)(next(&state) % 5 + next(&state) % 5 + next(&state) % 5) - 6;
            put_bf16(element, (float)step * scale);
            fwrite(element, 1, 2, out);
        }
    }
    for (row = 0; row < ROWS; row++) {
        for (column = 0; column < COLUMNS; column++) {
            float sum = 0.0f;
            int part;
            for (part = 0; part < 6; part++) {
                sum += (float)(next(&state) % 4096) / 4096.0f - 0.5f;
            }
            put_bf16(element, sum / 50.0f);
            if (change > 0.0f) {
                uint32_t bits = (uint32_t)element[1] << 24 | (uint32_t)element[0] << 16;
                float value;
                memcpy(&value, &bits, 4);
                put_bf16(element, value + change * ((float)(next(&state) % 4096) / 2048.0f - 1.0f));
            } else {
                next(&state);
            }
            fwrite(element, 1, 2, out);
        }
    }
    CHECK(fclose(out) == 0);
}

static void pack(const char *from, const char *to, int32_t extended, const char *base_path) {
    zstn_work_options options = ZSTN_INIT;
    zstn_input base = ZSTN_INIT;
    const zstn_input *bases[1];
    options.struct_size = sizeof options;
    options.extended = extended;
    if (base_path != NULL) {
        base.struct_size = sizeof base;
        base.path = base_path;
        bases[0] = &base;
        options.bases = bases;
        options.base_count = 1;
    }
    OK(zstn_pack_path(from, to, &options, NULL, &failure));
}

/* Compares whole tensors, rows and ranges of the restored file with the original. */
static void reads_as(const zstn_reader *reader, const file_bytes *original) {
    const unsigned char *data = original->bytes + original->len - 2 * TENSOR_LEN;
    unsigned char *out = (unsigned char *)malloc(original->len);
    uint64_t row;
    size_t offset;
    CHECK(out != NULL);
    OK(zstn_read(reader, "grid", out, TENSOR_LEN, &failure));
    CHECK(memcmp(out, data, TENSOR_LEN) == 0);
    OK(zstn_read(reader, "near", out, TENSOR_LEN, &failure));
    CHECK(memcmp(out, data + TENSOR_LEN, TENSOR_LEN) == 0);
    for (row = 0; row < ROWS; row += 19) {
        OK(zstn_read_rows(reader, "grid", row, row + 1, out, COLUMNS * 2, &failure));
        CHECK(memcmp(out, data + row * COLUMNS * 2, COLUMNS * 2) == 0);
        OK(zstn_read_rows(reader, "near", row, row + 1, out, COLUMNS * 2, &failure));
        CHECK(memcmp(out, data + TENSOR_LEN + row * COLUMNS * 2, COLUMNS * 2) == 0);
    }
    OK(zstn_unpacked_read_at(reader, 0, out, original->len, &failure));
    CHECK(memcmp(out, original->bytes, original->len) == 0);
    for (offset = 0; offset < original->len; offset += 9973) {
        size_t len = original->len - offset < 3001 ? original->len - offset : 3001;
        OK(zstn_unpacked_read_at(reader, offset, out, len, &failure));
        CHECK(memcmp(out, original->bytes + offset, len) == 0);
    }
    free(out);
}

static void restores(const char *packed, const char *to, const file_bytes *original,
                     const char *base_path) {
    zstn_work_options options = ZSTN_INIT;
    zstn_input base = ZSTN_INIT;
    const zstn_input *bases[1];
    file_bytes restored;
    options.struct_size = sizeof options;
    options.overwrite = 1;
    if (base_path != NULL) {
        base.struct_size = sizeof base;
        base.path = base_path;
        bases[0] = &base;
        options.bases = bases;
        options.base_count = 1;
    }
    OK(zstn_unpack_path(packed, to, &options, NULL, &failure));
    restored = load(to);
    CHECK(restored.len == original->len);
    CHECK(memcmp(restored.bytes, original->bytes, original->len) == 0);
    free(restored.bytes);
}

void test_extended(const fixture *files) {
    char plain[512], tuned[512], usual[512], packed[512], delta[512], back[512];
    file_bytes original, other, bytes;
    size_t usual_len;
    zstn_open_options options = ZSTN_INIT;
    zstn_reader *reader, *base;
    unsigned char row[COLUMNS * 2];
    zstn_status status;
    join(plain, sizeof plain, files->folder, "grid.safetensors");
    join(tuned, sizeof tuned, files->folder, "grid-tuned.safetensors");
    join(usual, sizeof usual, files->folder, "grid-usual.zstn");
    join(packed, sizeof packed, files->folder, "grid.zstn");
    join(delta, sizeof delta, files->folder, "grid.z4dm");
    join(back, sizeof back, files->folder, "grid-back.safetensors");
    write_checkpoint(plain, 0.0f);
    write_checkpoint(tuned, 0.0001f);
    original = load(plain);
    other = load(tuned);

    pack(plain, usual, 0, NULL);
    bytes = load(usual);
    CHECK(bytes.bytes[4] == 3);
    usual_len = bytes.len;
    free(bytes.bytes);
    pack(plain, packed, 1, NULL);
    bytes = load(packed);
    CHECK(bytes.bytes[4] == 4 && bytes.len < usual_len);
    restores(packed, back, &original, NULL);
    OK(zstn_open_path(packed, NULL, &reader, &failure));
    reads_as(reader, &original);
    zstn_reader_free(reader);
    /* Reads the same tensors without any I/O of the library. */
    {
        zstn_model *model = open_without_io(bytes.bytes, bytes.len, &status);
        CHECK(model != NULL);
        CHECK(decode_without_io(model, bytes.bytes, bytes.len, "grid", 7, 8, row, sizeof row) ==
              ZSTN_OK);
        CHECK(memcmp(row, original.bytes + original.len - 2 * TENSOR_LEN + 7 * sizeof row,
                     sizeof row) == 0);
        zstn_model_free(model);
    }
    free(bytes.bytes);

    pack(tuned, delta, 1, packed);
    bytes = load(delta);
    CHECK(memcmp(bytes.bytes, "Z4DM", 4) == 0 && bytes.bytes[4] == 2);
    free(bytes.bytes);
    restores(delta, back, &other, packed);
    options.struct_size = sizeof options;
    options.view = ZSTN_VIEW_STORED;
    OK(zstn_open_path(packed, &options, &base, &failure));
    options.base = base;
    OK(zstn_open_path(delta, &options, &reader, &failure));
    zstn_reader_free(base);
    reads_as(reader, &other);
    zstn_reader_free(reader);
    free(original.bytes);
    free(other.bytes);
}
