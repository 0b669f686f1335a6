/* Puts certificates into Windows' stores, and files under DPAPI, for a test.
 *
 *     storectl add machine|user STORE FILE.der [key]    key: the certificate is marked as having a private key
 *     storectl clear machine|user STORE                 removes all certificates of the store
 *     storectl protect FROM TO                          by DPAPI, without entropy
 *     storectl opens FILE                               prints yes or no: whether DPAPI opens the file
 *
 * Called by: test_system.py, test_trust.py. Thread: the main one. */
#include <windows.h>

#include <stdio.h>
#include <string.h>
#include <wincrypt.h>

static int failed(const char *what) {
    fprintf(stderr, "storectl: %s: error 0x%lx\n", what, (unsigned long)GetLastError());
    return 1;
}

static int add(HCERTSTORE store, const WCHAR *path, int with_key) {
    BYTE der[16384];
    WCHAR container[] = L"of a test", provider[] = L"Microsoft Software Key Storage Provider";
    CRYPT_KEY_PROV_INFO info = {.pwszContainerName = container, .pwszProvName = provider};
    PCCERT_CONTEXT c;
    FILE *f = _wfopen(path, L"rb");
    size_t n = f ? fread(der, 1, sizeof der, f) : 0;
    if (f)
        fclose(f);
    if (!n ||
        !CertAddEncodedCertificateToStore(store, X509_ASN_ENCODING, der, (DWORD)n, CERT_STORE_ADD_REPLACE_EXISTING, &c))
        return failed("add");
    if (with_key && !CertSetCertificateContextProperty(c, CERT_KEY_PROV_INFO_PROP_ID, 0, &info))
        return failed("set the key's name");
    CertFreeCertificateContext(c);
    return 0;
}

static int clear(HCERTSTORE store) {
    PCCERT_CONTEXT c;
    while ((c = CertEnumCertificatesInStore(store, NULL)))
        if (!CertDeleteCertificateFromStore(c)) /* frees it */
            return failed("delete");
    return 0;
}

/* A whole file; 0 when it cannot be read. */
static int read_whole(const WCHAR *path, BYTE *out, DWORD room, DWORD *ret_bytes) {
    HANDLE f = CreateFileW(path, GENERIC_READ, FILE_SHARE_READ, NULL, OPEN_EXISTING, 0, NULL);
    int ok = f != INVALID_HANDLE_VALUE && ReadFile(f, out, room, ret_bytes, NULL);
    if (f != INVALID_HANDLE_VALUE)
        CloseHandle(f);
    return ok;
}

/* DPAPI without entropy, as earlier versions of the agent used it: "protect FROM TO", and "opens FILE", which says
 * whether a file is such a one. */
static int dpapi(const WCHAR *what, const WCHAR *from, const WCHAR *to) {
    static BYTE bytes[65536];
    DATA_BLOB in = {0, bytes}, out = {0};
    DWORD n;
    if (!read_whole(from, bytes, sizeof bytes, &in.cbData))
        return failed("read the file");
    if (wcscmp(what, L"opens") == 0) {
        printf("%s\n", CryptUnprotectData(&in, NULL, NULL, NULL, NULL, CRYPTPROTECT_UI_FORBIDDEN, &out) ? "yes" : "no");
        return 0;
    }
    if (!CryptProtectData(&in, L"etwagent", NULL, NULL, NULL, CRYPTPROTECT_LOCAL_MACHINE | CRYPTPROTECT_UI_FORBIDDEN,
                          &out))
        return failed("protect");
    HANDLE f = CreateFileW(to, GENERIC_WRITE, 0, NULL, CREATE_ALWAYS, 0, NULL);
    int ok = f != INVALID_HANDLE_VALUE && WriteFile(f, out.pbData, out.cbData, &n, NULL);
    if (f != INVALID_HANDLE_VALUE)
        CloseHandle(f);
    return ok ? 0 : failed("write the file");
}

int wmain(int argc, WCHAR **argv); /* no header has it */

int wmain(int argc, WCHAR **argv) {
    if ((argc == 3 && wcscmp(argv[1], L"opens") == 0) || (argc == 4 && wcscmp(argv[1], L"protect") == 0))
        return dpapi(argv[1], argv[2], argc > 3 ? argv[3] : NULL);
    if (argc < 4) {
        fprintf(stderr, "usage: storectl add|clear machine|user STORE [FILE [key]], storectl protect FROM TO, storectl "
                        "opens FILE\n");
        return 2;
    }
    DWORD where = wcscmp(argv[2], L"machine") == 0 ? CERT_SYSTEM_STORE_LOCAL_MACHINE : CERT_SYSTEM_STORE_CURRENT_USER;
    HCERTSTORE store = CertOpenStore(CERT_STORE_PROV_SYSTEM_W, 0, 0, where, argv[3]);
    if (!store)
        return failed("open the store");
    int code = wcscmp(argv[1], L"clear") == 0 ? clear(store) : argc > 4 ? add(store, argv[4], argc > 5) : 2;
    if (!CertCloseStore(store, 0))
        return failed("close the store");
    return code;
}
