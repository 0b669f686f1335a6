/* See open_page.h. The flame graph is a tree of the modules that stacks went through, the outermost first: frames of
 * one module after another are one, as without symbols the places in it say nothing to a reader. Nodes are numbers in
 * an array; a map finds the child of a node by its label. Widths are shares of the parent, so that the browser lays the
 * tree out; a click (focus) makes a node as wide as the page. */
#include "service/app/open_page.h"

#include "proto/base/array.h"
#include "proto/base/json_cursor.h"
#include "proto/base/map.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    TABLES_MAX = 64,
    NODES_MAX = 1 << 20, /* what goes beyond is counted in the nodes above */
    FRAMES_MAX = 128,    /* of a stack, after frames of one module are one; likewise */
    SHOWN_SHARE = 1000,  /* a node with less than 1/1000 of all samples is left out of the page */
    COLOURS = 6,
    NUMBER_BYTES = 40
};

typedef struct node {
    uint32_t label, parent, first, next; /* first: a child, next: of the same parent; 0: none */
    uint64_t own, total;
} node;

typedef struct table {
    char *name;
    ea_text head, rows; /* HTML */
} table;

struct ea_open_page {
    const ea_open_title *titles;
    table tables[TABLES_MAX];
    size_t table_count;
    node *nodes; /* the first one is the root */
    size_t node_count, node_capacity;
    ea_u64_map children; /* parent << 32 | label -> node */
    char **labels;
    size_t label_count, label_capacity;
    ea_bytes_map label_numbers; /* text -> its place in labels, + 1 */
    uint64_t without_stack;
    ea_text word;
};

int ea_open_page_create(ea_open_page **ret, const ea_open_title *titles, ea_err *err) {
    ea_open_page *p = calloc(1, sizeof *p);
    if (p && EA_GROW(p->nodes, p->node_capacity, 1, NODES_MAX)) {
        free(p);
        p = NULL;
    }
    if (!p)
        return ea_fail(err, EA_ENOMEM, "make a page");
    p->titles = titles;
    p->nodes[p->node_count++] = (node){0};
    ea_u64_map_init(&p->children, NODES_MAX);
    ea_bytes_map_init(&p->label_numbers, NODES_MAX);
    ea_text_init(&p->word);
    *ret = p;
    return 0;
}

void ea_open_page_destroy(ea_open_page *p) {
    if (!p)
        return;
    for (size_t i = 0; i < p->table_count; i++) {
        free(p->tables[i].name);
        ea_text_deinit(&p->tables[i].head);
        ea_text_deinit(&p->tables[i].rows);
    }
    for (size_t i = 0; i < p->label_count; i++)
        free(p->labels[i]);
    free(p->labels);
    free(p->nodes);
    ea_u64_map_deinit(&p->children);
    ea_bytes_map_deinit(&p->label_numbers);
    ea_text_deinit(&p->word);
    free(p);
}

/* Text of an event: no byte of it steers the page, or a terminal that shows the file. */
static void add_event_text(ea_text *to, ea_text *word, const char *data, size_t n) {
    ea_text_clear(word);
    ea_text_safe(word, data, n);
    ea_text_html(to, word->data, word->len_bytes);
    to->failed |= word->failed;
}

/* ---- the flame graph ---- */

static int find_label(ea_open_page *p, const char *text, size_t n, uint32_t *ret) {
    uintptr_t known = (uintptr_t)ea_bytes_map_get(&p->label_numbers, text, n);
    if (!known) {
        char *copy = malloc(n + 1);
        if (!copy || EA_GROW(p->labels, p->label_capacity, p->label_count + 1, NODES_MAX)) {
            free(copy);
            return EA_ENOMEM;
        }
        memcpy(copy, text, n);
        copy[n] = 0;
        p->labels[p->label_count++] = copy;
        known = p->label_count;
        if (ea_bytes_map_put(&p->label_numbers, copy, n, (void *)known)) /* NOLINT(performance-no-int-to-ptr) */
            return EA_ENOMEM;
    }
    *ret = (uint32_t)known - 1;
    return 0;
}

