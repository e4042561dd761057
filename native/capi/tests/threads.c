#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#define THREADS 6

typedef struct {
    const zstn_reader *reader;
    const fixture *files;
    int number;
} job;

static void *read_all(void *argument) {
    const job *own = (const job *)argument;
    const file_bytes *plain = &own->files->plain;
    unsigned char *out = (unsigned char *)malloc(1048576);
    int round;
    for (round = 0; round < 8; round++) {
        uint64_t row = (uint64_t)((own->number * 61 + round * 97) % 512);
        size_t offset = (size_t)((own->number * 150001 + round * 70001) % 900000);
        zstn_error error;
        CHECK(zstn_read_rows(own->reader, "big", row, row + 1, out, 2048, &error) == ZSTN_OK);
        CHECK(memcmp(out, plain->bytes + plain->len - 1048640 + row * 2048, 2048) == 0);
        CHECK(zstn_unpacked_read_at(own->reader, offset, out, 70001, &error) == ZSTN_OK);
        CHECK(memcmp(out, plain->bytes + offset, 70001) == 0);
        /* Each thread passes its own error structure. */
        CHECK(zstn_read(own->reader, "none", out, 0, &error) == ZSTN_ERROR_NOT_FOUND);
        CHECK(strstr(error.message, "none") != NULL);
    }
    free(out);
    return NULL;
}

/* Reads from one reader on many threads. */
void test_threads(const fixture *files) {
    pthread_t threads[THREADS];
    job jobs[THREADS];
    zstn_reader *reader;
    int number;
    OK(zstn_open_path(files->packed_path, NULL, &reader, &failure));
    for (number = 0; number < THREADS; number++) {
        jobs[number].reader = reader;
        jobs[number].files = files;
        jobs[number].number = number;
        CHECK(pthread_create(&threads[number], NULL, read_all, &jobs[number]) == 0);
    }
    for (number = 0; number < THREADS; number++) {
        CHECK(pthread_join(threads[number], NULL) == 0);
    }
    zstn_reader_free(reader);
}
