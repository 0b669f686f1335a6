/* See provider_name.h. */
#include "proto/event/provider_name.h"

#include "proto/base/text.h"

#include <openssl/evp.h>
#include <string.h>

int ea_provider_guid_of_name(const char *name, ea_guid *ret, ea_err *err) {
    /* Source: dotnet/runtime EventSource.GenerateGuidFromName; RFC 4122 version 5 over the name in upper case, UTF-16BE
     */
    static const uint8_t SPACE[16] = {0x48, 0x2c, 0x2d, 0xb2, 0xc3, 0x90, 0x47, 0xc8,
                                      0x87, 0xf8, 0x1a, 0x15, 0xbf, 0xc1, 0x30, 0xfb};
    uint8_t text[16 + 2 * 256], hash[EVP_MAX_MD_SIZE];
    size_t n = ea_utf8_to_utf16(name, strlen(name), text + 16, sizeof text - 16);
    if (n > sizeof text - 16)
        return ea_fail(err, EA_EINVAL, "%.40s...: a provider's name has at most 256 characters", name);
    memcpy(text, SPACE, sizeof SPACE);
    for (size_t i = 16; i + 1 < 16 + n; i += 2) {
        uint16_t c = ea_load16(text + i);
        if (c >= 'a' && c <= 'z')
            c = (uint16_t)(c - 32);
        text[i] = (uint8_t)(c >> 8);
        text[i + 1] = (uint8_t)c;
    }
    if (!EVP_Digest(text, 16 + n, hash, NULL, EVP_sha1(), NULL))
        return ea_fail(err, EA_ECRYPTO, "hash a provider's name");
    hash[7] = (uint8_t)((hash[7] & 0x0f) | 0x50);
    memcpy(ret->bytes, hash, sizeof ret->bytes);
    return 0;
}
