/* The PDB reader. See pdb.h. */
#include "collector/symbols/pdb.h"
#include "proto/base/array.h"
#include "proto/base/platform.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    SUPER_BYTES = 56,
    DIRECTORY_MAX = 64 << 20,
    STREAMS_MAX = 1 << 20,
    STREAM_MAX = 512 << 20, /* of one that is read */
    INFO_BYTES = 28,
    DBI_HEADER_BYTES = 64,
    MODULE_BYTES = 64,
    MODULES_MAX = 1 << 18,
    SECTIONS_MAX = 4096, /* more than any image may have that Windows loads */
    SYMBOLS_MAX = 8 << 20,
    NAMES_MAX = 512 << 20,
    NAME_MAX_BYTES = 4095,
    NO_STREAM = 0xffff,
    DBI_VERSION_70 = 19990903,
    DEBUG_OMAP_TO_SOURCE = 3, /* members of the optional debug header */
    DEBUG_OMAP_FROM_SOURCE = 4,
    DEBUG_SECTIONS = 5,
    DEBUG_SECTIONS_ORIGINAL = 10,
};

enum { STREAM_INFO = 1, STREAM_DBI = 3 };

enum { /* symbol records */
       S_THUNK32 = 0x1102,
       S_LDATA32 = 0x110c,
       S_GDATA32 = 0x110d,
       S_PUB32 = 0x110e,
       S_LPROC32 = 0x110f,
       S_GPROC32 = 0x1110,
       S_LPROC32_ID = 0x1146,
       S_GPROC32_ID = 0x1147,
       S_LPROC32_DPC = 0x1155,
       S_LPROC32_DPC_ID = 0x1156,
};

/* At one address the lowest is taken: a procedure's record says how long it is. */
enum rank { RANK_PROCEDURE, RANK_THUNK, RANK_FUNCTION, RANK_PUBLIC, RANK_DATA };

typedef struct symbol {
    uint32_t rva, size_bytes;
    uint32_t name; /* offset in names */
    uint8_t rank;
} symbol;

typedef struct bytes {
    uint8_t *data;
    size_t len_bytes;
} bytes;

struct ec_pdb {
    char name[256];
    ea_file *file;
    const uint8_t *memory; /* when there is no file; borrowed */
    uint64_t size_bytes;
    uint32_t block_bytes, block_count;
    bytes directory;
    uint32_t stream_count;
    const uint8_t *sizes;   /* in the directory */
    uint32_t *first_blocks; /* index of each stream's first block in blocks */
    const uint8_t *blocks;  /* in the directory */
    ec_pdb_id id;
    uint16_t machine;
    bytes sections, original; /* original: empty without OMAP */
    bytes to_source, from_source;
    symbol *symbols;
    size_t symbol_count, symbol_capacity;
    char *names;
    size_t names_bytes, names_capacity;
};

/* ---- MSF: blocks and streams ---- */

static int pdb_read_at(ec_pdb *p, uint64_t offset, void *out, size_t len_bytes, ea_err *err) {
    size_t got = 0;
    if (offset > p->size_bytes || len_bytes > p->size_bytes - offset)
        return ea_fail(err, EA_ETRUNCATED, "%s is cut: a part of it at %" PRIu64 " is not there", p->name, offset);
    if (!p->file) {
        memcpy(out, p->memory + offset, len_bytes);
        return 0;
    }
    int rc = ea_file_read_at(p->file, offset, out, len_bytes, &got, err);
    if (!rc && got != len_bytes)
        rc = ea_fail(err, EA_ETRUNCATED, "%s became shorter while it was read", p->name);
    return rc;
}

/* Joins len_bytes of the blocks whose numbers are at list. */
static int read_blocks(ec_pdb *p, const uint8_t *list, size_t len_bytes, bytes *ret, ea_err *err) {
    uint8_t *data = malloc(len_bytes ? len_bytes : 1);
    size_t done = 0;
    int rc = data ? 0 : ea_fail(err, EA_ENOMEM, "read %s", p->name);
    while (!rc && done < len_bytes) {
        uint32_t first = ea_load32(list + done / p->block_bytes * 4);
        size_t n = len_bytes - done < p->block_bytes ? len_bytes - done : p->block_bytes;
        if (first >= p->block_count) {
            rc = ea_fail(err, EA_ECORRUPT, "%s names block %" PRIu32 ", and has %" PRIu32, p->name, first,
                         p->block_count);
            break;
        }
        while (n % p->block_bytes == 0 && done + n < len_bytes && /* neighbours are read at once */
               ea_load32(list + (done + n) / p->block_bytes * 4) == first + n / p->block_bytes)
            n += len_bytes - done - n < p->block_bytes ? len_bytes - done - n : p->block_bytes;
        rc = pdb_read_at(p, (uint64_t)first * p->block_bytes, data + done, n, err);
        done += n;
    }
    if (rc) {
        free(data);
        return rc;
    }
    *ret = (bytes){data, len_bytes};
    return 0;
}

