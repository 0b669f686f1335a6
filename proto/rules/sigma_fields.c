/* See sigma_fields.h. */
#include "proto/rules/sigma_fields.h"

#include "proto/base/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TABLES_MAX_BYTES = 16 << 20, COLUMNS = 5 };

static const char SERVICES[] = "services";
static const char *const TABLE_HEAD[COLUMNS] = {"sigma_field", "event", "our_field", "option", "tested_by"};
static const char *const SERVICES_HEAD[COLUMNS] = {"service", "channel", "provider", "option", "tested_by"};

/* What a value may come from, and the names that each source has. */
static const struct {
    const char *source, *names; /* names: a space before and after each */
} SOURCES[] = {
    {"header", " id pid "},                                                 /* the event's head */
    {"process", " account command_line id integrity_level logon_id path "}, /* the process that did it */
    {"parent", " account command_line id path "},                           /* its parent */
    {"grandparent", " path "},                                              /* the parent's parent */
    {"target", " command_line has_thread id parent_id path "}, /* the process that the event's fields name */
    {"file", " CompanyName FileDescription FileVersion Hashes ImpHash Md5 OriginalFileName ProductName Sha1 "
             "Sha256 "}, /* the image file: ImageFile/Facts */
    /* a registry key: created, of the handle, with a value's name; a value by the key's own name, and its data */
    {"key", " created data path set value "},
};

static const struct {
    const char *prefix;
    enum ea_sigma_option kind;
} OPTIONS[] = {
    {"flags: ", EA_SIGMA_FLAGS},       {"images: ", EA_SIGMA_IMAGES},
    {"provider: ", EA_SIGMA_PROVIDER}, {"policy: ", EA_SIGMA_POLICY},
    {"log: ", EA_SIGMA_LOG},           {"part: ", EA_SIGMA_PART},
    {"none: ", EA_SIGMA_NONE},         {"registry-values: ", EA_SIGMA_VALUES},
};

struct ea_sigma_tables {
    ea_arena arena;
    ea_sigma_source *sources;
    size_t source_count, source_capacity;
    ea_sigma_row *rows;
    size_t row_count, row_capacity;
};

static int sigma_fields_is_name(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'))
            return 0;
    }
    return len > 0;
}

/* SOURCE.NAME, or a field's own name. */
static int is_value(const char *text, size_t len) {
    const char *dot = memchr(text, '.', len);
    char name[66];
    if (!dot)
        return sigma_fields_is_name(text, len);
    size_t source_len = (size_t)(dot - text), name_len = len - source_len - 1;
    if (name_len > sizeof name - 3)
        return 0;
    snprintf(name, sizeof name, " %.*s ", (int)name_len, dot + 1);
    for (size_t i = 0; i < sizeof SOURCES / sizeof *SOURCES; i++)
        if (strlen(SOURCES[i].source) == source_len && memcmp(SOURCES[i].source, text, source_len) == 0)
            return sigma_fields_is_name(dot + 1, name_len) && strstr(SOURCES[i].names, name) != NULL;
    return 0;
}

/* NAME=VALUE, NAME!=VALUE. */
static int is_when(const char *field) {
    const char *equal = strchr(field, '=');
    if (!equal || equal == field || !equal[1])
        return 0;
    return is_value(field, (size_t)(equal - field) - (equal[-1] == '!'));
}

static int is_field(const ea_sigma_row *r) {
    static const char PATH[] = ":path";
    const char *field = r->field;
    size_t len = strlen(field);
    if (strcmp(r->events, "-") == 0)
        return strcmp(field, "-") == 0;
    if (strcmp(r->sigma, "@when") == 0)
        return is_when(field);
    if (r->sigma[0] == '@')
        return (strcmp(r->sigma, "@process") == 0 || strcmp(r->sigma, "@target") == 0) &&
               sigma_fields_is_name(field, len);
    if (strcmp(r->sigma, "*") == 0 || strcmp(field, "*") == 0)
        return strcmp(r->sigma, field) == 0;
    if (field[0] == '=')
        return field[1] != 0;
    if (len > sizeof PATH - 1 && strcmp(field + len - (sizeof PATH - 1), PATH) == 0)
        return sigma_fields_is_name(field, len - (sizeof PATH - 1));
    return is_value(field, len);
}

