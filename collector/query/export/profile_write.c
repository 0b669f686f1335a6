/* Profiles as other programs read them. See profile_write.h.
 * Sources: Brendan Gregg, FlameGraph ("folded"); speedscope, "Importing from custom sources" (file-format-schema.json);
 * google/pprof, proto/profile.proto; "Trace Event Format" (stackFrames, samples); firefox-devtools/profiler,
 * docs-developer/processed-format and src/types/profile.ts. */
#include "collector/query/export/profile_write.h"

#include "collector/query/analysis/query.h"
#include "proto/base/array.h"
#include "proto/base/clock.h"
#include "proto/base/map.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { TOP_MAX = 200 };

/* A node of the tree of stacks, the outermost frame at the root. Processes are at the top. */
typedef struct node {
    int64_t parent; /* -1: the root */
    int64_t frame;  /* -1 - n: process n */
    uint64_t self[2], total[2];
} node;

typedef struct tree {
    node *nodes;
    size_t count, capacity;
    uint32_t *slots; /* (parent, frame) -> index + 1 */
    size_t mask;
    uint32_t *leaf; /* of each stack, its node */
} tree;

static size_t profile_write_slot_of(int64_t parent, int64_t frame) {
    uint64_t h = ((uint64_t)parent + 1) * 0x9E3779B97F4A7C15u ^ ((uint64_t)frame + 77) * 0xC2B2AE3D27D4EB4Fu;
    return (size_t)(h ^ h >> 29);
}

static int writer_grow(tree *t) {
    size_t mask = t->mask ? t->mask * 2 + 1 : 1023;
    uint32_t *slots = calloc(mask + 1, sizeof *slots);
    if (!slots)
        return EA_ENOMEM;
    for (size_t i = 0; i < t->count; i++) {
        size_t at = profile_write_slot_of(t->nodes[i].parent, t->nodes[i].frame) & mask;
        while (slots[at])
            at = (at + 1) & mask;
        slots[at] = (uint32_t)i + 1;
    }
    free(t->slots);
    t->slots = slots;
    t->mask = mask;
    return 0;
}

/* The child of parent with that frame: its index, or a negative code. */
static int64_t writer_child(tree *t, int64_t parent, int64_t frame) {
    if (t->count >= t->mask / 2 && writer_grow(t))
        return EA_ENOMEM;
    size_t at = profile_write_slot_of(parent, frame) & t->mask;
    for (; t->slots[at]; at = (at + 1) & t->mask) {
        const node *n = &t->nodes[t->slots[at] - 1];
        if (n->parent == parent && n->frame == frame)
            return t->slots[at] - 1;
    }
    if (EA_GROW(t->nodes, t->capacity, t->count + 1, UINT32_MAX - 1))
        return EA_ENOMEM;
    t->nodes[t->count] = (node){.parent = parent, .frame = frame};
    t->slots[at] = (uint32_t)t->count + 1;
    return (int64_t)t->count++;
}

static void free_tree(tree *t) {
    free(t->nodes);
    free(t->slots);
    free(t->leaf);
}

static int make_tree(const ec_profile *p, tree *t) {
    *t = (tree){.leaf = calloc(p->stack_count + 1, sizeof *t->leaf)};
    int64_t at = t->leaf ? 0 : EA_ENOMEM;
    for (size_t i = 0; at >= 0 && i < p->stack_count; i++) {
        const ec_profile_stack *s = &p->stacks[i];
        at = writer_child(t, -1, -1 - (int64_t)s->process);
        for (uint32_t k = s->count; at >= 0 && k-- > 0;)
            at = writer_child(t, at, s->frames[k]);
        if (at < 0 || !t->nodes)
            break;
        t->leaf[i] = (uint32_t)at;
        for (int side = 0; side < 2; side++)
            t->nodes[at].self[side] += s->weight[side];
    }
    for (size_t i = t->nodes ? t->count : 0; at >= 0 && i-- > 0;) /* parents precede their children */
        for (int side = 0; side < 2; side++) {
            t->nodes[i].total[side] += t->nodes[i].self[side];
            if (t->nodes[i].parent >= 0)
                t->nodes[t->nodes[i].parent].total[side] += t->nodes[i].total[side];
        }
    return at < 0 ? EA_ENOMEM : 0;
}

static const char *writer_label(const ec_profile *p, int64_t frame) {
    return frame < 0 ? p->processes[-1 - frame] : p->frames[frame].label;
}

static int is_time_of(const ec_profile *p, int side) {
    return strcmp(ec_weight_unit(p->weight[side]), "nanoseconds") == 0;
}

static void profile_write_json_text(ea_text *t, const char *key, const char *value) {
    ea_text_printf(t, "\"%s\":", key);
    ea_text_json_str(t, value);
}

/* An end of the range: null where none was given. */
static void json_end(ea_text *t, const char *key, int64_t utc_ns) {
    bool is_given = utc_ns != INT64_MIN && utc_ns != INT64_MAX;
    ea_text_printf(t, "\"%s\":%s", key, is_given ? "\"" : "null");
    if (is_given) {
        ea_text_utc_ns(t, utc_ns);
        ea_text_char(t, '"');
    }
}

/* ---- the greatest ---- */

typedef struct top {
    uint32_t index;
    uint64_t self[2], total[2];
} top;

static int by_self(const void *a, const void *b) {
    const top *x = a, *y = b;
    uint64_t i = x->self[0] + x->self[1], j = y->self[0] + y->self[1];
    if (i != j)
        return (i < j) - (i > j);
    i = x->total[0] + x->total[1];
    j = y->total[0] + y->total[1];
    if (i != j)
        return (i < j) - (i > j);
    return (x->index > y->index) - (x->index < y->index);
}

