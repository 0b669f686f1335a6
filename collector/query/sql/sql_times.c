/* Times and numbers that a statement writes as texts. A time column holds a number of ns since 1970. Where a table
 * compares its own column with an RFC 3339 text, the text is turned into that number (ec_sql_value). Elsewhere SQLite
 * itself would compare a number with a text, and every number is less than every text: such a statement is refused
 * here, since its answer would be wrong without a word. Likewise a number's column against a text that is no number,
 * and an address against a number as it is written.
 *
 * The check reads the program that SQLite has compiled (EXPLAIN): a comparison names its two registers and the affinity
 * of its operands, and constants are in registers of their own, which the end of the program fills.
 *
 * Called by: ec_sql_prepare. Calls: SQLite. Thread: the connection's. */
#include "collector/query/sql/sql_parts.h"
#include "proto/base/array.h"
#include "proto/base/clock.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Of EXPLAIN's rows. */
enum { EXPLAIN_ADDRESS, EXPLAIN_OPCODE, EXPLAIN_P1, EXPLAIN_P2, EXPLAIN_P3, EXPLAIN_P4, EXPLAIN_P5 };

/* INTEGER and REAL are the types of numbers alone; those of other numbers, as COUNT, may have texts, and are NUMERIC.
 */
enum {
    AFFINITY_MASK = 0x47,
    AFFINITY_BLOB = 0x41,
    AFFINITY_NUMERIC = 0x43,
    AFFINITY_INTEGER = 0x44,
    REGISTERS_MAX = 1 << 20,
    BRANCH_MAX = 4096
};

typedef struct comparison {
    int left, right;                 /* registers */
    uint8_t left_value, right_value; /* VALUE_... bits */
    int is_numeric;                  /* at least one side is a number's column */
    int is_number;                   /* ... whose type has no texts */
    int is_expression;               /* neither side is a column of a table, as it is: SQLite converts nothing */
    int is_order;                    /* <, <=, >, >= */
    int is_of_address;               /* a side is an address */
} comparison;

/* What a cursor reads: a table of ours, or a list of constants, of which one is a number. */
typedef struct cursor_table {
    uintptr_t table; /* 0: none of ours */
    int64_t number;
    int has_number;
    int in_register; /* where a table of groups gets the list from; 0: nowhere */
} cursor_table;

/* What is known of the program so far. */
typedef struct program {
    comparison *compared;
    size_t count, capacity;
    uint8_t *registers; /* REGISTER_... and VALUE_... bits */
    size_t register_capacity;
    int constants;    /* the address of the program's end, which fills the constants */
    int branches_end; /* up to here another branch may have written the same register: CASE, coalesce */
    const ec_sql *sql;
    cursor_table *cursors;
    size_t cursor_capacity;
    int64_t number;      /* the last whole number that was written, ... */
    int number_register; /* ... and where; then the record made of it; 0: none */
    int has_address;     /* an address was compared */
} program;

/* A column as it is; the min() or max() of one; an address; a number as it is written. What the register can hold: the
 * value of a table's column, a number that was computed, anything else. What a sorter or a subquery's rows gave back
 * may have been computed: it is anything else. */
enum {
    REGISTER_COLUMN = 1,
    REGISTER_EXTREME = 2,
    VALUE_COLUMN = 4,
    VALUE_NUMBER = 8,
    VALUE_OTHER = 16,
    REGISTER_ADDRESS = 32,
    REGISTER_WRITTEN = 64
};

enum { VALUES = VALUE_COLUMN | VALUE_NUMBER | VALUE_OTHER };

/* 1 for "2024-05-17" and what goes on after it. */
static int is_like_a_time(const char *text) {
    for (int i = 0; i < 10; i++)
        if (i == 4 || i == 7 ? text[i] != '-' : text[i] < '0' || text[i] > '9')
            return 0;
    return 1;
}

/* 1 for "0x7ff712340000". */
static int is_like_an_address(const char *text) {
    size_t n = text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? strlen(text + 2) : 0;
    return n && strspn(text + 2, "0123456789abcdefABCDEF") == n;
}

