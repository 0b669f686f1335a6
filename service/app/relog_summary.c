/* What "etwagent relog" prints at its end. See relog_job.h. */
#include "service/app/relog_job.h"

#include "proto/base/platform.h"

#include <inttypes.h>
#include <stdio.h>

/* What the parts' cuts have added, together. */
static ea_cut_counts count_added(const relog_job *j) {
    ea_cut_counts sum = {0};
    for (size_t i = 0; i < j->part_count; i++) {
        const ea_cut_counts *part = j->parts[i].cut ? ea_cut_count(j->parts[i].cut) : &(ea_cut_counts){0};

#define X(name) sum.name += part->name;
        EA_CUT_KINDS(X)
#undef X
    }
    return sum;
}

static void relog_summary_put_added(ea_text *t, const relog_options *o, const ea_cut_counts *a) {
    const struct {
        const char *name;
        uint64_t n;
    } kinds[] = {

#define X(name) {#name, a->name},
        EA_CUT_KINDS(X)
#undef X
    };

    size_t n = 0;
    if (o->json)
        ea_text_str(t, ",\"added_kinds\":{");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (o->json)
            ea_text_printf(t, "%s\"%s\":%" PRIu64, i ? "," : "", kinds[i].name, kinds[i].n);
        else if (kinds[i].n)
            ea_text_printf(t, "%s %s %" PRIu64, n++ ? "," : "added:", kinds[i].name, kinds[i].n);
    }
    if (o->json || n)
        ea_text_char(t, o->json ? '}' : '\n');
}

static void put_redacted(ea_text *t, const relog_options *o, const ea_redact_counts *n) {
    ea_text_str(t, o->json ? ",\"redacted\":{" : "redacted:");
    for (int kind = 0; kind < EA_REDACT_KIND_COUNT; kind++)
        ea_text_printf(t, o->json ? "%s\"%s\":%" PRIu64 : "%s %s %" PRIu64, kind ? "," : "", ea_redact_name(kind),
                       n->values[kind]);
    if (o->json)
        ea_text_printf(t, ",\"zeroed\":%" PRIu64 ",\"dropped\":%" PRIu64 ",\"too_long\":%" PRIu64 "}", n->zeroed,
                       n->dropped, n->too_long);
    else
        ea_text_printf(t, "; of no known layout: %" PRIu64 " zeroed, %" PRIu64 " dropped\n", n->zeroed, n->dropped);
}

static void put_set(ea_text *t, const relog_options *o, const ea_rewrite_counts *n) {
    ea_text_printf(t,
                   o->json ? ",\"set\":{\"values\":%" PRIu64 ",\"absent\":%" PRIu64 "}"
                           : "set: %" PRIu64 " values; %" PRIu64 " times an event lacked one\n",
                   n->values, n->absent);
}

/* What was written, of all parts together. */
typedef struct relog_sums {
    uint64_t dropped, added, written, bytes;
} relog_sums;

/* A trace that other forms are made of: of --split all parts are, of --part the first. */
static int is_temporary_part(const relog_job *j, size_t i) {
    return j->temporary && (j->o->split || !i);
}

static void put_parts(ea_text *t, const relog_job *j, const ea_relog *relog, const uint64_t *bytes) {
    const char *separator = "";
    if (j->o->json)
        ea_text_str(t, ",\"parts\":[");
    for (size_t i = 0; i < j->part_count; i++) {
        uint64_t written = ea_relog_written(relog, j->parts[i].output);
        if (is_temporary_part(j, i))
            continue;
        if (!j->o->json) {
            ea_text_printf(t, "%s: %" PRIu64 " events; %" PRIu64 " bytes\n", j->part_names[i], written, bytes[i]);
            continue;
        }
        ea_text_printf(t, "%s{\"output\":", separator);
        separator = ",";
        ea_text_json_str(t, j->part_names[i]);
        ea_text_printf(t, ",\"written\":%" PRIu64 ",\"bytes\":%" PRIu64 "}", written, bytes[i]);
    }
    if (j->o->json)
        ea_text_char(t, ']');
}

