/* See matched_row.h. */
#include "collector/detect/matched_row.h"

#include "proto/base/pattern.h"

#include <string.h>

enum {
    ESCAPED_MAX = 6,      /* bytes of JSON for one of a text */
    NAME_MAX_BYTES = 128, /* of a field, with its punctuation */
    PROCESS_MAX_BYTES = 1024,
    GROUPED_MAX_BYTES = 1024, /* of a field that a correlation compares */
};

void ec_matched_row_init(ec_matched_row *r, ea_arena *arena) {
    *r = (ec_matched_row){.arena = arena};
    ea_text_init(&r->json);
    ea_text_init(&r->cut);
    ea_text_init(&r->group);
}

void ec_matched_row_deinit(ec_matched_row *r) {
    ea_text_deinit(&r->json);
    ea_text_deinit(&r->cut);
    ea_text_deinit(&r->group);
}

static const char *matched_cell(const ec_matched_row *r, size_t i) {
    return r->cells[i].len_bytes ? r->cells[i].data : "";
}

/* The first bytes of a text, in r->cut. */
static const char *matched_cut(ec_matched_row *r, const char *value, size_t len_bytes, size_t limit_bytes) {
    size_t len = ea_utf8_fit(value, len_bytes, limit_bytes);
    ea_text_clear(&r->cut);
    if (len)
        ea_text_add(&r->cut, value, len);
    return len && r->cut.data ? r->cut.data : "";
}

void ec_matched_row_add_cut(ec_matched_row *r, const char *value, size_t len_bytes, size_t limit_bytes) {
    size_t begin = r->json.len_bytes;
    ea_text_json_str(&r->json, matched_cut(r, value, len_bytes, limit_bytes));
    if (r->json.failed || r->json.len_bytes - begin <= limit_bytes + 2)
        return;
    r->json.data[r->json.len_bytes = begin] = 0;
    ea_text_json_str(&r->json, matched_cut(r, value, len_bytes, limit_bytes / ESCAPED_MAX));
}

const char *ec_matched_row_process(ec_matched_row *r) {
    const ea_text *t = &r->cells[EC_RULES_PROCESS];
    return r->looks[EC_RULES_PROCESS] == EC_LOOK_EMPTY
               ? NULL
               : ea_arena_strdup(r->arena,
                                 matched_cut(r, matched_cell(r, EC_RULES_PROCESS), t->len_bytes, PROCESS_MAX_BYTES));
}

const char *ec_matched_row_fields(ec_matched_row *r) {
    const char *before = "";
    ea_text_clear(&r->json);
    ea_text_char(&r->json, '{');
    for (size_t i = 0; i < r->statement->field_count; i++) {
        size_t column = EC_RULES_HEAD_COLUMNS + i;
        if (r->looks[column] == EC_LOOK_EMPTY || r->json.len_bytes + NAME_MAX_BYTES >= EC_MATCHED_ROW_MAX)
            continue;
        size_t room = EC_MATCHED_ROW_MAX - NAME_MAX_BYTES - r->json.len_bytes;
        ea_text_str(&r->json, before);
        ea_text_json_str(&r->json, r->statement->names[i]);
        ea_text_str(&r->json, ": ");
        ec_matched_row_add_cut(r, matched_cell(r, column), r->cells[column].len_bytes,
                               room < EC_MATCHED_FIELD_MAX ? room : EC_MATCHED_FIELD_MAX);
        before = ", ";
    }
    ea_text_char(&r->json, '}');
    return r->json.failed || r->cut.failed ? NULL : ea_arena_strdup(r->arena, r->json.data);
}

/* The column of a field; -1: the event has no value of it. */
static int column_of_field(const ec_matched_row *r, const char *name) {
    for (size_t i = 0; i < r->statement->field_count; i++)
        if (strcmp(r->statement->names[i], name) == 0 && r->looks[EC_RULES_HEAD_COLUMNS + i] != EC_LOOK_EMPTY)
            return (int)(EC_RULES_HEAD_COLUMNS + i);
    return -1;
}

/* What is compared, in r->group without regard to the case of ASCII letters, and for a person, in r->json. */
static void write_group(ec_matched_row *r, const ea_rule_correlation *c) {
    const char *before = "";
    ea_text_clear(&r->json);
    ea_text_clear(&r->group);
    ea_text_char(&r->json, '{');
    for (uint32_t i = 0; i < c->field_count; i++) {
        int column = column_of_field(r, c->fields[i]);
        ea_text_str(&r->group, i ? ", " : "");
        if (column < 0) {
            ea_text_str(&r->group, "null");
            continue;
        }
        ea_text_str(&r->json, before);
        ea_text_json_str(&r->json, c->fields[i]);
        ea_text_str(&r->json, ": ");
        size_t begin = r->json.len_bytes;
        ec_matched_row_add_cut(r, matched_cell(r, (size_t)column), r->cells[column].len_bytes, GROUPED_MAX_BYTES);
        if (!r->json.failed)
            ea_text_add(&r->group, r->json.data + begin, r->json.len_bytes - begin);
        before = ", ";
    }
    ea_text_char(&r->json, '}');
    for (size_t i = 0; i < r->group.len_bytes; i++)
        r->group.data[i] = ea_ascii_lower(r->group.data[i]);
}

int ec_matched_row_hit(ec_matched_row *r, const ea_rule_correlation *correlation, ec_correlation_hit *ret) {
    int value = *correlation->field ? column_of_field(r, correlation->field) : -1;
    write_group(r, correlation);
    ret->fields = ret->group = ret->value = NULL;
    if (!r->json.failed && !r->group.failed) {
        ret->fields = ea_arena_strdup(r->arena, r->json.data);
        ret->group = ea_arena_strdup(r->arena, r->group.len_bytes ? r->group.data : "");
    }
    if (value >= 0)
        ret->value = ea_arena_strdup(
            r->arena, matched_cut(r, matched_cell(r, (size_t)value), r->cells[value].len_bytes, GROUPED_MAX_BYTES));
    ret->process = ec_matched_row_process(r);
    return !ret->fields || !ret->group || (value >= 0 && !ret->value) ? EA_ENOMEM : 0;
}
