/* Configuration files: values, mistakes with line and column, the reference page, the example, and differences. */
#include "config/config.h"
#include "config/kernel_flags.h"
#include "config/sessions.h"
#include "proto/event/event.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct item {
    const char *name;
    ea_strings files;
    uint64_t level;
} item;

typedef struct inner {
    uint64_t size;
    int64_t pause_ns;
    int sync;
} inner;

typedef struct target {
    ea_labels labels;
    ea_tables items;
    inner ship;
    int on;
    const char *name;
} target;

static const char *const SYNC[] = {"always", "interval", "never", NULL};

static int check_item(const void *table, const char **ret_key, ea_err *err) {
    const item *i = table;
    if (strcmp(i->name, "bad") != 0)
        return 0;
    *ret_key = "name";
    return ea_fail(err, EA_EINVAL, "'bad' is a name for nothing");
}

static const ea_option ITEM_ROWS[] = {
    {.name = "name",
     .type = EA_OPT_STRING,
     .offset = offsetof(item, name),
     .required = 1,
     .help = "its name",
     .example = "a"},
    {.name = "files", .type = EA_OPT_STRINGS, .offset = offsetof(item, files), .help = "its files"},
    {.name = "level",
     .type = EA_OPT_U64,
     .offset = offsetof(item, level),
     .fallback = "3",
     .min = 1,
     .max = 19,
     .help = "its level"},
    {.name = NULL},
};
static const ea_table ITEM = {.summary = "An item.", .rows = ITEM_ROWS, .size = sizeof(item), .check = check_item};

static const ea_option INNER_ROWS[] = {
    {.name = "size",
     .type = EA_OPT_SIZE,
     .offset = offsetof(inner, size),
     .fallback = "1MiB",
     .min = 4096,
     .max = 1 << 30,
     .help = "how much"},
    {.name = "pause",
     .type = EA_OPT_DURATION,
     .offset = offsetof(inner, pause_ns),
     .fallback = "1s",
     .help = "how long"},
    {.name = "sync",
     .type = EA_OPT_CHOICE,
     .offset = offsetof(inner, sync),
     .fallback = "interval",
     .choices = SYNC,
     .help = "when"},
    {.name = NULL},
};
static const ea_table INNER = {.summary = "Shipping.", .rows = INNER_ROWS, .size = sizeof(inner)};

static const ea_option ROWS[] = {
    {.name = "name",
     .type = EA_OPT_STRING,
     .offset = offsetof(target, name),
     .required = 1,
     .help = "a name",
     .example = "x"},
    {.name = "on", .type = EA_OPT_FLAG, .offset = offsetof(target, on), .help = "a switch"},
    {.name = "ship", .type = EA_OPT_TABLE, .offset = offsetof(target, ship), .table = &INNER, .help = "shipping"},
    {.name = "items",
     .type = EA_OPT_TABLES,
     .offset = offsetof(target, items),
     .table = &ITEM,
     .min = 1,
     .max = 3,
     .example = "",
     .help = "items"},
    {.name = "labels", .type = EA_OPT_LABELS, .offset = offsetof(target, labels), .help = "labels"},
    {.name = NULL},
};
static const ea_table TABLE = {.summary = "A test.", .rows = ROWS, .size = sizeof(target)};

typedef struct lines {
    char text[4096];
} lines;

static void collect(void *arg, const char *line) {
    lines *l = arg;
    size_t n = strlen(l->text);
    snprintf(l->text + n, sizeof l->text - n, "%s\n", line);
}

