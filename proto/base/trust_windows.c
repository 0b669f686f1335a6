/* The Windows half of trust.h: owners and access lists. Sources: the win32 pages "File Security and Access Rights"
 * (what each right allows), "ACE_HEADER", "Well-known SIDs". Thread: any. */
#if defined(_WIN32)
#include "proto/base/trust.h"

#include "proto/base/platform.h"
#include "proto/base/platform_windows.h"

#include <windows.h>

#include <aclapi.h>
#include <dpapi.h>
#include <sddl.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096, LINE_BYTES = 1400 };

struct ea_trusted_file {
    HANDLE handle;
    char *path; /* \\?\C:\... */
};

/* The rights that other users must not have on a file or folder. Making files in a folder above is no harm: an existing
 * file or folder stays as it is. */
enum place { THE_FILE, ITS_FOLDER, ABOVE };

static const DWORD HARM[] = {
    [THE_FILE] = FILE_WRITE_DATA | FILE_APPEND_DATA | DELETE | WRITE_DAC | WRITE_OWNER | GENERIC_WRITE | GENERIC_ALL,
    [ITS_FOLDER] = FILE_ADD_FILE | FILE_ADD_SUBDIRECTORY | FILE_DELETE_CHILD | DELETE | WRITE_DAC | WRITE_OWNER |
                   GENERIC_WRITE | GENERIC_ALL,
    [ABOVE] = FILE_DELETE_CHILD | DELETE | WRITE_DAC | WRITE_OWNER | GENERIC_ALL,
};
/* What others must not be allowed at a secret. */
static const DWORD READS = FILE_READ_DATA | GENERIC_READ;

/* The folder for state, and by inheritance all in it: for the system and administrators. */
static const WCHAR STATE_SDDL[] = L"D:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)";

/* ---- who ---- */

/* Under Wine each file is the user's, and each token is of an administrator as UAC splits it. */
static int is_wine(void) {
    HMODULE ntdll = GetModuleHandleW(L"ntdll.dll");
    return ntdll && GetProcAddress(ntdll, "wine_get_version") != NULL;
}

/* The user of this process, if that user's files are as safe as the process: 1. 0: UAC has split the token in two, so
 * that the same user's programs that are not elevated may write them; or Windows does not say. sid: room for any. */
static int own_user(BYTE sid[SECURITY_MAX_SID_SIZE]) {
    struct {
        TOKEN_USER user;
        BYTE sid[SECURITY_MAX_SID_SIZE];
    } u;

    TOKEN_ELEVATION_TYPE split = TokenElevationTypeFull;
    HANDLE token;
    DWORD n;
    if (!OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token))
        return 0;
    int ok = GetTokenInformation(token, TokenUser, &u, sizeof u, &n) &&
             CopySid(SECURITY_MAX_SID_SIZE, (PSID)sid, u.user.User.Sid) &&
             GetTokenInformation(token, TokenElevationType, &split, sizeof split, &n) &&
             (split != TokenElevationTypeFull || is_wine());
    CloseHandle(token);
    return ok;
}

static int is_trusted(PSID who) {
    /* SYSTEM; Administrators; TrustedInstaller, which owns Windows' own folders */
    static const WCHAR *const TRUSTED[] = {L"S-1-5-18", L"S-1-5-32-544",
                                           L"S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464"};
    BYTE own[SECURITY_MAX_SID_SIZE];
    int found = own_user(own) && EqualSid(who, (PSID)own);
    for (size_t i = 0; !found && i < sizeof TRUSTED / sizeof *TRUSTED; i++) {
        PSID sid;
        if (ConvertStringSidToSidW(TRUSTED[i], &sid)) {
            found = EqualSid(who, sid);
            LocalFree(sid);
        }
    }
    return found;
}

/* "S-1-5-21-..." into out. */
static void sid_text(PSID sid, char *out, size_t out_bytes) {
    WCHAR *text = NULL;
    char *utf8 = ConvertSidToStringSidW(sid, &text) ? ea_windows_utf8(text) : NULL;
    snprintf(out, out_bytes, "%s", utf8 ? utf8 : "an unknown owner");
    free(utf8);
    if (text)
        LocalFree(text);
}

/* ---- what a file's security says ---- */

/* A user or group that has one of these rights by the list and is not trusted; NULL when there is none. *ret_strange:
 * the list has an entry of a type that this program does not know. */
