/* What a program prints: tables and bars for people, JSON lines, CSV. See lang_run.h. */
#include "proto/lang/lang_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BAR_WIDTH = 40, COLUMN_MAX = 60, FLUSH_BYTES = 1 << 18, CSV_OF_TRIGGERS = INT32_MIN };

static void print_put_number(ea_text *out, enum ea_lang_form form, enum lang_type type, uint64_t v) {
    switch (type) {
    case TYPE_INT:
        ea_text_i64(out, (int64_t)v);
        break;
    case TYPE_HEX:
        ea_text_hex64(out, v);
        break;
    case TYPE_FLOAT: {
        double d = lang_double(v);
        if (d != d || d - d != 0) { /* JSON has no such number */
            ea_text_str(out, form == EA_LANG_JSON ? "null" : d != d ? "NaN" : d > 0 ? "Infinity" : "-Infinity");
        } else if (form == EA_LANG_TEXT) { /* six digits, and all before the point */
            ea_text_printf(out, d > -1e15 && d < 1e15 && (d >= 999999.5 || d <= -999999.5) ? "%.0f" : "%.6g", d);
        } else { /* the shorter one that is the same number */
            char digits[40];
            snprintf(digits, sizeof digits, "%.15g", d);
            if (strtod(digits, NULL) != d)
                snprintf(digits, sizeof digits, "%.17g", d);
            ea_text_str(out, digits);
        }
        break;
    }
    default:
        ea_text_u64(out, v);
    }
}

/* put: appends a frame. Returns how many there are. */
static size_t print_put_frames(const ea_lang_run *r, ea_text *out, uint64_t v, const char *between,
                               void (*put)(ea_text *t, const char *s, size_t len_bytes)) {
    const lang_string *s = lang_string_at(&r->strings, v);
    const char *at = s->text, *end = s->text + (v == STRING_NO_ROOM ? 0 : s->len_bytes);
    size_t count = 0;
    while (at < end) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        size_t n = (size_t)((line ? line : end) - at);
        if (count++)
            ea_text_str(out, between);
        put(out, at, n);
        at += n + 1;
    }
    return count;
}

static void print_put_bare(ea_text *t, const char *s, size_t len_bytes) {
    ea_text_add(t, s, len_bytes);
}

static void print_put_quoted(ea_text *t, const char *s, size_t len_bytes) {
    ea_text_char(t, '"');
    ea_text_json(t, s, len_bytes);
    ea_text_char(t, '"');
}

static void print_put_frame_list(const ea_lang_run *r, ea_text *out, uint64_t v) {
    ea_text_char(out, '[');
    (void)print_put_frames(r, out, v, ",", print_put_quoted);
    ea_text_char(out, ']');
}

/* A value for a person, without a line's end in it. */
static void print_put_plain(ea_lang_run *r, ea_text *out, enum lang_type type, uint64_t v) {
    if (type == TYPE_TEXT) {
        const lang_string *s = lang_string_at(&r->strings, v);
        ea_text_safe(out, s->text, s->len_bytes);
    } else if (type == TYPE_STACK) {
        (void)print_put_frames(r, out, v, " ", ea_text_safe);
    } else {
        print_put_number(out, EA_LANG_TEXT, type, v);
    }
}

static void print_put_json(ea_lang_run *r, ea_text *out, enum lang_type type, uint64_t v) {
    if (type == TYPE_TEXT) {
        const lang_string *s = lang_string_at(&r->strings, v);
        ea_text_char(out, '"');
        ea_text_json(out, s->text, s->len_bytes);
        ea_text_char(out, '"');
    } else if (type == TYPE_STACK) {
        print_put_frame_list(r, out, v);
    } else if (type == TYPE_HEX) {
        ea_text_char(out, '"');
        print_put_number(out, EA_LANG_JSON, type, v);
        ea_text_char(out, '"');
    } else {
        print_put_number(out, EA_LANG_JSON, type, v);
    }
}

