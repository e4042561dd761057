#include <stdlib.h>
#include <string.h>

#include "check.h"

static zstn_reader *open_packed(const fixture *files) {
    zstn_reader *reader;
    OK(zstn_open_path(files->packed_path, NULL, &reader, &failure));
    return reader;
}

static void lists_tensors(const fixture *files) {
    zstn_reader *reader = open_packed(files);
    const zstn_model *model = zstn_reader_model(reader);
    zstn_tensor tensor = ZSTN_INIT;
    zstn_metadata entry;
    size_t number;
    CHECK(zstn_model_tensor_count(model) == 4);
    CHECK(zstn_model_needs_base(model) == 0);
    CHECK(strcmp(zstn_model_kind(model), "zstn") == 0);
    OK(zstn_model_find(model, "big", &number, &failure));
    tensor.struct_size = sizeof tensor;
    OK(zstn_model_tensor(model, number, &tensor, &failure));
    CHECK(strcmp(tensor.name, "big") == 0 && tensor.name_len == 3);
    CHECK(strcmp(tensor.dtype, "BF16") == 0 && tensor.dtype_bits == 16);
    CHECK(tensor.rank == 2 && tensor.shape[0] == 512 && tensor.shape[1] == 1024);
    CHECK(tensor.len == 1048576 && tensor.stored_len > 0 && tensor.stored_len < tensor.len);
    CHECK(tensor.alias_of == ZSTN_NONE && tensor.needs_base == 0);
    OK(zstn_model_find(model, "scalar", &number, &failure));
    OK(zstn_model_tensor(model, number, &tensor, &failure));
    CHECK(tensor.rank == 0 && tensor.shape == NULL && tensor.len == 4);
    FAILS(ZSTN_ERROR_USAGE, zstn_model_tensor(model, 4, &tensor, &failure));
    FAILS(ZSTN_ERROR_NOT_FOUND, zstn_model_find(model, "bag", &number, &failure));
    CHECK(zstn_model_metadata_count(model) == 2);
    OK(zstn_model_metadata(model, 1, &entry, &failure));
    CHECK(strcmp(entry.key, "note") == 0 && entry.key_len == 4);
    CHECK(strcmp(entry.value, "gr\xc3\xbc\xc3\x9f") == 0 && entry.value_len == 6);
    FAILS(ZSTN_ERROR_USAGE, zstn_model_metadata(model, 2, &entry, &failure));
    zstn_reader_free(reader);
}

/* Passes structures of callers that are older or newer than the library. */
static void sizes_of_structures_count(const fixture *files) {
    zstn_reader *reader = open_packed(files);
    const zstn_model *model = zstn_reader_model(reader);
    struct {
        zstn_tensor tensor;
        uint64_t later;
    } newer;
    struct {
        zstn_open_options options;
        uint64_t later;
    } options = ZSTN_INIT;
    zstn_tensor older;
    zstn_reader *other;
    memset(&newer, 255, sizeof newer);
    newer.tensor.struct_size = sizeof newer;
    OK(zstn_model_tensor(model, 0, &newer.tensor, &failure));
    CHECK(newer.later == 0 && newer.tensor.struct_size == sizeof newer);
    memset(&older, 255, sizeof older);
    older.struct_size = offsetof(zstn_tensor, dtype);
    OK(zstn_model_tensor(model, 0, &older, &failure));
    CHECK(older.name_len < 100 && older.rank == SIZE_MAX);
    older.struct_size = 0;
    FAILS(ZSTN_ERROR_USAGE, zstn_model_tensor(model, 0, &older, &failure));
    options.options.struct_size = sizeof options;
    OK(zstn_open_path(files->packed_path, &options.options, &other, &failure));
    zstn_reader_free(other);
    options.later = 1;
    FAILS(ZSTN_ERROR_USAGE,
          zstn_open_path(files->packed_path, &options.options, &other, &failure));
    CHECK(other == NULL);
    options.options.struct_size = (size_t)-1;
    FAILS(ZSTN_ERROR_USAGE,
          zstn_open_path(files->packed_path, &options.options, &other, &failure));
    zstn_reader_free(reader);
}

