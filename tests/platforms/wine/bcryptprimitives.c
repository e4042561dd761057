/* The library bcryptprimitives.dll, which wine 8 lacks. Rust's standard
 * library gets its random numbers from it, so no Rust program starts
 * without it. */

#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T len_bytes)
{
    /* RtlGenRandom accepts lengths of at most 32 bits. */
    while (len_bytes > 0) {
        ULONG piece_bytes = len_bytes < MAXDWORD ? (ULONG)len_bytes : MAXDWORD;
        if (!RtlGenRandom(bytes, piece_bytes))
            return FALSE;
        bytes += piece_bytes;
        len_bytes -= piece_bytes;
    }
    return TRUE;
}
