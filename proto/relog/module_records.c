/* See module_records.h. Source of the layouts: proto/event/classes/image.c and symbols.c; of the header forms: traces
 * that Windows merged (a kernel session's own events have SYSTEM headers, ids FULL ones). */
#include "proto/relog/module_records.h"

#include "proto/base/bytes.h"
#include "proto/base/provider_guids.h"
#include "proto/base/text.h"

#include <string.h>

enum {
    OP_ID_INFO = 0,
    OP_ID_NONE = 32,
    OP_ID_RSDS = 36,
    OP_FILE_VERSION = 64,
    FILE_VERSION_VERSION = 0,
    ID_VERSION = 2,
    GROUP_IMAGE = 0x14,
    GROUP_PROCESS = 3,   /* of loads */
    PAYLOAD_MAX = 65000, /* with any header it is a record */
};

static const ea_guid IMAGE_GUID = EA_PROVIDER_IMAGE;
static const ea_guid IMAGE_ID_GUID = EA_PROVIDER_IMAGE_ID;

/* A payload as it grows. */
typedef struct image_payload {
    const ea_module *m;
    const ea_module_place *place;
    size_t used;
    int rc; /* the first thing that it could not hold */
    uint8_t bytes[PAYLOAD_MAX];
} image_payload;

/* Its bytes stay as they are: they are written before they are read. */
static void image_begin(image_payload *p, const ea_module *m, const ea_module_place *place) {
    p->m = m;
    p->place = place;
    p->used = 0;
    p->rc = 0;
}

static void image_put(image_payload *p, uint64_t number, unsigned width) {
    if (p->used + width > sizeof p->bytes) {
        p->rc = p->rc ? p->rc : EA_ELIMIT;
        return;
    }
    for (unsigned i = 0; i < width; i++)
        p->bytes[p->used++] = (uint8_t)(number >> 8 * i);
}

static void image_put_pointer(image_payload *p, uint64_t number) {
    unsigned width = p->place->pointer_size == 4 ? 4 : 8;
    if (width == 4 && number > UINT32_MAX)
        p->rc = p->rc ? p->rc : EA_EINVAL;
    image_put(p, number, width);
}

static void image_put_utf16(image_payload *p, const char *text) {
    size_t n = ea_utf8_to_utf16(text, strlen(text), NULL, 0);
    if (n + 2 > sizeof p->bytes - p->used) {
        p->rc = p->rc ? p->rc : EA_ELIMIT;
        return;
    }
    ea_utf8_to_utf16(text, strlen(text), p->bytes + p->used, n);
    p->used += n;
    image_put(p, 0, 2);
}

static int image_emit(image_payload *p, const ea_guid *provider, uint8_t opcode, uint8_t version, unsigned group,
                      int (*emit)(void *arg, const ea_record *r), void *arg, ea_err *err) {
    const ea_module_place *place = p->place;
    int is_32_bit = place->pointer_size == 4;
    if (p->rc)
        return ea_fail(err, p->rc, "describe module %.200s of process %u: %s", p->m->path, p->m->pid,
                       p->rc == EA_EINVAL ? "an address has more than 4 bytes" : "a text is too long");
    ea_record r = {.provider = *provider,
                   .opcode = opcode,
                   .version = version,
                   .flags =
                       (uint16_t)(EA_FLAG_CLASSIC_HEADER | (is_32_bit ? EA_FLAG_32_BIT_HEADER : EA_FLAG_64_BIT_HEADER)),
                   .pointer_size = is_32_bit ? 4 : 8,
                   .header_type = is_32_bit ? EA_HEADER_FULL32 : EA_HEADER_FULL64,
                   .header_word = version,
                   .time_raw = place->time_raw,
                   .pid = p->m->pid,
                   .tid = place->tid,
                   .cpu = place->cpu,
                   .logger = place->logger,
                   .payload = p->bytes,
                   .payload_bytes = (uint16_t)p->used};
    if (group) {
        r.header_type = is_32_bit ? EA_HEADER_SYSTEM32 : EA_HEADER_SYSTEM64;
        r.hook_id = (uint16_t)(group << 8 | opcode);
    }
    p->used = 0;
    return emit(arg, &r);
}

