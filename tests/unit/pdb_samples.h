/* PDB files built by hand: streams in blocks of 512 bytes, with two compiled files' procedures, publics and, when asked
 * for, the maps of an image whose parts were moved (OMAP). */
#ifndef EA_TESTS_UNIT_PDB_SAMPLES_H
#define EA_TESTS_UNIT_PDB_SAMPLES_H

#include "collector/symbols/pdb.h"
#include "proto/base/text.h"

#include <stdlib.h>
#include <string.h>

enum { PDB_BLOCK = 512, PDB_STREAMS = 16, PDB_NO_STREAM = 0xffff };

typedef struct pdb_sample {
    ea_guid guid;
    uint32_t age, info_age; /* of the debug information; of the file, which incremental linking counts up, too */
    uint16_t machine;
    int has_omap, has_sections;
} pdb_sample;

static const pdb_sample PDB_PLAIN = {
    .guid = EA_GUID(0x11223344, 0x5566, 0x7788, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0x01),
    .age = 2,
    .info_age = 5,
    .machine = 0x8664,
    .has_sections = 1,
};

static inline void pdb_u16(ea_text *t, unsigned v) {
    uint8_t b[2];
    ea_store16(b, (uint16_t)v);
    ea_text_add(t, b, 2);
}

static inline void pdb_u32(ea_text *t, uint32_t v) {
    uint8_t b[4];
    ea_store32(b, v);
    ea_text_add(t, b, 4);
}

static inline void pdb_pad(ea_text *t, size_t alignment) {
    while (t->len_bytes % alignment)
        ea_text_char(t, 0);
}

static inline void pdb_record(ea_text *t, unsigned kind, const ea_text *content) {
    size_t n = (content->len_bytes + 2 + 2 + 3) / 4 * 4 - 2;
    pdb_u16(t, (unsigned)n);
    pdb_u16(t, kind);
    ea_text_add(t, content->data, content->len_bytes);
    for (size_t i = content->len_bytes + 2; i < n; i++)
        ea_text_char(t, 0);
}

static inline void pdb_public(ea_text *t, unsigned flags, unsigned segment, uint32_t offset, const char *name) {
    ea_text c;
    ea_text_init(&c);
    pdb_u32(&c, flags);
    pdb_u32(&c, offset);
    pdb_u16(&c, segment);
    ea_text_add(&c, name, strlen(name) + 1);
    pdb_record(t, 0x110e, &c);
    ea_text_deinit(&c);
}

static inline void pdb_procedure(ea_text *t, unsigned kind, unsigned segment, uint32_t offset, uint32_t size,
                                 const char *name) {
    ea_text c;
    ea_text_init(&c);
    for (int i = 0; i < 3; i++)
        pdb_u32(&c, 0);
    pdb_u32(&c, size);
    for (int i = 0; i < 3; i++)
        pdb_u32(&c, 0);
    pdb_u32(&c, offset);
    pdb_u16(&c, segment);
    ea_text_char(&c, 0);
    ea_text_add(&c, name, strlen(name) + 1);
    pdb_record(t, kind, &c);
    ea_text_deinit(&c);
}

static inline void pdb_section(ea_text *t, const char *name, uint32_t size, uint32_t rva, uint32_t flags) {
    char padded[8] = {0};
    memcpy(padded, name, strlen(name) < 8 ? strlen(name) : 8);
    ea_text_add(t, padded, 8);
    pdb_u32(t, size);
    pdb_u32(t, rva);
    pdb_u32(t, size);
    pdb_u32(t, 0x400);
    for (int i = 0; i < 3; i++)
        pdb_u32(t, 0);
    pdb_u32(t, flags);
}

static inline void pdb_module(ea_text *t, unsigned stream, uint32_t symbol_bytes, const char *name) {
    size_t begin = t->len_bytes;
    for (int i = 0; i < 8; i++)
        pdb_u32(t, 0);
    pdb_u16(t, 0);
    pdb_u16(t, stream);
    pdb_u32(t, symbol_bytes);
    while (t->len_bytes - begin < 64)
        ea_text_char(t, 0);
    ea_text_add(t, name, strlen(name) + 1);
    ea_text_add(t, "x.lib", 6);
    pdb_pad(t, 4);
}

/* Joins streams into a file. */
static inline void pdb_msf(ea_text *out, const ea_text *streams, uint32_t count) {
    ea_text blocks, directory, map;
    uint32_t next = 3; /* after the superblock and two free-block maps */
    ea_text_init(&blocks);
    ea_text_init(&directory);
    ea_text_init(&map);
    pdb_u32(&directory, count);
    for (uint32_t i = 0; i < count; i++)
        pdb_u32(&directory, (uint32_t)streams[i].len_bytes);
    for (uint32_t i = 0; i < count; i++) {
        ea_text_add(&blocks, streams[i].data ? streams[i].data : "", streams[i].len_bytes);
        pdb_pad(&blocks, PDB_BLOCK);
        for (size_t n = 0; n < streams[i].len_bytes; n += PDB_BLOCK)
            pdb_u32(&directory, next++);
    }
    size_t directory_bytes = directory.len_bytes;
    pdb_pad(&directory, PDB_BLOCK);
    for (size_t n = 0; n < directory.len_bytes; n += PDB_BLOCK)
        pdb_u32(&map, next++);
    pdb_pad(&map, PDB_BLOCK);
    ea_text_add(out, "Microsoft C/C++ MSF 7.00\r\n\x1a\x44\x53\0\0\0", 32);
    pdb_u32(out, PDB_BLOCK);
    pdb_u32(out, 1);
    pdb_u32(out, next + 1);
    pdb_u32(out, (uint32_t)directory_bytes);
    pdb_u32(out, 0);
    pdb_u32(out, next);
    pdb_pad(out, (size_t)PDB_BLOCK * 3);
    ea_text_add(out, blocks.data, blocks.len_bytes);
    ea_text_add(out, directory.data, directory.len_bytes);
    ea_text_add(out, map.data, map.len_bytes);
    ea_text_deinit(&blocks);
    ea_text_deinit(&directory);
    ea_text_deinit(&map);
}