/* Sums by frame, or by module: what is on a stack twice counts once for the total. The caller frees *ret. */
static int profile_write_sum_up(const ec_profile *p, int by_module, top **ret, size_t *ret_count) {
    size_t n = by_module ? p->module_count : p->frame_count, used = 0;
    top *tops = calloc(n + 1, sizeof *tops);
    size_t *seen = calloc(n + 1, sizeof *seen); /* by the last stack that it was on, + 1 */
    if (!tops || !seen) {
        free(tops);
        free(seen);
        return EA_ENOMEM;
    }
    for (size_t i = 0; i < n; i++)
        tops[i].index = (uint32_t)i;
    for (size_t i = 0; i < p->stack_count; i++) {
        const ec_profile_stack *s = &p->stacks[i];
        for (uint32_t k = 0; k < s->count; k++) {
            uint32_t at = by_module ? p->frames[s->frames[k]].module : s->frames[k];
            for (int side = 0; side < 2; side++) {
                if (k == 0)
                    tops[at].self[side] += s->weight[side];
                if (seen[at] != i + 1)
                    tops[at].total[side] += s->weight[side];
            }
            seen[at] = i + 1;
        }
    }
    qsort(tops, n, sizeof *tops, by_self);
    while (used < n && used < TOP_MAX && (tops[used].total[0] || tops[used].total[1]))
        used++;
    free(seen);
    *ret = tops;
    *ret_count = used;
    return 0;
}

static int json_tops(const ec_profile *p, int by_module, ea_text *t) {
    top *tops = NULL;
    size_t n = 0;
    int rc = profile_write_sum_up(p, by_module, &tops, &n);
    ea_text_str(t, by_module ? ",\n\"top_modules\":[" : ",\n\"functions\":[");
    for (size_t i = 0; i < n; i++) {
        ea_text_printf(t, "%s{\"%s\":%" PRIu32 ",\"self\":%" PRIu64 ",\"total\":%" PRIu64, i ? "," : "",
                       by_module ? "module" : "frame", tops[i].index, tops[i].self[0], tops[i].total[0]);
        if (p->has_other)
            ea_text_printf(t, ",\"other_self\":%" PRIu64 ",\"other_total\":%" PRIu64, tops[i].self[1],
                           tops[i].total[1]);
        ea_text_char(t, '}');
    }
    ea_text_char(t, ']');
    free(tops);
    return rc;
}

/* ---- JSON ---- */

/* What a side is known to lack. */
static void json_lacks(const ec_profile *p, int side, ea_text *t) {
    ea_text_str(t, ",\"incomplete\":{");
    for (int i = 0; i < EC_LACKS_COUNT; i++)
        ea_text_printf(t, "%s\"%s\":%" PRIu64, i ? "," : "", ec_lack_name(i), p->incomplete[side][i]);
    ea_text_str(t, "},\"halves\":{");
    for (int i = 0; i < EA_STACK_OUTCOME_COUNT; i++)
        ea_text_printf(t, "%s\"%s\":%" PRIu64, i ? "," : "", ea_stack_outcome_name(i), p->halves[side][i]);
    ea_text_printf(t,
                   "},\"keys_undefined\":%" PRIu64 ",\"unfinished\":%" PRIu64 ",\"unfinished_ns\":%" PRIu64
                   ",\"unbegun\":%" PRIu64 ",\"unbegun_ns\":%" PRIu64,
                   p->keys_undefined[side], p->unfinished[side], p->unfinished_ns[side], p->unbegun[side],
                   p->unbegun_ns[side]);
}

/* What is summed of a side, when and where, and how much. */
static void json_side(const ec_profile *p, int side, ea_text *t) {
    profile_write_json_text(t, "weight", ec_weight_name(p->weight[side]));
    ea_text_char(t, ',');
    profile_write_json_text(t, "counter", p->counter[side]);
    ea_text_char(t, ',');
    profile_write_json_text(t, "unit", ec_weight_unit(p->weight[side]));
    ea_text_char(t, ',');
    json_end(t, "from", p->from_utc_ns[side]);
    ea_text_char(t, ',');
    json_end(t, "to", p->to_utc_ns[side]);
    ea_text_str(t, ",\"hosts\":[");
    for (size_t i = 0; i < p->host_count[side]; i++) {
        ea_text_str(t, i ? "," : "");
        ea_text_json_str(t, p->hosts[side][i]);
    }
    ea_text_printf(t, "],\"total\":%" PRIu64 ",\"events\":%" PRIu64 ",\"without_stack\":%" PRIu64, p->total[side],
                   p->events[side], p->without_stack[side]);
    json_lacks(p, side, t);
}

static void json_head(const ec_profile *p, ea_text *t) {
    ea_text_char(t, '{');
    json_side(p, 0, t);
    if (p->has_other) {
        ea_text_str(t, ",\"other\":{");
        json_side(p, 1, t);
        ea_text_char(t, '}');
    }
    ea_text_printf(t, ",\"interval_assumed\":%s,\"behind\":%" PRIu64 ",\"damaged\":%" PRIu64 ",",
                   p->is_interval_assumed ? "true" : "false", p->backlog, p->damaged);
    profile_write_json_text(t, "notes", p->notes);
}

static void json_module(const ec_profile_module *m, ea_text *t) {
    ea_text_char(t, '{');
    profile_write_json_text(t, "name", m->name);
    ea_text_char(t, ',');
    profile_write_json_text(t, "path", m->path);
    ea_text_printf(t, ",\"unloaded\":%s,\"pdb_guid\":", m->is_unloaded ? "true" : "false");
    if (m->has_pdb) {
        ea_text_char(t, '"');
        ea_text_guid(t, &m->pdb_guid);
        ea_text_char(t, '"');
    } else {
        ea_text_str(t, "null");
    }
    ea_text_printf(t, ",\"pdb_age\":%" PRIu32 ",\"timestamp\":%" PRIu32 ",\"size_bytes\":%" PRIu32 ",\"kernel\":%s}",
                   m->pdb_age, m->timestamp, m->size_bytes, m->is_kernel ? "true" : "false");
}