static void reads_tensors_and_rows(const fixture *files) {
    zstn_reader *reader = open_packed(files);
    const unsigned char *data = files->plain.bytes + files->plain.len - 1048640;
    unsigned char *out = (unsigned char *)malloc(1048577);
    CHECK(out != NULL);
    out[1048576] = 77;
    OK(zstn_read(reader, "big", out, 1048577, &failure));
    CHECK(memcmp(out, data, 1048576) == 0 && out[1048576] == 77);
    FAILS(ZSTN_ERROR_USAGE, zstn_read(reader, "big", out, 1048575, &failure));
    FAILS(ZSTN_ERROR_NOT_FOUND, zstn_read(reader, "", out, 4, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_read(reader, "\xff", out, 4, &failure));
    OK(zstn_read(reader, "empty", NULL, 0, &failure));
    OK(zstn_read_rows(reader, "big", 7, 9, out, 4096, &failure));
    CHECK(memcmp(out, data + 7 * 2048, 4096) == 0);
    OK(zstn_read_rows(reader, "small", 0, ZSTN_ALL_ROWS, out, 60, &failure));
    CHECK(memcmp(out, data + 1048576, 60) == 0);
    FAILS(ZSTN_ERROR_USAGE, zstn_read_rows(reader, "big", 7, 9, out, 4095, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_read_rows(reader, "big", 0, 513, out, 1048576, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_read_rows(reader, "scalar", 0, 1, out, 4, &failure));
    zstn_reader_free(reader);
    free(out);
}

/* The tensor has 512 rows of 2048 bytes. */
static void reads_parts(const fixture *files) {
    zstn_reader *reader = open_packed(files);
    const unsigned char *data = files->plain.bytes + files->plain.len - 1048640;
    zstn_tensor big = ZSTN_INIT;
    unsigned char *out = (unsigned char *)malloc(1048576);
    zstn_axis axes[3] = {{100, 300}, {5, 7}, {0, 1}};
    size_t number, width;
    big.struct_size = sizeof big;
    for (number = 0; number < zstn_model_tensor_count(zstn_reader_model(reader)); number++) {
        OK(zstn_model_tensor(zstn_reader_model(reader), number, &big, &failure));
        if (strcmp(big.name, "big") == 0) {
            break;
        }
    }
    CHECK(out != NULL && big.rank == 2 && big.shape[0] == 512);
    width = 2048 / (size_t)big.shape[1];
    OK(zstn_read_select(reader, "big", axes, 2, out, 200 * 2 * width, &failure));
    for (number = 0; number < 200; number++) {
        CHECK(memcmp(out + number * 2 * width, data + (100 + number) * 2048 + 5 * width,
                     2 * width) == 0);
    }
    axes[0].end = ZSTN_ALL_ROWS;
    OK(zstn_read_select(reader, "big", axes, 1, out, 412 * 2048, &failure));
    CHECK(memcmp(out, data + 100 * 2048, 412 * 2048) == 0);
    OK(zstn_read_select(reader, "big", NULL, 0, out, 1048576, &failure));
    CHECK(memcmp(out, data, 1048576) == 0);
    axes[0].begin = axes[0].end = 4;
    OK(zstn_read_select(reader, "big", axes, 2, NULL, 0, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_read_select(reader, "big", axes, 3, out, 1048576, &failure));
    axes[0].end = 3;
    CHECK(zstn_read_select(reader, "big", axes, 1, out, 1048576, &failure) == ZSTN_ERROR_USAGE);
    CHECK(strstr(failure.message, "axis 0") != NULL);
    axes[0].end = 513;
    FAILS(ZSTN_ERROR_USAGE, zstn_read_select(reader, "big", axes, 1, out, 1048576, &failure));
    axes[0].end = 6;
    FAILS(ZSTN_ERROR_USAGE, zstn_read_select(reader, "big", axes, 1, out, 4095, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_read_select(reader, "big", NULL, 1, out, 4096, &failure));
    FAILS(ZSTN_ERROR_NOT_FOUND, zstn_read_select(reader, "", axes, 1, out, 4096, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_read_select(NULL, "big", axes, 1, out, 4096, &failure));
    zstn_reader_free(reader);
    free(out);
}

/* No machine has a GPU with this number, and most have no driver. */
static void reads_to_no_gpu(const fixture *files) {
    zstn_reader *reader = open_packed(files);
    zstn_tensor tensor = ZSTN_INIT;
    zstn_gpu_target target = {0, 4096, 0};
    tensor.struct_size = sizeof tensor;
    OK(zstn_model_tensor(zstn_reader_model(reader), 0, &tensor, &failure));
    target.capacity = tensor.len;
    FAILS(ZSTN_ERROR_GPU, zstn_read_to_gpu(reader, 65535, NULL, &target, 1, &failure));
    target.capacity = tensor.len - 1;
    FAILS(ZSTN_ERROR_USAGE, zstn_read_to_gpu(reader, 65535, NULL, &target, 1, &failure));
    target.capacity = tensor.len;
    target.address = 0;
    FAILS(ZSTN_ERROR_USAGE, zstn_read_to_gpu(reader, 65535, NULL, &target, 1, &failure));
    target.tensor = 4;
    FAILS(ZSTN_ERROR_USAGE, zstn_read_to_gpu(reader, 65535, NULL, &target, 1, &failure));
    zstn_reader_free(reader);
}

/* Counts calls, and stops the work at one of them. */
typedef struct {
    int calls, last_call;
    uint64_t done, total;
} watch;

static int32_t count(void *ctx, int32_t phase, uint64_t done, uint64_t total) {
    watch *watched = (watch *)ctx;
    CHECK(phase == ZSTN_PHASE_WORK && done >= watched->done && done <= total);
    watched->done = done;
    watched->total = total;
    return ++watched->calls == watched->last_call;
}

static void reads_many(const fixture *files) {
    zstn_reader *reader = open_packed(files);
    const zstn_model *model = zstn_reader_model(reader);
    zstn_target targets[4];
    watch watched = {0, 0, 0, 0};
    size_t number;
    for (number = 0; number < 4; number++) {
        zstn_tensor tensor = ZSTN_INIT;
        tensor.struct_size = sizeof tensor;
        OK(zstn_model_tensor(model, number, &tensor, &failure));
        targets[number].tensor = number;
        targets[number].capacity = (size_t)tensor.len;
        targets[number].out = malloc((size_t)tensor.len + 1);
    }
    OK(zstn_read_many(reader, targets, 4, count, &watched, &failure));
    CHECK(watched.done == 1048640 && watched.total == 1048640);
    for (number = 0; number < 4; number++) {
        zstn_tensor tensor = ZSTN_INIT;
        unsigned char *again = (unsigned char *)malloc(targets[number].capacity + 1);
        tensor.struct_size = sizeof tensor;
        OK(zstn_model_tensor(model, number, &tensor, &failure));
        OK(zstn_read(reader, tensor.name, again, targets[number].capacity, &failure));
        CHECK(memcmp(again, targets[number].out, targets[number].capacity) == 0);
        free(again);
    }
    watched.calls = 0;
    watched.done = 0;
    watched.last_call = 1;
    FAILS(ZSTN_ERROR_CANCELLED, zstn_read_many(reader, targets, 4, count, &watched, &failure));
    OK(zstn_read_many(reader, NULL, 0, NULL, NULL, &failure));
    targets[0].tensor = 4;
    FAILS(ZSTN_ERROR_USAGE, zstn_read_many(reader, targets, 4, NULL, NULL, &failure));
    for (number = 0; number < 4; number++) {
        free(targets[number].out);
    }
    zstn_reader_free(reader);
}

static void says_why(const fixture *files) {
    zstn_reader *reader = (zstn_reader *)&reader;
    zstn_engine *engine;
    zstn_open_options options = ZSTN_INIT;
    uint32_t threads;
    FAILS(ZSTN_ERROR_IO, zstn_open_path("/nowhere/model.zstn", NULL, &reader, &failure));
    CHECK(reader == NULL);
    CHECK(zstn_open_path("/nowhere/model.zstn", NULL, &reader, &failure) == ZSTN_ERROR_IO);
    CHECK(strstr(failure.message, "/nowhere/model.zstn") != NULL);
    CHECK(zstn_open_path("/nowhere/model.zstn", NULL, &reader, NULL) == ZSTN_ERROR_IO);
    OK(zstn_engine_new(2, &engine, &failure));
    OK(zstn_engine_threads(engine, &threads, &failure));
    CHECK(threads == 2);
    zstn_engine_free(engine);
    FAILS(ZSTN_ERROR_USAGE, zstn_engine_new(1000000, &engine, &failure));
    CHECK(engine == NULL);
    OK(zstn_engine_new(1, &engine, &failure));
    options.struct_size = sizeof options;
    options.engine = engine;
    OK(zstn_open_path(files->packed_path, &options, &reader, &failure));
    /* The reader keeps the threads of the freed engine alive. */
    zstn_engine_free(engine);
    {
        unsigned char out[60];
        OK(zstn_read(reader, "small", out, sizeof out, &failure));
    }
    zstn_reader_free(reader);
    options.engine = NULL;
    options.view = 9;
    FAILS(ZSTN_ERROR_USAGE, zstn_open_path(files->packed_path, &options, &reader, &failure));
    options.view = ZSTN_VIEW_STORED;
    options.token = "secret";
    FAILS(ZSTN_ERROR_USAGE, zstn_open_path(files->packed_path, &options, &reader, &failure));
    options.token = NULL;
    FAILS(ZSTN_ERROR_HTTP, zstn_open_url("http://127.0.0.1:1/model.zstn", &options, &reader,
                                         &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_open_url("no address", &options, &reader, &failure));
}

void test_reader(const fixture *files) {
    lists_tensors(files);
    sizes_of_structures_count(files);
    reads_tensors_and_rows(files);
    reads_parts(files);
    reads_many(files);
    reads_to_no_gpu(files);
    says_why(files);
}
