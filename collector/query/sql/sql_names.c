/* Names that a statement compares. Provider and id name a class (PowerShell/4104), and a provider has several names,
 * where the scan itself compares the columns name and provider_name. Elsewhere (NOT, CASE, an OR that SQLite does not
 * take apart) SQLite compares the texts: no class and no provider would be found, without a word. Such a statement is
 * refused, with the comparison that finds them.
 *
 * As sql_times.c, the check reads the program that SQLite has compiled: what a register was filled from, what is
 * compared with it, and the constants, which the end of the program fills. The constants of IN are put into a table of
 * the program's own, in which the column is looked for; a scan that is given the list does not look into that table.
 *
 * Called by: ec_sql_prepare. Calls: SQLite, proto/event. Thread: the connection's. */
#include "collector/query/sql/sql_parts.h"
#include "proto/base/array.h"
#include "proto/event/class_names.h"

#include <stdlib.h>
#include <string.h>

/* Of EXPLAIN's rows. */
enum { EXPLAIN_ADDRESS, EXPLAIN_OPCODE, EXPLAIN_P1, EXPLAIN_P2, EXPLAIN_P3, EXPLAIN_P4 };

enum { PLACES_MAX = 1 << 20 };

/* What a register, or a cursor's table, has. */
enum { OTHER, CLASS_NAME = 1, PROVIDER = 2, UNKNOWN = 4 /* a column that came through a sorter or another table */ };

typedef struct place {
    const ec_sql_shaped *table; /* a cursor's */
    char *listed;               /* the last text of a cursor's list that names a class or a provider; malloc'd */
    int wrong;                  /* CLASS_NAME, PROVIDER: what that text names */
    int has;                    /* a register's bits */
} place;

typedef struct comparison {
    int left, right;
    int left_has, right_has;
} comparison;

typedef struct walk {
    ec_sql *sql;
    place *cursors, *registers;
    size_t cursor_capacity, register_capacity;
    comparison *compared;
    size_t count, capacity;
    char *text; /* the last String8, malloc'd, and its register; then the record made of it */
    int text_register;
    int constants; /* the address of the program's end, which fills the constants */
    int read;      /* bits of the columns that the program reads */
} walk;

static place *names_at(place **places, size_t *capacity, int which) {
    size_t had = *capacity;
    if (which < 0 || which >= PLACES_MAX || EA_GROW(*places, *capacity, (size_t)which + 1, PLACES_MAX))
        return NULL;
    if (*capacity > had)
        memset(*places + had, 0, (*capacity - had) * sizeof **places);
    return &(*places)[which];
}

/* The table of events that EXPLAIN's "vtab:..." is; NULL: another one. */
static const ec_sql_shaped *table_of(const ec_sql *s, const char *text) {
    uintptr_t number = ec_sql_table_number(text);
    const ec_sql_shaped *t = s->shaped;
    while (t && (uintptr_t)t != number)
        t = t->next;
    return t;
}

static int column_has(const ec_sql_shaped *t, int column) {
    if (!t)
        return UNKNOWN;
    const ec_column *c = ec_sql_shaped_column(t, column);
    if (!c)
        return OTHER;
    switch (c->common) {
    case EC_NAME:
        return CLASS_NAME;
    case EC_PROVIDER_NAME:
        return PROVIDER;
    default:
        return OTHER;
    }
}

/* The stored class that a text names by provider and id, or whose provider it names (which: CLASS_NAME, PROVIDER),
 * while no class or provider has the text itself as its name. 1, 0, or an error. */
static int find_named(ec_sql *s, const char *text, int which, const ea_class **ret, ea_err *err) {
    const ea_class *const *classes = NULL;
    size_t count = 0, n = strlen(text);
    *ret = NULL;
    if (which == CLASS_NAME && !strchr(text, '/'))
        return 0;
    int rc = ec_archive_classes(s->archive, &classes, &count, err);
    for (size_t i = 0; !rc && i < count; i++) {
        const ea_class *c = classes[i];
        const char *own = which == CLASS_NAME ? c->name : c->provider_name;
        if (own && strcmp(own, text) == 0)
            return 0;
        if (!*ret &&
            (which == CLASS_NAME ? ea_event_has_alias(text, n, &c->provider, c->provider_name, c->classic, c->code)
                                 : ea_provider_is_named(text, n, c->provider_name, &c->provider)))
            *ret = c;
    }
    return rc ? rc : *ret != NULL;
}

