/* Reads a tensor whose bytes the program fetches itself, as an event loop would: no
 * call of the library waits. Here the bytes come from a file, and the tensor is
 * written to standard output:
 *     fetch MODEL TENSOR */
#include <stdio.h>
#include <stdlib.h>

#include <zstn.h>

/* Reads a range of a file; another program would send a request here. */
static void *fetch(FILE *file, zstn_range range) {
    void *bytes = malloc((size_t)range.len + 1);
    if (bytes == NULL || fseek(file, (long)range.offset, SEEK_SET) != 0 ||
        fread(bytes, 1, (size_t)range.len, file) != range.len) {
        fprintf(stderr, "error: the file cannot be read\n");
        exit(1);
    }
    return bytes;
}

static void check(zstn_status status, const zstn_error *error) {
    if (status != ZSTN_OK) {
        fprintf(stderr, "error: %s\n", error->message);
        exit(1);
    }
}

static zstn_model *open_model(FILE *file, uint64_t len) {
    zstn_range head = {0, 0, 0}, range;
    zstn_opening *opening;
    zstn_model *model;
    zstn_error error;
    void *bytes;
    head.len = zstn_head_len(len);
    bytes = fetch(file, head);
    check(zstn_opening_new(len, bytes, (size_t)head.len, &opening, &error), &error);
    free(bytes);
    for (;;) {
        /* One range at a time; they could also be fetched together. */
        size_t count = 1;
        check(zstn_opening_needs(opening, &range, &count, &error), &error);
        if (count == 0) {
            break;
        }
        bytes = fetch(file, range);
        check(zstn_opening_supply(opening, range.offset, bytes, (size_t)range.len, &error), &error);
        free(bytes);
    }
    check(zstn_opening_finish(opening, NULL, &model, &error), &error);
    zstn_opening_free(opening);
    return model;
}

static void write_tensor(FILE *file, const zstn_model *model, const char *name) {
    zstn_plan *plan;
    zstn_range *ranges;
    zstn_bytes *parts;
    zstn_error error;
    size_t count = 0, number, len;
    void *out;
    check(zstn_plan_tensor(model, name, 0, ZSTN_ALL_ROWS, &plan, &error), &error);
    check(zstn_plan_parts(plan, NULL, &count, &error), &error);
    ranges = (zstn_range *)calloc(count + 1, sizeof *ranges);
    parts = (zstn_bytes *)calloc(count + 1, sizeof *parts);
    len = (size_t)zstn_plan_len(plan);
    out = malloc(len + 1);
    if (ranges == NULL || parts == NULL || out == NULL) {
        exit(1);
    }
    check(zstn_plan_parts(plan, ranges, &count, &error), &error);
    for (number = 0; number < count; number++) {
        parts[number].data = fetch(file, ranges[number]);
        parts[number].len = (size_t)ranges[number].len;
    }
    check(zstn_plan_decode(NULL, plan, parts, count, out, len, &error), &error);
    fwrite(out, 1, len, stdout);
    for (number = 0; number < count; number++) {
        free((void *)parts[number].data);
    }
    free(out);
    free(parts);
    free(ranges);
    zstn_plan_free(plan);
}

int main(int argc, char **argv) {
    FILE *file;
    zstn_model *model;
    long len;
    if (argc != 3) {
        fprintf(stderr, "usage: fetch MODEL TENSOR\n");
        return 2;
    }
    file = fopen(argv[1], "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (len = ftell(file)) < 0) {
        perror(argv[1]);
        return 1;
    }
    model = open_model(file, (uint64_t)len);
    write_tensor(file, model, argv[2]);
    zstn_model_free(model);
    fclose(file);
    return 0;
}