static void print_put_csv(ea_lang_run *r, ea_text *out, enum lang_type type, uint64_t v) {
    if (type != TYPE_TEXT && type != TYPE_STACK) {
        print_put_number(out, EA_LANG_CSV, type, v);
        return;
    }
    ea_text t;
    ea_text_init(&t);
    if (type == TYPE_STACK) {
        (void)print_put_frames(r, &t, v, " ", r->o.is_terminal ? ea_text_safe : print_put_bare);
    } else {
        const lang_string *s = lang_string_at(&r->strings, v);
        if (r->o.is_terminal)
            ea_text_safe(&t, s->text, s->len_bytes);
        else
            ea_text_add(&t, s->text, s->len_bytes);
    }
    ea_text_csv(out, t.data ? t.data : "", t.len_bytes);
    out->failed |= t.failed;
    ea_text_deinit(&t);
}

static const char *print_function_name(enum lang_function f) {
    static const char *const NAMES[] = {"",       "count",    "sum",       "min",        "max", "avg",
                                        "stddev", "quantize", "lquantize", "llquantize", "top", "distinct"};
    return NAMES[f];
}

static int print_by_count(const void *a, const void *b) {
    const lang_top_item *x = a, *y = b;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return (x->value > y->value) - (x->value < y->value);
}

/* The most frequent values, in order; returns how many. */
static size_t print_sort_top(const lang_aggregate *a, lang_top *t) {
    if (!t)
        return 0;
    qsort(t->items, t->count, sizeof *t->items, print_by_count);
    return t->count < (uint32_t)a->what->params[0] ? t->count : (size_t)a->what->params[0];
}

static const lang_histogram *print_histogram_of(const uint64_t *state) {
    return (const lang_histogram *)(uintptr_t)state[1];
}

static lang_top *print_top_of(const uint64_t *state) {
    return (lang_top *)(uintptr_t)state[1];
}

/* Between two entries: what was printed does not have to fit into memory. 0: the caller cannot take any more. */
static int print_go_on(ea_lang_run *r) {
    if (!r->o.flush || r->out.len_bytes < FLUSH_BYTES)
        return !r->out.failed;
    if (r->o.flush(r->o.flush_arg, &r->out))
        r->out.failed = 1;
    return !r->out.failed;
}

/* ---- text ---- */

/* Where a bucket begins or ends; open: the text of a missing bound. */
static void print_put_bound(ea_text *out, const lang_aggregate *a, int64_t v, const char *open) {
    if (v == INT64_MAX && a->what->function == FUNCTION_QUANTIZE) /* numbers without a sign go on */
        ea_text_u64(out, (uint64_t)1 << 63);
    else if (v == INT64_MIN)
        ea_text_str(out, open);
    else
        ea_text_i64(out, v);
}

static void print_put_bars(const lang_aggregate *a, const lang_histogram *h, ea_text *out) {
    uint64_t most = 1;
    for (uint32_t i = 0; h && i < h->count; i++)
        most = h->counts[i] > most ? h->counts[i] : most;
    for (uint32_t i = 0; h && i < h->count; i++) {
        int64_t from, to;
        ea_text label;
        ea_text_init(&label);
        lang_aggregate_bucket(a, (int64_t)h->first + i, &from, &to);
        ea_text_char(&label, '[');
        print_put_bound(&label, a, from, "-inf");
        ea_text_str(&label, ", ");
        print_put_bound(&label, a, to, "inf");
        ea_text_char(&label, ')');
        int width = (int)((double)h->counts[i] / (double)most * BAR_WIDTH + 0.5);
        ea_text_printf(out, "  %-32s %12" PRIu64 " |%.*s\n", label.data ? label.data : "", h->counts[i], width,
                       "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@");
        ea_text_deinit(&label);
    }
}

static void print_put_tops(ea_lang_run *r, const lang_aggregate *a, const uint64_t *state, ea_text *out) {
    lang_top *t = print_top_of(state);
    size_t n = print_sort_top(a, t);
    for (size_t i = 0; i < n; i++) {
        ea_text_printf(out, "  %12" PRIu64 "  ", t->items[i].count);
        print_put_plain(r, out, (enum lang_type)a->what->type, t->items[i].value);
        if (t->items[i].over)
            ea_text_printf(out, "  (at least %" PRIu64 ")", t->items[i].count - t->items[i].over);
        ea_text_char(out, '\n');
    }
}

static void print_put_stack_lines(ea_lang_run *r, uint64_t v, ea_text *out) {
    ea_text_str(out, "    ");
    if (!print_put_frames(r, out, v, "\n    ", ea_text_safe))
        ea_text_str(out, "(no stack)");
    ea_text_char(out, '\n');
}