static PSID stranger(PACL list, DWORD rights, int *ret_strange) {
    *ret_strange = 0;
    for (DWORD i = 0; i < list->AceCount; i++) {
        ACCESS_ALLOWED_ACE *ace;
        if (!GetAce(list, i, (void **)&ace))
            break;
        BYTE kind = ace->Header.AceType;
        if (ace->Header.AceFlags & INHERIT_ONLY_ACE || kind == ACCESS_DENIED_ACE_TYPE ||
            kind == ACCESS_DENIED_CALLBACK_ACE_TYPE)
            continue; /* it gives nothing here */
        if (kind != ACCESS_ALLOWED_ACE_TYPE && kind != ACCESS_ALLOWED_CALLBACK_ACE_TYPE) {
            *ret_strange = 1;
            continue;
        }
        PSID who = (PSID)&ace->SidStart;
        /* an entry for the owner (S-1-3-4) gives what the owner may; the owner is judged apart */
        if (ace->Mask & rights && !is_trusted(who) && !IsWellKnownSid(who, WinCreatorOwnerRightsSid))
            return who;
    }
    return NULL;
}

static int trust_fail_last(ea_err *err, const char *what, const char *path) {
    DWORD os = GetLastError();
    return ea_fail_os(err, os == ERROR_FILE_NOT_FOUND || os == ERROR_PATH_NOT_FOUND ? EA_ENOTFOUND : EA_EIO, (int)os,
                      "%s %s", what, path);
}

/* Owner and list of an open file: EA_EREFUSED when the owner is not trusted, or others have one of the rights. */
static int trust_judge(HANDLE h, const char *path, DWORD rights, ea_err *err) {
    PSECURITY_DESCRIPTOR security = NULL;
    PSID owner = NULL, other;
    PACL list = NULL;
    char who[200];
    int rc = 0, strange = 0;
    DWORD os = GetSecurityInfo(h, SE_FILE_OBJECT, OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION, &owner, NULL,
                               &list, NULL, &security);
    if (os)
        return ea_fail_os(err, EA_EIO, (int)os, "read the owner and access list of %s", path);
    if (!owner || !is_trusted(owner)) {
        if (owner)
            sid_text(owner, who, sizeof who);
        rc = ea_fail(err, EA_EREFUSED,
                     "%s belongs to %s; expected SYSTEM or Administrators (icacls FILE /setowner *S-1-5-32-544, if its "
                     "content is known)",
                     path, owner ? who : "no owner");
    } else if (!list) {
        rc = ea_fail(err, EA_EREFUSED, "%s has no access list, so that everybody may write to it (icacls FILE /reset)",
                     path);
    } else if ((other = stranger(list, rights, &strange)) != NULL) {
        sid_text(other, who, sizeof who);
        rc = ea_fail(err, EA_EREFUSED, "%s may %s %s; expected that SYSTEM and Administrators alone may (icacls)", who,
                     rights & FILE_READ_DATA ? "read or write" : "write to", path);
    } else if (strange) {
        rc = ea_fail(err, EA_EREFUSED, "the access list of %s has an entry of an unknown kind (icacls FILE /reset)",
                     path);
    }
    LocalFree(security);
    return rc;
}

static int is_link(HANDLE h) {
    FILE_ATTRIBUTE_TAG_INFO tag;
    return !GetFileInformationByHandleEx(h, FileAttributeTagInfo, &tag, sizeof tag) ||
           tag.FileAttributes & FILE_ATTRIBUTE_REPARSE_POINT;
}

static int is_folder(HANDLE h) {
    FILE_BASIC_INFO info;
    return GetFileInformationByHandleEx(h, FileBasicInfo, &info, sizeof info) &&
           info.FileAttributes & FILE_ATTRIBUTE_DIRECTORY;
}

static HANDLE open_itself(const WCHAR *w, DWORD access, DWORD share) {
    return CreateFileW(w, access, share, NULL, OPEN_EXISTING, FILE_FLAG_OPEN_REPARSE_POINT | FILE_FLAG_BACKUP_SEMANTICS,
                       NULL);
}

/* ---- a file and all above it ---- */

/* The path by which Windows reaches an open file, links followed: \\?\C:\...; allocated. */
static WCHAR *final_path(HANDLE h) {
    DWORD need = GetFinalPathNameByHandleW(h, NULL, 0, FILE_NAME_NORMALIZED | VOLUME_NAME_DOS);
    WCHAR *w = need ? malloc((need + 1) * sizeof *w) : NULL;
    if (w && !GetFinalPathNameByHandleW(h, w, need + 1, FILE_NAME_NORMALIZED | VOLUME_NAME_DOS)) {
        free(w);
        w = NULL;
    }
    return w;
}

