/* See rewrite.h. */
#include "proto/relog/rewrite.h"

#include "proto/event/encode.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    CLASS_MAX = 512,
    TARGET_MAX = 256,
    PAYLOAD_MAX = UINT16_MAX,
    NO_ID = UINT32_MAX,
    WPP_GUID = 0x02, /* options of a message */
    WPP_TIME = 0x18,
    WPP_SYSTEM_INFO = 0x20,
};

#define NS_OF_SECOND 1000000000

enum member {

#define X(name, least, most) MEMBER_##name,
    EA_REWRITE_HEADER(X)
#undef X
        MEMBER_COUNT,
    MEMBER_NONE = MEMBER_COUNT /* a field */
};

static const struct {
    const char *name;
    int64_t least, most;
} MEMBERS[MEMBER_COUNT] = {

#define X(name, least, most) {#name, least, most},
    EA_REWRITE_HEADER(X)
#undef X
};

/* A value of an expression. */
typedef struct value {
    uint8_t kind; /* enum ea_lang_column_kind */
    uint64_t bits;
    ea_text text;
} value;

typedef struct rule {
    const char *text; /* as it was given */
    enum member member;
    char field[TARGET_MAX];
    ea_lang_program *program;
    ea_lang_run *run;
    int has_value; /* of the record at hand */
    value v;
    int has_class, has_field; /* an event of the class came; one that has the field */
} rule;

struct ea_rewrite {
    rule *rules;
    size_t count;
    ea_machine *machine; /* NULL: no expression reads it */
    ea_clock clock;
    ea_arena arena;
    ea_rewrite_counts counts;
    uint8_t payload[PAYLOAD_MAX];
};

/* ---- rules ---- */

static int is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n';
}

/* [begin, end) without blanks around it, as a text. */
static int rewrite_copy_part(const char *begin, const char *end, char *out, size_t room) {
    while (begin < end && is_blank(*begin))
        begin++;
    while (end > begin && is_blank(end[-1]))
        end--;
    size_t n = (size_t)(end - begin);
    if (!n || n >= room)
        return 0;
    memcpy(out, begin, n);
    out[n] = 0;
    return 1;
}

/* The first = that is not one of == (which a target does not have). */
static int parse_rule(rule *k, const char *text, char *class_name, const char **ret_expression, ea_err *err) {
    static const char FIELD[] = "event.";
    char target[TARGET_MAX];
    const char *equals = strchr(text, '='), *colon = equals;
    k->text = text;
    while (colon && colon > text && *colon != ':') /* a class may have one, as in PROVIDER:CLASS */
        colon--;
    if (!equals || *colon != ':' || !rewrite_copy_part(text, colon, class_name, CLASS_MAX) ||
        !rewrite_copy_part(colon + 1, equals, target, sizeof target) || !equals[1])
        return ea_fail(err, EA_EUSAGE, "--set %.200s: expected CLASS: TARGET = EXPRESSION", text);
    *ret_expression = equals + 1;
    k->member = MEMBER_NONE;
    for (int i = 0; i < MEMBER_COUNT; i++)
        if (strcmp(target, MEMBERS[i].name) == 0)
            k->member = (enum member)i;
    int is_field = strncmp(target, FIELD, sizeof FIELD - 1) == 0;
    memcpy(k->field, target + (is_field ? sizeof FIELD - 1 : 0),
           strlen(target + (is_field ? sizeof FIELD - 1 : 0)) + 1);
    return 0;
}

static int rewrite_compile(rule *k, const char *text, ea_lang_classes *classes, ea_err *err) {
    char class_name[CLASS_MAX];
    const char *expression;
    ea_lang_problem problem;
    ea_text_init(&k->v.text);
    int rc = parse_rule(k, text, class_name, &expression, err);
    if (rc)
        return rc;
    const ea_strings patterns = {.items = {class_name}, .count = 1};
    rc = ea_lang_compile_expression(&k->program, &patterns, " { emit(value = (", expression, "\n)); }", classes,
                                    &problem, err);
    if (rc && problem.line)
        rc = ea_lang_report_problem(&problem, "--set", expression, strlen(expression), err);
    if (!rc && ea_lang_needs_stacks(k->program))
        rc = ea_fail(err, EA_EUSAGE, "--set: stacks of events are known to 'etwagent watch' only");
    return rc;
}

