/* Fuzz target: the reader of PE images. The input is the file. */
#include "proto/image/pe.h"
#include "tests/unit/pe_samples.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pe_bytes bytes = {data, size};
    ea_pe_facts facts;
    char version[EA_PE_VERSION_TEXT_MAX];
    if (ea_pe_read(pe_bytes_read, &bytes, "f", &facts, NULL) && facts.has_pdb)
        abort();
    if (!memchr(facts.pdb_path, 0, sizeof facts.pdb_path) || (!facts.has_pdb && facts.pdb_path[0]))
        abort();
    const char *const STRINGS[] = {facts.company, facts.product, facts.original_name, facts.description};
    for (size_t i = 0; i < sizeof STRINGS / sizeof *STRINGS; i++)
        if (!memchr(STRINGS[i], 0, EA_PE_STRING_MAX) || (STRINGS[i][0] && !facts.has_version))
            abort();
    if (facts.imphash[0] && (strlen(facts.imphash) != EA_PE_IMPHASH_TEXT - 1 ||
                             strspn(facts.imphash, "0123456789abcdef") != EA_PE_IMPHASH_TEXT - 1))
        abort();
    ea_pe_version_text(&facts, version);
    if (!memchr(version, 0, sizeof version) || !version[0] != !facts.has_version)
        abort();
    return 0;
}