enum { ROOT = 7 }; /* \\?\C:\ */

static int check_drive(const WCHAR *full, const char *path, ea_err *err) {
    WCHAR root[4] = L"";
    if (wcsncmp(full, L"\\\\?\\", 4) == 0 && wcslen(full) > ROOT && full[5] == L':' && full[6] == L'\\')
        memcpy(root, full + 4, 3 * sizeof *root);
    UINT kind = *root ? GetDriveTypeW(root) : DRIVE_REMOTE;
    return kind == DRIVE_FIXED
               ? 0
               : ea_fail(err, EA_EREFUSED,
                         "%s is on a drive of kind %u (a network's, a removable one); expected a local, "
                         "fixed drive",
                         path, kind);
}

/* Each folder above a file, from its own to the drive's root. full is cut. */
static int check_folders(WCHAR *full, ea_err *err) {
    int rc = 0;
    DWORD rights = HARM[ITS_FOLDER];
    for (size_t n = wcslen(full); !rc && n > ROOT; rights = HARM[ABOVE]) {
        while (n > ROOT && full[n - 1] != L'\\')
            n--;
        full[n > ROOT ? --n : n] = 0; /* a root keeps its backslash */
        char *path = ea_windows_utf8(full);
        HANDLE h = open_itself(full, READ_CONTROL, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE);
        if (!path)
            rc = ea_fail(err, EA_ENOMEM, "look at a folder");
        else if (h == INVALID_HANDLE_VALUE)
            rc = trust_fail_last(err, "open", path);
        else if (n > ROOT && is_link(h))
            rc = ea_fail(err, EA_EREFUSED, "%s has become a link", path);
        else
            rc = trust_judge(h, path + 4, rights, err); /* without \\?\ */
        if (h != INVALID_HANDLE_VALUE)
            CloseHandle(h);
        free(path);
    }
    return rc;
}

int ea_trusted_open(ea_trusted_file **ret, const char *path, ea_err *err) {
    WCHAR *w = ea_windows_path(path, 0), *full = NULL;
    if (!w)
        return ea_fail(err, EA_EINVAL, "open %s: the path is not usable", path);
    /* while this handle is open, no program can write, rename or delete the file, nor rename a folder above it */
    HANDLE h = open_itself(w, GENERIC_READ, FILE_SHARE_READ);
    int rc = h == INVALID_HANDLE_VALUE ? trust_fail_last(err, "open", path) : 0;
    free(w);
    if (rc)
        return rc;
    ea_trusted_file *f = calloc(1, sizeof *f);
    char *utf8 = NULL;
    if (is_link(h))
        rc = ea_fail(err, EA_EREFUSED, "%s is a link; expected the file itself", path);
    else if (is_folder(h))
        rc = ea_fail(err, EA_EREFUSED, "%s is no file", path);
    else if (!(full = final_path(h)) || !(utf8 = ea_windows_utf8(full)) || !f)
        rc = ea_fail(err, EA_EIO, "open %s: Windows does not say where it is", path);
    else
        rc = check_drive(full, path, err);
    if (!rc)
        rc = trust_judge(h, path, HARM[THE_FILE], err);
    if (!rc)
        rc = check_folders(full, err);
    free(full);
    if (rc) {
        CloseHandle(h);
        free(utf8);
        free(f);
        return rc;
    }
    *f = (ea_trusted_file){h, utf8};
    *ret = f;
    return 0;
}

const char *ea_trusted_path(const ea_trusted_file *f) {
    enum { PREFIX = 4, CLASSIC_LIMIT = 240 }; /* the short form where it will do: it is what programs expect */

    return strlen(f->path) < CLASSIC_LIMIT ? f->path + PREFIX : f->path;
}

void ea_trusted_close(ea_trusted_file *f) {
    if (!f)
        return;
    CloseHandle(f->handle);
    free(f->path);
    free(f);
}

int ea_trust_check(const char *path, ea_err *err) {
    ea_trusted_file *f;
    int rc = ea_trusted_open(&f, path, err);
    if (!rc)
        ea_trusted_close(f);
    return rc;
}