/* Moves *at to its child of the label. It stays where it is when there is no room for a further node. */
static int descend(ea_open_page *p, uint32_t *at, uint32_t label) {
    uint64_t key = (uint64_t)*at << 32 | label;
    const uint64_t *known = ea_u64_map_get(&p->children, key);
    if (known) {
        *at = (uint32_t)*known;
        return 0;
    }
    if (p->node_count == NODES_MAX)
        return 0;
    if (EA_GROW(p->nodes, p->node_capacity, p->node_count + 1, NODES_MAX) ||
        ea_u64_map_put(&p->children, key, p->node_count))
        return EA_ENOMEM;
    p->nodes[p->node_count] = (node){.label = label, .parent = *at, .next = p->nodes[*at].first};
    p->nodes[*at].first = (uint32_t)p->node_count;
    *at = (uint32_t)p->node_count++;
    return 0;
}

/* "ntdll.dll+0x1234" is in ntdll.dll. */
static size_t module_bytes(const ea_text *frame) {
    const char *plus = NULL;
    for (size_t i = 0; i < frame->len_bytes; i++)
        if (frame->data[i] == '+')
            plus = frame->data + i;
    return plus ? (size_t)(plus - frame->data) : frame->len_bytes;
}

/* The modules of a stack, the innermost first, each once where it comes several times on end. */
static int open_page_read_frames(ea_open_page *p, const ea_lang_column *stack, uint32_t *labels, size_t *ret_count) {
    ea_json_cursor c = {.at = stack->data, .end = stack->data + stack->len_bytes};
    size_t count = 0;
    int rc = 0;
    (void)ea_json_take_char(&c, '[');
    while (!rc && ea_json_take_char(&c, '"')) {
        uint32_t label;
        ea_text_clear(&p->word);
        if (!ea_json_take_text(&c, &p->word))
            break;
        size_t n = module_bytes(&p->word);
        rc = n > 2 && memcmp(p->word.data, "0x", 2) == 0 ? find_label(p, "(no module)", 11, &label)
                                                         : find_label(p, n ? p->word.data : "", n, &label);
        if (!rc && (!count || labels[count - 1] != label)) {
            if (count == FRAMES_MAX) { /* the outermost ones say whose work it is */
                memmove(labels, labels + 1, (FRAMES_MAX - 1) * sizeof *labels);
                count--;
            }
            labels[count++] = label;
        }
        (void)ea_json_take_char(&c, ',');
    }
    *ret_count = count;
    return rc;
}

static int take_stack(ea_open_page *p, const ea_lang_output *row) {
    uint32_t labels[FRAMES_MAX], at = 0, program;
    size_t count = 0;
    if (row->column_count < 3)
        return 0;
    const ea_lang_column *name = &row->columns[0];
    uint64_t samples = row->columns[row->column_count - 1].bits;
    int rc = row->is_others
                 ? find_label(p, "(others)", 8, &program)
                 : find_label(p, name->len_bytes ? name->data : "?", name->len_bytes ? name->len_bytes : 1, &program);
    if (!rc && row->columns[1].kind == EA_LANG_COLUMN_STACK)
        rc = open_page_read_frames(p, &row->columns[1], labels, &count);
    p->without_stack += count ? 0 : samples;
    if (!rc)
        rc = descend(p, &at, program);
    while (!rc && count)
        rc = descend(p, &at, labels[--count]);
    if (rc)
        return rc;
    p->nodes[at].own += samples;
    for (;; at = p->nodes[at].parent) {
        p->nodes[at].total += samples;
        if (!at)
            return 0;
    }
}

typedef struct child {
    uint32_t node;
    uint64_t total;
} child;

static int compare_children(const void *a, const void *b) {
    const child *x = a, *y = b;
    if (x->total != y->total)
        return x->total < y->total ? 1 : -1;
    return x->node < y->node ? -1 : x->node > y->node;
}

/* The children of a node that are wide enough, the widest first; *ret is of malloc. */
static size_t wide_children(const ea_open_page *p, uint32_t at, child **ret, int *failed) {
    size_t count = 0, capacity = 0;
    *ret = NULL;
    for (uint32_t i = p->nodes[at].first; i; i = p->nodes[i].next) {
        if (p->nodes[i].total < p->nodes[0].total / SHOWN_SHARE)
            continue;
        if (EA_GROW(*ret, capacity, count + 1, NODES_MAX)) {
            *failed = 1;
            break;
        }
        (*ret)[count++] = (child){.node = i, .total = p->nodes[i].total};
    }
    if (count)
        qsort(*ret, count, sizeof **ret, compare_children);
    return count;
}