int ec_sql_is_number(const char *text) {
    static const char BLANKS[] = " \t\n\v\f\r";
    char *end = NULL;
    text += strspn(text, BLANKS);
    if (strpbrk(text, "xXnN")) /* strtod reads 0x10, inf and nan; SQLite does not */
        return 0;
    (void)strtod(text, &end);
    return end != text && !end[strspn(end, BLANKS)];
}

/* When the first and the last event of the connection's streams are. */
static int read_data_times(ec_sql *s, ea_time_reference *r, ea_err *err) {
    const ec_archive_stream *streams = NULL;
    size_t count = 0;
    int rc = ec_archive_streams(s->archive, &streams, &count, err);
    for (size_t i = 0; !rc && i < count; i++) {
        const ec_index_query_row *row = &streams[i].row;
        if (!row->event_count)
            continue;
        if (!r->has_data || row->begin_utc_ns < r->begin_utc_ns)
            r->begin_utc_ns = row->begin_utc_ns;
        if (!r->has_data || row->end_utc_ns > r->end_utc_ns)
            r->end_utc_ns = row->end_utc_ns;
        r->has_data = 1;
    }
    r->end_utc_ns += r->has_data && r->end_utc_ns < INT64_MAX; /* just after the last event */
    return rc;
}

int ec_sql_read_time(ec_sql *s, const char *text, int64_t *ret, ea_err *err) {
    ea_time_reference reference = {.now_utc_ns = s->now_utc_ns};
    int rc = ea_time_parse(text, &reference, ret);
    if (rc != EA_ENOTFOUND)
        return rc;
    rc = read_data_times(s, &reference, err);
    if (!rc && ea_time_parse(text, &reference, ret))
        rc = ea_fail(err, EA_EUSAGE, "'%.40s': nothing is stored, so there is no first or last event", text);
    return rc;
}

int ec_sql_time(ec_sql *s, const char *text, int64_t *ret, ea_err *err) {
    int rc = ec_sql_read_time(s, text ? text : "", ret, err);
    return rc != EA_EINVAL
               ? rc
               : ea_fail(err, EA_EUSAGE,
                         "a time cannot be compared with '%.40s': expected ns since 1970, now(), ago('24h'), "
                         "or " EA_TIME_FORMS_OF_DATA,
                         text ? text : "");
}

int ec_sql_address(const char *text, int64_t *ret, ea_err *err) {
    uint64_t address;
    if (ea_u64_parse(text ? text : "", &address))
        return ea_fail(err, EA_EUSAGE, "an address cannot be compared with '%.40s': write u64('0x7ff712340000')",
                       text ? text : "");
    *ret = ec_u64_to_sql(address);
    return 0;
}

static int is_comparison(const char *opcode) {
    static const char *const OPCODES[] = {"Eq", "Ne", "Lt", "Le", "Gt", "Ge"};
    for (size_t i = 0; i < sizeof OPCODES / sizeof *OPCODES; i++)
        if (strcmp(opcode, OPCODES[i]) == 0)
            return 1;
    return 0;
}

/* 1 for a function of which each value is a number or NULL; text: of EXPLAIN, "now(0)". */
static int is_number_function(const char *text) {
    static const char *const NAMES[] = {"now", "ago", "time_ns", "time_bucket", "duration_ns", "u64", "unixepoch"};
    size_t n = strcspn(text, "(");
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strlen(NAMES[i]) == n && strncmp(NAMES[i], text, n) == 0)
            return 1;
    return 0;
}

static int is_whole_number(const char *opcode) {
    return strcmp(opcode, "Integer") == 0 || strcmp(opcode, "Int64") == 0;
}

uintptr_t ec_sql_table_number(const char *explained) {
    static const char PREFIX[] = "vtab:";
    return explained && strncmp(explained, PREFIX, sizeof PREFIX - 1) == 0
               ? (uintptr_t)strtoull(explained + sizeof PREFIX - 1, NULL, 16)
               : 0;
}

const ec_column *ec_sql_shaped_column(const ec_sql_shaped *t, int number) {
    size_t at = number >= 0 && (size_t)number >= t->own_count ? (size_t)number - t->own_count : t->shape.count;
    return at < t->shape.count ? &t->shape.columns[at] : NULL;
}