/* Refuses a text that is compared with what has bits of `has`, if it names a class or a provider. */
static int names_check_text(walk *w, const char *text, int has, ea_err *err) {
    const ea_class *c = NULL;
    char guid[37];
    int is_name = has & CLASS_NAME || (has & UNKNOWN && w->read & CLASS_NAME);
    int which = is_name ? CLASS_NAME : has & PROVIDER ? PROVIDER : OTHER;
    int rc = which ? find_named(w->sql, text, which, &c, err) : 0;
    if (rc <= 0 || !c)
        return rc;
    ea_guid_format(&c->provider, guid);
    int has_name = c->provider_name && *c->provider_name;
    const char *column = has_name ? "provider_name" : "provider", *name = has_name ? c->provider_name : guid;
    if (which == PROVIDER || text[strlen(text) - 1] == '*')
        return ea_fail(
            err, EA_EUSAGE,
            "'%.80s' names a provider only where it is compared with = or IN in a condition that stands alone or is"
            " joined by AND: write %s = '%.120s' here",
            text, column, name);
    return ea_fail(
        err, EA_EUSAGE,
        "'%.80s' names a class only where it is compared with = or IN in a condition that stands alone or is joined by"
        " AND: write (%s = '%.120s' AND id = %u) here",
        text, column, name, (unsigned)c->code);
}

static int names_is_one_of(const char *opcode, const char *const *list) {
    for (; *list; list++)
        if (strcmp(opcode, *list) == 0)
            return 1;
    return 0;
}

/* The constants of a list: each is a text, a record of it, and an entry of a cursor's table. */
static int names_note_list(walk *w, const char *opcode, const int *p) {
    place *c;
    if (strcmp(opcode, "MakeRecord") == 0 && w->text && p[0] == w->text_register && p[1] == 1) {
        w->text_register = p[2];
    } else if (strcmp(opcode, "IdxInsert") == 0 && w->text && p[1] == w->text_register) {
        const ea_class *found;
        int wrong = 0;
        ea_err ignored;
        for (int which = CLASS_NAME; which <= PROVIDER; which++)
            wrong |= find_named(w->sql, w->text, which, &found, &ignored) == 1 ? which : 0;
        if (!wrong)
            return 0;
        if (!(c = names_at(&w->cursors, &w->cursor_capacity, p[0])))
            return EA_ENOMEM;
        free(c->listed);
        c->listed = w->text;
        c->wrong = wrong;
        w->text = NULL;
    }
    return 0;
}