static uint32_t stream_bytes(const ec_pdb *p, uint32_t stream) {
    uint32_t n = stream < p->stream_count ? ea_load32(p->sizes + 4 * (size_t)stream) : 0;
    return n == UINT32_MAX ? 0 : n;
}

/* The first limit_bytes of a stream (all: UINT32_MAX); an absent one is empty. */
static int pdb_read_stream(ec_pdb *p, uint32_t stream, uint32_t limit_bytes, bytes *ret, ea_err *err) {
    uint32_t n = stream_bytes(p, stream);
    if (n > limit_bytes)
        n = limit_bytes;
    if (n > STREAM_MAX)
        return ea_fail(err, EA_ELIMIT, "%s: stream %" PRIu32 " has %" PRIu32 " bytes; at most %d are read", p->name,
                       stream, n, STREAM_MAX);
    if (!n) {
        *ret = (bytes){0};
        return 0;
    }
    return read_blocks(p, p->blocks + 4 * (size_t)p->first_blocks[stream], n, ret, err);
}

static uint32_t blocks_of(const ec_pdb *p, uint32_t n) {
    return n / p->block_bytes + (n % p->block_bytes != 0);
}

static int pdb_read_directory(ec_pdb *p, uint32_t directory_bytes, uint32_t map_block, ea_err *err) {
    bytes map = {0};
    size_t map_bytes = 4 * (size_t)blocks_of(p, directory_bytes);
    uint64_t total = 0;
    map.data = malloc(map_bytes ? map_bytes : 1);
    int rc = map.data ? pdb_read_at(p, (uint64_t)map_block * p->block_bytes, map.data, map_bytes, err)
                      : ea_fail(err, EA_ENOMEM, "read %s", p->name);
    if (!rc)
        rc = read_blocks(p, map.data, directory_bytes, &p->directory, err);
    free(map.data);
    if (rc)
        return rc;
    size_t words = directory_bytes / 4;
    p->stream_count = words ? ea_load32(p->directory.data) : 0;
    if (!words || p->stream_count > STREAMS_MAX || p->stream_count > words - 1)
        return ea_fail(err, EA_ECORRUPT, "%s: its directory of streams contradicts itself", p->name);
    p->sizes = p->directory.data + 4;
    p->blocks = p->sizes + 4 * (size_t)p->stream_count;
    p->first_blocks = malloc((p->stream_count + (size_t)1) * sizeof *p->first_blocks);
    if (!p->first_blocks)
        return ea_fail(err, EA_ENOMEM, "read %s", p->name);
    for (uint32_t i = 0; i < p->stream_count; i++) {
        p->first_blocks[i] = (uint32_t)total;
        total += blocks_of(p, stream_bytes(p, i));
        if (total > words - 1 - p->stream_count)
            return ea_fail(err, EA_ECORRUPT, "%s: its directory of streams contradicts itself", p->name);
    }
    return 0;
}