static void values(void **state) {
    static const char TEXT[] =
        "name: host 1\non: yes\nship: {size: 64KiB, sync: never}\nitems:\n  - name: a\n    files: one\n"
        "  - name: b\n    files: [two, 'C:\\three']\n    level: 19\nlabels: {site: north, rack: 7}\n";
    target t = {0};
    ea_config *c;
    ea_err err;
    (void)state;
    assert_int_equal(ea_config_parse(&c, "f", TEXT, sizeof TEXT - 1, &TABLE, &t, NULL, NULL, &err), 0);
    assert_string_equal(t.name, "host 1");
    assert_int_equal(t.on, 1);
    assert_int_equal(t.ship.size, 65536);
    assert_int_equal(t.ship.pause_ns, 1000000000);
    assert_int_equal(t.ship.sync, 2);
    assert_int_equal(t.items.count, 2);
    const item *items = t.items.items;
    assert_int_equal(items[0].files.count, 1);
    assert_string_equal(items[0].files.items[0], "one");
    assert_int_equal(items[0].level, 3);
    assert_string_equal(items[1].files.items[1], "C:\\three");
    assert_int_equal(items[1].level, 19);
    assert_int_equal(t.labels.count, 2);
    assert_string_equal(t.labels.items[1].value, "7");
    ea_config_destroy(c);
}

