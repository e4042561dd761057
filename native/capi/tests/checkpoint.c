#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

/* An output in memory that fails after a number of calls. */
typedef struct {
    unsigned char *bytes;
    size_t len, capacity;
    long good_calls;
} memory_output;

static int32_t write_memory(void *ctx, const void *data, size_t len) {
    memory_output *out = (memory_output *)ctx;
    if (out->good_calls-- == 0) {
        return 28;
    }
    if (out->capacity - out->len < len) {
        out->capacity = out->len + len + 65536;
        out->bytes = (unsigned char *)realloc(out->bytes, out->capacity);
        CHECK(out->bytes != NULL);
    }
    memcpy(out->bytes + out->len, data, len);
    out->len += len;
    return 0;
}

static zstn_writer writer_of(memory_output *memory) {
    zstn_writer writer = ZSTN_INIT;
    writer.struct_size = sizeof writer;
    writer.ctx = memory;
    writer.write = write_memory;
    return writer;
}

static zstn_input input_of(const char *path) {
    zstn_input input = ZSTN_INIT;
    input.struct_size = sizeof input;
    input.path = path;
    return input;
}

/* Packs and restores with callbacks for both input and output. */
static void by_callbacks(const fixture *files) {
    memory_file plain = memory_of(files->plain), packed = memory_of(files->packed);
    memory_output out = {NULL, 0, 0, -1}, restored = {NULL, 0, 0, -1};
    zstn_io io = io_of(&plain);
    zstn_writer writer = writer_of(&out);
    zstn_input input = ZSTN_INIT;
    zstn_output output = ZSTN_INIT;
    zstn_report report = ZSTN_INIT;
    input.struct_size = sizeof input;
    input.io = &io;
    input.io_len = plain.len;
    output.struct_size = sizeof output;
    output.writer = &writer;
    report.struct_size = sizeof report;
    plain.most = 100003;
    OK(zstn_pack(&input, &output, NULL, &report, &failure));
    CHECK(plain.released == 1 && report.files == 1 && report.tensors == 4);
    CHECK(report.packed_len == out.len && report.original_len == plain.len);
    CHECK(out.len == packed.len && memcmp(out.bytes, packed.bytes, out.len) == 0);

    io = io_of(&packed);
    input.io_len = packed.len;
    writer = writer_of(&restored);
    OK(zstn_unpack(&input, &output, NULL, &report, &failure));
    CHECK(packed.released == 1 && report.files == 1 && report.tensors == 0);
    CHECK(restored.len == plain.len && memcmp(restored.bytes, plain.bytes, plain.len) == 0);

    /* Callbacks that fail: the context is released nevertheless. */
    out.len = 0;
    out.good_calls = 0;
    writer = writer_of(&out);
    FAILS(ZSTN_ERROR_IO, zstn_unpack(&input, &output, NULL, NULL, &failure));
    CHECK(packed.released == 2);
    packed.good_calls = 0;
    packed.failing_result = -5;
    FAILS(ZSTN_ERROR_IO, zstn_unpack(&input, &output, NULL, NULL, &failure));
    CHECK(packed.released == 3);
    writer.write = NULL;
    FAILS(ZSTN_ERROR_USAGE, zstn_unpack(&input, &output, NULL, NULL, &failure));
    CHECK(packed.released == 4);
    input.path = "both";
    FAILS(ZSTN_ERROR_USAGE, zstn_verify(&input, NULL, NULL, NULL, &failure));
    CHECK(packed.released == 5);
    io.read_at = NULL;
    FAILS(ZSTN_ERROR_USAGE, zstn_verify(&input, NULL, NULL, NULL, &failure));
    CHECK(packed.released == 5);
    free(out.bytes);
    free(restored.bytes);
}