int ea_path_check_private(const char *path, ea_err *err) {
    WCHAR *w = ea_windows_path(path, 0);
    HANDLE h = w ? CreateFileW(w, READ_CONTROL, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                               OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL)
                 : INVALID_HANDLE_VALUE;
    int rc = h == INVALID_HANDLE_VALUE ? trust_fail_last(err, "look at", path)
                                       : trust_judge(h, path, HARM[THE_FILE] | READS, err);
    if (h != INVALID_HANDLE_VALUE)
        CloseHandle(h);
    free(w);
    return rc;
}

/* ---- secrets ---- */

enum { ENTROPY_BYTES = 32 };

/* Makes the file, unless another process has made it meanwhile: the rename to its name succeeds once. */
static int make_entropy(const char *path, ea_err *err) {
    uint8_t random[ENTROPY_BYTES];
    char fresh[PATH_BYTES];
    int n = snprintf(fresh, sizeof fresh, "%s.%lu", path, (unsigned long)GetCurrentProcessId());
    if (n < 0 || (size_t)n >= sizeof fresh)
        return ea_fail(err, EA_ELIMIT, "make %.200s: its name is too long", path);
    int rc = ea_path_make_parent(path, err);
    if (!rc)
        rc = ea_random_bytes(random, sizeof random, err);
    if (!rc)
        rc = ea_path_write_all(fresh, random, sizeof random, 1, err);
    SecureZeroMemory(random, sizeof random);
    if (rc)
        return rc;
    WCHAR *from = ea_windows_path(fresh, 0), *to = ea_windows_path(path, 0);
    if (!from || !to)
        rc = ea_fail(err, EA_ENOMEM, "make %s", path);
    else if (!MoveFileExW(from, to, MOVEFILE_WRITE_THROUGH) && GetLastError() != ERROR_ALREADY_EXISTS &&
             GetLastError() != ERROR_FILE_EXISTS)
        rc = trust_fail_last(err, "make", path);
    if (from)
        DeleteFileW(from);
    free(from);
    free(to);
    return rc;
}

/* DPAPI's optional entropy, from a file that the system and administrators alone read. EA_ENOTFOUND: there is none. */
static int read_entropy(const char *path, uint8_t out[ENTROPY_BYTES], ea_err *err) {
    char *data = NULL;
    size_t n = 0;
    int rc = ea_path_check_private(path, err);
    if (!rc)
        rc = ea_path_read_all(path, ENTROPY_BYTES, &data, &n, err);
    if (!rc && n != ENTROPY_BYTES)
        rc = ea_fail(err, EA_ECORRUPT,
                     "%s: expected %d bytes, found %zu; restore it, or remove it with the spool's keys", path,
                     ENTROPY_BYTES, n);
    if (!rc)
        memcpy(out, data, ENTROPY_BYTES);
    if (data)
        SecureZeroMemory(data, n);
    free(data);
    return rc;
}

static int entropy_path(char out[PATH_BYTES], ea_err *err) {
    char folder[PATH_BYTES - 32];
    int rc = ea_state_dir(folder, sizeof folder, err);
    if (!rc)
        snprintf(out, PATH_BYTES, "%s\\dpapi-entropy", folder);
    return rc;
}

/* Takes what DPAPI allocated. */
static int keep_blob(DATA_BLOB *blob, uint8_t **ret_data, size_t *ret_len_bytes, const char *what, ea_err *err) {
    uint8_t *copy = malloc(blob->cbData ? blob->cbData : 1);
    if (copy) {
        memcpy(copy, blob->pbData, blob->cbData);
        *ret_data = copy;
        *ret_len_bytes = blob->cbData;
    }
    SecureZeroMemory(blob->pbData, blob->cbData);
    LocalFree(blob->pbData);
    return copy ? 0 : ea_fail(err, EA_ENOMEM, "%s a secret", what);
}

int ea_protect(const void *data, size_t len_bytes, uint8_t **ret_data, size_t *ret_len_bytes, ea_err *err) {
    char path[PATH_BYTES];
    uint8_t secret[ENTROPY_BYTES];
    DATA_BLOB in = {(DWORD)len_bytes, (BYTE *)(uintptr_t)data}, entropy = {sizeof secret, secret}, out = {0};
    int rc = entropy_path(path, err);
    if (!rc && (rc = read_entropy(path, secret, err)) == EA_ENOTFOUND && !(rc = make_entropy(path, err)))
        rc = read_entropy(path, secret, err);
    if (rc)
        return rc;
    int ok = CryptProtectData(&in, L"etwagent", &entropy, NULL, NULL,
                              CRYPTPROTECT_LOCAL_MACHINE | CRYPTPROTECT_UI_FORBIDDEN, &out);
    DWORD os = GetLastError();
    SecureZeroMemory(secret, sizeof secret);
    return ok ? keep_blob(&out, ret_data, ret_len_bytes, "protect", err)
              : ea_fail_os(err, EA_ECRYPTO, (int)os, "protect a secret by DPAPI");
}