static int read_super(ec_pdb *p, ea_err *err) {
    static const char MAGIC[] = "Microsoft C/C++ MSF 7.00\r\n\x1a\x44\x53\0\0";
    static const char OLD[] = "Microsoft C/C++ program database 2.00";
    uint8_t s[SUPER_BYTES] = {0};
    size_t n = p->size_bytes < sizeof s ? (size_t)p->size_bytes : sizeof s;
    int rc = pdb_read_at(p, 0, s, n, err);
    if (rc)
        return rc;
    if (n >= 4 && memcmp(s, "BSJB", 4) == 0)
        return ea_fail(err, EA_EFORMAT, "%s is a portable PDB (.NET); expected one of native code", p->name);
    if (memcmp(s, OLD, sizeof OLD - 1) == 0)
        return ea_fail(err, EA_EFORMAT, "%s is a PDB of the form 2.00 (Visual C++ 6 and before); expected MSF 7.00",
                       p->name);
    if (n < sizeof MAGIC || memcmp(s, MAGIC, sizeof MAGIC) != 0)
        return ea_fail(err, EA_EFORMAT, "%s is no PDB: it does not begin with \"Microsoft C/C++ MSF 7.00\"", p->name);
    if (n < sizeof s)
        return ea_fail(err, EA_ETRUNCATED, "%s is cut: it has %" PRIu64 " bytes", p->name, p->size_bytes);
    p->block_bytes = ea_load32(s + 32);
    p->block_count = ea_load32(s + 40);
    uint32_t directory_bytes = ea_load32(s + 44), map_block = ea_load32(s + 52);
    if (p->block_bytes < 512 || p->block_bytes > 65536 || (p->block_bytes & (p->block_bytes - 1)) || !p->block_count)
        return ea_fail(err, EA_ECORRUPT, "%s: blocks of %" PRIu32 " bytes; expected a power of two from 512 to 65536",
                       p->name, p->block_bytes);
    if ((uint64_t)p->block_count * p->block_bytes > p->size_bytes)
        return ea_fail(err, EA_ETRUNCATED,
                       "%s is cut: %" PRIu32 " blocks of %" PRIu32 " bytes were written, and it has %" PRIu64 " bytes",
                       p->name, p->block_count, p->block_bytes, p->size_bytes);
    if (directory_bytes > DIRECTORY_MAX)
        return ea_fail(err, EA_ELIMIT, "%s: a directory of %" PRIu32 " bytes; at most %d are read", p->name,
                       directory_bytes, DIRECTORY_MAX);
    if (map_block >= p->block_count)
        return ea_fail(err, EA_ECORRUPT, "%s: its directory is at block %" PRIu32 ", and it has %" PRIu32, p->name,
                       map_block, p->block_count);
    return pdb_read_directory(p, directory_bytes, map_block, err);
}

static int read_identity(ec_pdb *p, ea_err *err) {
    bytes info = {0}, dbi = {0};
    int rc = pdb_read_stream(p, STREAM_INFO, INFO_BYTES, &info, err);
    if (!rc)
        rc = pdb_read_stream(p, STREAM_DBI, DBI_HEADER_BYTES, &dbi, err);
    if (!rc && info.len_bytes < INFO_BYTES)
        rc = ea_fail(err, EA_ECORRUPT, "%s has no stream that says whose it is", p->name);
    if (!rc) {
        memcpy(p->id.guid.bytes, info.data + 12, sizeof p->id.guid.bytes);
        p->id.age = ea_load32(info.data + 8);
        if (dbi.len_bytes == DBI_HEADER_BYTES && ea_load32(dbi.data + 8))
            p->id.age = ea_load32(dbi.data + 8);
    }
    free(info.data);
    free(dbi.data);
    return rc;
}

static int open_any(ec_pdb **ret, ec_pdb *p, ea_err *err) {
    int rc = read_super(p, err);
    if (!rc)
        rc = read_identity(p, err);
    if (rc)
        ec_pdb_close(p);
    else
        *ret = p;
    return rc;
}

int ec_pdb_open(ec_pdb **ret, const char *path, ea_err *err) {
    ec_pdb *p = calloc(1, sizeof *p);
    if (!p)
        return ea_fail(err, EA_ENOMEM, "open %s", path);
    snprintf(p->name, sizeof p->name, "%s", path);
    int rc = ea_file_open(&p->file, path, EA_OPEN_READ, err);
    if (!rc)
        rc = ea_file_size(p->file, &p->size_bytes, err);
    if (rc) {
        ec_pdb_close(p);
        return rc;
    }
    return open_any(ret, p, err);
}

int ec_pdb_open_bytes(ec_pdb **ret, const char *name, const uint8_t *data, size_t len_bytes, ea_err *err) {
    ec_pdb *p = calloc(1, sizeof *p);
    if (!p)
        return ea_fail(err, EA_ENOMEM, "open %s", name);
    snprintf(p->name, sizeof p->name, "%s", name);
    p->memory = data;
    p->size_bytes = len_bytes;
    return open_any(ret, p, err);
}