/* Outputs that are no traces. */
static void put_forms(ea_text *t, const relog_job *j) {
    if (j->o->json)
        ea_text_str(t, ",\"forms\":[");
    for (size_t i = 0; i < j->form_count; i++) {
        const relog_form *f = &j->forms[i];
        const char *what = f->kind == RELOG_PCAPNG ? "packets" : "events";
        if (!j->o->json) {
            ea_text_printf(t, "%s: %" PRIu64 " %s", f->path, f->written, what);
            if (f->incomplete || f->unknown)
                ea_text_printf(t, ", %" PRIu64 " incomplete, %" PRIu64 " of no known form", f->incomplete, f->unknown);
            ea_text_printf(t, "; %" PRIu64 " bytes\n", f->bytes);
            continue;
        }
        ea_text_str(t, i ? ",{\"output\":" : "{\"output\":");
        ea_text_json_str(t, f->path);
        ea_text_printf(t, ",\"form\":\"%s\",\"%s\":%" PRIu64, ea_relog_form_name((enum relog_form_kind)f->kind), what,
                       f->written);
        if (f->kind == RELOG_PCAPNG)
            ea_text_printf(t, ",\"incomplete\":%" PRIu64 ",\"unknown\":%" PRIu64, f->incomplete, f->unknown);
        ea_text_printf(t, ",\"bytes\":%" PRIu64 "}", f->bytes);
    }
    if (j->o->json)
        ea_text_char(t, ']');
}

static void put_image_ids(ea_text *t, const relog_job *j) {
    int has_server;
    const ea_image_server_counts c = ea_image_sources_count(j->images, &has_server);
    ea_text_printf(t,
                   j->o->json ? ",\"image_ids\":{\"added\":%" PRIu64 ",\"missing\":%" PRIu64
                              : "image ids: of %" PRIu64 " image events added; none known for %" PRIu64,
                   j->ids_added, j->ids_missing);
    if (has_server)
        ea_text_printf(t,
                       j->o->json ? ",\"server\":{\"asked\":%" PRIu64 ",\"fetched\":%" PRIu64 ",\"failed\":%" PRIu64
                                    ",\"left_out\":%" PRIu64 "}"
                                  : "\nsymbol server: asked for %" PRIu64 " images; %" PRIu64 " fetched, %" PRIu64
                                    " failed; %" PRIu64 " that it cannot be asked for",
                       c.asked, c.fetched, c.failed, c.left_out);
    ea_text_char(t, j->o->json ? '}' : '\n');
}

static void put_changes(ea_text *t, const relog_job *j, const relog_sums *sums) {
    const ea_cut_counts added = count_added(j);
    if (j->o->json ? j->cuts : sums->added > 0)
        relog_summary_put_added(t, j->o, &added);
    if (j->modules)
        ea_text_printf(t, j->o->json ? ",\"injected\":%" PRIu64 : "loads and unloads of listed modules: %" PRIu64 "\n",
                       j->injected);
    if (j->o->announce)
        ea_text_printf(t,
                       j->o->json ? ",\"announced\":{\"made\":%" PRIu64 ",\"left\":%" PRIu64 "}"
                                  : "announced modules: %" PRIu64 " made image events; %" PRIu64
                                    " left, which no image event can hold\n",
                       j->announced, j->announced_left);
    if (j->images)
        put_image_ids(t, j);
    if (j->own)
        ea_text_printf(t, j->o->json ? ",\"events_added\":%" PRIu64 : "events of one's own: %" PRIu64 "\n",
                       j->own_written);
    if (j->o->metadata)
        ea_text_printf(t,
                       j->o->json ? ",\"schemas\":{\"added\":%" PRIu64 ",\"missing\":%" PRIu64 "}"
                                  : "schemas: of %" PRIu64 " classes added; %" PRIu64
                                    " have none that Windows writes\n",
                       j->schemas_added, j->schemas_missing);
    if (j->rewrite)
        put_set(t, j->o, ea_rewrite_count(j->rewrite));
    if (j->redact)
        put_redacted(t, j->o, ea_redact_count(j->redact));
}