static size_t print_shown_width(const char *s, size_t len_bytes) {
    size_t n = 0;
    for (size_t i = 0; i < len_bytes; i++)
        n += ((unsigned char)s[i] & 0xC0) != 0x80;
    return n;
}

typedef struct layout {
    size_t widths[EA_LANG_KEYS_MAX];
    int stack_count;
} layout;

static void print_measure(ea_lang_run *r, const lang_aggregate *a, const uint32_t *sorted, size_t count, layout *l) {
    ea_text t;
    ea_text_init(&t);
    for (unsigned k = 0; k < a->what->key_count; k++) {
        size_t label = print_shown_width(a->what->labels[k], strlen(a->what->labels[k]));
        l->widths[k] = label < COLUMN_MAX ? label : COLUMN_MAX;
        l->stack_count += a->what->keys[k] == TYPE_STACK;
        if (a->what->keys[k] == TYPE_STACK)
            continue;
        for (size_t i = 0; i < count; i++) {
            ea_text_clear(&t);
            print_put_plain(r, &t, (enum lang_type)a->what->keys[k], lang_table_entry(&a->table, sorted[i])[k]);
            size_t width = print_shown_width(t.data ? t.data : "", t.len_bytes);
            if (width > l->widths[k])
                l->widths[k] = width < COLUMN_MAX ? width : COLUMN_MAX;
        }
    }
    ea_text_deinit(&t);
}

static void print_put_cell(ea_text *out, size_t begin, size_t width, int is_left) {
    if (out->failed)
        return;
    size_t shown = print_shown_width(out->data + begin, out->len_bytes - begin);
    if (shown >= width)
        return;
    size_t fill = width - shown, len = out->len_bytes - begin;
    for (size_t i = 0; i < fill; i++)
        ea_text_char(out, ' ');
    if (!is_left && !out->failed) {
        memmove(out->data + begin + fill, out->data + begin, len);
        memset(out->data + begin, ' ', fill);
    }
}

/* One entry: keys NULL are the others'. */
static void print_put_entry(ea_lang_run *r, const lang_aggregate *a, const layout *l, const uint64_t *keys,
                            const uint64_t *state) {
    ea_text *out = &r->out;
    const lang_aggregation *what = a->what;
    int is_block = lang_has_histogram(what->function) || what->function == FUNCTION_TOP;
    int put = 0;
    for (unsigned k = 0; k < what->key_count; k++) {
        if (what->keys[k] == TYPE_STACK && keys)
            continue;
        if (put++)
            ea_text_str(out, "  ");
        size_t begin = out->len_bytes;
        if (keys)
            print_put_plain(r, out, (enum lang_type)what->keys[k], keys[k]);
        else if (k == 0)
            ea_text_str(out, "(others)");
        print_put_cell(out, begin, l->widths[k], what->keys[k] == TYPE_TEXT || !keys);
    }
    if (!is_block) {
        if (put)
            ea_text_str(out, "  ");
        size_t begin = out->len_bytes;
        print_put_number(out, EA_LANG_TEXT, lang_aggregate_type(what), lang_aggregate_result(a, state));
        print_put_cell(out, begin, 14, 0);
    }
    if (put || !is_block)
        ea_text_char(out, '\n');
    for (unsigned k = 0; k < what->key_count && keys; k++)
        if (what->keys[k] == TYPE_STACK)
            print_put_stack_lines(r, keys[k], out);
    if (lang_has_histogram(what->function))
        print_put_bars(a, print_histogram_of(state), out);
    else if (what->function == FUNCTION_TOP)
        print_put_tops(r, a, state, out);
}