/* What a column of the table of a number has: 1; 0 when it is not known. */
static int times_column_kind(const ec_sql *s, uintptr_t table, int column, enum ec_kind *ret) {
    if (column < 0)
        return 0;
    for (const ec_sql_shaped *t = s->shaped; t; t = t->next)
        if ((uintptr_t)t == table) {
            const ec_column *c = ec_sql_shaped_column(t, column);
            *ret = c ? c->kind : EC_KIND_ANY;
            return c != NULL;
        }
    for (const ec_sql_typed *t = s->typed; t; t = t->next)
        if ((uintptr_t)t == table && (size_t)column < t->count) {
            *ret = t->kinds[column];
            return 1;
        }
    return 0;
}

/* The register that an instruction writes, and what with. -1: none that matters here. */
static int written(const program *p, const char *opcode, const int *operands, const char *text, uint8_t *ret_value) {
    static const char *const ARITHMETIC[] = {"Add", "Subtract", "Multiply", "Divide", "Remainder"};
    *ret_value = VALUE_OTHER;
    if (strcmp(opcode, "VColumn") == 0) {
        enum ec_kind kind;
        int is_known = (size_t)operands[0] < p->cursor_capacity &&
                       times_column_kind(p->sql, p->cursors[operands[0]].table, operands[1], &kind);
        int has_texts = is_known && (kind == EC_KIND_TEXT || kind == EC_KIND_BLOB || kind == EC_KIND_ANY);
        *ret_value = (uint8_t)(has_texts ? VALUE_OTHER
                                         : VALUE_COLUMN | (is_known && kind == EC_KIND_ADDRESS ? REGISTER_ADDRESS : 0));
        return operands[2];
    }
    if (strcmp(opcode, "Column") == 0)
        return operands[2];
    for (size_t i = 0; i < sizeof ARITHMETIC / sizeof *ARITHMETIC; i++)
        if (strcmp(opcode, ARITHMETIC[i]) == 0) {
            *ret_value = VALUE_NUMBER;
            return operands[2];
        }
    if (is_whole_number(opcode) || strcmp(opcode, "Real") == 0) {
        *ret_value = (uint8_t)(VALUE_NUMBER | (*opcode == 'I' ? REGISTER_WRITTEN : 0));
        return operands[1];
    }
    if (strcmp(opcode, "Copy") == 0 || strcmp(opcode, "SCopy") == 0) {
        if (operands[0] >= 0 && (size_t)operands[0] < p->register_capacity && p->registers[operands[0]] & VALUES)
            *ret_value = p->registers[operands[0]] & (VALUES | REGISTER_ADDRESS | REGISTER_WRITTEN);
        return operands[1];
    }
    if (strcmp(opcode, "Function") == 0 || strcmp(opcode, "PureFunc") == 0) {
        if (text && is_number_function(text))
            *ret_value = VALUE_NUMBER;
        return operands[2];
    }
    if (strcmp(opcode, "String8") == 0 || strcmp(opcode, "Variable") == 0)
        return operands[1];
    return strcmp(opcode, "Concat") == 0 ? operands[2] : -1;
}

/* The bits of a register; NULL: there is no memory, or the program has too many. */
static uint8_t *sql_times_at(program *p, int which) {
    size_t had = p->register_capacity;
    if (which < 0 || which >= REGISTERS_MAX ||
        EA_GROW(p->registers, p->register_capacity, (size_t)which + 1, REGISTERS_MAX))
        return NULL;
    if (p->register_capacity > had)
        memset(p->registers + had, 0, p->register_capacity - had);
    return &p->registers[which];
}