/* Every context is released once, whichever other argument is refused. */
static void contexts_are_released(const fixture *files) {
    memory_file files_in_memory[4];
    zstn_io ios[4];
    zstn_input inputs[4];
    const zstn_input *bases[3];
    zstn_work_options options = ZSTN_INIT;
    zstn_output output = ZSTN_INIT;
    zstn_report report = ZSTN_INIT;
    zstn_input bad = ZSTN_INIT;
    int number, wrong;
    options.struct_size = sizeof options;
    output.struct_size = sizeof output;
    bad.struct_size = sizeof bad;
    for (number = 0; number < 4; number++) {
        files_in_memory[number] = memory_of(files->packed);
        ios[number] = io_of(&files_in_memory[number]);
        memset(&inputs[number], 0, sizeof inputs[number]);
        inputs[number].struct_size = sizeof inputs[number];
        inputs[number].io = &ios[number];
        inputs[number].io_len = files->packed.len;
    }
    options.bases = bases;
    for (wrong = 0; wrong < 6; wrong++) {
        const zstn_input *input = wrong == 0 ? NULL : &inputs[0];
        const zstn_input *original = wrong == 1 ? &bad : &inputs[1];
        int were[4];
        for (number = 0; number < 4; number++) {
            were[number] = files_in_memory[number].released;
        }
        bases[0] = &inputs[2];
        bases[1] = wrong == 2 ? &bad : &inputs[3];
        bases[2] = wrong == 2 ? &inputs[3] : &bad;
        options.base_count = wrong == 2 || wrong == 5 ? 3 : 2;
        options.token = wrong == 3 ? "token" : NULL;
        report.struct_size = wrong == 4 ? 1 : sizeof report;
        FAILS(ZSTN_ERROR_USAGE, zstn_verify(input, original, &options, &report, &failure));
        CHECK(files_in_memory[0].released - were[0] == (wrong != 0));
        CHECK(files_in_memory[1].released - were[1] == (wrong != 1));
        CHECK(files_in_memory[2].released - were[2] == 1);
        CHECK(files_in_memory[3].released - were[3] == 1);
        FAILS(ZSTN_ERROR_USAGE, zstn_pack(input, &output, &options, &report, &failure));
        FAILS(ZSTN_ERROR_USAGE, zstn_unpack(input, &output, &options, &report, &failure));
        CHECK(files_in_memory[0].released - were[0] == 3 * (wrong != 0));
        CHECK(files_in_memory[2].released - were[2] == 3);
        CHECK(files_in_memory[3].released - were[3] == 3);
    }
}

static void by_paths(const fixture *files) {
    char path[512];
    file_bytes restored;
    zstn_work_options options = ZSTN_INIT;
    zstn_input base = input_of(files->packed_path), other = input_of(files->tuned_path);
    const zstn_input *bases[1];
    bases[0] = &base;
    join(path, sizeof path, files->folder, "restored.safetensors");
    options.struct_size = sizeof options;
    options.overwrite = 1;
    OK(zstn_unpack_path(files->packed_path, path, &options, NULL, &failure));
    restored = load(path);
    CHECK(restored.len == files->plain.len);
    CHECK(memcmp(restored.bytes, files->plain.bytes, restored.len) == 0);
    free(restored.bytes);
    FAILS(ZSTN_ERROR_EXISTS, zstn_unpack_path(files->packed_path, path, NULL, NULL, &failure));
    FAILS(ZSTN_ERROR_NEEDS_BASE, zstn_unpack_path(files->delta_path, path, &options, NULL, &failure));
    options.bases = bases;
    options.base_count = 1;
    OK(zstn_unpack_path(files->delta_path, path, &options, NULL, &failure));
    restored = load(path);
    CHECK(restored.len == files->tuned.len);
    CHECK(memcmp(restored.bytes, files->tuned.bytes, restored.len) == 0);
    free(restored.bytes);
    bases[0] = &other;
    FAILS(ZSTN_ERROR_WRONG_BASE,
          zstn_unpack_path(files->delta_path, path, &options, NULL, &failure));
    bases[0] = NULL;
    FAILS(ZSTN_ERROR_USAGE, zstn_unpack_path(files->delta_path, path, &options, NULL, &failure));
    options.base_count = 0;
    options.effort = 7;
    FAILS(ZSTN_ERROR_USAGE, zstn_pack_path(files->plain_path, path, &options, NULL, &failure));
    options.effort = ZSTN_EFFORT_FAST;
    options.no_checksums = 1;
    options.memory = 100 << 20;
    OK(zstn_pack_path(files->plain_path, path, &options, NULL, &failure));
    CHECK(remove(path) == 0);
}

static void verifies(const fixture *files) {
    zstn_input packed = input_of(files->packed_path), plain = input_of(files->plain_path);
    zstn_input tuned = input_of(files->tuned_path);
    zstn_report report = ZSTN_INIT;
    report.struct_size = sizeof report;
    OK(zstn_verify(&packed, NULL, NULL, &report, &failure));
    CHECK(report.has_checksums == 1 && report.was_compared == 0 && report.files == 1);
    OK(zstn_verify(&packed, &plain, NULL, &report, &failure));
    CHECK(report.was_compared == 1 && report.packed_len == files->packed.len);
    FAILS(ZSTN_ERROR_DIFFERS, zstn_verify(&packed, &tuned, NULL, NULL, &failure));
}