int ea_rewrite_create(ea_rewrite **ret, const ea_strings *rules, ea_lang_classes *classes, ea_err *err) {
    ea_rewrite *x = calloc(1, sizeof *x);
    if (!x)
        return ea_fail(err, EA_ENOMEM, "rewrite a trace");
    ea_arena_init(&x->arena, 0);
    x->rules = calloc(rules->count + 1, sizeof *x->rules);
    int rc = x->rules ? 0 : ea_fail(err, EA_ENOMEM, "rewrite a trace");
    for (; !rc && x->count < rules->count; x->count++)
        rc = rewrite_compile(&x->rules[x->count], rules->items[x->count], classes, err);
    if (rc) {
        ea_rewrite_destroy(x);
        return rc;
    }
    *ret = x;
    return 0;
}

void ea_rewrite_destroy(ea_rewrite *x) {
    if (!x)
        return;
    for (size_t i = 0; x->rules && i < x->count; i++) {
        ea_lang_run_destroy(x->rules[i].run);
        ea_lang_program_destroy(x->rules[i].program);
        ea_text_deinit(&x->rules[i].v.text);
    }
    free(x->rules);
    ea_machine_destroy(x->machine);
    ea_arena_deinit(&x->arena);
    free(x);
}

const ea_rewrite_counts *ea_rewrite_count(const ea_rewrite *x) {
    return &x->counts;
}

/* ---- expressions ---- */

static int rewrite_take_value(void *arg, const ea_lang_output *row) {
    rule *k = arg;
    const ea_lang_column *column = &row->columns[0];
    k->v.kind = column->kind;
    k->v.bits = column->bits;
    ea_text_clear(&k->v.text);
    if (column->kind == EA_LANG_COLUMN_TEXT) {
        const char *end = column->len_bytes ? memchr(column->data, 0, column->len_bytes) : NULL;
        ea_text_add(&k->v.text, column->data, end ? (size_t)(end - column->data) : column->len_bytes);
    }
    k->has_value = 1;
    return k->v.text.failed;
}

int ea_rewrite_begin(ea_rewrite *x, const ea_clock *clock, ea_err *err) {
    int needs_state = 0, rc = 0;
    x->clock = *clock;
    for (size_t i = 0; i < x->count; i++)
        needs_state |= ea_lang_needs_processes(x->rules[i].program);
    if (needs_state)
        rc = ea_machine_create(&x->machine, &(ea_machine_options){0}, err);
    for (size_t i = 0; !rc && i < x->count; i++) {
        const ea_lang_run_options options = {
            .form = EA_LANG_ROWS, .machine = x->machine, .on_row = rewrite_take_value, .on_row_arg = &x->rules[i]};
        rc = ea_lang_run_create(&x->rules[i].run, x->rules[i].program, &options, err);
    }
    return rc;
}

static ea_lang_event rewrite_event(const ea_rewrite *x, const ea_record *r, const ea_class *c) {
    return (ea_lang_event){
        .record = r, .c = c, .clock = &x->clock, .utc_ns = ea_clock_to_utc_ns(&x->clock, r->time_raw)};
}

int ea_rewrite_note(ea_rewrite *x, const ea_record *r, const ea_class *c, ea_err *err) {
    const ea_lang_event event = rewrite_event(x, r, c);
    int rc = x->machine ? ea_machine_apply(x->machine, r, c, event.utc_ns, err) : 0;
    for (size_t i = 0; !rc && i < x->count; i++)
        if (ea_lang_run_note(x->rules[i].run, &event))
            rc = ea_fail(err, EA_ENOMEM, "rewrite a trace");
    return rc;
}

/* ---- values ---- */

static int rewrite_has_text(const rule *k) {
    return k->v.kind == EA_LANG_COLUMN_TEXT;
}

static int wrong_value(const rule *k, const ea_class *c, const char *expected, ea_err *err) {
    static const char *const NAMES[] = {"a number", "a number", "a number", "a fraction", "a text", "a stack"};
    return ea_fail(err, EA_EUSAGE, "--set %.200s: of %s, expected %s, the expression has %s", k->text, c->name,
                   expected, k->v.kind < sizeof NAMES / sizeof *NAMES ? NAMES[k->v.kind] : "another value");
}