int ea_unprotect(const void *data, size_t len_bytes, uint8_t **ret_data, size_t *ret_len_bytes, int *ret_is_old,
                 ea_err *err) {
    char path[PATH_BYTES];
    uint8_t secret[ENTROPY_BYTES];
    DATA_BLOB in = {(DWORD)len_bytes, (BYTE *)(uintptr_t)data}, entropy = {sizeof secret, secret}, out = {0};
    int rc = entropy_path(path, err);
    if (!rc)
        rc = read_entropy(path, secret, err);
    if (rc && rc != EA_ENOTFOUND)
        return rc;
    int ok = !rc && CryptUnprotectData(&in, NULL, &entropy, NULL, NULL, CRYPTPROTECT_UI_FORBIDDEN, &out);
    int is_old = !ok;
    SecureZeroMemory(secret, sizeof secret);
    if (!ok) /* made before there was entropy */
        ok = CryptUnprotectData(&in, NULL, NULL, NULL, NULL, CRYPTPROTECT_UI_FORBIDDEN, &out);
    if (!ok)
        return ea_fail_os(err, EA_ECRYPTO, (int)GetLastError(), "read a secret that DPAPI and %s protect", path);
    rc = keep_blob(&out, ret_data, ret_len_bytes, "read", err);
    if (!rc)
        *ret_is_old = is_old;
    return rc;
}

/* ---- the folder for state ---- */

typedef struct claim {
    const char *folder;
    int depth;
    ea_err *err;
} claim;

static int check_entries(const char *folder, int depth, ea_err *err);

static int trust_on_entry(const char *name, int is_dir, void *arg) {
    const claim *c = arg;
    char path[PATH_BYTES];
    int n = snprintf(path, sizeof path, "%s\\%s", c->folder, name);
    if (n < 0 || (size_t)n >= sizeof path)
        return ea_fail(c->err, EA_ELIMIT, "look at %.200s: its name is too long", c->folder);
    WCHAR *w = ea_windows_path(path, 0);
    HANDLE h =
        w ? open_itself(w, READ_CONTROL, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE) : INVALID_HANDLE_VALUE;
    int rc = 0;
    if (h == INVALID_HANDLE_VALUE)
        rc = w && GetLastError() == ERROR_FILE_NOT_FOUND ? 0 : trust_fail_last(c->err, "open", path);
    else if (is_link(h))
        rc = ea_fail(c->err, EA_EREFUSED, "%s is a link; expected a file or folder (remove it)", path);
    else
        rc = trust_judge(h, path, HARM[is_dir ? ITS_FOLDER : THE_FILE], c->err);
    if (h != INVALID_HANDLE_VALUE)
        CloseHandle(h);
    free(w);
    return rc || !is_dir ? rc : check_entries(path, c->depth + 1, c->err);
}

static int check_entries(const char *folder, int depth, ea_err *err) {
    enum { DEEPEST = 16 };

    claim c = {folder, depth, err};
    return depth > DEEPEST
               ? ea_fail(err, EA_ELIMIT, "look at %.200s: expected at most %d folders in each other", folder, DEEPEST)
               : ea_path_list(folder, trust_on_entry, &c, err);
}

/* The list of STATE_SDDL, set or compared. The caller gives *ret_security to LocalFree. */
static PACL state_list(PSECURITY_DESCRIPTOR *ret_security) {
    PACL list = NULL;
    BOOL is_there = FALSE, is_default = FALSE;
    *ret_security = NULL;
    if (ConvertStringSecurityDescriptorToSecurityDescriptorW(STATE_SDDL, SDDL_REVISION_1, ret_security, NULL))
        GetSecurityDescriptorDacl(*ret_security, &is_there, &list, &is_default);
    return list;
}

