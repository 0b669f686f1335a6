/* Completion: the words with which a text may go on. See lang.h. Thread: its caller's. */
#include "proto/base/pattern.h"
#include "proto/event/render.h"
#include "proto/lang/lang_compile.h"

#include <stdlib.h>
#include <string.h>

/* Where the text ends. */
typedef struct place {
    size_t clause, probes_end; /* offsets: where the clause at hand begins, and where its probes end */
    int is_in_text, is_in_comment, depth, has_condition;
} place;

static int complete_is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static size_t complete_skip_text(span s, size_t i, place *p) {
    p->is_in_text = 1;
    for (i++; i < s.len_bytes; i++) {
        if (s.text[i] == '\\') {
            i++;
        } else if (s.text[i] == '"') {
            p->is_in_text = 0;
            break;
        }
    }
    return i;
}

/* 1 at the begin of a comment; of a name's "/" and the "*" after it none begins. */
static int complete_is_comment(span s, size_t i, int is_apart) {
    if (s.text[i] == '#')
        return 1;
    return s.text[i] == '/' && is_apart && i + 1 < s.len_bytes && (s.text[i + 1] == '/' || s.text[i + 1] == '*');
}

/* To its last character. */
static size_t complete_skip_comment(span s, size_t i, place *p) {
    int has_end = s.text[i] == '/' && s.text[i + 1] == '*';
    for (i += has_end ? 2 : 0; i < s.len_bytes; i++)
        if (has_end ? s.text[i] == '*' && i + 1 < s.len_bytes && s.text[i + 1] == '/' : s.text[i] == '\n')
            break;
    p->is_in_comment = i >= s.len_bytes;
    return i + (has_end && i < s.len_bytes);
}

static place complete_find_place(span s) {
    place p = {.probes_end = s.len_bytes};
    for (size_t i = 0; i < s.len_bytes; i++) {
        char c = s.text[i];
        int is_apart = !i || complete_is_space(s.text[i - 1]) || s.text[i - 1] == '"';
        if (c == '"') {
            i = complete_skip_text(s, i, &p);
        } else if (complete_is_comment(s, i, is_apart || p.depth)) {
            i = complete_skip_comment(s, i, &p);
        } else if (c == '{') {
            if (!p.depth++ && !p.has_condition)
                p.probes_end = i;
        } else if (c == '}' && p.depth && !--p.depth) {
            p.clause = i + 1;
            p.probes_end = s.len_bytes;
            p.has_condition = 0;
        } else if (c == '/' && !p.depth && !p.has_condition && is_apart && i > p.clause) {
            p.has_condition = 1;
            p.probes_end = i;
        }
    }
    return p;
}

typedef struct completing {
    span word; /* that is begun */
    int (*fn)(void *arg, const char *word);
    void *arg;
    int rc;
} completing;

static void complete_offer(completing *c, const char *text) {
    size_t i = 0;
    while (i < c->word.len_bytes && text[i] && ea_ascii_lower(text[i]) == ea_ascii_lower(c->word.text[i]))
        i++;
    if (i == c->word.len_bytes && !c->rc)
        c->rc = c->fn(c->arg, text);
}

static void complete_offer_words(completing *c, enum ea_lang_word_kind kind) {
    ea_lang_word w;
    for (size_t i = 0; ea_lang_word_at(i, &w); i++)
        if (w.kind == kind)
            complete_offer(c, w.text);
}

static void complete_offer_probes(completing *c, const ea_lang_sources *from) {
    size_t count;
    const ea_family *const *families = ea_event_families(&count);
    int has_provider = memchr(c->word.text, ':', c->word.len_bytes) != NULL;
    complete_offer_words(c, EA_LANG_WORD_PROBE);
    for (size_t i = 0; ea_lang_alias_at(i); i++)
        complete_offer(c, ea_lang_alias_at(i));
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < families[i]->row_count && families[i]->provider->kind == EA_KIND_EVENT; k++)
            complete_offer(c, families[i]->rows[k].name);
    for (size_t i = 0; i < from->class_count; i++) {
        ea_text t;
        ea_text_init(&t);
        ea_text_printf(&t, "%s:%s", from->classes[i]->provider_name, has_provider ? from->classes[i]->name : "");
        if (t.failed)
            c->rc = c->rc ? c->rc : EA_ENOMEM;
        else if (*from->classes[i]->provider_name && *from->classes[i]->name)
            complete_offer(c, t.data);
        ea_text_deinit(&t);
    }
}

static void complete_offer_class(completing *c, const ea_class *of) {
    for (size_t f = 0; f < of->field_count; f += of->fields[f].span) {
        if (of->fields[f].hidden)
            continue;
        complete_offer(c, of->fields[f].name);
        if (!ea_field_has_names(&of->fields[f]))
            continue;
        ea_text t;
        ea_text_init(&t);
        ea_text_printf(&t, "%s_name", of->fields[f].name);
        if (t.failed)
            c->rc = c->rc ? c->rc : EA_ENOMEM;
        else
            complete_offer(c, t.data);
        ea_text_deinit(&t);
    }
}