void ec_pdb_close(ec_pdb *p) {
    if (!p)
        return;
    ea_file_close(p->file);
    free(p->directory.data);
    free(p->first_blocks);
    free(p->sections.data);
    free(p->original.data);
    free(p->to_source.data);
    free(p->from_source.data);
    free(p->symbols);
    free(p->names);
    free(p);
}

ec_pdb_id ec_pdb_identity(const ec_pdb *p) {
    return p->id;
}

uint16_t ec_pdb_machine(const ec_pdb *p) {
    return p->machine;
}

size_t ec_pdb_symbol_count(const ec_pdb *p) {
    return p->symbol_count;
}

/* ---- sections and address maps ---- */

static const bytes *source_sections(const ec_pdb *p) {
    return p->original.len_bytes ? &p->original : &p->sections;
}

const uint8_t *ec_pdb_source_sections(const ec_pdb *p, size_t *ret_count) {
    *ret_count = source_sections(p)->len_bytes / EC_PDB_SECTION_BYTES;
    return source_sections(p)->data;
}

/* Of the map (pairs of from and to, ordered by from): the pair that from falls into. to 0: it went nowhere. */
static int translate(const bytes *map, uint32_t from, uint32_t *ret) {
    size_t low = 0, high = map->len_bytes / 8; /* the first that begins after from */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ea_load32(map->data + 8 * middle) <= from)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low)
        return 0;
    const uint8_t *pair = map->data + 8 * (low - 1);
    if (!ea_load32(pair + 4))
        return 0;
    *ret = ea_load32(pair + 4) + (from - ea_load32(pair));
    return 1;
}

int ec_pdb_source_rva(const ec_pdb *p, uint32_t rva, uint32_t *ret) {
    if (p->to_source.len_bytes)
        return translate(&p->to_source, rva, ret);
    *ret = rva;
    return 1;
}

/* The section of sections that holds rva: its number from 1, or 0. */
static size_t section_of(const bytes *sections, uint32_t rva) {
    for (size_t i = 0; i < sections->len_bytes / EC_PDB_SECTION_BYTES; i++) {
        const uint8_t *s = sections->data + i * EC_PDB_SECTION_BYTES;
        uint32_t begin = ea_load32(s + 12), size = ea_load32(s + 8);
        if (!size)
            size = ea_load32(s + 16);
        if (rva >= begin && rva - begin < size)
            return i + 1;
    }
    return 0;
}

int ec_pdb_has_rva(const ec_pdb *p, uint32_t rva) {
    return section_of(&p->sections, rva) != 0;
}

/* The image's address of offset in section number segment (from 1) of the debug information: 1, or 0. */
static int address(const ec_pdb *p, uint16_t segment, uint32_t offset, uint32_t *ret) {
    const bytes *sections = source_sections(p);
    if (!segment || segment > sections->len_bytes / EC_PDB_SECTION_BYTES)
        return 0;
    uint32_t begin = ea_load32(sections->data + (segment - (size_t)1) * EC_PDB_SECTION_BYTES + 12);
    if (offset > UINT32_MAX - begin)
        return 0;
    if (p->from_source.len_bytes)
        return translate(&p->from_source, begin + offset, ret);
    *ret = begin + offset;
    return 1;
}

static int read_debug_stream(ec_pdb *p, const uint8_t *header, size_t len_bytes, size_t member, bytes *ret,
                             ea_err *err) {
    if (len_bytes < 2 * (member + 1) || ea_load16(header + 2 * member) == NO_STREAM)
        return 0;
    return pdb_read_stream(p, ea_load16(header + 2 * member), UINT32_MAX, ret, err);
}

static int read_sections(ec_pdb *p, const uint8_t *header, size_t len_bytes, ea_err *err) {
    int rc = read_debug_stream(p, header, len_bytes, DEBUG_SECTIONS, &p->sections, err);
    if (!rc)
        rc = read_debug_stream(p, header, len_bytes, DEBUG_SECTIONS_ORIGINAL, &p->original, err);
    if (!rc)
        rc = read_debug_stream(p, header, len_bytes, DEBUG_OMAP_TO_SOURCE, &p->to_source, err);
    if (!rc)
        rc = read_debug_stream(p, header, len_bytes, DEBUG_OMAP_FROM_SOURCE, &p->from_source, err);
    if (rc)
        return rc;
    if (p->sections.len_bytes < EC_PDB_SECTION_BYTES)
        return ea_fail(err, EA_EUNSUPPORTED, "%s has no section headers: nothing in it has an address", p->name);
    if (p->sections.len_bytes > SECTIONS_MAX * EC_PDB_SECTION_BYTES ||
        p->original.len_bytes > SECTIONS_MAX * EC_PDB_SECTION_BYTES)
        return ea_fail(err, EA_ELIMIT, "%s: more than %d sections", p->name, SECTIONS_MAX);
    return 0;
}