static void print_text(ea_lang_run *r, const lang_aggregate *a, const uint32_t *sorted, size_t count) {
    ea_text *out = &r->out;
    if (r->redraws) /* the cursor to the first place, and nothing after it */
        ea_text_str(out, "\x1b[H\x1b[2J");
    r->redraws = 0;
    const lang_aggregation *what = a->what;
    layout l = {0};
    print_measure(r, a, sorted, count, &l);
    ea_text_printf(out, "@%.*s %s\n", (int)what->name.len_bytes, what->name.text, print_function_name(what->function));
    int put = 0;
    for (unsigned k = 0; k < what->key_count; k++) {
        if (what->keys[k] == TYPE_STACK)
            continue;
        if (put++)
            ea_text_str(out, "  ");
        size_t begin = out->len_bytes;
        ea_text_safe(out, what->labels[k], strlen(what->labels[k]));
        print_put_cell(out, begin, l.widths[k], what->keys[k] == TYPE_TEXT);
    }
    if (put) {
        if (!lang_has_histogram(what->function) && what->function != FUNCTION_TOP) {
            ea_text_str(out, "  ");
            size_t begin = out->len_bytes;
            ea_text_str(out, print_function_name(what->function));
            print_put_cell(out, begin, 14, 0);
        }
        ea_text_char(out, '\n');
    }
    for (size_t i = 0; i < count && print_go_on(r); i++) {
        const uint64_t *entry = lang_table_entry(&a->table, sorted[i]);
        print_put_entry(r, a, &l, entry, entry + what->key_count);
    }
    if (a->others[0])
        print_put_entry(r, a, &l, NULL, a->others);
    ea_text_char(out, '\n');
}

/* ---- JSON ---- */

static void print_put_json_value(ea_lang_run *r, const lang_aggregate *a, const uint64_t *state) {
    ea_text *out = &r->out;
    if (lang_has_histogram(a->what->function)) {
        const lang_histogram *h = print_histogram_of(state);
        int put = 0;
        ea_text_char(out, '[');
        for (uint32_t i = 0; h && i < h->count; i++) {
            int64_t from, to;
            if (!h->counts[i])
                continue;
            lang_aggregate_bucket(a, (int64_t)h->first + i, &from, &to);
            ea_text_str(out, put++ ? ",{\"from\":" : "{\"from\":");
            print_put_bound(out, a, from, "null");
            ea_text_str(out, ",\"to\":");
            print_put_bound(out, a, to, "null");
            ea_text_printf(out, ",\"count\":%" PRIu64 "}", h->counts[i]);
        }
        ea_text_char(out, ']');
    } else if (a->what->function == FUNCTION_TOP) {
        lang_top *t = print_top_of(state);
        size_t n = print_sort_top(a, t);
        ea_text_char(out, '[');
        for (size_t i = 0; i < n; i++) {
            ea_text_str(out, i ? ",{\"value\":" : "{\"value\":");
            print_put_json(r, out, (enum lang_type)a->what->type, t->items[i].value);
            ea_text_printf(out, ",\"count\":%" PRIu64 ",\"over\":%" PRIu64 "}", t->items[i].count, t->items[i].over);
        }
        ea_text_char(out, ']');
    } else {
        print_put_json(r, out, lang_aggregate_type(a->what), lang_aggregate_result(a, state));
    }
}

static void print_put_time(ea_lang_run *r, ea_text *out) {
    if (r->has_first) {
        ea_text_str(out, ",\"time\":\"");
        ea_text_utc_ns(out, r->now_utc_ns);
        ea_text_char(out, '"');
    }
}

static void print_json(ea_lang_run *r, const lang_aggregate *a, const uint32_t *sorted, size_t count) {
    ea_text *out = &r->out;
    const lang_aggregation *what = a->what;
    for (size_t i = 0; i < count + (a->others[0] != 0) && print_go_on(r); i++) {
        const uint64_t *entry = i < count ? lang_table_entry(&a->table, sorted[i]) : NULL;
        ea_text_printf(out, "{\"aggregation\":\"@%.*s\"", (int)what->name.len_bytes, what->name.text);
        print_put_time(r, out);
        ea_text_str(out, ",\"keys\":[");
        for (unsigned k = 0; k < what->key_count && entry; k++) {
            if (k)
                ea_text_char(out, ',');
            print_put_json(r, out, (enum lang_type)what->keys[k], entry[k]);
        }
        ea_text_printf(out, "]%s,\"%s\":", entry ? "" : ",\"others\":true", print_function_name(what->function));
        print_put_json_value(r, a, entry ? entry + what->key_count : a->others);
        ea_text_str(out, "}\n");
    }
}

/* ---- CSV ---- */