/* Restoring and verifying compare the SHA-256 that was passed when packing. */
static void sha256_is_compared(const fixture *files) {
    static const uint8_t wrong[32] = {0xab, 0xab};
    char packed_path[512], path[512];
    zstn_work_options options = ZSTN_INIT;
    zstn_input packed, base = input_of(files->plain_path);
    const zstn_input *bases[1];
    file_bytes claimed;
    bases[0] = &base;
    join(packed_path, sizeof packed_path, files->folder, "claimed.zstn");
    join(path, sizeof path, files->folder, "claimed.safetensors");
    packed = input_of(packed_path);
    options.struct_size = sizeof options;
    options.sha256 = wrong;
    OK(zstn_pack_path(files->plain_path, packed_path, &options, NULL, &failure));
    claimed = load(packed_path);
    CHECK(claimed.len == files->packed.len + 12);
    free(claimed.bytes);
    CHECK(zstn_unpack_path(packed_path, path, NULL, NULL, &failure) == ZSTN_ERROR_FORMAT);
    CHECK(strstr(failure.message, "not abab0000") != NULL);
    memset(&failure, 0, sizeof failure);
    FAILS(ZSTN_ERROR_FORMAT, zstn_verify(&packed, NULL, NULL, NULL, &failure));
    options.sha256 = NULL;
    options.confirm = 1;
    FAILS(ZSTN_ERROR_FORMAT, zstn_verify(&packed, NULL, &options, NULL, &failure));
    packed = input_of(files->packed_path);
    OK(zstn_verify(&packed, NULL, &options, NULL, &failure));
    packed = input_of(files->plain_path);
    FAILS(ZSTN_ERROR_USAGE, zstn_verify(&packed, NULL, &options, NULL, &failure));
    options.sha256 = wrong;
    options.confirm = 0;
    CHECK(remove(packed_path) == 0);
    CHECK(remove(path) != 0);
    options.no_checksums = 1;
    FAILS(ZSTN_ERROR_USAGE, zstn_pack_path(files->plain_path, packed_path, &options, NULL, &failure));
    options.no_checksums = 0;
    options.bases = bases;
    options.base_count = 1;
    FAILS(ZSTN_ERROR_USAGE, zstn_pack_path(files->tuned_path, packed_path, &options, NULL, &failure));
}

static int32_t end_at(void *ctx, int32_t phase, uint64_t done, uint64_t total) {
    (void)phase;
    (void)total;
    return done >= *(uint64_t *)ctx;
}

/* A progress callback stops the work, and no output remains. */
static void is_cancelled(const fixture *files) {
    char path[512];
    zstn_work_options options = ZSTN_INIT;
    zstn_input packed = input_of(files->packed_path);
    size_t before = count_files(files->folder);
    uint64_t ends[2] = {0, 1};
    int number;
    join(path, sizeof path, files->folder, "cancelled");
    options.struct_size = sizeof options;
    options.progress = end_at;
    for (number = 0; number < 2; number++) {
        options.progress_ctx = &ends[number];
        FAILS(ZSTN_ERROR_CANCELLED,
              zstn_pack_path(files->plain_path, path, &options, NULL, &failure));
        FAILS(ZSTN_ERROR_CANCELLED,
              zstn_unpack_path(files->packed_path, path, &options, NULL, &failure));
        FAILS(ZSTN_ERROR_CANCELLED, zstn_verify(&packed, NULL, &options, NULL, &failure));
    }
    CHECK(!exists(path) && count_files(files->folder) == before);
}

/* The context of a callback that stops the work at a given call, and checks that the
 * output does not exist yet. */
typedef struct {
    const char *path;
    long good_calls, calls;
} watcher;

static int32_t end_at_call(void *ctx, int32_t phase, uint64_t done, uint64_t total) {
    watcher *watching = (watcher *)ctx;
    (void)phase;
    (void)done;
    (void)total;
    CHECK(!exists(watching->path));
    return watching->calls++ == watching->good_calls;
}

/* Whichever call stops the work, no output appears; no call follows the output. */
static void is_cancelled_at_every_call(const fixture *files) {
    char path[512];
    zstn_work_options options = ZSTN_INIT;
    watcher watching;
    size_t before = count_files(files->folder);
    int is_packing;
    join(path, sizeof path, files->folder, "cancelled");
    watching.path = path;
    options.struct_size = sizeof options;
    options.progress = end_at_call;
    options.progress_ctx = &watching;
    for (is_packing = 0; is_packing < 2; is_packing++) {
        zstn_status status = ZSTN_ERROR_CANCELLED;
        for (watching.good_calls = 0; status != ZSTN_OK; watching.good_calls++) {
            watching.calls = 0;
            status = is_packing
                         ? zstn_pack_path(files->plain_path, path, &options, NULL, &failure)
                         : zstn_unpack_path(files->packed_path, path, &options, NULL, &failure);
            if (status != ZSTN_OK) {
                FAILS(ZSTN_ERROR_CANCELLED, status);
                CHECK(!exists(path) && count_files(files->folder) == before);
            }
        }
        CHECK(watching.calls > 2 && exists(path));
        CHECK(remove(path) == 0);
    }
}

void test_checkpoint(const fixture *files) {
    by_callbacks(files);
    contexts_are_released(files);
    by_paths(files);
    verifies(files);
    sha256_is_compared(files);
    is_cancelled(files);
    is_cancelled_at_every_call(files);
}
