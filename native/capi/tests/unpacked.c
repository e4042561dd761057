#include <stdlib.h>
#include <string.h>

#include "check.h"

static void compare(const zstn_reader *reader, const file_bytes *wanted, size_t offset,
                    size_t len) {
    unsigned char *out = (unsigned char *)malloc(len + 1);
    CHECK(out != NULL);
    OK(zstn_unpacked_read_at(reader, offset, out, len, &failure));
    CHECK(memcmp(out, wanted->bytes + offset, len) == 0);
    free(out);
}

static void is_the_original(const zstn_reader *reader, const file_bytes *wanted,
                            int32_t has_sha256) {
    zstn_unpacked file = ZSTN_INIT;
    size_t offset;
    unsigned char byte;
    file.struct_size = sizeof file;
    OK(zstn_unpacked_describe(reader, &file, &failure));
    CHECK(file.len == wanted->len && file.is_original == 1);
    CHECK(file.has_sha256 == has_sha256);
    compare(reader, wanted, 0, wanted->len);
    for (offset = 0; offset < wanted->len; offset += 99991) {
        size_t len = wanted->len - offset < 5000 ? wanted->len - offset : 5000;
        compare(reader, wanted, offset, len);
    }
    compare(reader, wanted, 3, 0);
    compare(reader, wanted, wanted->len, 0);
    FAILS(ZSTN_ERROR_USAGE, zstn_unpacked_read_at(reader, wanted->len, &byte, 1, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_unpacked_read_at(reader, UINT64_MAX, &byte, 1, &failure));
}

/* A merged model, with the checkpoints that it was packed against. */
static void test_merged(const fixture *files) {
    static const char *const names[] = {"released/0.1.0/base.safetensors",
                                        "released/0.1.0/tuned.safetensors"};
    char path[4096];
    zstn_open_options options = ZSTN_INIT;
    zstn_reader *sources[2], *reader;
    file_bytes wanted;
    size_t number;
    options.struct_size = sizeof options;
    options.view = ZSTN_VIEW_STORED;
    for (number = 0; number < 2; number++) {
        join(path, sizeof path, files->vectors, names[number]);
        OK(zstn_open_path(path, &options, &sources[number], &failure));
    }
    join(path, sizeof path, files->vectors, "released/0.1.0/merged.safetensors");
    wanted = load(path);
    join(path, sizeof path, files->vectors, "released/0.1.0/merged.z4dm");
    options.bases = (const zstn_reader *const *)sources;
    options.base_count = 2;
    OK(zstn_open_path(path, &options, &reader, &failure));
    is_the_original(reader, &wanted, 0);
    zstn_reader_free(reader);
    options.base = sources[0];
    FAILS(ZSTN_ERROR_USAGE, zstn_open_path(path, &options, &reader, &failure));
    options.bases = NULL;
    FAILS(ZSTN_ERROR_USAGE, zstn_open_path(path, &options, &reader, &failure));
    options.base_count = 0;
    FAILS(ZSTN_ERROR_USAGE, zstn_open_path(path, &options, &reader, &failure));
    options.base = NULL;
    OK(zstn_open_path(path, &options, &reader, &failure));
    zstn_reader_free(reader);
    zstn_reader_free(sources[0]);
    zstn_reader_free(sources[1]);
    free(wanted.bytes);
}

void test_unpacked(const fixture *files) {
    zstn_open_options options = ZSTN_INIT;
    zstn_unpacked file = ZSTN_INIT;
    zstn_reader *reader, *base, *delta;
    unsigned char out[64];
    OK(zstn_open_path(files->packed_path, NULL, &reader, &failure));
    is_the_original(reader, &files->plain, 1);
    zstn_reader_free(reader);
    OK(zstn_open_path(files->plain_path, NULL, &reader, &failure));
    is_the_original(reader, &files->plain, 0);
    zstn_reader_free(reader);

    /* A delta without its base, then with it. */
    OK(zstn_open_path(files->delta_path, NULL, &delta, &failure));
    file.struct_size = sizeof file;
    OK(zstn_unpacked_describe(delta, &file, &failure));
    CHECK(file.len == files->tuned.len);
    FAILS(ZSTN_ERROR_NEEDS_BASE,
          zstn_unpacked_read_at(delta, file.len / 2, out, sizeof out, &failure));
    zstn_reader_free(delta);
    options.struct_size = sizeof options;
    options.view = ZSTN_VIEW_STORED;
    OK(zstn_open_path(files->packed_path, &options, &base, &failure));
    options.base = base;
    options.cache_len = 1;
    OK(zstn_open_path(files->delta_path, &options, &delta, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_open_path(files->plain_path, &options, &reader, &failure));
    zstn_reader_free(base);
    is_the_original(delta, &files->tuned, 0);
    zstn_reader_free(delta);
    test_merged(files);
}