/* Takes note of what an instruction leaves in its register. 0, or EA_ENOMEM. */
static int sql_times_note(program *p, int address, const char *opcode, const int *operands, const char *text) {
    uint8_t *to, *from, value;
    int which = written(p, opcode, operands, text, &value);
    if (which >= 0) {
        if (!(to = sql_times_at(p, which)))
            return EA_ENOMEM;
        *to = (uint8_t)((address < p->branches_end ? *to : *to & ~(VALUES | REGISTER_ADDRESS | REGISTER_WRITTEN)) |
                        value);
    } else if ((strcmp(opcode, "Goto") == 0 || strcmp(opcode, "NotNull") == 0) && operands[1] > p->branches_end &&
               operands[1] <= address + BRANCH_MAX) {
        p->branches_end = operands[1];
    }
    if (strcmp(opcode, "VColumn") == 0 || strcmp(opcode, "Column") == 0) {
        if (!(to = sql_times_at(p, operands[2])))
            return EA_ENOMEM;
        *to |= REGISTER_COLUMN;
    } else if (strstr(opcode, "Function") || strcmp(opcode, "PureFunc") == 0) {
        if (!(to = sql_times_at(p, operands[2])))
            return EA_ENOMEM;
        *to &= (uint8_t)~REGISTER_COLUMN;
    } else if (strncmp(opcode, "AggStep", 7) == 0 && text &&
               (strncmp(text, "min(", 4) == 0 || strncmp(text, "max(", 4) == 0)) {
        if (!sql_times_at(p, operands[1]) || !(to = sql_times_at(p, operands[2]))) /* the first may move the array */
            return EA_ENOMEM;
        from = &p->registers[operands[1]];
        *to |= *from & REGISTER_COLUMN ? REGISTER_EXTREME : 0;
    }
    return 0;
}

/* Whether a constant in a register is compared with a number, as far as the program shows it. any: of whichever type,
 * or the extreme of a column. */
static int is_wrong(program *p, int constant, int any) {
    for (size_t i = 0; i < p->count; i++) {
        const comparison *c = &p->compared[i];
        if (c->left != constant && c->right != constant)
            continue;
        const uint8_t *other = sql_times_at(p, c->left == constant ? c->right : c->left);
        if (c->is_number || (any && (c->is_numeric || (other && *other & REGISTER_EXTREME))))
            return 1;
    }
    return 0;
}

/* Whether a constant in a register is compared with an expression of numbers alone, such as time + 5, or, when it is a
 * text of a time, with one of numbers and columns, such as coalesce("end", now()). */
static int is_beside_numbers(const program *p, int constant, int is_time) {
    for (size_t i = 0; i < p->count; i++) {
        const comparison *c = &p->compared[i];
        if (!c->is_expression || (c->left != constant && c->right != constant))
            continue;
        uint8_t other = c->left == constant ? c->right_value : c->left_value;
        if (other == VALUE_NUMBER || (is_time && c->is_order && other && !(other & VALUE_OTHER)))
            return 1;
    }
    return 0;
}

static uint8_t times_bits_of(const program *p, int which) {
    return which >= 0 && (size_t)which < p->register_capacity ? p->registers[which] : 0;
}

/* A text that the program leaves in a register. is_constant: at the program's end; elsewhere its register may have held
 * another value when that was compared. EA_EUSAGE when a number is compared with it. */
static int times_check_text(program *p, int which, const char *text, int is_constant, ea_err *err) {
    int64_t utc_ns;
    if (is_like_an_address(text))
        return is_wrong(p, which, 1) || (is_constant && is_beside_numbers(p, which, 0))
                   ? ea_fail(err, EA_EUSAGE,
                             "a number is compared with the text '%.40s' here: write u64('%.40s') for an address, %.40s"
                             " for any other number",
                             text, text, text)
                   : 0;
    int is_time =
        !ec_sql_is_number(text) && ea_time_parse(text, &(ea_time_reference){.now_utc_ns = 0}, &utc_ns) != EA_EINVAL;
    if (is_like_a_time(text) ? is_wrong(p, which, 1) || (is_constant && is_beside_numbers(p, which, 1))
                             : is_time && is_constant && is_beside_numbers(p, which, 1))
        return ea_fail(err, EA_EUSAGE,
                       "a number is compared with the text '%.40s' here: write time_ns('%.40s'), or compare"
                       " the text of time_text(column)",
                       text, text);
    if (!ec_sql_is_number(text) && is_constant && (is_wrong(p, which, 0) || is_beside_numbers(p, which, 0)))
        return ea_fail(err, EA_EUSAGE, EC_SQL_NO_NUMBER, text);
    return 0;
}