int ea_sigma_option_next(const char **at, enum ea_sigma_option *ret_kind, const char **ret_text, size_t *ret_len,
                         const char **ret_value, size_t *ret_value_len) {
    static const char BETWEEN[] = " + ";
    const char *begin = *at, *end = strstr(begin, BETWEEN);
    if (!*begin || (end && !end[sizeof BETWEEN - 1]))
        return 0;
    size_t len = end ? (size_t)(end - begin) : strlen(begin);
    for (size_t i = 0; i < sizeof OPTIONS / sizeof *OPTIONS; i++) {
        size_t prefix = strlen(OPTIONS[i].prefix);
        if (len > prefix && memcmp(begin, OPTIONS[i].prefix, prefix) == 0) {
            *ret_kind = OPTIONS[i].kind;
            *ret_text = begin;
            *ret_len = len;
            *ret_value = begin + prefix;
            *ret_value_len = len - prefix;
            *at = end ? end + sizeof BETWEEN - 1 : begin + len;
            return 1;
        }
    }
    return 0;
}

static int sigma_fields_is_option(const char *option) {
    const char *at = option, *text, *value;
    size_t len, value_len, count = 0;
    enum ea_sigma_option kind;
    while (ea_sigma_option_next(&at, &kind, &text, &len, &value, &value_len))
        count++;
    return count > 0 && !*at;
}

static int sigma_fields_add_row(ea_sigma_tables *t, const ea_sigma_row *row) {
    if (t->row_count == t->row_capacity)
        return EA_ELIMIT;
    t->rows[t->row_count] = *row;
    t->rows[t->row_count].number = (uint32_t)t->row_count;
    t->row_count++;
    return 0;
}

static int sigma_fields_add_source(ea_sigma_tables *t, const char *name, const char *channel, int is_service) {
    if (t->source_count == t->source_capacity)
        return EA_ELIMIT;
    t->sources[t->source_count++] =
        (ea_sigma_source){.name = name, .channel = channel, .is_service = is_service, .rows = t->rows + t->row_count};
    return 0;
}

/* Splits a line in place. */
static int split_line(char *line, char **columns) {
    for (int i = 0; i < COLUMNS; i++) {
        columns[i] = line;
        if (!line || !*line)
            return 0;
        line = strchr(line, '\t');
        if (line)
            *line++ = 0;
    }
    return line == NULL;
}

static int sigma_fields_take_line(ea_sigma_tables *t, char **columns, int is_services, ea_sigma_row *row) {
    if (!is_services) {
        *row = (ea_sigma_row){.sigma = columns[0], .events = columns[1], .field = columns[2], .option = columns[3]};
        return 0;
    }
    size_t size = strlen(columns[2]) + sizeof "/*";
    char *events = ea_arena_alloc(&t->arena, size);
    if (!events)
        return EA_ENOMEM;
    snprintf(events, size, "%s/*", columns[2]);
    *row = (ea_sigma_row){.sigma = "*", .events = events, .field = "*", .option = columns[3]};
    return sigma_fields_add_source(t, columns[0], columns[1], 1);
}

