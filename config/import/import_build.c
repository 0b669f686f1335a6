/* What all imports share. See import.h, importer.h. */
#include "config/import/importer.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

enum { ARENA_LIMIT = 16 << 20 };

void ea_import_init(ea_import *im) {
    memset(im, 0, sizeof *im);
    ea_arena_init(&im->arena, ARENA_LIMIT);
    ea_text_init(&im->notes);
}

void ea_import_deinit(ea_import *im) {
    ea_arena_deinit(&im->arena);
    ea_text_deinit(&im->notes);
}

void ea_import_note(ea_import *im, const char *format, ...) {
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    ea_text_safe(&im->notes, line, strlen(line));
    ea_text_char(&im->notes, '\n');
}

const char *ea_import_text(ea_import *im, const char *s, size_t len_bytes) {
    char *copy = ea_arena_alloc(&im->arena, len_bytes + 1);
    if (!copy)
        return NULL;
    memcpy(copy, s, len_bytes);
    copy[len_bytes] = 0;
    return copy;
}

int ea_import_is(const char *word, const char *name) {
    return ea_kernel_name_is(name, word, strlen(word));
}

static int name_is_taken(const ea_import *im, const char *name) {
    for (size_t i = 0; i < im->count; i++)
        if (strcmp(im->sessions[i].name, name) == 0)
            return 1;
    return 0;
}

ea_session_config *ea_import_session(ea_import *im, const char *name, size_t len_bytes, int kind) {
    static const char ALLOWED[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

    enum { ROOM = 4 }; /* for a number after it */

    ea_session_config *s = &im->sessions[im->count];
    char *copy = ea_arena_alloc(&im->arena, EA_SESSION_NAME_MAX + 1);
    ea_err err;
    if (im->count == EA_SESSIONS_MAX || !copy)
        return NULL;
    memset(s, 0, sizeof *s);
    if (ea_option_fallbacks(ea_session_table.rows, s, &err))
        return NULL;
    size_t n = len_bytes < EA_SESSION_NAME_MAX - ROOM ? len_bytes : EA_SESSION_NAME_MAX - ROOM;
    for (size_t i = 0; i < n; i++)
        copy[i] = name[i] && strchr(ALLOWED, name[i]) ? name[i] : '-';
    copy[n] = 0;
    if (!n)
        memcpy(copy, "session", sizeof "session");
    n = strlen(copy);
    for (unsigned k = 2; name_is_taken(im, copy) && k < 1000; k++)
        snprintf(copy + n, ROOM + 1, "-%u", k);
    s->name = copy;
    s->kind = kind;
    im->count++;
    return s;
}

ea_provider_config *ea_import_provider(ea_import *im, ea_session_config *s, const char *name, size_t len_bytes) {
    ea_provider_config *all = s->providers.items;
    ea_err err;
    for (size_t i = 0; i < s->providers.count; i++)
        if (strlen(all[i].provider) == len_bytes && memcmp(all[i].provider, name, len_bytes) == 0)
            return &all[i];
    if (s->providers.count == EA_PROVIDERS_MAX)
        return NULL;
    size_t n = s->providers.count;
    if ((n & (n - 1)) == 0) { /* full at each power of two */
        ea_provider_config *grown = ea_arena_zalloc(&im->arena, n ? n * 2 : 1, sizeof *grown);
        if (!grown)
            return NULL;
        if (n)
            memcpy(grown, all, n * sizeof *grown);
        s->providers.items = all = grown;
    }
    ea_provider_config *p = &all[n];
    memset(p, 0, sizeof *p);
    if (ea_option_fallbacks(ea_provider_table.rows, p, &err) || !(p->provider = ea_import_text(im, name, len_bytes)))
        return NULL;
    s->providers.count++;
    return p;
}

int ea_import_add(ea_import *im, ea_strings *list, const char *word, size_t len_bytes, ea_err *err) {
    for (size_t i = 0; i < list->count; i++)
        if (strlen(list->items[i]) == len_bytes && memcmp(list->items[i], word, len_bytes) == 0)
            return 0;
    if (list->count == EA_STRINGS_MAX)
        return ea_fail(err, EA_ELIMIT, "more than %d items in a list", EA_STRINGS_MAX);
    const char *copy = ea_import_text(im, word, len_bytes);
    if (!copy)
        return ea_fail(err, EA_ENOMEM, "import");
    list->items[list->count++] = copy;
    return 0;
}

int ea_import_flag(ea_import *im, ea_session_config *s, const char *word, size_t len_bytes, ea_err *err) {
    const ea_kernel_flag *f = ea_kernel_flag_find(word, len_bytes);
    const ea_kernel_group *g = f ? NULL : ea_kernel_group_find(word, len_bytes);
    if (!f && !g) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)(len_bytes < 60 ? len_bytes : 60), word);
        const char *nearest = ea_kernel_flag_nearest(name);
        return nearest ? ea_fail(err, EA_EUSAGE, "there is no kernel flag '%s'; did you mean %s?", name, nearest)
                       : ea_fail(err, EA_EUSAGE, "there is no kernel flag '%s'", name);
    }
    const char *name = f ? f->name : g->name;
    return ea_import_add(im, &s->flags, name, strlen(name), err);
}

