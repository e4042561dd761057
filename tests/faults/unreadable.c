/* A library that makes one page of a file unreadable, like a bad sector, for a program
 * that preloads it (LD_PRELOAD). $ZSTN_BAD_FILE is the absolute path of the file, and
 * $ZSTN_BAD_PAGE is the offset of the page. Reads end before the page, and fail with
 * EIO inside it. As on some file systems, the file cannot be mapped, and the system
 * cannot copy it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE_BYTES 4096
#define REAL(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

static int is_bad(int fd)
{
    char link[64], path[4096];
    const char *bad = getenv("ZSTN_BAD_FILE");
    int kept = errno;
    if (bad == NULL || fd < 0)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    errno = kept;
    if (len < 0)
        return 0;
    path[len] = 0;
    return strcmp(path, bad) == 0;
}

/* Returns how many of `len` bytes at `at` can be read; -1 if the first one cannot. */
static ssize_t readable(off64_t at, size_t len)
{
    off64_t page = strtoll(getenv("ZSTN_BAD_PAGE"), NULL, 10);
    if (at >= page + PAGE_BYTES || at + (off64_t)len <= page)
        return len;
    return at < page ? page - at : -1;
}

#define CHECKED(fd, at, len)                   \
    if ((len) > 0 && is_bad(fd)) {             \
        ssize_t most = readable((at), (len));  \
        if (most < 0) {                        \
            errno = EIO;                       \
            return -1;                         \
        }                                      \
        (len) = most;                          \
    }

ssize_t pread64(int fd, void *out, size_t len, off64_t at)
{
    CHECKED(fd, at, len)
    return REAL(pread64)(fd, out, len, at);
}

ssize_t pread(int fd, void *out, size_t len, off_t at)
{
    CHECKED(fd, at, len)
    return REAL(pread)(fd, out, len, at);
}

ssize_t read(int fd, void *out, size_t len)
{
    CHECKED(fd, lseek64(fd, 0, SEEK_CUR), len)
    return REAL(read)(fd, out, len);
}

ssize_t readv(int fd, const struct iovec *parts, int count)
{
    return is_bad(fd) && count > 0 ? read(fd, parts[0].iov_base, parts[0].iov_len)
                                   : REAL(readv)(fd, parts, count);
}

ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t len,
                        unsigned flags)
{
    if (is_bad(from)) {
        errno = EXDEV;
        return -1;
    }
    return REAL(copy_file_range)(from, from_at, to, to_at, len, flags);
}

ssize_t sendfile64(int to, int from, off64_t *at, size_t len)
{
    if (is_bad(from)) {
        errno = EINVAL;
        return -1;
    }
    return REAL(sendfile64)(to, from, at, len);
}

void *mmap64(void *at, size_t len, int protection, int flags, int fd, off64_t offset)
{
    if (is_bad(fd)) {
        errno = ENODEV;
        return MAP_FAILED;
    }
    return REAL(mmap64)(at, len, protection, flags, fd, offset);
}

void *mmap(void *at, size_t len, int protection, int flags, int fd, off_t offset)
{
    if (is_bad(fd)) {
        errno = ENODEV;
        return MAP_FAILED;
    }
    return REAL(mmap)(at, len, protection, flags, fd, offset);
}