static int write_json(const ec_profile *p, ea_text *t) {
    tree nodes;
    int rc = make_tree(p, &nodes);
    json_head(p, t);
    ea_text_str(t, ",\n\"processes\":[");
    for (size_t i = 0; i < p->process_count; i++) {
        ea_text_str(t, i ? "," : "");
        ea_text_json_str(t, p->processes[i]);
    }
    ea_text_str(t, "],\n\"modules\":[");
    for (size_t i = 0; i < p->module_count; i++) {
        ea_text_str(t, i ? ",\n" : "");
        json_module(&p->modules[i], t);
    }
    ea_text_str(t, "],\n\"frames\":[");
    for (size_t i = 0; i < p->frame_count; i++) {
        const ec_profile_frame *f = &p->frames[i];
        ea_text_str(t, i ? ",\n{" : "{");
        profile_write_json_text(t, "label", f->label);
        ea_text_printf(t, ",\"module\":%" PRIu32 ",\"offset\":\"0x%" PRIx64 "\",", f->module, f->offset);
        profile_write_json_text(t, "function", f->function);
        ea_text_char(t, ',');
        profile_write_json_text(t, "file", f->file);
        ea_text_printf(t, ",\"line\":%" PRIu32 "}", f->line);
    }
    ea_text_str(t, "],\n\"nodes\":[");
    for (size_t i = 0; !rc && i < nodes.count; i++) {
        const node *n = &nodes.nodes[i];
        ea_text_str(t, i ? ",[" : "[");
        ea_text_i64(t, n->parent);
        ea_text_char(t, ',');
        ea_text_i64(t, n->frame);
        for (int side = 0; side < (p->has_other ? 2 : 1); side++) {
            ea_text_char(t, ',');
            ea_text_u64(t, n->self[side]);
            ea_text_char(t, ',');
            ea_text_u64(t, n->total[side]);
        }
        ea_text_char(t, ']');
    }
    ea_text_char(t, ']');
    free_tree(&nodes);
    if (!rc)
        rc = json_tops(p, 0, t);
    if (!rc)
        rc = json_tops(p, 1, t);
    ea_text_str(t, "}\n");
    return rc;
}

/* ---- folded ---- */

static void add_folded(ea_text *t, const char *text) {
    for (; *text; text++)
        ea_text_char(t, *text == ';' || *text == '\n' || *text == '\r' ? ':' : *text);
}

static int write_folded(const ec_profile *p, ea_text *t) {
    for (size_t i = 0; i < p->stack_count; i++) {
        const ec_profile_stack *s = &p->stacks[i];
        add_folded(t, p->processes[s->process]);
        for (uint32_t k = s->count; k-- > 0;) {
            ea_text_char(t, ';');
            add_folded(t, p->frames[s->frames[k]].label);
        }
        if (p->has_other) /* what difffolded.pl writes: before, after */
            ea_text_printf(t, " %" PRIu64, s->weight[1]);
        ea_text_printf(t, " %" PRIu64 "\n", s->weight[0]);
    }
    return 0;
}

/* ---- speedscope ---- */

static void speedscope_profile(const ec_profile *p, int side, ea_text *t) {
    ea_text_str(t, "{\"type\":\"sampled\",");
    profile_write_json_text(t, "name", side ? "other" : ec_weight_name(p->weight[0]));
    ea_text_printf(t, ",\"unit\":\"%s\",\"startValue\":0,\"endValue\":%" PRIu64 ",\n\"samples\":[",
                   is_time_of(p, side) ? "nanoseconds" : "none", p->total[side]);
    int first = 1;
    for (size_t i = 0; i < p->stack_count; i++) {
        const ec_profile_stack *s = &p->stacks[i];
        if (!s->weight[side])
            continue;
        ea_text_printf(t, "%s[%zu", first ? "" : ",\n", p->frame_count + s->process);
        for (uint32_t k = s->count; k-- > 0;)
            ea_text_printf(t, ",%" PRIu32, s->frames[k]);
        ea_text_char(t, ']');
        first = 0;
    }
    ea_text_str(t, "],\n\"weights\":[");
    first = 1;
    for (size_t i = 0; i < p->stack_count; i++) {
        if (!p->stacks[i].weight[side])
            continue;
        ea_text_printf(t, "%s%" PRIu64, first ? "" : ",", p->stacks[i].weight[side]);
        first = 0;
    }
    ea_text_str(t, "]}");
}

static int write_speedscope(const ec_profile *p, ea_text *t) {
    ea_text_str(t,
                "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"etwcollector\",");
    profile_write_json_text(t, "name", ec_weight_name(p->weight[0]));
    ea_text_str(t, ",\"activeProfileIndex\":0,\n\"shared\":{\"frames\":[");
    for (size_t i = 0; i < p->frame_count; i++) {
        const ec_profile_frame *f = &p->frames[i];
        ea_text_str(t, i ? ",\n{" : "{");
        profile_write_json_text(t, "name", f->label);
        if (f->file) {
            ea_text_char(t, ',');
            profile_write_json_text(t, "file", f->file);
            ea_text_printf(t, ",\"line\":%" PRIu32, f->line);
        }
        ea_text_char(t, '}');
    }
    for (size_t i = 0; i < p->process_count; i++) {
        ea_text_str(t, i || p->frame_count ? ",\n{" : "{");
        profile_write_json_text(t, "name", p->processes[i]);
        ea_text_char(t, '}');
    }
    ea_text_str(t, "]},\n\"profiles\":[");
    speedscope_profile(p, 0, t);
    if (p->has_other) {
        ea_text_str(t, ",\n");
        speedscope_profile(p, 1, t);
    }
    ea_text_str(t, "]}\n");
    return 0;
}

