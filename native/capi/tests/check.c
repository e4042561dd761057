#include "check.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

zstn_error failure;

void check(int holds, const char *what, const char *file, int line) {
    if (!holds) {
        fprintf(stderr, "%s:%d: %s does not hold\n", file, line, what);
        exit(1);
    }
}

void expect(zstn_status got, zstn_status wanted, const char *what, const char *file, int line) {
    const char *reason = got == ZSTN_OK ? "" : failure.message;
    if (got != wanted) {
        fprintf(stderr, "%s:%d: %s: %s instead of %s: %s\n", file, line, what,
                zstn_status_name(got), zstn_status_name(wanted), reason);
        exit(1);
    }
    if (got != ZSTN_OK && (failure.code != got || reason[0] == 0)) {
        fprintf(stderr, "%s:%d: %s: the error says %d, \"%s\"\n", file, line, what,
                (int)failure.code, reason);
        exit(1);
    }
    memset(&failure, 0, sizeof failure);
}

void join(char *out, size_t capacity, const char *folder, const char *name) {
    int len = snprintf(out, capacity, "%s/%s", folder, name);
    CHECK(len > 0 && (size_t)len < capacity);
}

file_bytes load(const char *path) {
    file_bytes file = {NULL, 0};
    FILE *stream = fopen(path, "rb");
    long len;
    CHECK(stream != NULL);
    CHECK(fseek(stream, 0, SEEK_END) == 0);
    len = ftell(stream);
    CHECK(len >= 0 && fseek(stream, 0, SEEK_SET) == 0);
    file.len = (size_t)len;
    file.bytes = (unsigned char *)malloc(file.len + 1);
    CHECK(file.bytes != NULL);
    CHECK(fread(file.bytes, 1, file.len, stream) == file.len);
    fclose(stream);
    return file;
}

int exists(const char *path) {
    FILE *stream = fopen(path, "rb");
    if (stream != NULL) {
        fclose(stream);
    }
    return stream != NULL;
}

size_t count_files(const char *folder) {
    DIR *list = opendir(folder);
    size_t count = 0;
    CHECK(list != NULL);
    while (readdir(list) != NULL) {
        count++;
    }
    closedir(list);
    return count;
}

memory_file memory_of(file_bytes file) {
    memory_file memory;
    memset(&memory, 0, sizeof memory);
    memory.bytes = file.bytes;
    memory.len = file.len;
    memory.good_calls = -1;
    return memory;
}

static int64_t read_memory(void *ctx, uint64_t offset, void *buffer, size_t len) {
    memory_file *file = (memory_file *)ctx;
    if (file->good_calls == 0) {
        return file->failing_result;
    }
    if (file->good_calls > 0) {
        file->good_calls--;
    }
    if (offset >= file->len) {
        return 0;
    }
    if (len > file->len - offset) {
        len = (size_t)(file->len - offset);
    }
    if (file->most > 0 && len > file->most) {
        len = file->most;
    }
    memcpy(buffer, file->bytes + offset, len);
    return (int64_t)len;
}

static void release_memory(void *ctx) {
    ((memory_file *)ctx)->released++;
}

zstn_io io_of(memory_file *file) {
    zstn_io io = ZSTN_INIT;
    io.struct_size = sizeof io;
    io.ctx = file;
    io.read_at = read_memory;
    io.release = release_memory;
    io.name = "a file in memory";
    return io;
}

zstn_model *open_without_io(const unsigned char *bytes, size_t len, zstn_status *status) {
    zstn_opening *opening;
    zstn_model *model = NULL;
    uint64_t head_len = zstn_head_len(len);
    *status = zstn_opening_new(len, bytes, (size_t)head_len, &opening, &failure);
    CHECK((*status == ZSTN_OK) == (opening != NULL));
    while (*status == ZSTN_OK) {
        zstn_range ranges[4];
        size_t count = 4, number;
        *status = zstn_opening_needs(opening, ranges, &count, &failure);
        if (*status != ZSTN_OK || count == 0) {
            break;
        }
        for (number = 0; number < count && number < 4 && *status == ZSTN_OK; number++) {
            zstn_range range = ranges[number];
            CHECK(range.offset <= len && range.len <= len - range.offset && range.file == 0);
            *status = zstn_opening_supply(opening, range.offset, bytes + range.offset,
                                          (size_t)range.len, &failure);
        }
    }
    if (*status == ZSTN_OK) {
        *status = zstn_opening_finish(opening, NULL, &model, &failure);
        CHECK((*status == ZSTN_OK) == (model != NULL));
    }
    zstn_opening_free(opening);
    return model;
}

zstn_status decode_without_io(const zstn_model *model, const unsigned char *bytes, size_t len,
                              const char *name, uint64_t begin, uint64_t end, void *out,
                              size_t capacity) {
    zstn_plan *plan;
    zstn_range *ranges = NULL;
    zstn_bytes *parts = NULL;
    size_t count = 0, number;
    zstn_status status = zstn_plan_tensor(model, name, begin, end, &plan, &failure);
    CHECK((status == ZSTN_OK) == (plan != NULL));
    while (status == ZSTN_OK) {
        zstn_range table;
        count = 1;
        status = zstn_plan_needs(plan, &table, &count, &failure);
        if (status != ZSTN_OK || count == 0) {
            break;
        }
        CHECK(table.offset <= len && table.len <= len - table.offset);
        status = zstn_plan_supply(plan, table.offset, bytes + table.offset, (size_t)table.len,
                                  &failure);
    }
    if (status == ZSTN_OK) {
        count = 0;
        status = zstn_plan_parts(plan, NULL, &count, &failure);
    }
    if (status == ZSTN_OK) {
        ranges = (zstn_range *)calloc(count + 1, sizeof *ranges);
        parts = (zstn_bytes *)calloc(count + 1, sizeof *parts);
        CHECK(ranges != NULL && parts != NULL);
        status = zstn_plan_parts(plan, ranges, &count, &failure);
        for (number = 0; number < count && status == ZSTN_OK; number++) {
            CHECK(ranges[number].offset <= len && ranges[number].len <= len - ranges[number].offset);
            parts[number].data = bytes + ranges[number].offset;
            parts[number].len = (size_t)ranges[number].len;
        }
    }
    if (status == ZSTN_OK) {
        status = zstn_plan_decode(NULL, plan, parts, count, out, capacity, &failure);
    }
    free(ranges);
    free(parts);
    zstn_plan_free(plan);
    return status;
}
