/* Tests of libzstn: main FOLDER VECTORS [mutations] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#define ROWS 512
#define COLUMNS 1024

static void put_u64(FILE *out, uint64_t value) {
    int byte;
    for (byte = 0; byte < 8; byte++) {
        fputc((int)(value >> (8 * byte) & 255), out);
    }
}

/* Writes a checkpoint of BF16 weights around zero and some short tensors. If `step` is
 * not 0, every `step`th weight differs from the checkpoint written with 0. */
static void write_model(const char *path, int step) {
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\",\"note\":\"gr\xc3\xbc\xc3\x9f\"},"
        "\"big\":{\"dtype\":\"BF16\",\"shape\":[512,1024],\"data_offsets\":[0,1048576]},"
        "\"small\":{\"dtype\":\"F32\",\"shape\":[3,5],\"data_offsets\":[1048576,1048636]},"
        "\"scalar\":{\"dtype\":\"I32\",\"shape\":[],\"data_offsets\":[1048636,1048640]},"
        "\"empty\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[1048640,1048640]}}";
    uint32_t state = 7;
    long number;
    FILE *out = fopen(path, "wb");
    CHECK(out != NULL);
    put_u64(out, sizeof header - 1);
    fwrite(header, 1, sizeof header - 1, out);
    for (number = 0; number < (long)ROWS * COLUMNS; number++) {
        uint32_t bits;
        state = state * 1664525u + 1013904223u;
        bits = (state >> 31) << 15 | (118u + (state >> 24 & 7u)) << 7 | (state >> 12 & 127u);
        if (step > 0 && number % step == 0) {
            bits ^= 1;
        }
        fputc((int)(bits & 255), out);
        fputc((int)(bits >> 8), out);
    }
    for (number = 0; number < 64; number++) {
        fputc((int)number, out);
    }
    CHECK(fclose(out) == 0);
}

static void make(fixture *files, const char *folder, const char *vectors) {
    zstn_work_options options = ZSTN_INIT;
    zstn_input base = ZSTN_INIT;
    const zstn_input *bases[1];
    files->folder = folder;
    files->vectors = vectors;
    join(files->plain_path, sizeof files->plain_path, folder, "model.safetensors");
    join(files->packed_path, sizeof files->packed_path, folder, "model.zstn");
    join(files->tuned_path, sizeof files->tuned_path, folder, "tuned.safetensors");
    join(files->delta_path, sizeof files->delta_path, folder, "tuned.z4dm");
    write_model(files->plain_path, 0);
    write_model(files->tuned_path, 50);
    options.struct_size = sizeof options;
    options.overwrite = 1;
    OK(zstn_pack_path(files->plain_path, files->packed_path, &options, NULL, &failure));
    base.struct_size = sizeof base;
    base.path = files->packed_path;
    bases[0] = &base;
    options.bases = bases;
    options.base_count = 1;
    OK(zstn_pack_path(files->tuned_path, files->delta_path, &options, NULL, &failure));
    files->plain = load(files->plain_path);
    files->packed = load(files->packed_path);
    files->tuned = load(files->tuned_path);
    CHECK(files->packed.len < files->plain.len);
}

int main(int argc, char **argv) {
    static fixture files;
    CHECK(argc >= 3);
    CHECK(zstn_version_number() == ZSTN_VERSION_NUMBER);
    CHECK(strchr(zstn_version(), '.') != NULL);
    make(&files, argv[1], argv[2]);
    test_arguments(&files);
    test_opening(&files);
    test_reader(&files);
    test_unpacked(&files);
    test_checkpoint(&files);
    test_unreadable(&files);
    test_extended(&files);
    test_callbacks(&files);
    test_threads(&files);
    test_hostile(&files);
    if (argc > 3) {
        test_mutations(&files);
    }
    free(files.plain.bytes);
    free(files.packed.bytes);
    free(files.tuned.bytes);
    printf("ok\n");
    return 0;
}
