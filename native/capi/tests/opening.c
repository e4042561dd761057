#include <stdlib.h>
#include <string.h>

#include "check.h"

static void reads_every_tensor(file_bytes stored, const file_bytes *plain) {
    zstn_status status;
    zstn_model *model = open_without_io(stored.bytes, stored.len, &status);
    const unsigned char *data = plain->bytes + plain->len - 1048640;
    unsigned char *out = (unsigned char *)malloc(1048576);
    OK(status);
    CHECK(out != NULL && zstn_model_tensor_count(model) == 4);
    OK(decode_without_io(model, stored.bytes, stored.len, "big", 0, ZSTN_ALL_ROWS, out, 1048576));
    CHECK(memcmp(out, data, 1048576) == 0);
    OK(decode_without_io(model, stored.bytes, stored.len, "big", 100, 103, out, 6144));
    CHECK(memcmp(out, data + 100 * 2048, 6144) == 0);
    OK(decode_without_io(model, stored.bytes, stored.len, "big", 511, ZSTN_ALL_ROWS, out, 2048));
    CHECK(memcmp(out, data + 511 * 2048, 2048) == 0);
    OK(decode_without_io(model, stored.bytes, stored.len, "small", 1, 2, out, 20));
    CHECK(memcmp(out, data + 1048576 + 20, 20) == 0);
    OK(decode_without_io(model, stored.bytes, stored.len, "small", 3, 3, out, 0));
    OK(decode_without_io(model, stored.bytes, stored.len, "scalar", 0, ZSTN_ALL_ROWS, out, 4));
    CHECK(memcmp(out, data + 1048636, 4) == 0);
    OK(decode_without_io(model, stored.bytes, stored.len, "empty", 0, ZSTN_ALL_ROWS, NULL, 0));
    FAILS(ZSTN_ERROR_USAGE,
          decode_without_io(model, stored.bytes, stored.len, "big", 0, 513, out, 1048576));
    FAILS(ZSTN_ERROR_USAGE,
          decode_without_io(model, stored.bytes, stored.len, "big", 2, 1, out, 1048576));
    FAILS(ZSTN_ERROR_USAGE,
          decode_without_io(model, stored.bytes, stored.len, "scalar", 0, 1, out, 4));
    FAILS(ZSTN_ERROR_USAGE,
          decode_without_io(model, stored.bytes, stored.len, "big", 0, ZSTN_ALL_ROWS, out, 1048575));
    FAILS(ZSTN_ERROR_NOT_FOUND,
          decode_without_io(model, stored.bytes, stored.len, "bug", 0, ZSTN_ALL_ROWS, out, 4));
    CHECK(zstn_plan_len(NULL) == 0);
    zstn_model_free(model);
    free(out);
}

/* A plan remains usable after its model has been freed. */
static void plan_outlives_its_model(const fixture *files) {
    zstn_status status;
    zstn_model *model = open_without_io(files->packed.bytes, files->packed.len, &status);
    zstn_plan *plan;
    zstn_range range;
    zstn_bytes part;
    size_t count = 1;
    unsigned char out[60];
    OK(status);
    OK(zstn_plan_tensor(model, "small", 0, ZSTN_ALL_ROWS, &plan, &failure));
    zstn_model_free(model);
    CHECK(zstn_plan_len(plan) == 60);
    OK(zstn_plan_parts(plan, &range, &count, &failure));
    CHECK(count == 1);
    part.data = files->packed.bytes + range.offset;
    part.len = (size_t)range.len;
    FAILS(ZSTN_ERROR_USAGE, zstn_plan_decode(NULL, plan, NULL, 0, out, sizeof out, &failure));
    part.len--;
    FAILS(ZSTN_ERROR_USAGE, zstn_plan_decode(NULL, plan, &part, 1, out, sizeof out, &failure));
    part.len++;
    OK(zstn_plan_decode(NULL, plan, &part, 1, out, sizeof out, &failure));
    CHECK(memcmp(out, files->plain.bytes + files->plain.len - 64, 60) == 0);
    FAILS(ZSTN_ERROR_USAGE, zstn_plan_supply(plan, 0, out, 1, &failure));
    zstn_plan_free(plan);
}

static void steps_have_an_order(const fixture *files) {
    file_bytes stored = files->packed;
    zstn_opening *opening;
    zstn_model *model;
    zstn_range ranges[8];
    size_t count = 0, number, wanted;
    FAILS(ZSTN_ERROR_USAGE, zstn_opening_new(stored.len, stored.bytes, 8, &opening, &failure));
    CHECK(opening == NULL);
    FAILS(ZSTN_ERROR_USAGE, zstn_opening_new(8, stored.bytes, 9, &opening, &failure));
    OK(zstn_opening_new(stored.len, stored.bytes, (size_t)zstn_head_len(stored.len), &opening,
                        &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_opening_finish(opening, NULL, &model, &failure));
    CHECK(model == NULL);
    FAILS(ZSTN_ERROR_USAGE, zstn_opening_supply(opening, 1, stored.bytes, 3, &failure));
    OK(zstn_opening_needs(opening, NULL, &count, &failure));
    CHECK(count > 0 && count <= 8);
    /* A capacity above, then below the number of ranges. */
    wanted = count;
    count = 8;
    OK(zstn_opening_needs(opening, ranges, &count, &failure));
    CHECK(count == wanted);
    while (count > 0) {
        for (number = 0; number < count; number++) {
            OK(zstn_opening_supply(opening, ranges[number].offset,
                                   stored.bytes + ranges[number].offset,
                                   (size_t)ranges[number].len, &failure));
        }
        count = 8;
        OK(zstn_opening_needs(opening, ranges, &count, &failure));
    }
    OK(zstn_opening_finish(opening, NULL, &model, &failure));
    count = 8;
    FAILS(ZSTN_ERROR_USAGE, zstn_opening_needs(opening, ranges, &count, &failure));
    {
        zstn_model *second;
        FAILS(ZSTN_ERROR_USAGE, zstn_opening_finish(opening, NULL, &second, &failure));
        CHECK(second == NULL);
    }
    zstn_opening_free(opening);
    CHECK(strcmp(zstn_model_kind(model), "zstn") == 0);
    zstn_model_free(model);
}

static void deltas_take_a_reader(const fixture *files) {
    file_bytes delta = load(files->delta_path);
    zstn_status status;
    zstn_model *model = open_without_io(delta.bytes, delta.len, &status);
    unsigned char out[4];
    OK(status);
    CHECK(zstn_model_needs_base(model) == 1);
    FAILS(ZSTN_ERROR_NEEDS_BASE, decode_without_io(model, delta.bytes, delta.len, "big", 0,
                                                   ZSTN_ALL_ROWS, out, sizeof out));
    zstn_model_free(model);
    free(delta.bytes);
}

void test_opening(const fixture *files) {
    reads_every_tensor(files->packed, &files->plain);
    reads_every_tensor(files->plain, &files->plain);
    plan_outlives_its_model(files);
    steps_have_an_order(files);
    deltas_take_a_reader(files);
}
