/* Fuzz target: what symbols read from outside. First byte: 0 a PDB, with the image that stands for its own; 1 a
 * cabinet; 2 an answer of a symbolizer; 3 a symbol path; any other is taken modulo 4. The rest is the input. */
#include "collector/symbols/cabinet.h"
#include "collector/symbols/pe_image.h"
#include "collector/symbols/symbol_path.h"
#include "collector/symbols/symbolizer_answer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_pdb(const uint8_t *data, size_t size) {
    ec_pdb *pdb;
    ec_pdb_symbol symbol;
    uint32_t source;
    ea_text image;
    if (ec_pdb_open_bytes(&pdb, "f", data, size, NULL))
        return;
    if (!ec_pdb_load(pdb, NULL)) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t rva = i < 128 ? i * 64 : i << 24;
            if (ec_pdb_find(pdb, rva, &symbol) && (symbol.rva > rva || !*symbol.name || !ec_pdb_has_rva(pdb, rva)))
                abort();
            (void)ec_pdb_source_rva(pdb, rva, &source);
        }
        ea_text_init(&image);
        if (!ec_pe_stand_in(&image, pdb, "11", NULL) && image.len_bytes % 512)
            abort();
        ea_text_deinit(&image);
    }
    ec_pdb_close(pdb);
}

static int count_bytes(void *arg, const void *data, size_t len_bytes) {
    (void)data;
    *(size_t *)arg += len_bytes;
    return 0;
}

static void read_answer(const uint8_t *data, size_t size) {
    ec_frames f;
    ec_frames_init(&f);
    int rc = ec_answer_read(&f, (const char *)data, size, NULL);
    if ((rc && f.count) || f.count > EC_FRAMES_MAX)
        abort();
    for (size_t i = 0; i < f.count; i++)
        if (strlen(f.items[i].function) + strlen(f.items[i].file) == 0 && f.items[i].line > size)
            abort();
    ec_frames_deinit(&f);
}

static void read_path(const uint8_t *data, size_t size) {
    ec_symbol_path p;
    char *text = malloc(size + 1);
    if (!text)
        return;
    memcpy(text, data, size);
    text[size] = 0;
    if (!ec_symbol_path_init(&p, text, "/default", NULL)) {
        for (size_t i = 0; i < p.count; i++) {
            const ec_chain *c = &p.chains[i];
            for (size_t k = 0; k < c->count; k++) /* a server is never first: what it gives has a place */
                if (!c->places[k].where || (c->places[k].kind == EC_PLACE_SERVER && (!k || k + 1 != c->count)))
                    abort();
        }
        ec_symbol_path_deinit(&p);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t out_bytes = 0;
    if (!size)
        return 0;
    switch (data[0] % 4) {
    case 0:
        read_pdb(data + 1, size - 1);
        break;
    case 1:
        if (!ec_cabinet_extract_bytes("f", data + 1, size - 1, 1 << 20, count_bytes, &out_bytes, NULL) &&
            out_bytes > 1 << 20)
            abort();
        break;
    case 2:
        read_answer(data + 1, size - 1);
        break;
    default:
        read_path(data + 1, size - 1);
    }
    return 0;
}
