#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static int32_t discard(void *ctx, const void *data, size_t len) {
    (void)data;
    *(size_t *)ctx += len;
    return 0;
}

/* Hostile bytes may have any status except the one for a defect of the library. */
static int is_answer(zstn_status status) {
    return status == ZSTN_OK || (status < 0 && status != ZSTN_ERROR_PANIC);
}

static void read_everything(zstn_reader *reader) {
    const zstn_model *model = zstn_reader_model(reader);
    zstn_unpacked file = ZSTN_INIT;
    unsigned char out[4096];
    size_t number;
    for (number = 0; number < zstn_model_tensor_count(model) && number < 20; number++) {
        zstn_tensor tensor = ZSTN_INIT;
        tensor.struct_size = sizeof tensor;
        OK(zstn_model_tensor(model, number, &tensor, &failure));
        CHECK(tensor.name[tensor.name_len] == 0);
        if (tensor.len <= sizeof out) {
            CHECK(is_answer(zstn_read(reader, tensor.name, out, sizeof out, &failure)));
        }
        CHECK(is_answer(zstn_read_rows(reader, tensor.name, 0, 1, out, sizeof out, &failure)));
    }
    file.struct_size = sizeof file;
    if (zstn_unpacked_describe(reader, &file, &failure) == ZSTN_OK) {
        size_t len = file.len < sizeof out ? (size_t)file.len : sizeof out;
        CHECK(is_answer(zstn_unpacked_read_at(reader, file.len - len, out, len, &failure)));
    }
}

/* Passes the bytes to every function that takes a file; returns the number of
 * functions that refused them, without packing. */
static int offer(const unsigned char *bytes, size_t len) {
    file_bytes file;
    memory_file memory;
    zstn_io io;
    zstn_writer writer = ZSTN_INIT;
    zstn_input input = ZSTN_INIT;
    zstn_output output = ZSTN_INIT;
    zstn_reader *reader;
    zstn_model *model;
    zstn_status status;
    size_t written = 0;
    int refused = 0;
    file.bytes = (unsigned char *)bytes;
    file.len = len;
    memory = memory_of(file);
    io = io_of(&memory);

    model = open_without_io(bytes, len, &status);
    CHECK(is_answer(status));
    refused += status != ZSTN_OK;
    zstn_model_free(model);

    status = zstn_open_io(&io, len, NULL, &reader, &failure);
    CHECK(is_answer(status) && (status == ZSTN_OK) == (reader != NULL));
    refused += status != ZSTN_OK;
    if (reader != NULL) {
        read_everything(reader);
    }
    zstn_reader_free(reader);
    CHECK(memory.released == 1);

    writer.struct_size = sizeof writer;
    writer.ctx = &written;
    writer.write = discard;
    input.struct_size = sizeof input;
    input.io = &io;
    input.io_len = len;
    output.struct_size = sizeof output;
    output.writer = &writer;
    /* Packing takes files of any format, so it does not count. */
    status = zstn_pack(&input, &output, NULL, NULL, &failure);
    CHECK(is_answer(status));
    written = 0;
    status = zstn_unpack(&input, &output, NULL, NULL, &failure);
    CHECK(is_answer(status) && (status == ZSTN_OK || written == 0));
    refused += status != ZSTN_OK;
    status = zstn_verify(&input, NULL, NULL, NULL, &failure);
    CHECK(is_answer(status));
    refused += status != ZSTN_OK;
    CHECK(memory.released == 4);
    return refused;
}

/* Passes each malformed file in a folder of test vectors to `offer`. */
static size_t offer_folder(const char *vectors, const char *name) {
    char folder[512], path[1024];
    struct dirent *entry;
    size_t count = 0;
    DIR *list;
    join(folder, sizeof folder, vectors, name);
    list = opendir(folder);
    CHECK(list != NULL);
    while ((entry = readdir(list)) != NULL) {
        file_bytes file;
        if (entry->d_name[0] == '.' || strstr(entry->d_name, ".json") != NULL) {
            continue;
        }
        join(path, sizeof path, folder, entry->d_name);
        file = load(path);
        offer(file.bytes, file.len);
        free(file.bytes);
        count++;
    }
    closedir(list);
    return count;
}

void test_hostile(const fixture *files) {
    char path[512];
    file_bytes packed;
    size_t len;
    CHECK(offer((const unsigned char *)"", 0) == 4);
    join(path, sizeof path, files->vectors, "zstn/metadata.zstn");
    packed = load(path);
    CHECK(offer(packed.bytes, packed.len) == 0);
    for (len = 0; len < packed.len; len += 1 + len / 8) {
        CHECK(offer(packed.bytes, len) == 4);
    }
    CHECK(offer(packed.bytes, packed.len - 1) == 4);
    free(packed.bytes);
    CHECK(offer_folder(files->vectors, "zstn-bad") > 20);
    CHECK(offer_folder(files->vectors, "z4ai-bad") > 10);
    CHECK(offer_folder(files->vectors, "ztensor-bad") > 10);
    CHECK(offer_folder(files->vectors, "gauss-bad") > 10);
}
