/* What the tests of the C library share. They are C99 and C++ at once. */
#ifndef CHECK_H
#define CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "zstn.h"

/* A file in memory. */
typedef struct {
    unsigned char *bytes;
    size_t len;
} file_bytes;

/* The files that main.c makes. */
typedef struct {
    /* The folder for outputs, and that of tests/vectors. */
    const char *folder, *vectors;
    /* Paths: a plain file, the same packed, another plain one, its difference. */
    char plain_path[512], packed_path[512], tuned_path[512], delta_path[512];
    file_bytes plain, packed, tuned;
} fixture;

/* Ends the program unless a condition holds. */
#define CHECK(condition) check((condition) ? 1 : 0, #condition, __FILE__, __LINE__)
/* Ends the program unless a call succeeds. It writes to &failure. */
#define OK(call) expect((call), ZSTN_OK, #call, __FILE__, __LINE__)
/* Ends the program unless a call fails with this status and says why. */
#define FAILS(status, call) expect((call), (status), #call, __FILE__, __LINE__)

/* The error of the calls in OK and FAILS. */
extern zstn_error failure;

void check(int holds, const char *what, const char *file, int line);
void expect(zstn_status got, zstn_status wanted, const char *what, const char *file, int line);

file_bytes load(const char *path);
int exists(const char *path);
size_t count_files(const char *folder);
/* Writes FOLDER/NAME to out. */
void join(char *out, size_t capacity, const char *folder, const char *name);

/* A file in memory that callbacks read, and the ways in which they fail. */
typedef struct {
    const unsigned char *bytes;
    size_t len;
    /* 0 for none; otherwise the most bytes that a call returns. */
    size_t most;
    /* Calls that succeed before one fails; -1 for all. */
    long good_calls;
    int64_t failing_result;
    int released;
} memory_file;

memory_file memory_of(file_bytes file);
zstn_io io_of(memory_file *file);

/* Opens a file in memory without any I/O of the library; NULL after an error. */
zstn_model *open_without_io(const unsigned char *bytes, size_t len, zstn_status *status);
/* Decodes rows of a tensor without any I/O of the library. */
zstn_status decode_without_io(const zstn_model *model, const unsigned char *bytes, size_t len,
                              const char *name, uint64_t begin, uint64_t end, void *out,
                              size_t capacity);

void test_arguments(const fixture *files);
void test_opening(const fixture *files);
void test_reader(const fixture *files);
void test_unpacked(const fixture *files);
void test_checkpoint(const fixture *files);
void test_unreadable(const fixture *files);
void test_extended(const fixture *files);
void test_callbacks(const fixture *files);
void test_threads(const fixture *files);
void test_hostile(const fixture *files);
void test_mutations(const fixture *files);

#endif
