/* Labels. See labels.h. */
#include "service/core/labels.h"

#include "proto/base/platform.h"
#include "proto/wire/wire.h"

#include <stdlib.h>
#include <string.h>

enum { TEMPLATE_MAX_BYTES = 1024, VARIABLE_MAX_BYTES = 128 };

static const struct {
    const char *name;
    enum ea_machine_fact fact;
} FACTS[] = {
    {"machine.name", EA_MACHINE_NAME},
    {"machine.domain", EA_MACHINE_DOMAIN},
    {"machine.os", EA_MACHINE_OS},
    {"machine.os-version", EA_MACHINE_OS_VERSION},
    {"machine.architecture", EA_MACHINE_ARCHITECTURE},
    {"machine.cpus", EA_MACHINE_CPUS},
    {"machine.memory", EA_MACHINE_MEMORY},
};

static int find_fact(const char *name) {
    for (size_t i = 0; i < sizeof FACTS / sizeof *FACTS; i++)
        if (strcmp(FACTS[i].name, name) == 0)
            return (int)i;
    return -1;
}

/* Copies the NAME of a "${NAME}" at s, which begins with "${". Returns the length of "${NAME}"; 0: there is none. */
static size_t variable_at(const char *s, char name[VARIABLE_MAX_BYTES]) {
    const char *end = strchr(s, '}');
    size_t n = end ? (size_t)(end - s) - 2 : 0;
    if (n == 0 || n >= VARIABLE_MAX_BYTES)
        return 0;
    memcpy(name, s + 2, n);
    name[n] = 0;
    return n + 3;
}

static int check_value(const ea_label *l, ea_err *err) {
    char name[VARIABLE_MAX_BYTES];
    if (strlen(l->value) > TEMPLATE_MAX_BYTES)
        return ea_fail(err, EA_EINVAL, "'%s': a value of more than %d bytes", l->name, TEMPLATE_MAX_BYTES);
    for (const char *s = l->value; (s = strchr(s, '$')); s++) {
        if (s[1] == '$') {
            s++;
        } else if (s[1] == '{') {
            if (!variable_at(s, name))
                return ea_fail(err, EA_EINVAL,
                               "'%s': a \"${\" begins no variable: expected ${NAME}, or $$ for a dollar sign", l->name);
            if (strncmp(name, "machine.", 8) == 0 && find_fact(name) < 0)
                return ea_fail(err, EA_EINVAL,
                               "'%s': nothing of the machine is called %s: expected machine.name, .domain, .os, "
                               ".os-version, .architecture, .cpus or .memory",
                               l->name, name);
        }
    }
    return 0;
}

int ea_labels_check(const ea_labels *labels, ea_err *err) {
    static const char ALLOWED[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    if (labels->count > EA_LABELS_MAX)
        return ea_fail(err, EA_EINVAL, "%zu labels: expected at most %d", labels->count, EA_LABELS_MAX);
    for (size_t i = 0; i < labels->count; i++) {
        const ea_label *l = &labels->items[i];
        size_t n = strlen(l->name);
        if (n == 0 || n > EA_LABEL_NAME_MAX_BYTES || strspn(l->name, ALLOWED) != n)
            return ea_fail(err, EA_EINVAL, "'%.80s': expected a name of 1 to %d letters, digits, '.', '-' and '_'",
                           l->name, EA_LABEL_NAME_MAX_BYTES);
        int rc = check_value(l, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* Adds the value of a variable: 0, or EA_ENOTFOUND for an environment variable that is not set. */
static int add_variable(const char *name, ea_text *t) {
    char value[4 * EA_LABEL_VALUE_MAX_BYTES];
    int fact = find_fact(name);
    if (fact >= 0)
        ea_machine_fact(FACTS[fact].fact, value, sizeof value);
    else if (ea_environment(name, value, sizeof value))
        return EA_ENOTFOUND;
    ea_text_str(t, value);
    return 0;
}

static int resolve_value(const char *s, ea_text *t, char name[VARIABLE_MAX_BYTES]) {
    while (*s) {
        size_t n = s[0] == '$' && s[1] == '{' ? variable_at(s, name) : 0;
        if (n) {
            if (add_variable(name, t))
                return EA_ENOTFOUND;
            s += n;
        } else {
            s += s[0] == '$' && s[1] == '$';
            ea_text_char(t, *s++);
        }
    }
    return 0;
}

/* Cuts a value to its limit, never in the middle of a UTF-8 character. */
static void labels_cut(ea_text *t) {
    if (t->len_bytes > EA_LABEL_VALUE_MAX_BYTES)
        t->data[t->len_bytes = ea_utf8_fit(t->data, t->len_bytes, EA_LABEL_VALUE_MAX_BYTES)] = 0;
}

int ea_labels_resolve(ea_labels *ret, const ea_labels *labels, ea_arena *arena,
                      void (*on_left_out)(const char *label, const char *variable), ea_err *err) {
    char name[VARIABLE_MAX_BYTES];
    ea_labels out = {.items = ea_arena_zalloc(arena, labels->count + !labels->count, sizeof *out.items)};
    ea_text t;
    int failed = !out.items;
    ea_text_init(&t);
    for (size_t i = 0; i < labels->count && !failed; i++) {
        ea_text_clear(&t);
        if (resolve_value(labels->items[i].value, &t, name)) {
            if (on_left_out)
                on_left_out(labels->items[i].name, name);
            continue;
        }
        labels_cut(&t);
        ea_label *l = &out.items[out.count++];
        l->name = ea_arena_strdup(arena, labels->items[i].name);
        l->value = ea_arena_strdup(arena, t.len_bytes ? t.data : "");
        failed = t.failed || !l->name || !l->value;
    }
    ea_text_deinit(&t);
    if (failed)
        return ea_fail(err, EA_ENOMEM, "read the labels");
    *ret = out;
    return 0;
}