int ea_import_stack(ea_import *im, ea_session_config *s, const char *word, size_t len_bytes, int wpr, ea_err *err) {
    for (const ea_kernel_stack *k = ea_kernel_stacks; k->class_name; k++)
        if (ea_kernel_name_is(wpr ? k->wpr : k->xperf, word, len_bytes))
            return ea_import_add(im, &s->stacks, k->class_name, strlen(k->class_name), err);
    ea_import_note(im, "no class is known for the stacks of '%.*s'; they are left out",
                   (int)(len_bytes < 64 ? len_bytes : 64), word);
    return 0;
}

static uint64_t into(ea_import *im, const char *what, uint64_t value, uint64_t low, uint64_t high) {
    uint64_t v = value < low ? low : value > high ? high : value;
    if (v != value)
        ea_import_note(im, "%s %" PRIu64 " became %" PRIu64, what, value, v);
    return v;
}

void ea_import_buffers(ea_import *im, ea_session_config *s, uint64_t buffer_bytes, uint64_t min, uint64_t max) {
    if (buffer_bytes)
        s->buffer_bytes = into(im, "buffer size in bytes", buffer_bytes, 4096, 16 << 20);
    if (min)
        s->min_buffers = into(im, "the least number of buffers", min, 2, 65536);
    if (max)
        s->max_buffers = into(im, "the highest number of buffers", max, 2, 65536);
    if (s->max_buffers < s->min_buffers) {
        if (max && min)
            ea_import_note(im, "the highest number of buffers was below the least one");
        if (max && !min)
            s->min_buffers = s->max_buffers;
        else
            s->max_buffers = s->min_buffers;
    }
}

int ea_import_split(ea_import *im, const char *line, const char **words, size_t capacity, size_t *ret_count,
                    ea_err *err) {
    size_t count = 0, len = strlen(line);
    if (len > EA_IMPORT_TEXT_MAX_BYTES)
        return ea_fail(err, EA_ELIMIT, "a command line of %zu bytes", len);
    for (const char *p = line; *p;) {
        while (*p == ' ' || *p == '\t')
            p++;
        if (!*p)
            break;
        char *word = ea_arena_alloc(&im->arena, strlen(p) + 1), *out = word;
        if (!word)
            return ea_fail(err, EA_ENOMEM, "import");
        if (count == capacity)
            return ea_fail(err, EA_ELIMIT, "more than %zu words", capacity);
        for (int quoted = 0; *p && (quoted || (*p != ' ' && *p != '\t')); p++) {
            if (*p == '\\' && p[1] == '"')
                *out++ = *++p;
            else if (*p == '"')
                quoted = !quoted;
            else
                *out++ = *p;
        }
        *out = 0;
        words[count++] = word;
    }
    *ret_count = count;
    return 0;
}

int ea_import_check(const ea_import *im, ea_err *err) {
    const char *key = NULL;
    int rc = 0;
    for (size_t i = 0; !rc && i < im->count; i++) {
        const ea_session_config *s = &im->sessions[i];
        const ea_provider_config *p = s->providers.items;
        for (size_t k = 0; !rc && k < s->providers.count; k++)
            rc = ea_provider_table.check(&p[k], &key, err) ? EA_EUSAGE : 0;
        if (!rc)
            rc = ea_session_table.check(s, &key, err) ? EA_EUSAGE : 0;
    }
    return rc;
}

int ea_import_check_text(const char *text, ea_err *err) {
    ea_text safe;
    ea_text_init(&safe);
    ea_text_safe(&safe, text, strlen(text));
    int rc = safe.failed ? EA_ENOMEM
             : safe.len_bytes == strlen(text) && (!safe.len_bytes || !memcmp(safe.data, text, safe.len_bytes))
                 ? 0
                 : EA_EUSAGE;
    ea_text_deinit(&safe);
    return rc ? ea_fail(err, rc, "the command line has control characters, or is not UTF-8") : 0;
}

void ea_import_write(const ea_import *im, ea_text *t) {
    for (const char *p = im->notes.len_bytes ? im->notes.data : ""; *p;) {
        size_t n = strcspn(p, "\n");
        ea_text_printf(t, "# %.*s\n", (int)n, p);
        p += n + (p[n] == '\n');
    }
    ea_text_str(t, "sessions:\n");
    for (size_t i = 0; i < im->count; i++)
        ea_session_write(&im->sessions[i], t);
    if (im->notes.failed)
        t->failed = 1;
}