static void print_put_csv_begin(ea_lang_run *r, const lang_aggregate *a, const uint64_t *entry) {
    ea_text *out = &r->out;
    ea_text_printf(out, "@%.*s,", (int)a->what->name.len_bytes, a->what->name.text);
    for (unsigned k = 0; k < a->what->key_count; k++) {
        if (entry)
            print_put_csv(r, out, (enum lang_type)a->what->keys[k], entry[k]);
        else if (k == 0)
            ea_text_str(out, "(others)");
        ea_text_char(out, ',');
    }
}

static void print_csv(ea_lang_run *r, uint32_t number, const uint32_t *sorted, size_t count) {
    ea_text *out = &r->out;
    const lang_aggregate *a = &r->aggregates[number];
    const lang_aggregation *what = a->what;
    if (r->printed_csv != (int)number + 1) {
        ea_text_str(out, "aggregation,");
        for (unsigned k = 0; k < what->key_count; k++) {
            ea_text_csv(out, what->labels[k], strlen(what->labels[k]));
            ea_text_char(out, ',');
        }
        if (lang_has_histogram(what->function))
            ea_text_str(out, "from,to,count\n");
        else if (what->function == FUNCTION_TOP)
            ea_text_str(out, "value,count,over\n");
        else
            ea_text_printf(out, "%s\n", print_function_name(what->function));
        r->printed_csv = (int)number + 1;
    }
    for (size_t i = 0; i < count + (a->others[0] != 0) && print_go_on(r); i++) {
        const uint64_t *entry = i < count ? lang_table_entry(&a->table, sorted[i]) : NULL;
        const uint64_t *state = entry ? entry + what->key_count : a->others;
        if (lang_has_histogram(what->function)) {
            const lang_histogram *h = print_histogram_of(state);
            for (uint32_t b = 0; h && b < h->count; b++) {
                int64_t from, to;
                if (!h->counts[b])
                    continue;
                lang_aggregate_bucket(a, (int64_t)h->first + b, &from, &to);
                print_put_csv_begin(r, a, entry);
                print_put_bound(out, a, from, "-inf");
                ea_text_char(out, ',');
                print_put_bound(out, a, to, "inf");
                ea_text_printf(out, ",%" PRIu64 "\n", h->counts[b]);
            }
        } else if (what->function == FUNCTION_TOP) {
            lang_top *t = print_top_of(state);
            size_t n = print_sort_top(a, t);
            for (size_t k = 0; k < n; k++) {
                print_put_csv_begin(r, a, entry);
                print_put_csv(r, out, (enum lang_type)what->type, t->items[k].value);
                ea_text_printf(out, ",%" PRIu64 ",%" PRIu64 "\n", t->items[k].count, t->items[k].over);
            }
        } else {
            print_put_csv_begin(r, a, entry);
            print_put_csv(r, out, lang_aggregate_type(what), lang_aggregate_result(a, state));
            ea_text_char(out, '\n');
        }
    }
}

/* ---- rows ---- */

static uint8_t print_column_kind(enum lang_type type) {
    static const uint8_t KINDS[] = {
        [TYPE_INT] = EA_LANG_COLUMN_I64,   [TYPE_UINT] = EA_LANG_COLUMN_U64,  [TYPE_HEX] = EA_LANG_COLUMN_HEX,
        [TYPE_FLOAT] = EA_LANG_COLUMN_F64, [TYPE_TEXT] = EA_LANG_COLUMN_TEXT, [TYPE_STACK] = EA_LANG_COLUMN_STACK};
    return KINDS[type];
}

static ea_lang_column print_column_of(const ea_lang_run *r, const char *name, enum lang_type type, uint64_t v) {
    ea_lang_column c = {.name = name, .kind = print_column_kind(type), .bits = v, .data = ""};
    if (type == TYPE_TEXT) {
        const lang_string *s = lang_string_at(&r->strings, v);
        c.data = s->text;
        c.len_bytes = s->len_bytes;
    }
    return c;
}

