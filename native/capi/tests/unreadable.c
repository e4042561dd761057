#if defined(__linux__) && defined(__LP64__)
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "check.h"

#define PAGE_BYTES 4096

/* The inode of the file that has an unreadable page, or 0 for none, and the offset of
 * that page. */
static ino_t bad_file = 0;
static off64_t bad_page = 0;

/* Replaces libc's function in this program: a read ends before the unreadable page and
 * fails inside it, as with a bad sector. */
#ifdef __cplusplus
extern "C"
#endif
ssize_t pread64(int fd, void *out, size_t len, off64_t at) {
    struct stat file;
    if (bad_file != 0 && fstat(fd, &file) == 0 && file.st_ino == bad_file &&
        at < bad_page + PAGE_BYTES && at + (off64_t)len > bad_page) {
        if (at >= bad_page) {
            errno = EIO;
            return -1;
        }
        len = (size_t)(bad_page - at);
    }
    return syscall(SYS_pread64, fd, out, len, at);
}

static void break_page(const char *path) {
    struct stat file;
    CHECK(stat(path, &file) == 0);
    bad_file = file.st_ino;
    bad_page = file.st_size / 2 / PAGE_BYTES * PAGE_BYTES;
}

/* Like FAILS, but leaves the message in `failure`. */
#define GIVES(status, call) CHECK((call) == (status))

/* Checks that the last error message names the file and an offset. */
static void names(const char *path) {
    CHECK(strstr(failure.message, path) != NULL);
    CHECK(strstr(failure.message, "at byte") != NULL);
}

/* Every function that reads the unreadable page returns an error. */
void test_unreadable(const fixture *files) {
    static unsigned char big[1048576];
    char out[512];
    zstn_reader *reader;
    zstn_input input = ZSTN_INIT, original = ZSTN_INIT;
    join(out, sizeof out, files->folder, "unreadable.out");
    break_page(files->plain_path);
    GIVES(ZSTN_ERROR_IO, zstn_pack_path(files->plain_path, out, NULL, NULL, &failure));
    names(files->plain_path);
    CHECK(!exists(out));
    OK(zstn_open_path(files->plain_path, NULL, &reader, &failure));
    GIVES(ZSTN_ERROR_IO, zstn_read(reader, "big", big, sizeof big, &failure));
    names(files->plain_path);
    zstn_reader_free(reader);
    input.struct_size = original.struct_size = sizeof input;
    input.path = files->packed_path;
    original.path = files->plain_path;
    GIVES(ZSTN_ERROR_IO, zstn_verify(&input, &original, NULL, NULL, &failure));
    names(files->plain_path);
    break_page(files->packed_path);
    GIVES(ZSTN_ERROR_IO, zstn_unpack_path(files->packed_path, out, NULL, NULL, &failure));
    names(files->packed_path);
    CHECK(!exists(out));
    GIVES(ZSTN_ERROR_IO, zstn_verify(&input, NULL, NULL, NULL, &failure));
    names(files->packed_path);
    OK(zstn_open_path(files->packed_path, NULL, &reader, &failure));
    GIVES(ZSTN_ERROR_IO, zstn_read(reader, "big", big, sizeof big, &failure));
    names(files->packed_path);
    zstn_reader_free(reader);
    bad_file = 0;
    OK(zstn_verify(&input, NULL, NULL, NULL, &failure));

    /* A pipe or device is refused before it is opened. */
    join(out, sizeof out, files->folder, "pipe");
    CHECK(mkfifo(out, 0600) == 0);
    GIVES(ZSTN_ERROR_USAGE, zstn_open_path(out, NULL, &reader, &failure));
    CHECK(strstr(failure.message, "named pipe") != NULL);
    GIVES(ZSTN_ERROR_USAGE, zstn_open_path("/dev/zero", NULL, &reader, &failure));
    CHECK(strstr(failure.message, "device") != NULL);
    CHECK(remove(out) == 0);
}
#else
#include "check.h"

/* The failing read replaces a function that only Linux has. */
void test_unreadable(const fixture *files) {
    (void)files;
}
#endif
