/* Helpers for the tests of the C library, which compile as C99 and as C++11. */
#ifndef CHECK_H
#define CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "zstn.h"

/* The content of a file. */
typedef struct {
    unsigned char *bytes;
    size_t len;
} file_bytes;

/* The files that main.c writes. */
typedef struct {
    /* The folder for outputs, and the path of tests/vectors. */
    const char *folder, *vectors;
    /* Paths of a plain file, its packed file, a fine-tuned plain file, and its delta. */
    char plain_path[512], packed_path[512], tuned_path[512], delta_path[512];
    file_bytes plain, packed, tuned;
} fixture;

/* Ends the program unless a condition holds. */
#define CHECK(condition) check((condition) ? 1 : 0, #condition, __FILE__, __LINE__)
/* Ends the program unless a call succeeds. The call writes its error to &failure. */
#define OK(call) expect((call), ZSTN_OK, #call, __FILE__, __LINE__)
/* Ends the program unless a call fails with this status and a message. */
#define FAILS(status, call) expect((call), (status), #call, __FILE__, __LINE__)

/* The error structure for calls in OK and FAILS. */
extern zstn_error failure;

void check(int holds, const char *what, const char *file, int line);
void expect(zstn_status got, zstn_status wanted, const char *what, const char *file, int line);

file_bytes load(const char *path);
int exists(const char *path);
size_t count_files(const char *folder);
/* Writes FOLDER/NAME to out. */
void join(char *out, size_t capacity, const char *folder, const char *name);

/* The context of callbacks that read a file in memory, with settings to make them fail. */
typedef struct {
    const unsigned char *bytes;
    size_t len;
    /* The most bytes that a call returns; 0 for no limit. */
    size_t most;
    /* Number of calls that succeed before one fails; -1 if none fails. */
    long good_calls;
    int64_t failing_result;
    int released;
} memory_file;

memory_file memory_of(file_bytes file);
zstn_io io_of(memory_file *file);

/* Opens a file in memory without any I/O of the library. Returns NULL after an error. */
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