/* Stacks become texts that live until the row was taken. */
static void print_put_stacks(ea_lang_run *r, ea_lang_column *columns, size_t count) {
    ea_text *t = &r->scratch;
    size_t begins[EA_LANG_COLUMNS_MAX + 1];
    ea_text_clear(t);
    for (size_t i = 0; i < count; i++) {
        begins[i] = t->len_bytes;
        if (columns[i].kind == EA_LANG_COLUMN_STACK)
            print_put_frame_list(r, t, columns[i].bits);
    }
    begins[count] = t->len_bytes;
    for (size_t i = 0; i < count && t->data && !t->failed; i++)
        if (columns[i].kind == EA_LANG_COLUMN_STACK) {
            columns[i].data = t->data + begins[i];
            columns[i].len_bytes = begins[i + 1] - begins[i];
        }
}

static void print_put_row(ea_lang_run *r, ea_lang_output *o, ea_lang_column *columns) {
    int has_stack = 0;
    for (size_t i = 0; i < o->column_count; i++)
        has_stack |= columns[i].kind == EA_LANG_COLUMN_STACK;
    if (has_stack)
        print_put_stacks(r, columns, o->column_count);
    o->columns = columns;
    o->utc_ns = r->has_first ? r->now_utc_ns : 0;
    if (!r->out.failed && r->o.on_row(r->o.on_row_arg, o))
        r->out.failed = 1;
}

/* An entry's rows: one; of a distribution one a bucket, of top one a value. */
static void print_put_entry_rows(ea_lang_run *r, const lang_aggregate *a, const uint64_t *entry) {
    const lang_aggregation *what = a->what;
    const uint64_t *state = entry ? entry + what->key_count : a->others;
    ea_lang_column columns[EA_LANG_COLUMNS_MAX];
    unsigned n = what->key_count;
    ea_lang_output o = {
        .name = what->name.text, .name_bytes = what->name.len_bytes, .is_aggregation = 1, .is_others = !entry};
    for (unsigned k = 0; k < n; k++)
        if (entry)
            columns[k] = print_column_of(r, what->labels[k], (enum lang_type)what->keys[k], entry[k]);
        else
            columns[k] = (ea_lang_column){
                .name = what->labels[k], .kind = print_column_kind((enum lang_type)what->keys[k]), .data = ""};
    if (lang_has_histogram(what->function)) {
        const lang_histogram *h = print_histogram_of(state);
        for (uint32_t b = 0; h && b < h->count; b++) {
            int64_t from, to;
            if (!h->counts[b])
                continue;
            lang_aggregate_bucket(a, (int64_t)h->first + b, &from, &to);
            columns[n] = print_column_of(r, "from", TYPE_INT, (uint64_t)from);
            columns[n + 1] = print_column_of(r, "to", TYPE_INT, (uint64_t)to);
            columns[n + 2] = print_column_of(r, "count", TYPE_UINT, h->counts[b]);
            o.column_count = n + 3;
            print_put_row(r, &o, columns);
        }
    } else if (what->function == FUNCTION_TOP) {
        lang_top *t = print_top_of(state);
        size_t count = print_sort_top(a, t);
        for (size_t i = 0; i < count; i++) {
            columns[n] = print_column_of(r, "value", (enum lang_type)what->type, t->items[i].value);
            columns[n + 1] = print_column_of(r, "count", TYPE_UINT, t->items[i].count);
            columns[n + 2] = print_column_of(r, "over", TYPE_UINT, t->items[i].over);
            o.column_count = n + 3;
            print_put_row(r, &o, columns);
        }
    } else {
        columns[n] = print_column_of(r, print_function_name(what->function), lang_aggregate_type(what),
                                     lang_aggregate_result(a, state));
        o.column_count = n + 1;
        if (what->function == FUNCTION_STDDEV) /* with these, rows can be merged */
            columns[o.column_count++] = print_column_of(r, "avg", TYPE_FLOAT, state[0] ? state[1] : 0);
        if (what->function == FUNCTION_STDDEV || what->function == FUNCTION_AVG)
            columns[o.column_count++] = print_column_of(r, "count", TYPE_UINT, state[0]);
        print_put_row(r, &o, columns);
    }
}

static void print_rows(ea_lang_run *r, const lang_aggregate *a, const uint32_t *sorted, size_t count) {
    for (size_t i = 0; i < count && !r->out.failed; i++)
        print_put_entry_rows(r, a, lang_table_entry(&a->table, sorted[i]));
    if (a->others[0])
        print_put_entry_rows(r, a, NULL);
}

