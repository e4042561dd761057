#include <string.h>

#include "check.h"

/* Passes NULL to every function: it returns an error, or NULL counts as no argument. */
void test_arguments(const fixture *files) {
    zstn_opening *opening;
    zstn_model *model;
    zstn_plan *plan;
    zstn_reader *reader;
    zstn_tensor tensor = ZSTN_INIT;
    zstn_metadata entry;
    zstn_unpacked file = ZSTN_INIT;
    zstn_input input = ZSTN_INIT;
    zstn_output output = ZSTN_INIT;
    zstn_status status;
    size_t number = 0;
    uint32_t threads;
    unsigned char bytes[4] = {0, 0, 0, 0};
    zstn_engine_free(NULL);
    zstn_opening_free(NULL);
    zstn_model_free(NULL);
    zstn_plan_free(NULL);
    zstn_reader_free(NULL);
    CHECK(zstn_model_tensor_count(NULL) == 0 && zstn_model_metadata_count(NULL) == 0);
    CHECK(zstn_model_kind(NULL) == NULL && zstn_model_needs_base(NULL) == 0);
    CHECK(zstn_reader_model(NULL) == NULL);
    FAILS(ZSTN_ERROR_USAGE, zstn_engine_new(1, NULL, &failure));
    OK(zstn_engine_threads(NULL, &threads, &failure));
    CHECK(threads > 0);
    FAILS(ZSTN_ERROR_USAGE, zstn_engine_threads(NULL, NULL, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_opening_new(4, bytes, 4, NULL, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_opening_new(4, NULL, 4, &opening, &failure));
    CHECK(opening == NULL);
    FAILS(ZSTN_ERROR_USAGE, zstn_opening_new(SIZE_MAX, bytes, SIZE_MAX, &opening, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_opening_needs(NULL, NULL, &number, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_opening_supply(NULL, 0, bytes, 4, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_opening_finish(NULL, NULL, &model, &failure));
    CHECK(model == NULL);
    FAILS(ZSTN_ERROR_USAGE, zstn_plan_tensor(NULL, "big", 0, 1, &plan, &failure));
    CHECK(plan == NULL);
    FAILS(ZSTN_ERROR_USAGE, zstn_plan_needs(NULL, NULL, &number, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_plan_supply(NULL, 0, bytes, 4, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_plan_parts(NULL, NULL, &number, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_plan_decode(NULL, NULL, NULL, 0, bytes, 4, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_model_tensor(NULL, 0, &tensor, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_model_find(NULL, "big", &number, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_model_metadata(NULL, 0, &entry, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_open_path(NULL, NULL, &reader, &failure));
    CHECK(reader == NULL);
    FAILS(ZSTN_ERROR_USAGE, zstn_open_path(files->packed_path, NULL, NULL, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_open_url(NULL, NULL, &reader, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_open_io(NULL, 4, NULL, &reader, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_read(NULL, "big", bytes, 4, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_read_rows(NULL, "big", 0, 1, bytes, 4, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_read_many(NULL, NULL, 0, NULL, NULL, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_read_to_gpu(NULL, 0, NULL, NULL, 0, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_unpacked_describe(NULL, &file, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_unpacked_read_at(NULL, 0, bytes, 4, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_pack(NULL, NULL, NULL, NULL, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_unpack(NULL, NULL, NULL, NULL, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_verify(NULL, NULL, NULL, NULL, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_pack_path(NULL, NULL, NULL, NULL, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_unpack_path(files->packed_path, NULL, NULL, NULL, &failure));
    /* Structures without a size, then structures with a size but no input or output. */
    FAILS(ZSTN_ERROR_USAGE, zstn_pack(&input, &output, NULL, NULL, &failure));
    input.struct_size = sizeof input;
    FAILS(ZSTN_ERROR_USAGE, zstn_pack(&input, &output, NULL, NULL, &failure));
    input.path = files->packed_path;
    output.struct_size = sizeof output;
    FAILS(ZSTN_ERROR_USAGE, zstn_unpack(&input, &output, NULL, NULL, &failure));

    OK(zstn_open_path(files->packed_path, NULL, &reader, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_read(reader, NULL, bytes, 4, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_read(reader, "scalar", NULL, 4, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_read(reader, "scalar", bytes, 0, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_read_rows(reader, NULL, 0, 1, bytes, 4, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_read_many(reader, NULL, 1, NULL, NULL, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_read_to_gpu(reader, 0, NULL, NULL, 1, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_unpacked_describe(reader, NULL, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_unpacked_describe(reader, &file, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_unpacked_read_at(reader, 0, NULL, 4, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_model_tensor(zstn_reader_model(reader), 0, NULL, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_model_find(zstn_reader_model(reader), "big", NULL, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_model_metadata(zstn_reader_model(reader), 0, NULL, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_plan_tensor(zstn_reader_model(reader), NULL, 0, 1, &plan, &failure));
    OK(zstn_plan_tensor(zstn_reader_model(reader), "scalar", 0, ZSTN_ALL_ROWS, &plan, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_plan_parts(plan, NULL, NULL, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_plan_decode(NULL, plan, NULL, 1, bytes, 4, &failure));
    zstn_plan_free(plan);
    zstn_reader_free(reader);
    /* Names of statuses; later versions may add statuses. */
    for (status = 0; status > -16; status--) {
        CHECK(strcmp(zstn_status_name(status), "unknown") != 0);
    }
    CHECK(strcmp(zstn_status_name(-16), "unknown") == 0);
    CHECK(strcmp(zstn_status_name(1), "unknown") == 0);
}