/* ns as ticks. */
static uint64_t ticks_of(const ea_clock *clock, int64_t ns) {
    const ea_clock span = {.type = clock->type, .frequency = clock->frequency};
    return (uint64_t)ea_clock_from_utc_ns(&span, ns);
}

static int rewrite_number(const ea_rewrite *x, const rule *k, const ea_class *c, const ea_field *f, uint64_t *ret,
                          ea_err *err) {
    const value *v = &k->v;
    int is_fraction = v->kind == EA_LANG_COLUMN_F64;
    double d;
    float small;
    uint32_t bits;
    if (rewrite_has_text(k) || v->kind == EA_LANG_COLUMN_STACK)
        return wrong_value(k, c, "a number", err);
    *ret = v->bits;
    if (f->type == EA_F32 || f->type == EA_F64) {
        d = v->kind == EA_LANG_COLUMN_I64 ? (double)(int64_t)v->bits : (double)v->bits;
        if (is_fraction)
            memcpy(&d, &v->bits, sizeof d);
        memcpy(ret, &d, sizeof d);
        if (f->type == EA_F32) {
            small = (float)d;
            memcpy(&bits, &small, sizeof bits);
            *ret = bits;
        }
        return 0;
    }
    if (is_fraction)
        return wrong_value(k, c, "a whole number", err);
    if (f->width == 8 && f->semantic == EA_SEM_QPC)
        *ret = (uint64_t)ea_clock_from_utc_ns(&x->clock, (int64_t)v->bits);
    else if (f->width == 8 && f->semantic == EA_SEM_DURATION_QPC)
        *ret = ticks_of(&x->clock, (int64_t)v->bits);
    return 0;
}

static int rewrite_guid(const rule *k, const ea_class *c, ea_guid *ret, ea_err *err) {
    if (!rewrite_has_text(k) || ea_guid_parse(k->v.text.data ? k->v.text.data : "", ret))
        return wrong_value(k, c, "the text of a GUID", err);
    return 0;
}

static int rewrite_set_text(const rule *k, const ea_class *c, ea_event_value *values, size_t at, ea_err *err) {
    if (!rewrite_has_text(k))
        return wrong_value(k, c, "a text", err);
    ea_event_set_text(c, values, at, k->v.text.data ? k->v.text.data : "", k->v.text.len_bytes);
    return 0;
}

static int rewrite_is_text_type(uint8_t type) {
    return (type >= EA_UTF16Z && type <= EA_UTF16_REST) || (type >= EA_UTF16_FIXED && type <= EA_UTF8_FIXED) ||
           type == EA_CHAR8 || type == EA_CHAR16;
}

static int set_field(ea_rewrite *x, const rule *k, const ea_class *c, const ea_field *f, ea_event_value *values,
                     size_t at, ea_err *err) {
    ea_guid guid;
    if (rewrite_is_text_type(f->type) && values[at].kind != EA_VALUE_LIST)
        return rewrite_set_text(k, c, values, at, err);
    if (values[at].kind == EA_VALUE_NUMBER)
        return rewrite_number(x, k, c, f, &values[at].number, err);
    if (f->type != EA_GUID || values[at].kind != EA_VALUE_BYTES)
        return ea_fail(err, EA_EUSAGE, "--set %.200s: %s of %s is an array, a structure or bytes, which cannot be set",
                       k->text, f->name, c->name);
    int rc = rewrite_guid(k, c, &guid, err);
    values[at].data = ea_arena_copy(&x->arena, guid.bytes, sizeof guid.bytes);
    return !rc && !values[at].data ? ea_fail(err, EA_ENOMEM, "rewrite a trace") : rc;
}

/* The top-level field of a rule as a place among values; top_count: the class has none. */
static size_t find_field(const rule *k, const ea_class *c) {
    size_t i = 0;
    while (i < c->top_count && strcmp(c->fields[ea_class_top_field(c, i)].name, k->field) != 0)
        i++;
    return i;
}

/* ---- the header ---- */