static void mistakes(void **state) {
    static const struct {
        const char *text, *said;
    } CASES[] = {
        {"", "f:1:1: the file is empty\n"},
        {"- 1\n", "f:1:1: the file: expected a mapping of options to values, not a list\n"},
        {"on: true\n", "f:1:1: the file: name is missing: a name\n"},
        {"name: x\nname: y\n", "f:2:1: name is given twice; first on line 1\n"},
        {"name: x\nnome: y\n", "f:2:1: the file has no option 'nome'; did you mean 'name'?\n"},
        {"name: x\nship:\n  colour: y\n", "f:3:3: ship has no option 'colour'\n"},
        {"name:\n", "f:1:6: name: a value is missing\n"},
        {"name: [a]\n", "f:1:7: name: expected one value, not a list\n"},
        {"name: x\non: maybe\n", "f:2:5: on: 'maybe': expected true or false\n"},
        {"name: x\nship:\n  size: 1KiB\n", "f:3:9: size: '1KiB': expected 4KiB to 1GiB\n"},
        {"name: x\nship:\n  size: big\n", "f:3:9: size: 'big': expected a size such as 64KiB or 1MiB\n"},
        {"name: x\nship:\n  sync: often\n", "f:3:9: sync: 'often': expected one of always, interval, never\n"},
        {"name: x\nship: 3\n", "f:2:7: ship: expected a mapping of options to values, not a text\n"},
        {"name: x\nitems: a\n", "f:2:8: items: expected a list of mappings, each begun by '- ', not a text\n"},
        {"name: x\nitems: []\n", "f:2:8: items: 0 items: expected 1 to 3\n"},
        {"name: x\nitems:\n  - level: 4\n", "f:3:5: items: name is missing: its name\n"},
        {"name: x\nitems:\n  - {level: 40, name: bad}\n", "f:3:13: level: '40': expected 1 to 19\n"},
        {"name: x\nitems:\n  - {level: 4, name: bad}\n", "f:3:22: name: 'bad' is a name for nothing\n"},
        {"name: x\nlabels: {a: b, a: c}\n", "f:2:16: labels: 'a' is given twice\n"},
        {"name: x\nlabels: [a]\n", "f:2:9: labels: expected a mapping of names to texts, not a list\n"},
        {"name: \"\\0\"\n", "f:1:7: name: a value cannot hold a NUL character\n"},
        {"name: \"\\e[2J\"\nx\x7fy: 1\n", "f:2:2: this is not YAML: control characters are not allowed\n"},
        {"name: x\n  on: true\n", "f:2:5: this is not YAML: mapping values are not allowed in this context\n"},
        {"name: x\nitems: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\n",
         "f:2:39: expected at most 32 lists and mappings inside each other, found more\n"},
        {"name: x\n---\nname: y\n", "f:3:1: a second document begins here; expected one\n"},
        {"nome: x\nship: {sise: 4}\n", "f:1:1: the file has no option 'nome'; did you mean 'name'?\n"
                                       "f:2:8: ship has no option 'sise'; did you mean 'size'?\n"
                                       "f:1:1: the file: name is missing: a name\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        target t = {0};
        lines l = {{0}};
        ea_config *c = NULL;
        ea_err err;
        assert_int_equal(ea_config_parse(&c, "f", CASES[i].text, strlen(CASES[i].text), &TABLE, &t, collect, &l, &err),
                         EA_EFORMAT);
        assert_null(c);
        assert_string_equal(l.text, CASES[i].said);
        assert_true(strncmp(err.message, CASES[i].said, strcspn(CASES[i].said, "\n")) == 0);
    }
}

/* Aliases name one node many times; what they make is bounded. */
static void aliases_are_bounded(void **state) {
    ea_text text;
    target t = {0};
    lines l = {{0}};
    ea_config *c;
    ea_err err;
    (void)state;
    ea_text_init(&text);
    ea_text_str(&text, "name: x\nitems:\n  - &a {name: a, files: &f [");
    for (int i = 0; i < 60; i++)
        ea_text_printf(&text, "%sf%d", i ? "," : "", i);
    ea_text_str(&text, "]}\n  - *a\n  - {name: c, files: *f}\n");
    assert_int_equal(ea_config_parse(&c, "f", text.data, text.len_bytes, &TABLE, &t, collect, &l, &err), 0);
    assert_string_equal(((item *)t.items.items)[2].files.items[59], "f59");
    ea_config_destroy(c);
    ea_text_clear(&text);
    ea_text_str(&text, "name: x\nlabels: {");
    for (int i = 0; i <= EA_CONFIG_ITEMS_MAX; i++)
        ea_text_printf(&text, "k%d: v, ", i);
    ea_text_str(&text, "}\n");
    assert_int_equal(ea_config_parse(&c, "f", text.data, text.len_bytes, &TABLE, &t, collect, &l, &err), EA_EFORMAT);
    assert_string_equal(l.text, "f:2:9: labels: more than 4096 list items in this file\n");
    ea_text_deinit(&text);
}

/* Ten thousand levels of nesting, two thousand mistakes. */
static void hostile_files(void **state) {
    static char deep[10000]; /* libyaml's time grows with the square of the depth */
    target t = {0};
    lines l = {{0}};
    ea_config *c;
    ea_err err;
    (void)state;
    memset(deep, '[', sizeof deep);
    assert_int_equal(ea_config_parse(&c, "f", deep, sizeof deep, &TABLE, &t, collect, &l, &err), EA_EFORMAT);
    for (size_t i = 0; i + 5 <= sizeof deep; i += 5)
        memcpy(deep + i, "? a\n\n", 5);
    l.text[0] = 0;
    assert_int_equal(ea_config_parse(&c, "f", deep, sizeof deep, &TABLE, &t, collect, &l, &err), EA_EFORMAT);
    size_t said = 0;
    for (const char *p = l.text; (p = strchr(p, '\n')); p++)
        said++;
    assert_int_equal(said, EA_CONFIG_PROBLEMS_MAX);
}

static void example_is_valid(void **state) {
    target t = {0};
    lines l = {{0}};
    ea_config *c;
    ea_err err;
    ea_text text;
    (void)state;
    ea_text_init(&text);
    ea_config_example(&TABLE, &text);
    if (ea_config_parse(&c, "example", text.data, text.len_bytes, &TABLE, &t, collect, &l, &err))
        fail_msg("%s%s", l.text, text.data);
    assert_int_equal(t.items.count, 1);
    assert_string_equal(t.name, "x");
    ea_config_destroy(c);
    ea_text_clear(&text);
    ea_config_reference(&TABLE, "Options", &text);
    assert_non_null(strstr(text.data, "## `items[]`"));
    assert_non_null(strstr(text.data, "| `level` | number, 1 to 19 | `3` | its level |"));
    ea_text_deinit(&text);
}

static void differences(void **state) {
    static const char A[] = "name: x\nitems: [{name: a}, {name: b}]\nlabels: {k: v}\n",
                      B[] = "name: x\nship: {size: 8KiB}\nitems: [{name: a}, {name: b, files: f}]\nlabels: {k: w}\n";
    target a = {0}, b = {0};
    lines l = {{0}};
    ea_config *ca, *cb;
    ea_err err;
    (void)state;
    assert_int_equal(ea_config_parse(&ca, "a", A, sizeof A - 1, &TABLE, &a, NULL, NULL, &err), 0);
    assert_int_equal(ea_config_parse(&cb, "b", B, sizeof B - 1, &TABLE, &b, NULL, NULL, &err), 0);
    ea_config_compare(&TABLE, &a, &b, collect, &l);
    assert_string_equal(l.text, "ship.size\nitems[1].files\nlabels\n");
    l.text[0] = 0;
    ea_config_compare(&TABLE, &b, &b, collect, &l);
    assert_string_equal(l.text, "");
    ea_config_destroy(ca);
    ea_config_destroy(cb);
}

/* Each class that a stack can be asked of is one that the decoder has; no name stands for two things. */
static void kernel_names(void **state) {
    size_t families;
    const ea_family *const *all = ea_event_families(&families);
    (void)state;
    for (const ea_kernel_stack *k = ea_kernel_stacks; k->class_name; k++) {
        int found = 0;
        for (size_t i = 0; i < families; i++)
            for (size_t j = 0; j < all[i]->row_count; j++)
                found |= all[i]->provider->classic && strcmp(all[i]->rows[j].name, k->class_name) == 0;
        if (!found)
            fail_msg("%s is no class", k->class_name);
    }
    for (const ea_kernel_flag *f = ea_kernel_flags; f->name; f++) {
        assert_ptr_equal(ea_kernel_flag_find(f->name, strlen(f->name)), f);
        assert_null(ea_kernel_group_find(f->name, strlen(f->name)));
    }
    for (const ea_kernel_group *g = ea_kernel_groups; g->name; g++)
        for (const char *p = g->flags; p; p = *p ? p + 1 : NULL) {
            size_t n = strcspn(p, "+");
            assert_non_null(ea_kernel_flag_find(p, n));
            p += n;
        }
    assert_string_equal(ea_kernel_flag_find("proc_thread", 11)->name, "PROC_THREAD");
    assert_null(ea_kernel_flag_find("PROC_THREADS", 12));
    assert_string_equal(ea_kernel_flag_nearest("PERF_SPINLOCK"), "SPINLOCK");
    assert_string_equal(ea_kernel_flag_nearest("EVENT_TRACE_FLAG_THREAD"), "THREAD");
}

/* Group masks of a session, words and bits. */
static void masks(void **state) {
    ea_session_config s = {
        .flags = {.items = {"DiagEasy", "syscall", "OB_HANDLE", "HIBER_RUNDOWN", "SYSCFG_PNP"}, .count = 5}};
    uint32_t m[EA_KERNEL_MASK_WORDS];
    (void)state;
    ea_session_masks(&s, m);
    assert_int_equal(m[0], 0x3 | 0x4 | 0x300 | 0x2000 | 0x8);
    assert_int_equal(m[1], 0x80 | 0x4000 | 0x4);
    assert_int_equal(m[2], 0x40);
    assert_int_equal(m[4], 0x40);
    assert_int_equal(m[5], 0x1);
    assert_int_equal(m[6], 0x20);
    assert_int_equal(m[3] | m[7], 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(aliases_are_bounded),
        cmocka_unit_test(hostile_files),
        cmocka_unit_test(example_is_valid),
        cmocka_unit_test(differences),
        cmocka_unit_test(kernel_names),
        cmocka_unit_test(masks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
