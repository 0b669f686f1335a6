/* A CNG key for tests: a DLL with the functions that service/host/win/certstore.c resolves in crypt32.dll and
 * ncrypt.dll to sign. Its key is C:\keyemul.pem. The DLL signs as the documentation of CNG defines it, refuses what CNG
 * refuses for TLS 1.3, and logs each signature to C:\keyemul.log. Wine has the certificate stores, but no keys of CNG.
 * Called by: test_system.py. Thread: any. */
#include <windows.h>

#include <ncrypt.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <stdio.h>
#include <string.h>
#include <wincrypt.h>

/* Exported under the names of keyemul.def. */
BOOL WINAPI acquire_key(PCCERT_CONTEXT cert, DWORD flags, void *parameters, HCRYPTPROV_OR_NCRYPT_KEY_HANDLE *key,
                        DWORD *spec, BOOL *free_it);
SECURITY_STATUS WINAPI free_key(NCRYPT_HANDLE object);
SECURITY_STATUS WINAPI sign_hash(NCRYPT_KEY_HANDLE object, void *padding, PBYTE hash, DWORD hash_bytes, PBYTE out,
                                 DWORD room, DWORD *ret_bytes, DWORD flags);

enum { KEY = 0x4b455931 };

static void note(const char *text) {
    FILE *f = fopen("C:\\keyemul.log", "a");
    if (!f)
        return;
    fprintf(f, "%s\n", text);
    fclose(f);
}

BOOL WINAPI acquire_key(PCCERT_CONTEXT cert, DWORD flags, void *parameters, HCRYPTPROV_OR_NCRYPT_KEY_HANDLE *key,
                        DWORD *spec, BOOL *free_it) {
    (void)parameters;
    if (!cert || !(flags & CRYPT_ACQUIRE_ONLY_NCRYPT_KEY_FLAG) || !(flags & CRYPT_ACQUIRE_SILENT_FLAG)) {
        SetLastError(ERROR_INVALID_PARAMETER);
        return FALSE;
    }
    if (GetFileAttributesW(L"C:\\keyemul.pem") == INVALID_FILE_ATTRIBUTES) {
        SetLastError((DWORD)NTE_BAD_KEYSET);
        return FALSE;
    }
    *key = KEY;
    *spec = CERT_NCRYPT_KEY_SPEC;
    *free_it = TRUE;
    note("opened");
    return TRUE;
}

SECURITY_STATUS WINAPI free_key(NCRYPT_HANDLE object) {
    note(object == KEY ? "closed" : "closed another");
    return ERROR_SUCCESS;
}

static EVP_PKEY *read_key(void) {
    BIO *in = BIO_new_file("C:\\keyemul.pem", "r");
    EVP_PKEY *key = in ? PEM_read_bio_PrivateKey(in, NULL, NULL, NULL) : NULL;
    BIO_free(in);
    return key;
}

static const EVP_MD *md_of(DWORD digest_bytes) {
    return digest_bytes == 32   ? EVP_sha256()
           : digest_bytes == 48 ? EVP_sha384()
           : digest_bytes == 64 ? EVP_sha512()
                                : NULL;
}

/* r and s of the DER, each as long as the curve's order. */
static size_t numbers_of(const unsigned char *der, size_t n, size_t half, BYTE *out) {
    ECDSA_SIG *sig = d2i_ECDSA_SIG(NULL, &der, (long)n);
    BN_bn2binpad(ECDSA_SIG_get0_r(sig), out, (int)half);
    BN_bn2binpad(ECDSA_SIG_get0_s(sig), out + half, (int)half);
    ECDSA_SIG_free(sig);
    return 2 * half;
}

SECURITY_STATUS WINAPI sign_hash(NCRYPT_KEY_HANDLE object, void *padding, PBYTE hash, DWORD hash_bytes, PBYTE out,
                                 DWORD room, DWORD *ret_bytes, DWORD flags) {
    const BCRYPT_PSS_PADDING_INFO *pss = padding;
    const EVP_MD *md = md_of(hash_bytes);
    unsigned char signature[1024];
    size_t n = sizeof signature;
    EVP_PKEY *key = object == KEY ? read_key() : NULL;
    if (!key)
        return NTE_INVALID_HANDLE;
    int is_rsa = EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA;
    int asks_well =
        md && (is_rsa ? flags == (NCRYPT_SILENT_FLAG | NCRYPT_PAD_PSS_FLAG) && pss && pss->cbSalt == hash_bytes &&
                            wcstoul(pss->pszAlgId + 3, NULL, 10) == 8 * hash_bytes
                      : flags == NCRYPT_SILENT_FLAG && !pss);
    EVP_PKEY_CTX *c = EVP_PKEY_CTX_new(key, NULL);
    SECURITY_STATUS status = asks_well ? ERROR_SUCCESS : NTE_BAD_FLAGS;
    if (!status && (EVP_PKEY_sign_init(c) != 1 || EVP_PKEY_CTX_set_signature_md(c, md) != 1 ||
                    (is_rsa && (EVP_PKEY_CTX_set_rsa_padding(c, RSA_PKCS1_PSS_PADDING) != 1 ||
                                EVP_PKEY_CTX_set_rsa_pss_saltlen(c, RSA_PSS_SALTLEN_DIGEST) != 1)) ||
                    EVP_PKEY_sign(c, signature, &n, hash, hash_bytes) != 1))
        status = NTE_FAIL;
    size_t need = is_rsa ? n : 2 * ((size_t)(EVP_PKEY_get_bits(key) + 7) / 8);
    if (!status && need > room)
        status = NTE_BUFFER_TOO_SMALL;
    if (!status && is_rsa)
        memcpy(out, signature, n);
    else if (!status)
        numbers_of(signature, n, need / 2, out);
    if (!status) {
        *ret_bytes = (DWORD)need;
        note(is_rsa ? "signed by RSA" : "signed by ECDSA");
    }
    EVP_PKEY_CTX_free(c);
    EVP_PKEY_free(key);
    return status;
}