static double percent(uint64_t part, uint64_t whole) {
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* A node and what is below it; at most FRAMES_MAX + 1 deep. */
static void add_node(const ea_open_page *p, uint32_t at, ea_text *out, ea_text *word) { /* NOLINT(misc-no-recursion) */
    const node *n = &p->nodes[at];
    const char *label = p->labels[n->label];
    size_t len = strlen(label);
    child *children;
    size_t count = wide_children(p, at, &children, &out->failed);
    ea_text_printf(out, "<div class=\"k\" style=\"width:%.3f%%\"><div class=\"f c%u\" tabindex=\"0\" title=\"",
                   percent(n->total, p->nodes[n->parent].total), (unsigned)(ea_hash64(label, len, 0) % COLOURS));
    add_event_text(out, word, label, len);
    ea_text_printf(out, ": %" PRIu64 " samples, %.1f %%; %" PRIu64 " of them in it\">", n->total,
                   percent(n->total, p->nodes[0].total), n->own);
    add_event_text(out, word, label, len);
    ea_text_str(out, "</div>");
    if (count) {
        ea_text_str(out, "<div class=\"r\">");
        for (size_t i = 0; i < count; i++)
            add_node(p, children[i].node, out, word);
        ea_text_str(out, "</div>");
    }
    ea_text_str(out, "</div>\n");
    free(children);
}

static void add_flame(const ea_open_page *p, ea_text *out, ea_text *word) {
    child *children;
    size_t count = wide_children(p, 0, &children, &out->failed);
    ea_text_printf(
        out,
        "<h2>Samples by program and module</h2>\n<p>%" PRIu64 " samples, %" PRIu64 " of them without a call "
        "stack. The outermost module is at the top; a click makes a part as wide as the page. Functions need "
        "symbols: etwcollector, on Linux.</p>\n<div class=\"r\">\n",
        p->nodes[0].total, p->without_stack);
    for (size_t i = 0; i < count; i++)
        add_node(p, children[i].node, out, word);
    ea_text_str(out, "</div>\n");
    free(children);
}

/* ---- tables ---- */

static void add_cell(ea_text *to, ea_text *word, const ea_lang_column *c) {
    char number[NUMBER_BYTES];
    double d;
    switch (c->kind) {
    case EA_LANG_COLUMN_TEXT:
    case EA_LANG_COLUMN_STACK:
        ea_text_str(to, "<td>");
        add_event_text(to, word, c->data, c->len_bytes);
        break;
    case EA_LANG_COLUMN_F64:
        memcpy(&d, &c->bits, sizeof d);
        snprintf(number, sizeof number, "%.6g", d);
        ea_text_printf(to, "<td class=\"n\">%s", number);
        break;
    case EA_LANG_COLUMN_HEX:
        ea_text_printf(to, "<td class=\"n\">0x%" PRIx64, c->bits);
        break;
    case EA_LANG_COLUMN_I64:
        ea_text_printf(to, "<td class=\"n\">%" PRId64, (int64_t)c->bits);
        break;
    default:
        ea_text_printf(to, "<td class=\"n\">%" PRIu64, c->bits);
    }
    ea_text_str(to, "</td>");
}

static table *page_table(ea_open_page *p, const ea_lang_output *row) {
    for (size_t i = 0; i < p->table_count; i++)
        if (strlen(p->tables[i].name) == row->name_bytes && memcmp(p->tables[i].name, row->name, row->name_bytes) == 0)
            return &p->tables[i];
    char *name = p->table_count < TABLES_MAX ? malloc(row->name_bytes + 1) : NULL;
    if (!name)
        return NULL;
    table *t = &p->tables[p->table_count++];
    memcpy(name, row->name, row->name_bytes);
    name[row->name_bytes] = 0;
    t->name = name;
    for (size_t i = 0; i < row->column_count; i++) {
        ea_text_str(&t->head, row->columns[i].kind == EA_LANG_COLUMN_TEXT ? "<th>" : "<th class=\"n\">");
        add_event_text(&t->head, &p->word, row->columns[i].name, strlen(row->columns[i].name));
        ea_text_str(&t->head, "</th>");
    }
    return t;
}

int ea_open_page_row(void *arg, const ea_lang_output *row) {
    static const char STACKS[] = "stacks";
    ea_open_page *p = arg;
    if (row->name_bytes == sizeof STACKS - 1 && memcmp(row->name, STACKS, sizeof STACKS - 1) == 0)
        return take_stack(p, row);
    table *t = page_table(p, row);
    if (!t)
        return EA_ENOMEM;
    ea_text_str(&t->rows, "<tr>");
    for (size_t i = 0; i < row->column_count; i++)
        add_cell(&t->rows, &p->word, &row->columns[i]);
    ea_text_str(&t->rows, "</tr>\n");
    return t->head.failed || t->rows.failed ? EA_ENOMEM : 0;
}

static const char *title_of(const ea_open_page *p, const char *name) {
    for (const ea_open_title *t = p->titles; t->aggregation; t++)
        if (strcmp(t->aggregation, name) == 0)
            return t->title;
    return name;
}

static void open_page_add_summary(ea_text *out, const ea_text *summary) {
    size_t n = 0;
    for (size_t at = 0; at < summary->len_bytes; at += n + 1) {
        const char *end = memchr(summary->data + at, '\n', summary->len_bytes - at);
        n = end ? (size_t)(end - summary->data) - at : summary->len_bytes - at;
        if (!n)
            continue;
        ea_text_str(out, "<p>");
        ea_text_html(out, summary->data + at, n);
        ea_text_str(out, "</p>\n");
    }
}

void ea_open_page_write(const ea_open_page *p, const char *title, const ea_text *summary, ea_text *out) {
    ea_text word;
    ea_text_init(&word);
    ea_text_str(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta "
        "http-equiv=\"Content-Security-Policy\" "
        "content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n<title>");
    add_event_text(out, &word, title, strlen(title));
    ea_text_str(out,
                "</title>\n<style>body{font:14px sans-serif;margin:2em}table{border-collapse:collapse;"
                "margin-bottom:1em}th,td{padding:.2em .6em;text-align:left;border-bottom:1px solid #ddd}"
                ".n{text-align:right;font-variant-numeric:tabular-nums}.r{display:flex;align-items:flex-start}"
                ".k{flex:none;min-width:0;overflow:hidden}.f{font-size:12px;line-height:18px;padding:0 2px;"
                "margin:0 1px 1px 0;white-space:nowrap;overflow:hidden;cursor:pointer}"
                ".r>.k:focus-within{width:100%!important}.r:has(>.k:focus-within)>.k:not(:focus-within)"
                "{display:none}.c0{background:#fdd49e}.c1{background:#fdbb84}.c2{background:#fee8c8}"
                ".c3{background:#c7e9c0}.c4{background:#c6dbef}.c5{background:#dadaeb}</style></head><body>\n<h1>");
    add_event_text(out, &word, title, strlen(title));
    ea_text_str(out, "</h1>\n");
    open_page_add_summary(out, summary);
    if (p->nodes[0].total)
        add_flame(p, out, &word);
    for (size_t i = 0; i < p->table_count; i++) {
        const table *t = &p->tables[i];
        const char *shown = title_of(p, t->name);
        ea_text_str(out, "<h2>");
        add_event_text(out, &word, shown, strlen(shown));
        ea_text_str(out, "</h2>\n<table>\n<tr>");
        ea_text_add(out, t->head.data, t->head.len_bytes);
        ea_text_str(out, "</tr>\n");
        ea_text_add(out, t->rows.data, t->rows.len_bytes);
        ea_text_str(out, "</table>\n");
    }
    if (!p->table_count && !p->nodes[0].total)
        ea_text_str(out,
                    "<p>The trace has no samples, context switches, disk requests, connections, starts of processes "
                    "or collections.</p>\n");
    ea_text_str(out, "</body></html>\n");
    out->failed |= word.failed;
    ea_text_deinit(&word);
}
