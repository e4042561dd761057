/* The program git.exe for tests under wine, which runs the git of the host.
 *
 * wine can start Linux programs, but neither waits for them nor passes pipes or
 * standard error on to them. git therefore gets a file as its standard output. When git
 * has ended, a shell appends MARK, git's standard error, MARK, its status and MARK. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#include <windows.h>

#define MARK '\1'

/* The status if this program itself fails; git never returns it. */
#define STATUS_OF_BRIDGE 125

/* No call of git in a test takes this long. */
#define LIMIT_MS 60000
#define PAUSE_MS 5

/* GIT_CEILING_DIRECTORIES keeps git from finding a repository above drive C:. */
static const wchar_t START[] =
    L"sh -c \"export GIT_CEILING_DIRECTORIES=$WINEPREFIX; "
    L"{ said=$(git \\\"$@\\\" 2>&1 >&3 3>&-); } 3>&1; "
    L"printf '\\1%s\\1%d\\1' \\\"$said\\\" $?\" git ";

static void fail(const char *action)
{
    fprintf(stderr, "git.exe for wine: cannot %s (error %lu)\n", action, GetLastError());
    exit(STATUS_OF_BRIDGE);
}

/* Creates a file that a child inherits. It is deleted once all handles are closed. */
static HANDLE temporary_file(void)
{
    SECURITY_ATTRIBUTES inherited = {sizeof inherited, NULL, TRUE};
    wchar_t folder[MAX_PATH], path[MAX_PATH];
    if (!GetTempPathW(MAX_PATH, folder) || !GetTempFileNameW(folder, L"git", 0, path))
        fail("name a temporary file");
    HANDLE file = CreateFileW(path, GENERIC_READ | GENERIC_WRITE,
                              FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, &inherited,
                              CREATE_ALWAYS, FILE_FLAG_DELETE_ON_CLOSE, NULL);
    if (file == INVALID_HANDLE_VALUE)
        fail("create a temporary file");
    return file;
}

/* Returns the current content of the file, followed by a NUL. */
static char *contents(HANDLE file, DWORD *len_bytes)
{
    DWORD size = GetFileSize(file, NULL);
    char *bytes = malloc((size_t)size + 1);
    OVERLAPPED from_start = {0};
    *len_bytes = 0;
    if (!bytes)
        fail("allocate memory");
    if (size > 0 && !ReadFile(file, bytes, size, len_bytes, &from_start))
        fail("read what git has written");
    bytes[*len_bytes] = 0;
    return bytes;
}

/* Returns the arguments of this program, with their original quotes. */
static const wchar_t *arguments(void)
{
    const wchar_t *rest = GetCommandLineW();
    wchar_t end = *rest == L'"' ? L'"' : L' ';
    rest += end == L'"';
    while (*rest && *rest != end)
        rest++;
    return *rest ? rest + 1 : rest;
}

static void print(HANDLE to, const char *bytes, size_t len_bytes)
{
    DWORD written;
    while (len_bytes > 0 && WriteFile(to, bytes, (DWORD)len_bytes, &written, NULL)) {
        bytes += written;
        len_bytes -= written;
    }
}

/* Returns the last MARK before `end`. */
static char *last_mark(char *start, char *end)
{
    while (end > start && *--end != MARK)
        ;
    return end;
}

int main(void)
{
    HANDLE file = temporary_file();
    STARTUPINFOW startup = {
        .cb = sizeof startup, .dwFlags = STARTF_USESTDHANDLES, .hStdOutput = file};
    PROCESS_INFORMATION process;
    const wchar_t *rest = arguments();
    wchar_t *line = malloc(sizeof START + (wcslen(rest) + 1) * sizeof *line);
    if (!line)
        fail("allocate memory");
    wcscat(wcscpy(line, START), rest);
    if (!CreateProcessW(L"Z:\\bin\\sh", line, NULL, NULL, TRUE, 0, NULL, NULL, &startup, &process))
        fail("start sh");

    DWORD len_bytes;
    char *written;
    int waited_ms = 0;
    while (written = contents(file, &len_bytes),
           len_bytes == 0 || written[len_bytes - 1] != MARK) {
        free(written);
        if ((waited_ms += PAUSE_MS) > LIMIT_MS)
            fail("wait any longer for git");
        Sleep(PAUSE_MS);
    }
    char *status = last_mark(written, written + len_bytes - 1);
    char *said = last_mark(written, status);
    print(GetStdHandle(STD_ERROR_HANDLE), said + 1, status - said - 1);

    /* git prints Linux paths. A path on drive C: becomes a Windows path. */
    char drive[MAX_PATH], *start = written;
    size_t drive_bytes = snprintf(drive, sizeof drive, "%s/drive_c", getenv("WINEPREFIX"));
    if (!strncmp(written, drive, drive_bytes)) {
        print(GetStdHandle(STD_OUTPUT_HANDLE), "C:", 2);
        start += drive_bytes;
    }
    print(GetStdHandle(STD_OUTPUT_HANDLE), start, said - start);
    return atoi(status + 1);
}
