/* Certificates of Windows' stores, and signatures by their keys. See host.h. What signs is taken by name: CNG
 * (ncrypt.dll), which has keys of programs, smart cards and TPMs alike, exportable or not. */
#include "service/host/host.h"
#include "service/host/win/wide.h"

#include <windows.h>

#include <ncrypt.h>
#include <stdlib.h>
#include <string.h>
#include <wincrypt.h>

enum { NAME_CHARACTERS = 256, THUMBPRINT_BYTES = 20 };

static const WCHAR CRYPT[] = L"crypt32.dll", CNG[] = L"ncrypt.dll";

typedef BOOL(WINAPI *acquire_key)(PCCERT_CONTEXT, DWORD, void *, HCRYPTPROV_OR_NCRYPT_KEY_HANDLE *, DWORD *, BOOL *);
typedef SECURITY_STATUS(WINAPI *sign_hash)(NCRYPT_KEY_HANDLE, void *, PBYTE, DWORD, PBYTE, DWORD, DWORD *, DWORD);
typedef SECURITY_STATUS(WINAPI *free_object)(NCRYPT_HANDLE);

struct ea_identity {
    PCCERT_CONTEXT leaf;
    PCCERT_CHAIN_CONTEXT chain; /* NULL: nothing is known of who issued it */
    NCRYPT_KEY_HANDLE key;
    int is_mine; /* the key's handle is closed here */
    int is_rsa;
    sign_hash sign;
    free_object free_object;
};

static int certstore_find(const WCHAR *dll, const char *name, void *target, ea_err *err) {
    HMODULE module = LoadLibraryExW(dll, NULL, LOAD_LIBRARY_SEARCH_SYSTEM32); /* loaded once; never unloaded */
    FARPROC found = module ? GetProcAddress(module, name) : NULL;
    if (!found)
        return ea_fail_os(err, EA_EUNSUPPORTED, (int)GetLastError(), "find %s", name);
    memcpy(target, &found, sizeof found);
    return 0;
}

int ea_host_has_stores(void) {
    return 1;
}

static int certstore_open_store(HCERTSTORE *ret, const ea_store_place *place, ea_err *err) {
    WCHAR *name = ea_wide(place->store);
    if (!name)
        return ea_fail(err, EA_ENOMEM, "open a certificate store");
    DWORD where = place->is_machine ? CERT_SYSTEM_STORE_LOCAL_MACHINE : CERT_SYSTEM_STORE_CURRENT_USER;
    HCERTSTORE store = CertOpenStore(CERT_STORE_PROV_SYSTEM_W, 0, 0,
                                     where | CERT_STORE_READONLY_FLAG | CERT_STORE_OPEN_EXISTING_FLAG, name);
    DWORD os = store ? 0 : GetLastError();
    free(name);
    if (!store)
        return ea_fail_os(err, os == ERROR_ACCESS_DENIED ? EA_EREFUSED : EA_ENOTFOUND, (int)os,
                          "open the certificate store %s of the %s", place->store,
                          place->is_machine ? "machine" : "user");
    *ret = store;
    return 0;
}

/* ---- which certificate ---- */

static PCCERT_CONTEXT by_thumbprint(HCERTSTORE store, const char *hex) {
    BYTE bytes[THUMBPRINT_BYTES];
    CRYPT_HASH_BLOB hash = {sizeof bytes, bytes};
    for (size_t i = 0; i < sizeof bytes; i++) {
        const char digits[] = {hex[2 * i], hex[2 * i + 1], 0};
        bytes[i] = (BYTE)strtoul(digits, NULL, 16);
    }
    return CertFindCertificateInStore(store, X509_ASN_ENCODING, 0, CERT_FIND_SHA1_HASH, &hash, NULL);
}

static int certstore_has_key(PCCERT_CONTEXT c) {
    DWORD bytes = 0;
    return CertGetCertificateContextProperty(c, CERT_KEY_PROV_INFO_PROP_ID, NULL, &bytes) ||
           CertGetCertificateContextProperty(c, CERT_NCRYPT_KEY_HANDLE_PROP_ID, NULL, &bytes);
}

static int is_called(PCCERT_CONTEXT c, const WCHAR *name) {
    WCHAR own[NAME_CHARACTERS];
    char oid[] = szOID_COMMON_NAME;
    DWORD n = CertGetNameStringW(c, CERT_NAME_ATTR_TYPE, 0, oid, own, NAME_CHARACTERS);
    return n > 1 && CompareStringOrdinal(own, -1, name, -1, TRUE) == CSTR_EQUAL;
}

static PCCERT_CONTEXT certstore_by_name(HCERTSTORE store, const WCHAR *name) {
    PCCERT_CONTEXT best = NULL, c = NULL;
    while ((c = CertEnumCertificatesInStore(store, c))) {
        if (!is_called(c, name) || !certstore_has_key(c) || CertVerifyTimeValidity(NULL, c->pCertInfo) != 0)
            continue;
        if (best && CompareFileTime(&c->pCertInfo->NotBefore, &best->pCertInfo->NotBefore) <= 0)
            continue;
        if (best)
            CertFreeCertificateContext(best);
        best = CertDuplicateCertificateContext(c);
    }
    return best;
}