void lang_print_aggregate(ea_lang_run *r, uint32_t number, uint64_t rows) {
    const lang_aggregate *a = &r->aggregates[number];
    size_t count = a->table.count;
    if (!rows || (!count && !a->others[0]))
        return;
    uint32_t *sorted = lang_aggregate_sorted(a, &r->strings);
    if (count && !sorted) {
        r->out.failed = 1;
        return;
    }
    if (rows < count)
        count = (size_t)rows;
    if (r->o.form == EA_LANG_TEXT)
        print_text(r, a, sorted, count);
    else if (r->o.form == EA_LANG_JSON)
        print_json(r, a, sorted, count);
    else if (r->o.form == EA_LANG_ROWS)
        print_rows(r, a, sorted, count);
    else
        print_csv(r, number, sorted, count);
    free(sorted);
}

/* ---- printf and emit ---- */

static void print_put_piece(ea_lang_run *r, ea_text *out, const lang_piece *p, uint64_t v) {
    size_t begin = out->len_bytes, width = (size_t)(p->width < 0 ? -p->width : p->width);
    switch (p->letter) {
    case 'x':
        ea_text_printf(out, "%" PRIx64, v);
        break;
    case 'f':
        ea_text_printf(out, "%.*f", p->precision < 0 ? 6 : p->precision,
                       p->type == TYPE_FLOAT ? lang_double(v)
                       : p->type == TYPE_INT ? (double)(int64_t)v
                                             : (double)v);
        break;
    case 'u':
        ea_text_u64(out, v);
        break;
    case 's':
        print_put_plain(r, out, (enum lang_type)p->type, v);
        break;
    default:
        print_put_number(out, EA_LANG_TEXT, p->type == TYPE_HEX ? TYPE_UINT : (enum lang_type)p->type, v);
    }
    size_t before = out->len_bytes;
    print_put_cell(out, begin, width, p->width < 0);
    if (p->has_zero && p->width > 0 && p->letter != 's' && !out->failed && out->len_bytes > before) {
        size_t fill = out->len_bytes - before;
        int minus = out->data[begin + fill] == '-';
        memset(out->data + begin, '0', fill + (size_t)minus);
        if (minus)
            out->data[begin] = '-';
    }
}

void lang_print_format(ea_lang_run *r, uint32_t format, const uint64_t *args) {
    const lang_format *f = &r->p->formats[format];
    ea_text *out = &r->out;
    if (r->o.form != EA_LANG_TEXT)
        ea_text_clear(&r->scratch);
    ea_text *to = r->o.form == EA_LANG_TEXT ? out : &r->scratch;
    for (uint32_t i = 0; i < f->piece_count; i++) {
        const lang_piece *p = &f->pieces[i];
        ea_text_add(to, p->text.text, p->text.len_bytes);
        if (p->letter)
            print_put_piece(r, to, p, *args++);
    }
    if (r->o.form == EA_LANG_TEXT)
        return;
    size_t n = r->scratch.len_bytes;
    if (n && r->scratch.data[n - 1] == '\n')
        n--;
    if (r->o.form == EA_LANG_ROWS) {
        ea_lang_column text = {.name = "text",
                               .kind = EA_LANG_COLUMN_TEXT,
                               .data = r->scratch.data ? r->scratch.data : "",
                               .len_bytes = n};
        print_put_row(r, &(ea_lang_output){.name = "printf", .name_bytes = 6, .column_count = 1}, &text);
    } else if (r->o.form == EA_LANG_JSON) {
        ea_text_str(out, "{\"printf\":\"");
        ea_text_json(out, r->scratch.data ? r->scratch.data : "", n);
        ea_text_char(out, '"');
        print_put_time(r, out);
        ea_text_str(out, "}\n");
    } else {
        ea_text_str(out, "printf,");
        ea_text_csv(out, r->scratch.data ? r->scratch.data : "", n);
        ea_text_char(out, '\n');
        r->printed_csv = 0;
    }
}