/* .text is at 0x1000 and has 0x3000 bytes, .data at 0x5000 and 0x1000. Functions: alpha 0x1000..0x1040, alpha_alias (a
 * public) there too, beta 0x1080..0x10c0 in the other file, a public asm_entry at 0x2000, _counter in .data at 0x5010.
 * With OMAP the debug information has .text at 0x1000 as well, but the image has the upper half of it (0x2000 and on)
 * moved up by 0x800. */
static inline void pdb_sample_build(ea_text *out, const pdb_sample *s) {
    enum { INFO = 1, TPI, DBI, IPI, RECORDS, SECTIONS, ORIGINAL, TO_SOURCE, FROM_SOURCE, FIRST, SECOND, COUNT };

    ea_text streams[COUNT], modules;
    for (int i = 0; i < COUNT; i++)
        ea_text_init(&streams[i]);
    ea_text_init(&modules);
    pdb_u32(&streams[INFO], 20000404);
    pdb_u32(&streams[INFO], 0x5f5f5f5f);
    pdb_u32(&streams[INFO], s->info_age);
    ea_text_add(&streams[INFO], s->guid.bytes, 16);
    pdb_u32(&streams[INFO], 0);
    pdb_public(&streams[RECORDS], 2, 1, 0, "alpha");
    pdb_public(&streams[RECORDS], 2, 1, 0, "alpha_alias");
    pdb_public(&streams[RECORDS], 2, 1, 0x80, "beta");
    pdb_public(&streams[RECORDS], 0, 1, 0x1000, "asm_entry");
    pdb_public(&streams[RECORDS], 0, 2, 0x10, "_counter");
    pdb_public(&streams[RECORDS], 2, 7, 0x10, "nowhere"); /* there is no such section */
    pdb_section(&streams[SECTIONS], ".text", 0x3000, 0x1000, 0x60000020);
    pdb_section(&streams[SECTIONS], ".data", 0x1000, 0x5000, 0xc0000040);
    pdb_section(&streams[ORIGINAL], ".text", 0x2000, 0x1000, 0x60000020);
    pdb_section(&streams[ORIGINAL], ".data", 0x1000, 0x5000, 0xc0000040);
    static const uint32_t MAP[][2] = {{0x1000, 0x1000}, {0x2000, 0x2800}, {0x3000, 0}, {0x5000, 0x5000}};
    for (int i = 0; i < 4; i++) {
        pdb_u32(&streams[FROM_SOURCE], MAP[i][0]);
        pdb_u32(&streams[FROM_SOURCE], MAP[i][1]);
    }
    static const uint32_t BACK[][2] = {{0x1000, 0x1000}, {0x2000, 0}, {0x2800, 0x2000}, {0x3800, 0}, {0x5000, 0x5000}};
    for (int i = 0; i < 5; i++) {
        pdb_u32(&streams[TO_SOURCE], BACK[i][0]);
        pdb_u32(&streams[TO_SOURCE], BACK[i][1]);
    }
    pdb_u32(&streams[FIRST], 4);
    pdb_procedure(&streams[FIRST], 0x1147, 1, 0, 0x40, "alpha");
    pdb_u32(&streams[SECOND], 4);
    pdb_procedure(&streams[SECOND], 0x110f, 1, 0x80, 0x40, "beta");
    pdb_module(&modules, FIRST, (uint32_t)streams[FIRST].len_bytes, "a.obj");
    pdb_module(&modules, PDB_NO_STREAM, 0, "empty.obj");
    pdb_module(&modules, SECOND, (uint32_t)streams[SECOND].len_bytes, "b.obj");
    ea_text *d = &streams[DBI];
    pdb_u32(d, UINT32_MAX);
    pdb_u32(d, 19990903);
    pdb_u32(d, s->age);
    for (int i = 0; i < 4; i++)
        pdb_u16(d, PDB_NO_STREAM);
    pdb_u16(d, RECORDS);
    pdb_u16(d, 0);
    pdb_u32(d, (uint32_t)modules.len_bytes);
    for (int i = 0; i < 5; i++)
        pdb_u32(d, 0);
    pdb_u32(d, 22);
    pdb_u32(d, 0);
    pdb_u16(d, 0);
    pdb_u16(d, s->machine);
    pdb_u32(d, 0);
    ea_text_add(d, modules.data, modules.len_bytes);
    for (int i = 0; i < 11; i++)
        pdb_u16(d, i == 5 && s->has_sections ? SECTIONS
                   : i == 3 && s->has_omap   ? TO_SOURCE
                   : i == 4 && s->has_omap   ? FROM_SOURCE
                   : i == 10 && s->has_omap  ? ORIGINAL
                                             : PDB_NO_STREAM);
    pdb_msf(out, streams, COUNT);
    for (int i = 0; i < COUNT; i++)
        ea_text_deinit(&streams[i]);
    ea_text_deinit(&modules);
}

#endif