/* What an instruction says of registers and cursors. EA_ENOMEM; EA_EUSAGE when it looks into a list. */
static int note_instruction(walk *w, const char *opcode, const int *p, const char *text, ea_err *err) {
    static const char *const COMPARISONS[] = {"Eq", "Ne", "Lt", "Le", "Gt", "Ge", NULL};
    static const char *const COPIES[] = {"Copy", "SCopy", "Move", NULL};
    static const char *const LOOKS[] = {"Found", "NotFound", NULL};
    place *from, *to;
    if (strcmp(opcode, "VOpen") == 0) {
        if (!(to = names_at(&w->cursors, &w->cursor_capacity, p[0])))
            return EA_ENOMEM;
        to->table = table_of(w->sql, text);
    } else if (strcmp(opcode, "VColumn") == 0 || strcmp(opcode, "Column") == 0) {
        if (!(from = names_at(&w->cursors, &w->cursor_capacity, p[0])) ||
            !(to = names_at(&w->registers, &w->register_capacity, p[2])))
            return EA_ENOMEM;
        to->has = *opcode == 'V' ? column_has(from->table, p[1]) : UNKNOWN;
        w->read |= *opcode == 'V' ? from->table ? to->has : CLASS_NAME : 0;
    } else if (names_is_one_of(opcode, COPIES)) {
        if (!names_at(&w->registers, &w->register_capacity, p[0]) ||
            !(to = names_at(&w->registers, &w->register_capacity, p[1])))
            return EA_ENOMEM;
        to->has = w->registers[p[0]].has;
    } else if (strstr(opcode, "Func")) {
        if (!(to = names_at(&w->registers, &w->register_capacity, p[2])))
            return EA_ENOMEM;
        to->has = OTHER;
    } else if (names_is_one_of(opcode, COMPARISONS)) {
        if (!names_at(&w->registers, &w->register_capacity, p[0]) ||
            !names_at(&w->registers, &w->register_capacity, p[2]) ||
            EA_GROW(w->compared, w->capacity, w->count + 1, PLACES_MAX))
            return EA_ENOMEM;
        w->compared[w->count++] = (comparison){p[0], p[2], w->registers[p[0]].has, w->registers[p[2]].has};
    } else if (names_is_one_of(opcode, LOOKS)) {
        if (!(from = names_at(&w->cursors, &w->cursor_capacity, p[0])) ||
            !(to = names_at(&w->registers, &w->register_capacity, p[2])))
            return EA_ENOMEM;
        if (from->listed && (to->has & (from->wrong | UNKNOWN)))
            return names_check_text(w, from->listed, to->has & (from->wrong | UNKNOWN), err);
    } else {
        return names_note_list(w, opcode, p);
    }
    return 0;
}

/* A text: of a list, or, at the program's end, of comparisons. Elsewhere its register may have held another value when
 * that was compared. */
static int note_text(walk *w, int address, int which, const char *text, ea_err *err) {
    int rc = 0;
    free(w->text);
    w->text = strdup(text);
    w->text_register = which;
    for (size_t i = 0; !rc && address >= w->constants && i < w->count; i++) {
        const comparison *c = &w->compared[i];
        if (c->left == which || c->right == which)
            rc = names_check_text(w, text, c->left == which ? c->right_has : c->left_has, err);
    }
    return rc ? rc : w->text ? 0 : EA_ENOMEM;
}

static int names_check_program(ec_sql *s, sqlite3_stmt *st, ea_err *err) {
    walk w = {.sql = s};
    int rc = 0;
    while (!rc && sqlite3_step(st) == SQLITE_ROW) {
        const char *opcode = (const char *)sqlite3_column_text(st, EXPLAIN_OPCODE);
        const char *text = (const char *)sqlite3_column_text(st, EXPLAIN_P4);
        const int operands[] = {sqlite3_column_int(st, EXPLAIN_P1), sqlite3_column_int(st, EXPLAIN_P2),
                                sqlite3_column_int(st, EXPLAIN_P3)};
        if (opcode && strcmp(opcode, "Init") == 0)
            w.constants = operands[1];
        else if (opcode && strcmp(opcode, "String8") == 0 && text)
            rc = note_text(&w, sqlite3_column_int(st, EXPLAIN_ADDRESS), operands[1], text, err);
        else if (opcode)
            rc = note_instruction(&w, opcode, operands, text, err);
    }
    for (size_t i = 0; i < w.cursor_capacity; i++)
        free(w.cursors[i].listed);
    free(w.cursors);
    free(w.registers);
    free(w.compared);
    free(w.text);
    return rc == EA_ENOMEM ? ea_fail(err, rc, "prepare a statement") : rc;
}

int ec_sql_check_names(ec_sql *s, const char *sql, const char *tail, ea_err *err) {
    size_t n = tail ? (size_t)(tail - sql) : strlen(sql);
    if (!memchr(sql, '\'', n) || !s->shaped)
        return 0;
    sqlite3_stmt *st = NULL;
    char *text = sqlite3_mprintf("EXPLAIN %.*s", (int)n, sql);
    if (!text)
        return ea_fail(err, EA_ENOMEM, "prepare a statement");
    /* what cannot be explained (EXPLAIN itself) is not checked */
    int rc = sqlite3_prepare_v2(s->db, text, -1, &st, NULL) == SQLITE_OK && st ? names_check_program(s, st, err) : 0;
    sqlite3_finalize(st);
    sqlite3_free(text);
    return rc;
}