static int is_kernel_header(const ea_record *r) {
    return (r->header_type >= EA_HEADER_SYSTEM32 && r->header_type <= EA_HEADER_COMPACT64) ||
           r->header_type == EA_HEADER_PERFINFO32 || r->header_type == EA_HEADER_PERFINFO64;
}

/* The same event with the header of a classic provider. 0: what its header holds besides has no place there. */
static int make_classic(ea_record *r) {
    if (r->ext_count)
        return 0;
    r->header_type = r->pointer_size == 4 ? EA_HEADER_FULL32 : EA_HEADER_FULL64;
    r->header_word = r->version;
    r->hook_id = 0;
    return 1;
}

/* 1 when the header of the record has a place for the member, as it is or as a classic one. */
static int has_place(ea_record *r, enum member m) {
    int is_classic = r->flags & EA_FLAG_CLASSIC_HEADER,
        is_perfinfo = r->header_type == EA_HEADER_PERFINFO32 || r->header_type == EA_HEADER_PERFINFO64;
    if (m == MEMBER_cpu)
        return 1;
    if (r->flags & EA_FLAG_TRACE_MESSAGE)
        return (m == MEMBER_time && r->header_word & WPP_TIME) || m == MEMBER_id ||
               (m == MEMBER_provider && r->header_word & WPP_GUID) ||
               ((m == MEMBER_pid || m == MEMBER_tid) && r->header_word & WPP_SYSTEM_INFO);
    if (m == MEMBER_time || !is_classic)
        return 1;
    if (m == MEMBER_id || m == MEMBER_channel || m == MEMBER_task || m == MEMBER_keyword || m == MEMBER_activity)
        return 0;
    if ((m == MEMBER_pid || m == MEMBER_tid) && !is_perfinfo)
        return 1;
    return !is_kernel_header(r) || make_classic(r);
}

static int set_header_text(const rule *k, const ea_class *c, ea_record *r, ea_err *err) {
    return rewrite_guid(k, c, k->member == MEMBER_provider ? &r->provider : &r->activity_id, err);
}

static int set_header_number(const ea_rewrite *x, const rule *k, const ea_class *c, ea_record *r, ea_err *err) {
    int64_t n = (int64_t)k->v.bits;
    int is_whole =
        k->v.kind == EA_LANG_COLUMN_I64 || k->v.kind == EA_LANG_COLUMN_U64 || k->v.kind == EA_LANG_COLUMN_HEX;
    if (!is_whole)
        return wrong_value(k, c, "a whole number", err);
    if (k->member != MEMBER_keyword &&
        (n < MEMBERS[k->member].least || n > MEMBERS[k->member].most || (n < 0 && k->v.kind != EA_LANG_COLUMN_I64)))
        return ea_fail(err, EA_EUSAGE, "--set %.200s: %" PRId64 " is no %s", k->text, n, MEMBERS[k->member].name);
    switch (k->member) {
    case MEMBER_pid:
        r->pid = n < 0 ? NO_ID : (uint32_t)n;
        break;
    case MEMBER_tid:
        r->tid = n < 0 ? NO_ID : (uint32_t)n;
        break;
    case MEMBER_cpu:
        r->cpu = (uint16_t)n;
        break;
    case MEMBER_time:
        r->time_raw = ea_clock_from_utc_ns(&x->clock, n);
        break;
    case MEMBER_id:
        r->id = (uint16_t)n;
        break;
    case MEMBER_version:
        r->version = (uint8_t)n;
        if (r->flags & EA_FLAG_CLASSIC_HEADER)
            r->header_word = (uint16_t)((r->header_word & 0xFF00) | r->version);
        break;
    case MEMBER_channel:
        r->channel = (uint8_t)n;
        break;
    case MEMBER_level:
        r->level = (uint8_t)n;
        break;
    case MEMBER_opcode:
        r->opcode = (uint8_t)n;
        break;
    case MEMBER_task:
        r->task = (uint16_t)n;
        break;
    default:
        r->keyword = (uint64_t)n;
        break;
    }
    return 0;
}