static void relog_summary(ea_text *t, const relog_job *j, const ea_relog *relog, int input_count,
                          const relog_sums *sums, const uint64_t *part_bytes) {
    const relog_options *o = j->o;
    const ea_relog_counts *c = ea_relog_count(relog);
    if (!o->json) {
        ea_text_printf(t,
                       "%s: %" PRIu64 " events written, %" PRIu64 " read from %d %s, %" PRIu64 " dropped, %" PRIu64
                       " added; %" PRIu64 " bytes\n",
                       o->dry_run     ? "dry run"
                       : j->temporary ? "in other forms"
                       : j->trace     ? j->trace
                                      : "parts",
                       sums->written, c->read, input_count, input_count == 1 ? "file" : "files", sums->dropped,
                       sums->added, sums->bytes);
        if (part_bytes)
            put_parts(t, j, relog, part_bytes);
        put_forms(t, j);
        put_changes(t, j, sums);
        if (c->damaged)
            ea_text_printf(t, "not readable: %" PRIu64 " records and buffers\n", c->damaged);
        if (c->events_lost || c->buffers_lost)
            ea_text_printf(t, "lost by Windows: %" PRIu64 " events, %" PRIu64 " buffers\n", c->events_lost,
                           c->buffers_lost);
        return;
    }
    ea_text_str(t, "{\"output\":");
    ea_text_json_str(t, o->dry_run || j->temporary ? NULL : j->trace);
    ea_text_printf(t,
                   ",\"bytes\":%" PRIu64 ",\"inputs\":%d,\"headers\":%" PRIu64 ",\"read\":%" PRIu64
                   ",\"dropped\":%" PRIu64 ",\"added\":%" PRIu64 ",\"written\":%" PRIu64 ",\"damaged\":%" PRIu64
                   ",\"events_lost\":%" PRIu64 ",\"buffers_lost\":%" PRIu64,
                   sums->bytes, input_count, c->headers, c->read, sums->dropped, sums->added, sums->written, c->damaged,
                   c->events_lost, c->buffers_lost);
    if (part_bytes)
        put_parts(t, j, relog, part_bytes);
    if (j->form_count)
        put_forms(t, j);
    put_changes(t, j, sums);
    ea_text_str(t, "}\n");
}

static int size_of_file(const char *path, uint64_t *ret, ea_err *err) {
    ea_file *f = NULL;
    int rc = ea_file_open(&f, path, EA_OPEN_READ, err);
    if (!rc)
        rc = ea_file_size(f, ret, err);
    ea_file_close(f);
    return rc;
}

int ea_relog_print_summary(const relog_job *j, const ea_relog *relog, int input_count, ea_err *err) {
    const relog_options *o = j->o;
    const ea_relog_counts *c = ea_relog_count(relog);
    relog_sums sums = {.dropped = c->dropped, .added = c->added, .written = ea_relog_written(relog, 0)};
    uint64_t part_bytes[RELOG_PARTS_MAX] = {0};
    int rc = 0, has_parts = j->part_names && !o->dry_run;
    ea_text t;
    if (j->part_names) { /* to the library all that parts have is added */
        sums = (relog_sums){.dropped = c->read - j->kept, .added = c->added - (o->dry_run ? 0 : j->kept)};
        sums.written = c->added;
    }
    for (size_t i = 0; !rc && has_parts && i < j->part_count; i++) {
        if (is_temporary_part(j, i))
            continue;
        rc = size_of_file(j->part_names[i], &part_bytes[i], err);
        sums.bytes += part_bytes[i];
    }
    if (!rc && !j->part_names && !o->dry_run && !j->temporary)
        rc = size_of_file(j->trace, &sums.bytes, err);
    for (size_t i = 0; j->temporary && i < j->form_count; i++)
        sums.bytes += j->forms[i].bytes;
    if (rc)
        return rc;
    ea_text_init(&t);
    relog_summary(&t, j, relog, input_count, &sums, has_parts ? part_bytes : NULL);
    if (t.failed || fwrite(t.data, 1, t.len_bytes, stdout) != t.len_bytes || fflush(stdout))
        rc = ea_fail(err, EA_EIO, "write to standard output");
    ea_text_deinit(&t);
    if (!rc && c->read && sums.dropped == c->read && !j->part_names)
        fprintf(stderr, "etwagent: no event fits the choice of times, classes, processes and conditions; \"etwagent "
                        "stats\" prints the times and classes of a trace\n");
    return rc;
}
