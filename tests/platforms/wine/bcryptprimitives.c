/* The library bcryptprimitives.dll, which wine 8 lacks. Rust's standard
 * library takes its random numbers from it, so no program of Rust starts
 * without. */

#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T len_bytes)
{
    /* The length that RtlGenRandom takes has 32 bits. */
    while (len_bytes > 0) {
        ULONG piece_bytes = len_bytes < MAXDWORD ? (ULONG)len_bytes : MAXDWORD;
        if (!RtlGenRandom(bytes, piece_bytes))
            return FALSE;
        bytes += piece_bytes;
        len_bytes -= piece_bytes;
    }
    return TRUE;
}