/* ---- pprof: profile.proto, in a gzip frame of stored blocks ---- */

typedef struct strings {
    ea_text table; /* the messages of string_table */
    uint64_t count;
} strings;

static void writer_number(ea_text *t, unsigned field, uint64_t v) {
    ea_text_varint(t, (uint64_t)field << 3);
    ea_text_varint(t, v);
}

static void writer_bytes(ea_text *t, unsigned field, const void *data, size_t len_bytes) {
    ea_text_varint(t, (uint64_t)field << 3 | 2);
    ea_text_varint(t, len_bytes);
    ea_text_add(t, data, len_bytes);
}

static void writer_message(ea_text *t, unsigned field, const ea_text *m) {
    writer_bytes(t, field, m->data ? m->data : "", m->len_bytes);
}

/* Adds a string. Strings are not deduplicated: a text that occurs twice is stored twice, but labels occur once. */
static uint64_t writer_string(strings *s, const char *text) {
    writer_bytes(&s->table, 6, text, strlen(text));
    return s->count++;
}

static void value_type(ea_text *t, unsigned field, strings *s, const char *type, const char *unit) {
    ea_text m;
    ea_text_init(&m);
    writer_number(&m, 1, writer_string(s, type));
    writer_number(&m, 2, writer_string(s, unit));
    writer_message(t, field, &m);
    ea_text_deinit(&m);
}

static uint32_t crc32_of(const char *data, size_t len_bytes) {
    uint32_t table[256], crc = 0xFFFFFFFF;
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int k = 0; k < 8; k++)
            table[i] = table[i] & 1 ? table[i] >> 1 ^ 0xEDB88320 : table[i] >> 1;
    }
    for (size_t i = 0; i < len_bytes; i++)
        crc = table[(crc ^ (uint8_t)data[i]) & 0xFF] ^ crc >> 8;
    return ~crc;
}

/* RFC 1952, RFC 1951 3.2.4 */
static void gzip_stored(const ea_text *plain, ea_text *t) {
    static const uint8_t HEAD[10] = {0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255};
    uint8_t end[8];
    const char *data = plain->data ? plain->data : "";
    size_t at = 0;
    ea_text_add(t, HEAD, sizeof HEAD);
    do {
        uint8_t block[5];
        size_t n = plain->len_bytes - at < 65535 ? plain->len_bytes - at : 65535;
        block[0] = at + n == plain->len_bytes;
        ea_store16(block + 1, (uint16_t)n);
        ea_store16(block + 3, (uint16_t)~n);
        ea_text_add(t, block, sizeof block);
        ea_text_add(t, data + at, n);
        at += n;
    } while (at < plain->len_bytes);
    ea_store32(end, crc32_of(data, plain->len_bytes));
    ea_store32(end + 4, (uint32_t)plain->len_bytes);
    ea_text_add(t, end, sizeof end);
}

static int write_pprof(const ec_profile *p, ea_text *out) {
    strings s = {.count = 0};
    ea_text body, m, line;
    ea_text_init(&s.table);
    ea_text_init(&body);
    ea_text_init(&m);
    ea_text_init(&line);
    (void)writer_string(&s, "");
    const char *unit = ec_weight_unit(p->weight[0]);
    value_type(&body, 1, &s, "events", "count");
    value_type(&body, 1, &s, ec_weight_name(p->weight[0]), unit);
    /* mappings, locations and functions are numbered from 1; a process is a function and a location, too */
    for (size_t i = 1; i < p->module_count; i++) {
        const ec_profile_module *module = &p->modules[i];
        ea_text_clear(&m);
        writer_number(&m, 1, i);
        writer_number(&m, 2,
                      (uint64_t)i << 32); /* no machine's addresses are another's: each module has a place of its own */
        writer_number(&m, 3, ((uint64_t)i << 32) + module->size_bytes);
        writer_number(&m, 5, writer_string(&s, *module->path && !module->is_unloaded ? module->path : module->name));
        if (module->has_pdb) {
            ea_text_clear(&line);
            ea_text_guid(&line, &module->pdb_guid);
            ea_text_printf(&line, "-%" PRIx32, module->pdb_age);
            writer_number(&m, 6, writer_string(&s, line.data ? line.data : ""));
        }
        writer_message(&body, 3, &m);
    }
    for (size_t i = 0; i < p->frame_count + p->process_count; i++) {
        const ec_profile_frame *f = i < p->frame_count ? &p->frames[i] : NULL;
        ea_text_clear(&line);
        writer_number(&line, 1, i + 1);
        writer_number(&line, 2, f ? f->line : 0);
        ea_text_clear(&m);
        writer_number(&m, 1, i + 1);
        if (f && f->module)
            writer_number(&m, 2, f->module);
        if (f)
            writer_number(&m, 3, f->offset + ((uint64_t)f->module << 32));
        writer_message(&m, 4, &line);
        writer_message(&body, 4, &m);
        ea_text_clear(&m);
        writer_number(&m, 1, i + 1);
        uint64_t name = writer_string(&s, f ? f->label : p->processes[i - p->frame_count]);
        writer_number(&m, 2, name);
        writer_number(&m, 3, name);
        if (f && f->file)
            writer_number(&m, 4, writer_string(&s, f->file));
        writer_message(&body, 5, &m);
    }
    for (size_t i = 0; i < p->stack_count; i++) {
        const ec_profile_stack *stack = &p->stacks[i];
        ea_text_clear(&m);
        ea_text_clear(&line);
        for (uint32_t k = 0; k < stack->count; k++)
            ea_text_varint(&line, (uint64_t)stack->frames[k] + 1);
        ea_text_varint(&line, p->frame_count + stack->process + 1);
        writer_message(&m, 1, &line);
        ea_text_clear(&line);
        ea_text_varint(&line, stack->events[0] - stack->events[1]); /* int64: less than before is negative */
        ea_text_varint(&line, stack->weight[0] - stack->weight[1]);
        writer_message(&m, 2, &line);
        writer_message(&body, 2, &m);
    }
    value_type(&body, 11, &s, ec_weight_name(p->weight[0]), unit);
    if (p->from_utc_ns[0] > 0) /* where a beginning was given */
        writer_number(&body, 9, (uint64_t)p->from_utc_ns[0]);
    if (p->from_utc_ns[0] > 0 && p->to_utc_ns[0] < INT64_MAX)
        writer_number(&body, 10, (uint64_t)(p->to_utc_ns[0] - p->from_utc_ns[0]));
    writer_number(&body, 12, 1);
    uint64_t kind = writer_string(&s, ec_weight_name(p->weight[0]));
    writer_number(&body, 14, kind);
    ea_text_add(&body, s.table.data, s.table.len_bytes);
    int rc = body.failed || s.table.failed || m.failed || line.failed ? EA_ENOMEM : 0;
    if (!rc)
        gzip_stored(&body, out);
    ea_text_deinit(&s.table);
    ea_text_deinit(&body);
    ea_text_deinit(&m);
    ea_text_deinit(&line);
    return rc;
}

