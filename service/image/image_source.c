/* Images' facts among a session's records. See image_source.h. */
#include "service/image/image_source.h"

#include "proto/base/provider_guids.h"
#include "proto/state/account_facts.h"
#include "proto/state/fields.h"

#include <stdlib.h>

static const ea_guid PROCESS = EA_PROVIDER_PROCESS;
static const ea_guid IMAGE = EA_PROVIDER_IMAGE;

enum {
    OP_START = 1,
    OP_DC_START = 3,
    OP_LOAD = 10,
    CLASSES = 64,    /* versions of the four, of 32 and 64 bits */
    AT_A_TIME = 256, /* delivered before the source is read again */
};

typedef struct image_source {
    ea_source base; /* first member */
    ea_source *inner;
    ea_images *images;
    ea_registry *registry;
    plans plans;
    fields now;
    ea_text path, payload;
    ea_record record;         /* the last delivered record */
    int has_record;           /* there was one of the inner source's */
    unsigned may_deliver;     /* facts that may be delivered before the source is read again */
    uint64_t delivered_count; /* delivered facts; positions count them, too */
} image_source;

/* Splits a record's payload: 1; 0: nothing is known of its class. */
static int image_source_split(image_source *s, const ea_record *r) {
    size_t used;
    s->now.c = ea_registry_find(s->registry, r);
    s->now.plan = s->now.c ? ea_plans_get(&s->plans, s->now.c) : NULL;
    if (!s->now.plan)
        return 0;
    s->now.whole_count = ea_class_split(s->now.c, r->payload, r->payload_bytes, s->now.slices, &used);
    return 1;
}

/* Of a process that began, or was there at the start: its account. */
static void look_at_process(image_source *s, const ea_record *r) {
    if ((r->opcode != OP_START && r->opcode != OP_DC_START) || !image_source_split(s, r))
        return;
    ea_fields_text(&s->now, ROLE_SID, &s->path);
    if (s->path.len_bytes && !s->path.failed)
        ea_images_ask_account(s->images, s->path.data);
}

/* Of an image that was loaded, or was there at the start. */
static void look_at_image(image_source *s, const ea_record *r) {
    uint64_t base, pid = r->pid;
    if ((r->opcode != OP_LOAD && r->opcode != OP_DC_START) || !image_source_split(s, r))
        return;
    if (!ea_fields_u64(&s->now, ROLE_BASE, &base) ||
        (s->now.plan->slice[ROLE_PID] >= 0 && !ea_fields_u64(&s->now, ROLE_PID, &pid)) || pid >= UINT32_MAX)
        return;
    ea_fields_text(&s->now, ROLE_PATH, &s->path);
    if (s->path.len_bytes && !s->path.failed)
        ea_images_ask(s->images, (uint32_t)pid, base, (uint32_t)ea_fields_u64_or_0(&s->now, ROLE_TIMESTAMP),
                      s->path.data);
}

/* The next of what was found; 0: there is nothing. */
static int deliver(image_source *s, const ea_record **ret) {
    int opcode = s->has_record && s->may_deliver ? ea_images_take(s->images, &s->payload) : 0;
    if (!opcode)
        return 0;
    uint64_t position = s->record.position + 1;
    s->record = ea_image_facts_record(&s->record, &s->payload);
    s->record.opcode = (uint8_t)opcode;
    s->record.version = opcode == EA_IMAGE_FACTS_OPCODE ? EA_IMAGE_FACTS_VERSION : 0;
    s->record.position = position;
    s->delivered_count++;
    s->may_deliver--;
    *ret = &s->record;
    return 1;
}

static int image_next(ea_source *source, const ea_record **ret, ea_err *err) {
    image_source *s = (image_source *)source;
    const ea_record *r;
    if (deliver(s, ret))
        return 1;
    s->may_deliver = 0;
    int rc = ea_source_next(s->inner, &r, err);
    if (rc == 1) {
        if (ea_guid_equal(&r->provider, &IMAGE))
            look_at_image(s, r);
        else if (ea_guid_equal(&r->provider, &PROCESS))
            look_at_process(s, r);
        s->record = *r;
        s->record.position += s->delivered_count;
        s->has_record = 1;
        *ret = &s->record;
    } else if (rc == EA_SOURCE_NOTHING_YET) {
        s->may_deliver = AT_A_TIME;
        ea_images_calm(s->images);
    } else if (rc == 0) {
        s->may_deliver = AT_A_TIME; /* facts found until now are delivered; the rest is dropped */
        if (deliver(s, ret))
            return 1;
        ea_images_stop(s->images);
    }
    return rc;
}

static void image_stop(ea_source *source) {
    ea_source_stop(((image_source *)source)->inner);
}

static void image_close(ea_source *source) {
    image_source *s = (image_source *)source;
    ea_images_destroy(s->images);
    ea_source_close(s->inner);
    ea_registry_destroy(s->registry);
    ea_plans_deinit(&s->plans);
    ea_text_deinit(&s->path);
    ea_text_deinit(&s->payload);
    free(s);
}

static size_t image_count(const ea_source *source) {
    return ea_source_count(((const image_source *)source)->inner);
}

static const ea_wire_source *image_row(const ea_source *source, size_t which) {
    return ea_source_row(((const image_source *)source)->inner, which);
}

static double image_progress(const ea_source *source) {
    return ea_source_progress(((const image_source *)source)->inner);
}

static int image_dropped(ea_source *source, ea_dropped *ret) {
    return ea_source_dropped(((image_source *)source)->inner, ret);
}

static int image_clock(ea_source *source, size_t *ret_source, ea_clock *ret) {
    return ea_source_clock(((image_source *)source)->inner, ret_source, ret);
}

int ea_image_source_open(ea_source **ret, ea_source *inner, const ea_images_options *options, ea_err *err) {
    static const ea_source_ops OPS = {.next = image_next,
                                      .stop = image_stop,
                                      .close = image_close,
                                      .count = image_count,
                                      .row = image_row,
                                      .progress = image_progress,
                                      .dropped = image_dropped,
                                      .clock = image_clock};
    image_source *s = calloc(1, sizeof *s);
    if (!s) {
        ea_source_close(inner);
        return ea_fail(err, EA_ENOMEM, "look at images");
    }
    s->base.ops = &OPS;
    s->inner = inner;
    ea_plans_init(&s->plans);
    ea_text_init(&s->path);
    ea_text_init(&s->payload);
    int rc = ea_registry_create(&s->registry, CLASSES, err);
    if (!rc)
        rc = ea_images_create(&s->images, options, err);
    if (rc) {
        image_close(&s->base);
        return rc;
    }
    *ret = &s->base;
    return 0;
}