static int no_address(int64_t number, ea_err *err) {
    return ea_fail(err, EA_EUSAGE,
                   "an address is compared with the number %" PRId64
                   " here, and the numbers of addresses are turned: write u64('%" PRId64 "')",
                   number, number);
}

/* A table of groups takes a list of constants whole, as an argument of its scan. The plan, "COLUMN,OP,HOW " or
 * "COLUMN " for each argument, says which column the list is for. 0, or EA_EUSAGE. */
static int check_lists(const program *p, const cursor_table *of, int first_register, const char *plan, ea_err *err) {
    char *end = NULL;
    enum ec_kind kind;
    for (int at = first_register; plan && *plan >= '0' && *plan <= '9'; at++) {
        long column = strtol(plan, &end, 10);
        int is_address =
            column < INT_MAX && times_column_kind(p->sql, of->table, (int)column, &kind) && kind == EC_KIND_ADDRESS;
        for (size_t i = 0; is_address && i < p->cursor_capacity; i++)
            if (p->cursors[i].has_number && p->cursors[i].in_register == at)
                return no_address(p->cursors[i].number, err);
        plan = end + strcspn(end, " ");
        plan += *plan == ' ';
    }
    return 0;
}

/* Tables that cursors read, and whole numbers that addresses are compared with, one by one or as a list: each of its
 * constants is written, made a record, and entered into a cursor's table. 0, EA_EUSAGE, EA_ENOMEM. */
static int check_addresses(program *p, int address, const char *opcode, const int *operands, const char *text,
                           ea_err *err) {
    cursor_table *c = operands[0] >= 0 && (size_t)operands[0] < p->cursor_capacity ? &p->cursors[operands[0]] : NULL;
    const uint8_t *looked =
        operands[2] >= 0 && (size_t)operands[2] < p->register_capacity ? &p->registers[operands[2]] : NULL;
    int is_list = strcmp(opcode, "OpenEphemeral") == 0;
    if (is_list || strcmp(opcode, "VOpen") == 0) {
        size_t had = p->cursor_capacity;
        if (operands[0] < 0 || operands[0] >= REGISTERS_MAX ||
            EA_GROW(p->cursors, p->cursor_capacity, (size_t)operands[0] + 1, REGISTERS_MAX))
            return EA_ENOMEM;
        if (p->cursor_capacity > had)
            memset(p->cursors + had, 0, (p->cursor_capacity - had) * sizeof *p->cursors);
        p->cursors[operands[0]] = (cursor_table){.table = is_list ? 0 : ec_sql_table_number(text)};
    } else if (is_whole_number(opcode)) {
        p->number = strcmp(opcode, "Int64") == 0 ? strtoll(text ? text : "", NULL, 10) : operands[0];
        p->number_register = operands[1];
        for (size_t i = 0; p->has_address && address >= p->constants && i < p->count; i++)
            if (p->compared[i].is_of_address &&
                (p->compared[i].left == operands[1] || p->compared[i].right == operands[1]))
                return no_address(p->number, err);
    } else if (strcmp(opcode, "MakeRecord") == 0) {
        p->number_register = operands[1] == 1 && operands[0] == p->number_register ? operands[2] : 0;
    } else if (strcmp(opcode, "IdxInsert") == 0 && c && p->number_register && operands[1] == p->number_register) {
        c->number = p->number;
        c->has_number = 1;
    } else if ((strcmp(opcode, "Found") == 0 || strcmp(opcode, "NotFound") == 0) && c && c->has_number && looked &&
               *looked & REGISTER_ADDRESS) {
        return no_address(c->number, err);
    } else if (strcmp(opcode, "VInitIn") == 0 && c) {
        c->in_register = operands[1];
    } else if (strcmp(opcode, "VFilter") == 0 && c) {
        return check_lists(p, c, operands[2] + 2, text, err); /* after the plan's number and the count */
    }
    return 0;
}