static int find_certificate(PCCERT_CONTEXT *ret, const ea_store_place *place, ea_err *err) {
    HCERTSTORE store;
    int rc = certstore_open_store(&store, place, err);
    if (rc)
        return rc;
    WCHAR *name = ea_wide(place->which);
    if (!name)
        rc = ea_fail(err, EA_ENOMEM, "look for a certificate");
    PCCERT_CONTEXT found = rc                                     ? NULL
                           : ea_store_is_thumbprint(place->which) ? by_thumbprint(store, place->which)
                                                                  : certstore_by_name(store, name);
    free(name);
    CertCloseStore(store, 0);
    if (!rc && !found)
        rc = ea_fail(err, EA_ENOTFOUND, "the store %s of the %s has no certificate %s that is valid and has a key",
                     place->store, place->is_machine ? "machine" : "user", place->which);
    if (!rc)
        *ret = found;
    return rc;
}

/* ---- an identity ---- */

/* The authorities between it and the root, as far as this machine knows them; nothing is fetched for it. */
static PCCERT_CHAIN_CONTEXT certstore_chain_of(PCCERT_CONTEXT leaf) {
    CERT_CHAIN_PARA para = {.cbSize = sizeof para};
    PCCERT_CHAIN_CONTEXT chain = NULL;
    if (!CertGetCertificateChain(NULL, leaf, NULL, leaf->hCertStore, &para,
                                 CERT_CHAIN_CACHE_ONLY_URL_RETRIEVAL | CERT_CHAIN_DISABLE_AUTH_ROOT_AUTO_UPDATE, NULL,
                                 &chain))
        return NULL;
    return chain;
}

int ea_identity_open(ea_identity **ret, const ea_store_place *place, ea_err *err) {
    acquire_key acquire;
    DWORD spec = 0;
    BOOL mine = FALSE;
    ea_identity *id = calloc(1, sizeof *id);
    if (!id)
        return ea_fail(err, EA_ENOMEM, "open a certificate store");
    int rc = find_certificate(&id->leaf, place, err);
    if (!rc)
        rc = certstore_find(CRYPT, "CryptAcquireCertificatePrivateKey", &acquire, err);
    if (!rc)
        rc = certstore_find(CNG, "NCryptSignHash", &id->sign, err);
    if (!rc)
        rc = certstore_find(CNG, "NCryptFreeObject", &id->free_object, err);
    if (!rc && !acquire(id->leaf, CRYPT_ACQUIRE_ONLY_NCRYPT_KEY_FLAG | CRYPT_ACQUIRE_SILENT_FLAG, NULL, &id->key, &spec,
                        &mine)) {
        DWORD os = GetLastError();
        rc = ea_fail_os(err, os == ERROR_ACCESS_DENIED || os == (DWORD)NTE_PERM ? EA_EREFUSED : EA_EIO, (int)os,
                        "use the key of the certificate %s", place->which);
    }
    if (rc) {
        ea_identity_close(id);
        return rc;
    }
    id->is_mine = mine;
    id->is_rsa = strcmp(id->leaf->pCertInfo->SubjectPublicKeyInfo.Algorithm.pszObjId, szOID_RSA_RSA) == 0;
    id->chain = certstore_chain_of(id->leaf);
    *ret = id;
    return 0;
}

const uint8_t *ea_identity_certificate(const ea_identity *id, size_t index, size_t *ret_bytes) {
    PCCERT_CONTEXT c = index ? NULL : id->leaf;
    if (index && id->chain && id->chain->cChain) {
        const CERT_SIMPLE_CHAIN *chain = id->chain->rgpChain[0];
        if (index < chain->cElement &&
            !(chain->rgpElement[index]->TrustStatus.dwInfoStatus & CERT_TRUST_IS_SELF_SIGNED))
            c = chain->rgpElement[index]->pCertContext;
    }
    if (!c)
        return NULL;
    *ret_bytes = c->cbCertEncoded;
    return c->pbCertEncoded;
}

int ea_identity_sign(void *identity, const uint8_t *digest, size_t digest_bytes, uint8_t *signature, size_t *len_bytes,
                     ea_err *err) {
    const ea_identity *id = identity;
    BCRYPT_PSS_PADDING_INFO pss = {.pszAlgId = digest_bytes == 32   ? BCRYPT_SHA256_ALGORITHM
                                               : digest_bytes == 48 ? BCRYPT_SHA384_ALGORITHM
                                                                    : BCRYPT_SHA512_ALGORITHM,
                                   .cbSalt = (ULONG)digest_bytes};
    DWORD got = 0;
    SECURITY_STATUS failed =
        id->sign(id->key, id->is_rsa ? &pss : NULL, (PBYTE)(uintptr_t)digest, (DWORD)digest_bytes, signature,
                 (DWORD)*len_bytes, &got, NCRYPT_SILENT_FLAG | (id->is_rsa ? NCRYPT_PAD_PSS_FLAG : 0));
    if (failed)
        return ea_fail_os(err, EA_EIO, (int)failed, "sign with a key of a certificate store");
    *len_bytes = got;
    return 0;
}

void ea_identity_close(void *identity) {
    ea_identity *id = identity;
    if (!id)
        return;
    if (id->chain)
        CertFreeCertificateChain(id->chain);
    if (id->is_mine)
        id->free_object(id->key);
    if (id->leaf)
        CertFreeCertificateContext(id->leaf);
    free(id);
}

/* ---- all of a store ---- */

int ea_store_each(const ea_store_place *place, int (*on_certificate)(void *arg, const uint8_t *der, size_t len_bytes),
                  void *arg, ea_err *err) {
    HCERTSTORE store;
    PCCERT_CONTEXT c = NULL;
    int rc = certstore_open_store(&store, place, err);
    if (rc)
        return rc;
    while (!rc && (c = CertEnumCertificatesInStore(store, c)))
        rc = on_certificate(arg, c->pbCertEncoded, c->cbCertEncoded);
    if (c)
        CertFreeCertificateContext(c);
    CertCloseStore(store, 0);
    return rc;
}