/* ---- symbols ---- */

static int pdb_add_symbol(ec_pdb *p, enum rank rank, uint16_t segment, uint32_t offset, uint32_t size_bytes,
                          const uint8_t *name, size_t room, ea_err *err) {
    size_t n = strnlen((const char *)name, room < NAME_MAX_BYTES ? room : NAME_MAX_BYTES);
    uint32_t rva = 0;
    if (!n || !address(p, segment, offset, &rva))
        return 0;
    if (p->symbol_count == SYMBOLS_MAX || p->names_bytes + n + 1 > NAMES_MAX)
        return ea_fail(err, EA_ELIMIT, "%s: more than %d symbols, or names of more than %d bytes", p->name, SYMBOLS_MAX,
                       NAMES_MAX);
    if (EA_GROW(p->symbols, p->symbol_capacity, p->symbol_count + 1, SYMBOLS_MAX) ||
        EA_GROW(p->names, p->names_capacity, p->names_bytes + n + 1, NAMES_MAX))
        return ea_fail(err, EA_ENOMEM, "read the symbols of %s", p->name);
    memcpy(p->names + p->names_bytes, name, n);
    p->names[p->names_bytes + n] = 0;
    p->symbols[p->symbol_count++] = (symbol){rva, size_bytes, (uint32_t)p->names_bytes, (uint8_t)rank};
    p->names_bytes += n + 1;
    return 0;
}

/* Reads the content of one record, after its kind. */
static int pdb_take_record(ec_pdb *p, uint16_t kind, const uint8_t *d, size_t n, ea_err *err) {
    switch (kind) {
    case S_PUB32:
        if (n > 10)
            return pdb_add_symbol(p, ea_load32(d) & 2 ? RANK_FUNCTION : RANK_PUBLIC, ea_load16(d + 8), ea_load32(d + 4),
                                  0, d + 10, n - 10, err);
        return 0;
    case S_LDATA32:
    case S_GDATA32:
        if (n > 10)
            return pdb_add_symbol(p, RANK_DATA, ea_load16(d + 8), ea_load32(d + 4), 0, d + 10, n - 10, err);
        return 0;
    case S_LPROC32:
    case S_GPROC32:
    case S_LPROC32_ID:
    case S_GPROC32_ID:
    case S_LPROC32_DPC:
    case S_LPROC32_DPC_ID:
        if (n > 35)
            return pdb_add_symbol(p, RANK_PROCEDURE, ea_load16(d + 32), ea_load32(d + 28), ea_load32(d + 12), d + 35,
                                  n - 35, err);
        return 0;
    case S_THUNK32:
        if (n > 21)
            return pdb_add_symbol(p, RANK_THUNK, ea_load16(d + 16), ea_load32(d + 12), ea_load16(d + 18), d + 21,
                                  n - 21, err);
        return 0;
    default:
        return 0;
    }
}

/* Records that follow each other; a length that leaves the stream ends them. */
static int take_records(ec_pdb *p, const uint8_t *d, size_t n, ea_err *err) {
    int rc = 0;
    while (!rc && n >= 4) {
        size_t length = ea_load16(d);
        if (length < 2 || length > n - 2)
            return ea_fail(err, EA_ECORRUPT, "%s: a symbol record of %zu bytes, and %zu are left", p->name, length,
                           n - 2);
        rc = pdb_take_record(p, ea_load16(d + 2), d + 4, length - 2, err);
        d += length + 2;
        n -= length + 2;
    }
    return rc;
}

