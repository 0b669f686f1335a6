/* Loads the DLLs that this program imports late, from System32 only. Windows looks for an imported DLL that is not one
 * of its KnownDLLs in the program's own folder first: a bcrypt.dll that another user placed beside a downloaded .exe
 * would run with the rights of the user who starts the program. Stubs (CMakeLists.txt) therefore import such DLLs. A
 * stub calls this function at its first use. Source: the win32 page "Linker support for delay-loaded DLLs"; delayimp.h.
 * Thread: any. */
#if defined(__MINGW32__)
#include <windows.h>

#include <delayimp.h>

extern const char __ImageBase[]; /* of this program, from the linker */

FARPROC WINAPI __delayLoadHelper2(PCImgDelayDescr import, FARPROC *slot);

/* What a stub calls: import describes the DLL, slot is the function's place in its table. Two threads that call it at a
 * time do the same twice. Without the DLL or the function the program ends with the exception that Microsoft's own
 * helper raises: there is nothing to go on with. */
FARPROC WINAPI __delayLoadHelper2(PCImgDelayDescr import, FARPROC *slot) {
    enum { NO_MODULE = ERROR_MOD_NOT_FOUND, NO_FUNCTION = ERROR_PROC_NOT_FOUND };

    const FARPROC *slots = (const FARPROC *)(const void *)(__ImageBase + import->rvaIAT);
    const IMAGE_THUNK_DATA *names = (const IMAGE_THUNK_DATA *)(const void *)(__ImageBase + import->rvaINT);
    const IMAGE_THUNK_DATA *name = names + (slot - slots);
    HMODULE dll = LoadLibraryExA(__ImageBase + import->rvaDLLName, NULL, LOAD_LIBRARY_SEARCH_SYSTEM32);
    if (!dll)
        RaiseException((DWORD)VcppException(ERROR_SEVERITY_ERROR, NO_MODULE), EXCEPTION_NONCONTINUABLE, 0, NULL);
    FARPROC function =
        dll ? GetProcAddress(dll, IMAGE_SNAP_BY_ORDINAL(name->u1.Ordinal)
                                      ? (LPCSTR)(uintptr_t)IMAGE_ORDINAL(name->u1.Ordinal)
                                      : (LPCSTR)((const IMAGE_IMPORT_BY_NAME *)(const void *)(__ImageBase +
                                                                                              name->u1.AddressOfData))
                                            ->Name)
            : NULL;
    if (!function)
        RaiseException((DWORD)VcppException(ERROR_SEVERITY_ERROR, NO_FUNCTION), EXCEPTION_NONCONTINUABLE, 0, NULL);
    *slot = function;
    return function;
}
#else
typedef int ea_delay_windows_is_not_empty;
#endif
