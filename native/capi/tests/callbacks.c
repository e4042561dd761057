#include <pthread.h>
#include <string.h>

#include "check.h"

/* Opens a file whose callbacks fail as given, reads from it, and checks the status. */
static void expect_status(const fixture *files, long good_calls, int64_t failing_result,
                          zstn_status wanted) {
    memory_file memory = memory_of(files->packed);
    zstn_io io = io_of(&memory);
    zstn_reader *reader;
    unsigned char out[60];
    zstn_status status;
    memory.good_calls = good_calls;
    memory.failing_result = failing_result;
    status = zstn_open_io(&io, memory.len, NULL, &reader, &failure);
    if (status == ZSTN_OK) {
        status = zstn_read(reader, "small", out, sizeof out, &failure);
        CHECK(memory.released == 0);
    }
    FAILS(wanted, status);
    zstn_reader_free(reader);
    CHECK(memory.released == 1);
}

static void short_reads_are_continued(const fixture *files) {
    size_t most;
    for (most = 1; most < 60000; most = most * 5 + 2) {
        memory_file memory = memory_of(files->packed);
        zstn_io io = io_of(&memory);
        zstn_reader *reader;
        unsigned char out[60];
        memory.most = most;
        OK(zstn_open_io(&io, memory.len, NULL, &reader, &failure));
        memset(&io, 255, sizeof io); /* The library has copied it. */
        OK(zstn_read(reader, "small", out, sizeof out, &failure));
        CHECK(memcmp(out, files->plain.bytes + files->plain.len - 64, 60) == 0);
        zstn_reader_free(reader);
        CHECK(memory.released == 1);
    }
}

/* A file whose callbacks wait when they read a given range. */
typedef struct {
    memory_file memory;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t begin, end;
    int is_waiting, may_go_on;
} slow_file;

static int64_t read_slowly(void *ctx, uint64_t offset, void *buffer, size_t len) {
    slow_file *file = (slow_file *)ctx;
    pthread_mutex_lock(&file->lock);
    while (offset < file->end && offset + len > file->begin && !file->may_go_on) {
        file->is_waiting = 1;
        pthread_cond_broadcast(&file->changed);
        pthread_cond_wait(&file->changed, &file->lock);
    }
    pthread_mutex_unlock(&file->lock);
    if (len > file->memory.len - offset) {
        return -1;
    }
    memcpy(buffer, file->memory.bytes + offset, len);
    return (int64_t)len;
}

typedef struct {
    const zstn_reader *reader;
    zstn_status status;
    unsigned char bytes[1024];
} work;

static void *read_rows(void *argument) {
    work *job = (work *)argument;
    zstn_error error;
    job->status = zstn_unpacked_read_at(job->reader, 500000, job->bytes, sizeof job->bytes, &error);
    return NULL;
}

/* A callback that waits does not block other threads, even if the engine has only one
 * thread. */
static void waiting_stops_nobody(const fixture *files) {
    slow_file file;
    zstn_io io = ZSTN_INIT;
    zstn_engine *engine;
    zstn_open_options options = ZSTN_INIT;
    zstn_reader *reader;
    zstn_status status;
    zstn_model *model;
    zstn_plan *plan;
    zstn_range range;
    size_t count = 1;
    work job;
    pthread_t thread;
    unsigned char out[60];
    memset(&file, 0, sizeof file);
    file.memory = memory_of(files->packed);
    pthread_mutex_init(&file.lock, NULL);
    pthread_cond_init(&file.changed, NULL);
    model = open_without_io(files->packed.bytes, files->packed.len, &status);
    OK(status);
    OK(zstn_plan_tensor(model, "big", 0, ZSTN_ALL_ROWS, &plan, &failure));
    OK(zstn_plan_parts(plan, &range, &count, &failure));
    /* The beginning of the tensor is excluded, as it is read with the head of the file. */
    file.begin = range.offset + 100000;
    file.end = range.offset + range.len - 100000;
    zstn_plan_free(plan);
    zstn_model_free(model);

    io.struct_size = sizeof io;
    io.ctx = &file;
    io.read_at = read_slowly;
    OK(zstn_engine_new(1, &engine, &failure));
    options.struct_size = sizeof options;
    options.engine = engine;
    OK(zstn_open_io(&io, file.memory.len, &options, &reader, &failure));
    job.reader = reader;
    CHECK(pthread_create(&thread, NULL, read_rows, &job) == 0);
    pthread_mutex_lock(&file.lock);
    while (!file.is_waiting) {
        pthread_cond_wait(&file.changed, &file.lock);
    }
    pthread_mutex_unlock(&file.lock);
    OK(zstn_read(reader, "small", out, sizeof out, &failure));
    OK(zstn_unpacked_read_at(reader, files->plain.len - 64, out, sizeof out, &failure));
    CHECK(memcmp(out, files->plain.bytes + files->plain.len - 64, sizeof out) == 0);
    pthread_mutex_lock(&file.lock);
    file.may_go_on = 1;
    pthread_cond_broadcast(&file.changed);
    pthread_mutex_unlock(&file.lock);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(job.status == ZSTN_OK);
    CHECK(memcmp(job.bytes, files->plain.bytes + 500000, sizeof job.bytes) == 0);
    zstn_reader_free(reader);
    zstn_engine_free(engine);
    pthread_mutex_destroy(&file.lock);
    pthread_cond_destroy(&file.changed);
}

void test_callbacks(const fixture *files) {
    memory_file memory = memory_of(files->packed);
    zstn_io io = io_of(&memory);
    zstn_reader *reader;
    zstn_open_options options = ZSTN_INIT;
    int64_t results[5] = {-1, -5, 0, INT64_MIN, INT64_MAX};
    int number;
    for (number = 0; number < 5; number++) {
        expect_status(files, 0, results[number], ZSTN_ERROR_IO);
        expect_status(files, 1, results[number], ZSTN_ERROR_IO);
    }
    short_reads_are_continued(files);
    waiting_stops_nobody(files);

    /* The message contains the number that the callback returned. */
    memory.good_calls = 0;
    memory.failing_result = -4711;
    CHECK(zstn_open_io(&io, memory.len, NULL, &reader, &failure) == ZSTN_ERROR_IO);
    CHECK(strstr(failure.message, "-4711") != NULL);
    CHECK(strstr(failure.message, "a file in memory") != NULL);
    CHECK(memory.released == 1);
    /* The context is released if another argument is refused. */
    options.struct_size = 1;
    FAILS(ZSTN_ERROR_USAGE, zstn_open_io(&io, memory.len, &options, &reader, &failure));
    FAILS(ZSTN_ERROR_USAGE, zstn_open_io(&io, memory.len, NULL, NULL, &failure));
    CHECK(memory.released == 3);
    io.name = "\xff";
    FAILS(ZSTN_ERROR_USAGE, zstn_open_io(&io, memory.len, NULL, &reader, &failure));
    CHECK(memory.released == 4);
    io.struct_size = 0;
    FAILS(ZSTN_ERROR_USAGE, zstn_open_io(&io, memory.len, NULL, &reader, &failure));
    CHECK(memory.released == 4);
    FAILS(ZSTN_ERROR_USAGE, zstn_open_io(NULL, 8, NULL, &reader, &failure));
}