/* ---- a time axis ---- */

/* A thread on its way into the order of processes. */
typedef struct axis_thread {
    const ec_profile_thread *of;
    uint32_t index;      /* in the profile */
    uint64_t pid, tid;   /* as the file has them: no two processes, and no two threads, have the same */
    size_t first, count; /* of its samples, among those of the axis */
} axis_thread;

typedef struct axis {
    axis_thread *threads; /* by process */
    uint32_t *samples;    /* by thread, each thread's in the order of time */
    int64_t begin_utc_ns; /* the first sample's */
} axis;

static int by_owner(const void *a, const void *b) {
    const axis_thread *x = a, *y = b;
    if (x->of->owner != y->of->owner)
        return (x->of->owner > y->of->owner) - (x->of->owner < y->of->owner);
    if (x->of->tid != y->of->tid)
        return (x->of->tid > y->of->tid) - (x->of->tid < y->of->tid);
    return (x->index > y->index) - (x->index < y->index);
}

static void free_axis(axis *x) {
    free(x->threads);
    free(x->samples);
}

/* A number that the map does not have yet: n, or n with higher digits before it. */
static int unlike_others(ea_u64_map *map, uint64_t n, uint64_t *ret) {
    for (*ret = n; ea_u64_map_get(map, *ret); *ret += UINT64_C(10000000000))
        ;
    return ea_u64_map_put(map, *ret, 1);
}

static int number_threads(const ec_profile *p, axis *x) {
    ea_u64_map pids, tids;
    int rc = 0;
    ea_u64_map_init(&pids, 0);
    ea_u64_map_init(&tids, 0);
    for (size_t i = 0; !rc && i < p->thread_count; i++) {
        axis_thread *t = &x->threads[i];
        if (i && t->of->owner == t[-1].of->owner)
            t->pid = t[-1].pid;
        else
            rc = unlike_others(&pids, t->of->pid, &t->pid);
        if (!rc)
            rc = unlike_others(&tids, t->of->tid, &t->tid);
    }
    ea_u64_map_deinit(&pids);
    ea_u64_map_deinit(&tids);
    return rc;
}

static int make_axis(const ec_profile *p, axis *x) {
    size_t *place_of = calloc(p->thread_count + 1, sizeof *place_of);
    *x = (axis){.threads = calloc(p->thread_count + 1, sizeof *x->threads),
                .samples = calloc(p->sample_count + 1, sizeof *x->samples),
                .begin_utc_ns = p->sample_count ? p->samples[0].utc_ns : 0};
    int rc = place_of && x->threads && x->samples ? 0 : EA_ENOMEM;
    for (size_t i = 0; !rc && i < p->thread_count; i++)
        x->threads[i] = (axis_thread){.of = &p->threads[i], .index = (uint32_t)i};
    if (!rc && p->thread_count)
        qsort(x->threads, p->thread_count, sizeof *x->threads, by_owner);
    for (size_t i = 0; !rc && i < p->thread_count; i++)
        place_of[x->threads[i].index] = i;
    for (size_t i = 0; !rc && i < p->sample_count; i++)
        x->threads[place_of[p->samples[i].thread]].count++;
    for (size_t i = 1; !rc && i < p->thread_count; i++)
        x->threads[i].first = x->threads[i - 1].first + x->threads[i - 1].count;
    for (size_t i = 0; !rc && i < p->thread_count; i++)
        x->threads[i].count = 0;
    for (size_t i = 0; !rc && i < p->sample_count; i++) {
        axis_thread *t = &x->threads[place_of[p->samples[i].thread]];
        x->samples[t->first + t->count++] = (uint32_t)i;
    }
    if (!rc)
        rc = number_threads(p, x);
    free(place_of);
    return rc;
}

/* "chrome.exe (1234)", with its host where there are several. */
static void process_title(const ec_profile *p, const ec_profile_thread *t, ea_text *out) {
    ea_text title;
    ea_text_init(&title);
    ea_text_printf(&title, "%s", p->processes[t->process]);
    if (t->pid != UINT32_MAX)
        ea_text_printf(&title, " (%" PRIu32 ")", t->pid);
    if (p->host_count[0] > 1)
        ea_text_printf(&title, " on %s", t->host);
    ea_text_json_str(out, title.failed ? NULL : title.data);
    out->failed |= title.failed;
    ea_text_deinit(&title);
}