static int read_table(ea_sigma_tables *t, const ea_sigma_file *file, ea_err *err) {
    int is_services = strcmp(file->name, SERVICES) == 0, rc = 0;
    const char *const *head = is_services ? SERVICES_HEAD : TABLE_HEAD;
    char *text = ea_arena_alloc(&t->arena, file->len_bytes + 1), *columns[COLUMNS];
    if (!text)
        return ea_fail(err, EA_ENOMEM, "read the tables of Sigma fields");
    memcpy(text, file->data, file->len_bytes);
    text[file->len_bytes] = 0;
    if (!is_services)
        rc = sigma_fields_add_source(t, file->name, "", 0);
    unsigned number = 0;
    for (char *line = text, *end; !rc && *line; line = end) {
        end = line + strcspn(line, "\n");
        if (*end)
            *end++ = 0;
        ea_sigma_row row;
        int is_good = split_line(line, columns);
        for (int i = 0; is_good && !number && i < COLUMNS; i++)
            is_good = strcmp(columns[i], head[i]) == 0;
        if (is_good && number) {
            rc = sigma_fields_take_line(t, columns, is_services, &row);
            is_good = rc || (is_field(&row) && sigma_fields_is_option(row.option));
            if (!rc && is_good) {
                rc = sigma_fields_add_row(t, &row);
                t->sources[t->source_count - 1].row_count++;
            }
        }
        number++;
        if (!is_good)
            return ea_fail(err, EA_EFORMAT, "config/sigma/%s.tsv, line %u: expected %s, %s, %s, %s and %s", file->name,
                           number, head[0], head[1], head[2], head[3], head[4]);
    }
    return rc ? ea_fail(err, rc, "read the tables of Sigma fields") : 0;
}

int ea_sigma_tables_create(ea_sigma_tables **ret, const ea_sigma_file *files, ea_err *err) {
    ea_sigma_tables *t = calloc(1, sizeof *t);
    int rc = 0;
    if (!t)
        return ea_fail(err, EA_ENOMEM, "read the tables of Sigma fields");
    ea_arena_init(&t->arena, TABLES_MAX_BYTES);
    for (const ea_sigma_file *f = files; f->name; f++) {
        t->source_capacity++;
        for (size_t i = 0; i < f->len_bytes; i++)
            t->row_capacity += f->data[i] == '\n';
        t->row_capacity++; /* the last line may have no end */
    }
    t->source_capacity += t->row_capacity;
    t->sources = ea_arena_zalloc(&t->arena, t->source_capacity, sizeof *t->sources);
    t->rows = ea_arena_zalloc(&t->arena, t->row_capacity, sizeof *t->rows);
    if (!t->sources || !t->rows)
        rc = ea_fail(err, EA_ENOMEM, "read the tables of Sigma fields");
    for (const ea_sigma_file *f = files; f->name && !rc; f++)
        rc = read_table(t, f, err);
    if (rc) {
        ea_sigma_tables_destroy(t);
        return rc;
    }
    *ret = t;
    return 0;
}

void ea_sigma_tables_destroy(ea_sigma_tables *t) {
    if (!t)
        return;
    ea_arena_deinit(&t->arena);
    free(t);
}

size_t ea_sigma_row_count(const ea_sigma_tables *t) {
    return t->row_count;
}

const ea_sigma_source *ea_sigma_sources(const ea_sigma_tables *t, size_t *ret_count) {
    *ret_count = t->source_count;
    return t->sources;
}

const ea_sigma_source *ea_sigma_source_find(const ea_sigma_tables *t, const char *product, const char *category,
                                            const char *service) {
    if (strcmp(product, "windows") != 0)
        return NULL;
    for (size_t i = 0; i < t->source_count; i++) {
        const ea_sigma_source *s = &t->sources[i];
        if (strcmp(s->name, s->is_service ? service : category) == 0 && (s->is_service ? !*category : 1))
            return s;
    }
    return NULL;
}

const ea_sigma_row *ea_sigma_row_next(const ea_sigma_source *s, const char *field, const ea_sigma_row *after) {
    for (const ea_sigma_row *r = after ? after + 1 : s->rows; r < s->rows + s->row_count; r++)
        if (strcmp(r->sigma, field) == 0 || (strcmp(r->sigma, "*") == 0 && field[0] != '@'))
            return r;
    return NULL;
}