/* Fields of the classes that the probes name, as far as they can be read. */
static int complete_offer_fields(completing *c, span probes, const ea_lang_sources *from) {
    ea_lang_problem problem = {.line = 1};
    compiler *k = calloc(1, sizeof *k);
    ea_text t;
    ea_text_init(&t);
    ea_text_add(&t, probes.text, probes.len_bytes);
    ea_text_str(&t, " {}");
    if (!k || t.failed || probes.len_bytes > EA_LANG_TEXT_MAX_BYTES) {
        ea_text_deinit(&t);
        free(k);
        return probes.len_bytes > EA_LANG_TEXT_MAX_BYTES ? 0 : EA_ENOMEM;
    }
    ea_arena_init(&k->s.arena, EA_LANG_TEXT_MAX_BYTES * 256);
    k->from = from;
    k->s.problem = &problem;
    k->s.text = t.data;
    k->s.len_bytes = t.len_bytes;
    if (setjmp(k->s.out) == 0) {
        k->p = lang_alloc(&k->s, 1, sizeof *k->p);
        k->c = lang_parse(&k->s);
        lang_find_classes(k);
        for (size_t i = 0; i < k->class_count; i++)
            complete_offer_class(c, k->class_buffer[i]);
    }
    int rc = k->s.rc == EA_EINVAL ? 0 : k->s.rc; /* no such class: there are no fields */
    free(k->class_buffer);
    ea_arena_deinit(&k->s.arena);
    free(k);
    ea_text_deinit(&t);
    return rc;
}

static int complete_is_of_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '@';
}

/* The statement or the condition that the text ends in: where it begins. */
static size_t complete_find_statement(span s, const place *p) {
    size_t i = s.len_bytes;
    while (i > p->probes_end && (!p->depth || (s.text[i - 1] != ';' && s.text[i - 1] != '{' && s.text[i - 1] != '}')))
        i--;
    while (i < s.len_bytes && complete_is_space(s.text[i]))
        i++;
    return i;
}

static int complete_in_clause(completing *c, span s, const place *p, const ea_lang_sources *from) {
    size_t begin = s.len_bytes, starts = complete_find_statement(s, p);
    while (begin > p->probes_end && complete_is_of_name(s.text[begin - 1]))
        begin--;
    size_t before = begin, point = 0;
    c->word = (span){s.text + begin, s.len_bytes - begin};
    span base = {"", 0};
    if (begin > p->probes_end && s.text[begin - 1] == '.')
        point = begin - 1;
    if (point) {
        size_t at = point;
        while (at > p->probes_end && complete_is_of_name(s.text[at - 1]))
            at--;
        base = (span){s.text + at, point - at};
    }
    while (before > starts && complete_is_space(s.text[before - 1]))
        before--;
    span probes = {s.text + p->clause, p->probes_end - p->clause};
    if (span_is(base, "parent")) {
        static const char *const OF_PARENT[] = {"execname", "exepath", "cmdline", "pid", "ppid", "user"};
        for (size_t i = 0; i < sizeof OF_PARENT / sizeof *OF_PARENT; i++)
            complete_offer(c, OF_PARENT[i]);
        return c->rc;
    }
    if (point && !span_is(base, "event"))
        return 0; /* self.x, this.x, pmc.x: names of the program's own, and of the machine's */
    if (p->depth && before == starts && !point) {
        complete_offer_words(c, EA_LANG_WORD_STATEMENT);
        complete_offer_words(c, EA_LANG_WORD_KEYWORD);
        complete_offer_words(c, EA_LANG_WORD_BASE);
        return c->rc;
    }
    if (p->depth && s.text[starts] == '@' && before > starts && s.text[before - 1] == '=') {
        complete_offer_words(c, EA_LANG_WORD_FUNCTION);
        return c->rc;
    }
    if (!point) {
        complete_offer_words(c, EA_LANG_WORD_VALUE);
        complete_offer_words(c, EA_LANG_WORD_CALL);
        complete_offer_words(c, EA_LANG_WORD_BASE);
    }
    int rc = complete_offer_fields(c, probes, from);
    return c->rc ? c->rc : rc;
}

int ea_lang_complete(const char *text, size_t len_bytes, const ea_lang_sources *sources,
                     int (*fn)(void *arg, const char *word), void *arg) {
    span s = {text, len_bytes};
    place p = complete_find_place(s);
    completing c = {.fn = fn, .arg = arg};
    if (p.is_in_comment || (p.is_in_text && (p.depth || p.has_condition)))
        return 0;
    if (p.depth || p.has_condition)
        return complete_in_clause(&c, s, &p, sources);
    size_t begin = len_bytes;
    while (begin > p.clause && !complete_is_space(text[begin - 1]) && text[begin - 1] != ',' && text[begin - 1] != '"')
        begin--;
    c.word = (span){text + begin, len_bytes - begin};
    complete_offer_probes(&c, sources);
    return c.rc;
}