/* ---- Chrome's trace viewer ---- */

static void chrome_names(const ec_profile *p, const axis *x, ea_text *t) {
    for (size_t i = 0; i < p->thread_count; i++) {
        const axis_thread *thread = &x->threads[i];
        if (!i || thread->pid != thread[-1].pid) {
            ea_text_printf(t,
                           "%s{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%" PRIu64 ",\"tid\":%" PRIu64
                           ",\"ts\":0,\"args\":{\"name\":",
                           i ? ",\n" : "", thread->pid, thread->tid);
            process_title(p, thread->of, t);
            ea_text_str(t, "}}");
        }
        ea_text_printf(t,
                       ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%" PRIu64 ",\"tid\":%" PRIu64
                       ",\"ts\":0,\"args\":{\"name\":\"thread %" PRIu32 "\"}}",
                       thread->pid, thread->tid, thread->of->tid);
    }
}

static int write_chrome(const ec_profile *p, ea_text *t) {
    tree nodes;
    axis x;
    const axis_thread **threads = calloc(p->thread_count + 1, sizeof *threads);
    int rc = make_tree(p, &nodes), axis_rc = make_axis(p, &x);
    rc = rc ? rc : axis_rc ? axis_rc : threads ? 0 : EA_ENOMEM;
    ea_text_str(t, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    if (!rc)
        chrome_names(p, &x, t);
    ea_text_str(t, "],\n\"stackFrames\":{");
    for (size_t i = 0; !rc && i < nodes.count; i++) {
        const node *n = &nodes.nodes[i];
        ea_text_printf(t, "%s\"%zu\":{", i ? ",\n" : "", i + 1);
        profile_write_json_text(t, "name", writer_label(p, n->frame));
        ea_text_char(t, ',');
        profile_write_json_text(t, "category", n->frame < 0 ? "process" : p->modules[p->frames[n->frame].module].name);
        if (n->parent >= 0)
            ea_text_printf(t, ",\"parent\":\"%" PRId64 "\"", n->parent + 1);
        ea_text_char(t, '}');
    }
    ea_text_str(t, "},\n\"samples\":[");
    for (size_t i = 0; !rc && i < p->thread_count; i++)
        threads[x.threads[i].index] = &x.threads[i];
    for (size_t i = 0; !rc && i < p->sample_count; i++) { /* ts in us */
        const ec_profile_sample *s = &p->samples[i];
        ea_text_printf(t,
                       "%s{\"cpu\":0,\"pid\":%" PRIu64 ",\"tid\":%" PRIu64
                       ",\"ts\":%.3f,\"name\":\"%s\",\"sf\":\"%" PRIu32 "\",\"weight\":%" PRIu64 "}",
                       i ? ",\n" : "", threads[s->thread]->pid, threads[s->thread]->tid,
                       (double)(s->utc_ns - x.begin_utc_ns) / 1000, ec_weight_name(p->weight[0]),
                       nodes.leaf[s->stack] + 1, s->weight);
    }
    ea_text_str(t, "]}\n");
    free(threads);
    free_axis(&x);
    free_tree(&nodes);
    return rc;
}

/* ---- Firefox's profiler: its processed form ---- */

/* A table's column: a JSON array of n values that each() writes. */
#define COLUMN(t, name, n, write)                                                                                      \
    do {                                                                                                               \
        ea_text_printf(t, ",\"%s\":[", name);                                                                          \
        for (size_t i_ = 0; i_ < (n); i_++) {                                                                          \
            size_t i = i_;                                                                                             \
            ea_text_str(t, i ? "," : "");                                                                              \
            write;                                                                                                     \
        }                                                                                                              \
        ea_text_char(t, ']');                                                                                          \
    } while (0)

/* Those of some numbers that a thread's tables have: each has a place there. */
typedef struct chosen {
    uint32_t *list, *place; /* place: of each number, from 1; 0: it is not chosen */
    size_t count;
} chosen;

static int choose_from(chosen *c, size_t count) {
    *c = (chosen){calloc(count + 1, sizeof *c->list), calloc(count + 1, sizeof *c->place), 0};
    return c->list && c->place ? 0 : EA_ENOMEM;
}

static void profile_write_choose(chosen *c, uint32_t number) {
    if (c->place[number])
        return;
    c->list[c->count++] = number;
    c->place[number] = (uint32_t)c->count;
}

static void choose_none(chosen *c) {
    for (size_t i = 0; i < c->count; i++)
        c->place[c->list[i]] = 0;
    c->count = 0;
}

static void free_chosen(chosen *c) {
    free(c->list);
    free(c->place);
}

typedef struct firefox {
    const ec_profile *p;
    tree nodes;
    axis x;
    chosen stacks, frames, modules; /* of the thread at hand: nodes; frames and after them processes; modules */
    ea_text *t;
} firefox;

/* The number of a node's frame among frames and processes. */
static uint32_t frame_of(const firefox *f, uint32_t node_number) {
    int64_t frame = f->nodes.nodes[node_number].frame;
    return (uint32_t)(frame < 0 ? (int64_t)f->p->frame_count - 1 - frame : frame);
}

static int profile_write_by_number(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The nodes, frames and modules of a thread's samples; a node's parents come before it. */
static void choose_thread(firefox *f, const axis_thread *thread) {
    choose_none(&f->stacks);
    choose_none(&f->frames);
    choose_none(&f->modules);
    for (size_t i = 0; i < thread->count; i++) {
        int64_t at = f->nodes.leaf[f->p->samples[f->x.samples[thread->first + i]].stack];
        for (; at >= 0 && !f->stacks.place[at]; at = f->nodes.nodes[at].parent)
            profile_write_choose(&f->stacks, (uint32_t)at);
    }
    qsort(f->stacks.list, f->stacks.count, sizeof *f->stacks.list, profile_write_by_number);
    for (size_t i = 0; i < f->stacks.count; i++) {
        uint32_t frame = frame_of(f, f->stacks.list[i]);
        f->stacks.place[f->stacks.list[i]] = (uint32_t)i + 1;
        profile_write_choose(&f->frames, frame);
        if (frame < f->p->frame_count)
            profile_write_choose(&f->modules, f->p->frames[frame].module);
    }
}

static int is_kernel_frame(const firefox *f, uint32_t frame) {
    return frame < f->p->frame_count && f->p->modules[f->p->frames[frame].module].is_kernel;
}

static void firefox_tables(const firefox *f) {
    const ec_profile *p = f->p;
    ea_text *t = f->t;
    size_t frames = f->frames.count, modules = f->modules.count, stacks = f->stacks.count;
    const uint32_t *frame = f->frames.list, *stack = f->stacks.list, *module = f->modules.list;
    ea_text_str(t, ",\n\"stringArray\":["); /* the labels, then the modules' names */
    for (size_t i = 0; i < frames + modules; i++) {
        ea_text_str(t, i ? ",\n" : "");
        ea_text_json_str(t, i >= frames                  ? p->modules[module[i - frames]].name
                            : frame[i] >= p->frame_count ? p->processes[frame[i] - p->frame_count]
                                                         : p->frames[frame[i]].label);
    }
    ea_text_printf(t, "],\n\"resourceTable\":{\"length\":%zu", modules);
    COLUMN(t, "lib", modules, ea_text_str(t, "null"));
    COLUMN(t, "name", modules, ea_text_u64(t, frames + i));
    COLUMN(t, "host", modules, ea_text_str(t, "null"));
    COLUMN(t, "type", modules, ea_text_char(t, '1'));
    ea_text_printf(t, "},\n\"funcTable\":{\"length\":%zu", frames);
    COLUMN(t, "name", frames, ea_text_u64(t, i));
    COLUMN(t, "isJS", frames, ea_text_str(t, "false"));
    COLUMN(t, "relevantForJS", frames, ea_text_str(t, "false"));
    COLUMN(t, "resource", frames,
           ea_text_i64(t, frame[i] < p->frame_count ? (int64_t)f->modules.place[p->frames[frame[i]].module] - 1 : -1));
    COLUMN(t, "fileName", frames, ea_text_str(t, "null"));
    COLUMN(t, "lineNumber", frames, ea_text_str(t, "null"));
    COLUMN(t, "columnNumber", frames, ea_text_str(t, "null"));
    ea_text_printf(
        t,
        "},\n\"nativeSymbols\":{\"length\":0,\"libIndex\":[],\"address\":[],\"name\":[],\"functionSize\":[]},"
        "\n\"frameTable\":{\"length\":%zu",
        frames);
    COLUMN(t, "address", frames, ea_text_str(t, "-1"));
    COLUMN(t, "inlineDepth", frames, ea_text_char(t, '0'));
    COLUMN(t, "category", frames, ea_text_char(t, is_kernel_frame(f, frame[i]) ? '1' : '0'));
    COLUMN(t, "subcategory", frames, ea_text_char(t, '0'));
    COLUMN(t, "func", frames, ea_text_u64(t, i));
    COLUMN(t, "nativeSymbol", frames, ea_text_str(t, "null"));
    COLUMN(t, "innerWindowID", frames, ea_text_char(t, '0'));
    COLUMN(t, "implementation", frames, ea_text_str(t, "null"));
    COLUMN(t, "line", frames, ea_text_str(t, "null"));
    COLUMN(t, "column", frames, ea_text_str(t, "null"));
    ea_text_printf(t, "},\n\"stackTable\":{\"length\":%zu", stacks);
    COLUMN(t, "prefix", stacks, if (f->nodes.nodes[stack[i]].parent < 0) ea_text_str(t, "null");
           else ea_text_u64(t, f->stacks.place[f->nodes.nodes[stack[i]].parent] - 1));
    COLUMN(t, "frame", stacks, ea_text_u64(t, f->frames.place[frame_of(f, stack[i])] - 1));
    COLUMN(t, "category", stacks, ea_text_char(t, is_kernel_frame(f, frame_of(f, stack[i])) ? '1' : '0'));
    COLUMN(t, "subcategory", stacks, ea_text_char(t, '0'));
}

static void firefox_thread(firefox *f, const axis_thread *thread, int is_main) {
    const ec_profile *p = f->p;
    ea_text *t = f->t;
    int is_time = is_time_of(p, 0);
    choose_thread(f, thread);
    ea_text_printf(
        t,
        "{\"processType\":\"default\",\"processStartupTime\":0,\"processShutdownTime\":null,"
        "\"registerTime\":0,\"unregisterTime\":null,\"pausedRanges\":[],\"isMainThread\":%s,\"pid\":\"%" PRIu64
        "\",\"tid\":%" PRIu64 ",\"processName\":",
        is_main ? "true" : "false", thread->pid, thread->tid);
    process_title(p, thread->of, t);
    ea_text_printf(t, ",\"name\":\"thread %" PRIu32 "\"", thread->of->tid);
    firefox_tables(f);
    ea_text_printf(t, "},\n\"samples\":{\"length\":%zu,\"weightType\":\"%s\"", thread->count,
                   is_time ? "tracing-ms" : "samples");
    const uint32_t *sample = f->x.samples + thread->first;
    COLUMN(t, "stack", thread->count, ea_text_u64(t, f->stacks.place[f->nodes.leaf[p->samples[sample[i]].stack]] - 1));
    COLUMN(t, "time", thread->count,
           ea_text_printf(t, "%.6f", (double)(p->samples[sample[i]].utc_ns - f->x.begin_utc_ns) / 1e6));
    COLUMN(t, "weight", thread->count,
           if (is_time) ea_text_printf(t, "%.6f", (double)p->samples[sample[i]].weight / 1e6);
           else ea_text_u64(t, p->samples[sample[i]].weight));
    ea_text_str(t, "},\n\"markers\":{\"length\":0,\"category\":[],\"data\":[],\"endTime\":[],\"name\":[],\"phase\":[],"
                   "\"startTime\":[]}}");
}

static int write_firefox(const ec_profile *p, ea_text *t) {
    firefox f = {.p = p, .t = t};
    int tree_rc = make_tree(p, &f.nodes), axis_rc = make_axis(p, &f.x), rc = tree_rc ? tree_rc : axis_rc;
    int stacks_rc = choose_from(&f.stacks, f.nodes.count),
        frames_rc = choose_from(&f.frames, p->frame_count + p->process_count),
        modules_rc = choose_from(&f.modules, p->module_count);
    rc = rc ? rc : stacks_rc || frames_rc || modules_rc ? EA_ENOMEM : 0;
    ea_text_printf(
        t,
        "{\"meta\":{\"interval\":1,\"startTime\":%.6f,\"processType\":0,\"product\":\"etwcollector\","
        "\"stackwalk\":1,\"version\":24,\"preprocessedProfileVersion\":47,\"symbolicated\":true,"
        "\"usesOnlyOneStackType\":true,\"doesNotUseFrameImplementation\":true,"
        "\"sourceCodeIsNotOnSearchfox\":true,\"markerSchema\":[],\"extensions\":{\"length\":0,\"baseURL\":[],"
        "\"id\":[],\"name\":[]},\"categories\":[{\"name\":\"User\",\"color\":\"yellow\",\"subcategories\":[\"Other\"]},"
        "{\"name\":\"Kernel\",\"color\":\"orange\",\"subcategories\":[\"Other\"]}]},\n\"libs\":[],\"pages\":[],"
        "\"threads\":[",
        rc ? 0 : (double)f.x.begin_utc_ns / 1e6);
    for (size_t i = 0; !rc && i < p->thread_count; i++) {
        ea_text_str(t, i ? ",\n" : "");
        firefox_thread(&f, &f.x.threads[i], !i || f.x.threads[i].pid != f.x.threads[i - 1].pid);
    }
    ea_text_str(t, "]}\n");
    free_chosen(&f.stacks);
    free_chosen(&f.frames);
    free_chosen(&f.modules);
    free_axis(&f.x);
    free_tree(&f.nodes);
    return rc;
}

int ec_profile_form_has_times(enum ec_profile_format format) {
    return format == EC_PROFILE_CHROME || format == EC_PROFILE_FIREFOX;
}

/* ---- for a terminal ---- */

/* Milliseconds, or a whole number of what is counted. */
static void top_number(ea_text *t, uint64_t weight, int is_time) {
    if (is_time)
        ea_text_printf(t, "%14.3f", (double)weight / 1e6);
    else
        ea_text_printf(t, "%14" PRIu64, weight);
}

static int write_top(const ec_profile *p, ea_text *t) {
    int rc = 0, is_ratio = ec_profile_has_two_weights(p);
    for (int by_module = 0; !rc && by_module < 2; by_module++) {
        top *tops = NULL;
        size_t n = 0;
        rc = profile_write_sum_up(p, by_module, &tops, &n);
        ea_text_printf(t, "%s%14s %14s", by_module ? "\n" : "", is_time_of(p, 0) ? "self ms" : "self",
                       is_time_of(p, 0) ? "total ms" : "total");
        if (p->has_other)
            ea_text_printf(t, " %14s %14s", "other self", "other total");
        ea_text_printf(t, "%s  %s\n", is_ratio ? " self / other" : "", by_module ? "module" : "function");
        for (size_t i = 0; i < n && i < 30; i++) {
            for (int side = 0; side < (p->has_other ? 2 : 1); side++) {
                ea_text_str(t, side ? " " : "");
                top_number(t, tops[i].self[side], is_time_of(p, side));
                ea_text_char(t, ' ');
                top_number(t, tops[i].total[side], is_time_of(p, side));
            }
            if (is_ratio && tops[i].self[1])
                ea_text_printf(t, " %12.3f", (double)tops[i].self[0] / (double)tops[i].self[1]);
            else if (is_ratio)
                ea_text_printf(t, " %12s", "-");
            const char *name = by_module ? p->modules[tops[i].index].name : p->frames[tops[i].index].label;
            ea_text_str(t, "  ");
            ea_text_safe(t, name, strlen(name));
            ea_text_char(t, '\n');
        }
        free(tops);
    }
    return rc;
}

int ec_profile_write(const ec_profile *p, enum ec_profile_format format, ea_text *out, ea_err *err) {
    static int (*const WRITERS[])(const ec_profile *p, ea_text *t) = {
        [EC_PROFILE_JSON] = write_json,
        [EC_PROFILE_FOLDED] = write_folded,
        [EC_PROFILE_SPEEDSCOPE] = write_speedscope,
        [EC_PROFILE_PPROF] = write_pprof,
        [EC_PROFILE_CHROME] = write_chrome,
        [EC_PROFILE_FIREFOX] = write_firefox,
        [EC_PROFILE_TOP] = write_top,
    };
    if (p->has_other && (format == EC_PROFILE_CHROME || format == EC_PROFILE_FIREFOX))
        return ea_fail(err, EA_EUSAGE, "the formats chrome and firefox have no room for a difference");
    if (ec_profile_has_two_weights(p) && format == EC_PROFILE_PPROF)
        return ea_fail(err, EA_EUSAGE, "the format pprof has no room for two weights");
    int rc = WRITERS[format](p, out);
    return rc || out->failed ? ea_fail(err, EA_ENOMEM, "write a profile") : 0;
}