/* The procedures of each compiled file. */
static int take_modules(ec_pdb *p, const uint8_t *d, size_t n, ea_err *err) {
    int rc = 0;
    uint64_t read_bytes = 0;
    for (size_t count = 0; !rc && n >= MODULE_BYTES; count++) {
        bytes records = {0};
        uint16_t stream = ea_load16(d + 34);
        uint32_t symbol_bytes = ea_load32(d + 36);
        if (count == MODULES_MAX)
            return ea_fail(err, EA_ELIMIT, "%s: more than %d compiled files", p->name, MODULES_MAX);
        if (stream != NO_STREAM && symbol_bytes > 4) {
            if (symbol_bytes > stream_bytes(p, stream))
                return ea_fail(err, EA_ECORRUPT, "%s: the symbols of a compiled file end after their stream's end",
                               p->name);
            read_bytes += symbol_bytes;
            if (read_bytes > p->size_bytes) /* two that share a stream would make work without end */
                return ea_fail(err, EA_ECORRUPT, "%s: compiled files share their symbols", p->name);
            rc = pdb_read_stream(p, stream, symbol_bytes, &records, err);
            if (!rc && records.len_bytes > 4)
                rc = take_records(p, records.data + 4, records.len_bytes - 4, err);
            free(records.data);
        }
        size_t length = MODULE_BYTES; /* and two names */
        for (int i = 0; i < 2; i++)
            length += strnlen((const char *)d + length, n - length) + (length < n);
        length = (length + 3) & ~(size_t)3;
        if (length > n)
            break;
        d += length;
        n -= length;
    }
    return rc;
}

static int by_address(const void *a, const void *b) {
    const symbol *x = a, *y = b;
    if (x->rva != y->rva)
        return x->rva < y->rva ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return 0;
}

/* One symbol an address; of several of one rank the first name in byte order, so that the answer is always the same. */
static void sort_symbols(ec_pdb *p) {
    size_t kept = 0;
    if (!p->symbol_count)
        return;
    qsort(p->symbols, p->symbol_count, sizeof *p->symbols, by_address);
    for (size_t i = 1; i < p->symbol_count; i++) {
        symbol *last = &p->symbols[kept];
        const symbol *s = &p->symbols[i];
        if (s->rva != last->rva)
            p->symbols[++kept] = *s;
        else if (s->rank == last->rank && strcmp(p->names + s->name, p->names + last->name) < 0)
            *last = *s;
    }
    p->symbol_count = kept + 1;
}

int ec_pdb_load(ec_pdb *p, ea_err *err) {
    bytes dbi = {0}, records = {0};
    size_t parts[7], begins[7], at = DBI_HEADER_BYTES;
    static const uint8_t SIZES[7] = {24, 28, 32, 36, 40, 52, 48}; /* where the header has the parts' lengths */
    int rc = pdb_read_stream(p, STREAM_DBI, UINT32_MAX, &dbi, err);
    if (!rc && (dbi.len_bytes < DBI_HEADER_BYTES || ea_load32(dbi.data) != UINT32_MAX ||
                ea_load32(dbi.data + 4) != DBI_VERSION_70))
        rc = ea_fail(err, EA_EUNSUPPORTED, "%s has no debug information of the known form", p->name);
    for (int i = 0; !rc && i < 7; i++) {
        parts[i] = ea_load32(dbi.data + SIZES[i]);
        begins[i] = at;
        if (parts[i] > dbi.len_bytes - at)
            rc = ea_fail(err, EA_ECORRUPT, "%s: a part of its debug information ends after its end", p->name);
        else
            at += parts[i];
    }
    if (!rc) {
        p->machine = ea_load16(dbi.data + 58);
        rc = read_sections(p, dbi.data + begins[6], parts[6], err);
    }
    if (!rc && ea_load16(dbi.data + 20) != NO_STREAM)
        rc = pdb_read_stream(p, ea_load16(dbi.data + 20), UINT32_MAX, &records, err);
    if (!rc)
        rc = take_records(p, records.data, records.len_bytes, err);
    if (!rc)
        rc = take_modules(p, dbi.data + begins[0], parts[0], err);
    if (!rc)
        sort_symbols(p);
    free(records.data);
    free(dbi.data);
    return rc;
}

int ec_pdb_find(const ec_pdb *p, uint32_t rva, ec_pdb_symbol *ret) {
    size_t low = 0, high = p->symbol_count, section = section_of(&p->sections, rva);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (p->symbols[middle].rva <= rva)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low || !section)
        return 0;
    const symbol *s = &p->symbols[low - 1];
    if (section_of(&p->sections, s->rva) != section || (s->size_bytes && rva - s->rva >= s->size_bytes))
        return 0;
    *ret = (ec_pdb_symbol){p->names + s->name, s->rva, s->size_bytes};
    return 1;
}