static int image_emit_ids(image_payload *p, int (*emit)(void *arg, const ea_record *r), void *arg, ea_err *err) {
    const ea_module *m = p->m;
    image_put_pointer(p, m->base);
    image_put_pointer(p, m->size_bytes);
    image_put(p, m->pid, 4);
    image_put(p, m->timestamp, 4);
    image_put_utf16(p, m->original_name);
    int rc = image_emit(p, &IMAGE_ID_GUID, OP_ID_INFO, ID_VERSION, 0, emit, arg, err);
    if (rc)
        return rc;
    image_put_pointer(p, m->base);
    image_put(p, m->pid, 4);
    if (!m->has_pdb)
        return image_emit(p, &IMAGE_ID_GUID, OP_ID_NONE, ID_VERSION, 0, emit, arg, err);
    size_t name = strlen(m->pdb_path) + 1;
    for (size_t i = 0; i < sizeof m->pdb_guid.bytes; i++)
        image_put(p, m->pdb_guid.bytes[i], 1);
    image_put(p, m->pdb_age, 4);
    if (name > sizeof p->bytes - p->used) {
        p->rc = p->rc ? p->rc : EA_ELIMIT;
        name = 0;
    }
    memcpy(p->bytes + p->used, m->pdb_path, name);
    p->used += name;
    return image_emit(p, &IMAGE_ID_GUID, OP_ID_RSDS, ID_VERSION, 0, emit, arg, err);
}

static int image_emit_image(image_payload *p, int (*emit)(void *arg, const ea_record *r), void *arg, ea_err *err) {
    const ea_module *m = p->m;
    const ea_module_place *place = p->place;
    image_put_pointer(p, m->base);
    image_put_pointer(p, m->size_bytes);
    image_put(p, m->pid, 4);
    image_put(p, m->checksum, 4);
    image_put(p, m->timestamp, 4);
    image_put(p, 0, 4); /* reserved, or of version 3 the signature's level and type: none */
    image_put_pointer(p, m->default_base);
    for (int i = 0; i < 4; i++)
        image_put(p, 0, 4);
    image_put_utf16(p, m->path);
    return image_emit(p, &IMAGE_GUID, (uint8_t)place->verb, place->version,
                      place->verb == EA_MODULE_LOAD ? GROUP_PROCESS : GROUP_IMAGE, emit, arg, err);
}

int ea_module_ids(const ea_module *m, const ea_module_place *place, int (*emit)(void *arg, const ea_record *r),
                  void *arg, ea_err *err) {
    image_payload p;
    image_begin(&p, m, place);
    return image_emit_ids(&p, emit, arg, err);
}

int ea_module_file_version(const ea_module *m, const ea_module_version *version, const ea_module_place *place,
                           int (*emit)(void *arg, const ea_record *r), void *arg, ea_err *err) {
    image_payload p;
    image_begin(&p, m, place);
    if (m->size_bytes > UINT32_MAX)
        p.rc = EA_EINVAL;
    image_put(&p, m->size_bytes, 4);
    image_put(&p, m->timestamp, 4);
    const char *const texts[] = {
        m->original_name, version->description, version->version,        version->version, "" /* VerLanguage */,
        version->product, version->company,     "" /* ProductVersion */, "" /* FileId */,  "" /* ProgramId */};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        image_put_utf16(&p, texts[i]);
    return image_emit(&p, &IMAGE_ID_GUID, OP_FILE_VERSION, FILE_VERSION_VERSION, 0, emit, arg, err);
}

int ea_module_image(const ea_module *m, const ea_module_place *place, int (*emit)(void *arg, const ea_record *r),
                    void *arg, ea_err *err) {
    image_payload p;
    image_begin(&p, m, place);
    return image_emit_image(&p, emit, arg, err);
}

int ea_module_records(const ea_module *m, const ea_module_place *place, int (*emit)(void *arg, const ea_record *r),
                      void *arg, ea_err *err) {
    image_payload p;
    image_begin(&p, m, place);
    int rc = image_emit_ids(&p, emit, arg, err);
    return rc ? rc : image_emit_image(&p, emit, arg, err);
}