/* An open folder of a trusted owner gets the private list, which what is in it inherits. */
static int make_private(HANDLE h, const char *folder, ea_trust_note *on_note, void *arg, ea_err *err) {
    PSECURITY_DESCRIPTOR security;
    ea_err why = {0};
    char line[LINE_BYTES];
    int was = trust_judge(h, folder, HARM[ITS_FOLDER] | READS, &why);
    PACL list = state_list(&security);
    DWORD os = list
                   ? SetSecurityInfo(h, SE_FILE_OBJECT, DACL_SECURITY_INFORMATION | PROTECTED_DACL_SECURITY_INFORMATION,
                                     NULL, NULL, list, NULL)
                   : GetLastError();
    LocalFree(security);
    if (os)
        return ea_fail_os(err, EA_EIO, (int)os, "set the access list of %s", folder);
    if (was) {
        snprintf(line, sizeof line, "%s was open to others and is private now: %s", folder, why.message);
        on_note(arg, line);
    }
    return 0;
}

static int move_aside(const WCHAR *w, const char *folder, const char *why, ea_trust_note *on_note, void *arg,
                      ea_err *err) {
    char to[PATH_BYTES], line[LINE_BYTES];
    int n = snprintf(to, sizeof to, "%s.untrusted-%lld", folder, (long long)ea_utc_ns());
    WCHAR *wide_to = n > 0 && (size_t)n < sizeof to ? ea_windows_path(to, 0) : NULL;
    int moved = wide_to && MoveFileExW(w, wide_to, 0);
    int os = moved ? 0 : (int)GetLastError();
    free(wide_to);
    if (!moved)
        return ea_fail_os(err, EA_EREFUSED, os,
                          "%s; it cannot be renamed either: remove it, then run \"etwagent install\"", why);
    snprintf(line, sizeof line, "%s; it is %s now, and a new folder takes its place", why, to);
    on_note(arg, line);
    return 0;
}

/* One look: 1 when the folder was made or moved aside and is to be looked at again. */
static int claim_once(const WCHAR *w, const char *folder, ea_trust_note *on_note, void *arg, ea_err *err) {
    PSECURITY_DESCRIPTOR security;
    ea_err why = {0};
    HANDLE h = open_itself(w, READ_CONTROL | WRITE_DAC, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE);
    if (h == INVALID_HANDLE_VALUE && GetLastError() == ERROR_ACCESS_DENIED) /* a stranger's, or this user may not */
        h = open_itself(w, READ_CONTROL, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE);
    if (h == INVALID_HANDLE_VALUE) {
        if (GetLastError() != ERROR_FILE_NOT_FOUND)
            return trust_fail_last(err, "open", folder);
        state_list(&security);
        SECURITY_ATTRIBUTES sa = {sizeof sa, security, FALSE};
        int made = security && (CreateDirectoryW(w, &sa) || GetLastError() == ERROR_ALREADY_EXISTS);
        int rc = made ? 1 : trust_fail_last(err, "make folder", folder);
        LocalFree(security);
        return rc;
    }
    int rc = trust_judge(h, folder, 0, &why); /* the owner alone */
    if (rc) {
        CloseHandle(h);
        return rc == EA_EREFUSED && !(rc = move_aside(w, folder, why.message, on_note, arg, err)) ? 1 : rc;
    }
    if (is_link(h) || !is_folder(h))
        rc = ea_fail(err, EA_EREFUSED, "%s is a link or a file; expected a folder (remove it)", folder);
    else
        rc = make_private(h, folder, on_note, arg, err);
    CloseHandle(h);
    return rc;
}

int ea_trust_claim(const char *folder, ea_trust_note *on_note, void *arg, ea_err *err) {
    enum { LOOKS = 4 }; /* another user may make the folder again between two steps; then it is checked again */

    WCHAR *w = ea_windows_path(folder, 0);
    int rc = w ? ea_path_make_parent(folder, err) : ea_fail(err, EA_EINVAL, "open %s: the path is not usable", folder);
    int again = 1;
    for (int i = 0; !rc && again && i < LOOKS; i++) {
        int seen = claim_once(w, folder, on_note, arg, err);
        again = seen == 1;
        rc = again ? 0 : seen;
    }
    if (!rc && again)
        rc = ea_fail(err, EA_EREFUSED, "%s is made by another user again and again: find the program that does it",
                     folder);
    free(w);
    return rc ? rc : check_entries(folder, 0, err);
}
#else
typedef int ea_trust_windows_is_not_empty;
#endif