void lang_print_row(ea_lang_run *r, uint32_t row, const uint64_t *values) {
    const lang_row *w = &r->p->rows[row];
    ea_text *out = &r->out;
    switch (r->o.form) {
    case EA_LANG_TEXT:
        for (uint32_t i = 0; i < w->count; i++) {
            ea_text_printf(out, "%s%s=", i ? " " : "", w->names[i]);
            print_put_plain(r, out, (enum lang_type)w->types[i], values[i]);
        }
        break;
    case EA_LANG_JSON:
        ea_text_str(out, "{\"row\":{");
        for (uint32_t i = 0; i < w->count; i++) {
            if (i)
                ea_text_char(out, ',');
            ea_text_json_str(out, w->names[i]);
            ea_text_char(out, ':');
            print_put_json(r, out, (enum lang_type)w->types[i], values[i]);
        }
        ea_text_char(out, '}');
        print_put_time(r, out);
        ea_text_char(out, '}');
        break;
    case EA_LANG_ROWS: {
        ea_lang_column columns[ARGS_OF_ROW_MAX];
        for (uint32_t i = 0; i < w->count; i++)
            columns[i] = print_column_of(r, w->names[i], (enum lang_type)w->types[i], values[i]);
        print_put_row(r, &(ea_lang_output){.name = "emit", .name_bytes = 4, .column_count = w->count}, columns);
        return;
    }
    case EA_LANG_CSV:
        if (r->printed_csv != -1 - (int)row) {
            for (uint32_t i = 0; i < w->count; i++)
                ea_text_printf(out, "%s%s", i ? "," : "", w->names[i]);
            ea_text_char(out, '\n');
            r->printed_csv = -1 - (int)row;
        }
        for (uint32_t i = 0; i < w->count; i++) {
            if (i)
                ea_text_char(out, ',');
            print_put_csv(r, out, (enum lang_type)w->types[i], values[i]);
        }
        break;
    }
    ea_text_char(out, '\n');
}

void lang_print_trigger(ea_lang_run *r, const ea_lang_trigger *t) {
    ea_text *out = &r->out;
    uint64_t event = lang_read_value(r, VALUE_probe);
    ea_lang_column columns[] = {
        {.name = "trigger", .kind = EA_LANG_COLUMN_TEXT, .data = t->name, .len_bytes = strlen(t->name)},
        print_column_of(r, "event", TYPE_TEXT, event)};
    switch (r->o.form) {
    case EA_LANG_TEXT:
        ea_text_printf(out, "trigger %s: ", t->name);
        print_put_plain(r, out, TYPE_TEXT, event);
        break;
    case EA_LANG_JSON:
        ea_text_printf(out, "{\"trigger\":\"%s\",\"event\":", t->name);
        print_put_json(r, out, TYPE_TEXT, event);
        print_put_time(r, out);
        ea_text_char(out, '}');
        break;
    case EA_LANG_CSV:
        if (r->printed_csv != CSV_OF_TRIGGERS)
            ea_text_str(out, "trigger,event\n");
        r->printed_csv = CSV_OF_TRIGGERS;
        ea_text_printf(out, "%s,", t->name);
        print_put_csv(r, out, TYPE_TEXT, event);
        break;
    case EA_LANG_ROWS:
        print_put_row(r, &(ea_lang_output){.name = "trigger", .name_bytes = 7, .trigger = t, .column_count = 2},
                      columns);
        return;
    }
    ea_text_char(out, '\n');
}

void ea_lang_counts_print(const ea_lang_counts *c, const char *command, ea_text *out) {
    const struct {
        uint64_t count;
        const char *text;
    } LINES[] = {
        {c->absent, "statements were skipped: their events lack a value that they read"},
        {c->divided_by_zero, "statements were skipped: they divide by zero"},
        {c->others, "values are counted under (others): --keys or --memory is the limit"},
        {c->dropped, "values of variables were dropped: --keys or --memory is the limit"},
        {c->costly, "times print or trunc was skipped: it would visit too many keys for so few events"},
        {c->texts, "texts are shown as (no room): --memory is the limit"},
        {c->unfired, "times a trigger did not fire: its limit or its cooldown"},
        {c->shipped, "events: ship() raises them in the agent's configuration (watch:)"},
    };

    for (size_t i = 0; i < sizeof LINES / sizeof *LINES; i++)
        if (LINES[i].count)
            ea_text_printf(out, "%s: %" PRIu64 " %s\n", command, LINES[i].count, LINES[i].text);
    if (c->events && !c->matched)
        ea_text_printf(out, "%s: no clause is of any of the %" PRIu64 " events\n", command, c->events);
}