/* Whether a register can have nothing else: not so coalesce(base, 0). */
static int is_written_number(uint8_t bits) {
    return (bits & (VALUES | REGISTER_ADDRESS | REGISTER_WRITTEN)) == (VALUE_NUMBER | REGISTER_WRITTEN);
}

/* Takes note of a comparison. EA_EUSAGE when an address is compared with a number that was written before. */
static int note_comparison(program *p, const char *opcode, const int *operands, int affinity, ea_err *err) {
    uint8_t left = times_bits_of(p, operands[0]), right = times_bits_of(p, operands[2]);
    if (EA_GROW(p->compared, p->capacity, p->count + 1, REGISTERS_MAX))
        return EA_ENOMEM;
    p->compared[p->count++] = (comparison){.left = operands[0],
                                           .right = operands[2],
                                           .left_value = left & VALUES,
                                           .right_value = right & VALUES,
                                           .is_numeric = affinity >= AFFINITY_NUMERIC,
                                           .is_number = affinity >= AFFINITY_INTEGER,
                                           .is_expression = affinity < AFFINITY_BLOB,
                                           .is_order = opcode[0] == 'L' || opcode[0] == 'G',
                                           .is_of_address = ((left | right) & REGISTER_ADDRESS) != 0};
    p->has_address |= ((left | right) & REGISTER_ADDRESS) != 0;
    int written = is_written_number(left) ? operands[0] : is_written_number(right) ? operands[2] : -1;
    return (left | right) & REGISTER_ADDRESS && written >= 0 && written == p->number_register
               ? no_address(p->number, err)
               : 0;
}

/* Walks the program: notes comparisons, then looks for their constants, which come after them. */
static int sql_times_check_program(const ec_sql *s, sqlite3_stmt *st, ea_err *err) {
    program p = {.sql = s};
    int rc = 0;
    while (!rc && sqlite3_step(st) == SQLITE_ROW) {
        const char *opcode = (const char *)sqlite3_column_text(st, EXPLAIN_OPCODE);
        const char *text = (const char *)sqlite3_column_text(st, EXPLAIN_P4);
        const int operands[] = {sqlite3_column_int(st, EXPLAIN_P1), sqlite3_column_int(st, EXPLAIN_P2),
                                sqlite3_column_int(st, EXPLAIN_P3)};
        if (opcode && is_comparison(opcode)) {
            rc = note_comparison(&p, opcode, operands, sqlite3_column_int(st, EXPLAIN_P5) & AFFINITY_MASK, err);
        } else if (opcode && strcmp(opcode, "Init") == 0) {
            p.constants = operands[1];
        } else if (opcode) {
            int address = sqlite3_column_int(st, EXPLAIN_ADDRESS);
            if (strcmp(opcode, "String8") == 0 && text)
                rc = times_check_text(&p, operands[1], text, address >= p.constants, err);
            if (!rc)
                rc = check_addresses(&p, address, opcode, operands, text, err);
            if (!rc)
                rc = sql_times_note(&p, address, opcode, operands, text);
        }
    }
    free(p.compared);
    free(p.registers);
    free(p.cursors);
    return rc == EA_ENOMEM ? ea_fail(err, rc, "prepare a statement") : rc;
}

/* Whether a statement may have a text or a number in it. */
static int has_constant(const char *sql, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (sql[i] == '\'' || (sql[i] >= '0' && sql[i] <= '9'))
            return 1;
    return 0;
}

int ec_sql_check_times(ec_sql *s, const char *sql, const char *tail, ea_err *err) {
    size_t n = tail ? (size_t)(tail - sql) : strlen(sql);
    if (!has_constant(sql, n))
        return 0;
    sqlite3_stmt *st = NULL;
    char *text = sqlite3_mprintf("EXPLAIN %.*s", (int)n, sql);
    if (!text)
        return ea_fail(err, EA_ENOMEM, "prepare a statement");
    /* what cannot be explained (EXPLAIN itself) is not checked */
    int rc =
        sqlite3_prepare_v2(s->db, text, -1, &st, NULL) == SQLITE_OK && st ? sql_times_check_program(s, st, err) : 0;
    sqlite3_finalize(st);
    sqlite3_free(text);
    return rc;
}