static int set_header(const ea_rewrite *x, const rule *k, const ea_class *c, ea_record *r, ea_err *err) {
    if (!has_place(r, k->member))
        return ea_fail(err, EA_EUSAGE, "--set %.200s: the header of an event of %s has no place for %s", k->text,
                       c->name, MEMBERS[k->member].name);
    return k->member == MEMBER_provider || k->member == MEMBER_activity ? set_header_text(k, c, r, err)
                                                                        : set_header_number(x, k, c, r, err);
}

/* ---- a record ---- */

/* Evaluates all rules on it. The number of those that have a value, or an error. */
static int rewrite_evaluate(ea_rewrite *x, const ea_record *r, const ea_class *c, ea_err *err) {
    const ea_lang_event event = rewrite_event(x, r, c);
    int n = 0;
    for (size_t i = 0; i < x->count; i++) {
        rule *k = &x->rules[i];
        k->has_value = 0;
        if (!ea_lang_concerns(k->program, c))
            continue;
        int rc = ea_lang_run_event(k->run, &event);
        if (rc < 0)
            return ea_fail(err, rc, "rewrite_evaluate --set");
        k->has_class = 1;
        x->counts.absent += !k->has_value;
        n += k->has_value;
    }
    return n;
}

static int set_fields(ea_rewrite *x, const ea_record *r, const ea_class *c, ea_record *ret, ea_err *err) {
    const ea_event_value *read;
    ea_event_value *values;
    size_t count, used, written;
    uint64_t before = x->counts.values;
    ea_arena_reset(&x->arena);
    int rc = ea_event_read_values(c, r->payload, r->payload_bytes, &x->arena, &read, &count, &used, err);
    if (rc)
        return rc;
    values = ea_arena_copy(&x->arena, read, (count + 1) * sizeof *values);
    if (!values)
        return ea_fail(err, EA_ENOMEM, "rewrite a trace");
    for (size_t i = 0; !rc && i < x->count; i++) {
        rule *k = &x->rules[i];
        if (!k->has_value || k->member != MEMBER_NONE)
            continue;
        size_t at = find_field(k, c);
        k->has_field |= at < c->top_count;
        if (at >= count) {
            x->counts.absent++;
            continue;
        }
        rc = set_field(x, k, c, &c->fields[ea_class_top_field(c, at)], values, at, err);
        x->counts.values += !rc;
    }
    if (rc || x->counts.values == before)
        return rc;
    rc = ea_event_write_values(c, values, count, x->payload, sizeof x->payload, &written, err);
    size_t rest = r->payload_bytes - used;
    if (!rc && rest > sizeof x->payload - written)
        rc = ea_fail(err, EA_ELIMIT, "--set: an event of %s has more than %d bytes with its new values", c->name,
                     PAYLOAD_MAX);
    if (rc)
        return rc;
    if (rest)
        memcpy(x->payload + written, r->payload + used, rest);
    ret->payload = x->payload;
    ret->payload_bytes = (uint16_t)(written + rest);
    return 0;
}

int ea_rewrite_apply(ea_rewrite *x, const ea_record *r, const ea_class *c, ea_record *ret, ea_err *err) {
    uint64_t before = x->counts.values;
    int fields = 0;
    *ret = *r;
    int rc = rewrite_evaluate(x, r, c, err);
    if (rc <= 0)
        return rc;
    rc = 0;
    for (size_t i = 0; i < x->count; i++)
        fields |= x->rules[i].has_value && x->rules[i].member == MEMBER_NONE;
    if (fields)
        rc = set_fields(x, r, c, ret, err);
    for (size_t i = 0; !rc && i < x->count; i++) {
        const rule *k = &x->rules[i];
        if (!k->has_value || k->member == MEMBER_NONE)
            continue;
        rc = set_header(x, k, c, ret, err);
        x->counts.values += !rc;
    }
    return rc ? rc : x->counts.values != before;
}

int ea_rewrite_check(const ea_rewrite *x, ea_err *err) {
    for (size_t i = 0; i < x->count; i++) {
        const rule *k = &x->rules[i];
        if (k->member == MEMBER_NONE && k->has_class && !k->has_field)
            return ea_fail(err, EA_ENOTFOUND, "--set %.200s: no event of this class has a field %s", k->text, k->field);
    }
    return 0;
}
