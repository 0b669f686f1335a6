/* Puts certificates into Windows' stores, for a test.
 *
 *     storectl add machine|user STORE FILE.der [key]    key: it says of itself that it has a key
 *     storectl clear machine|user STORE                 all of it
 *
 * Before it: test_system.py. Thread: the main one. */
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

int wmain(int argc, WCHAR **argv); /* no header has it */

int wmain(int argc, WCHAR **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: storectl add|clear machine|user STORE [FILE [key]]\n");
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
