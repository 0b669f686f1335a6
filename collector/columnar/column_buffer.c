/* See column_buffer.h. */
#include "collector/columnar/column_buffer.h"

#include "proto/base/array.h"

#include <stdlib.h>
#include <string.h>

unsigned ec_file_column_bytes(const ec_file_column *c) {
    switch (c->kind) {
    case EC_COLUMN_SIGNED:
    case EC_COLUMN_UNSIGNED:
        return c->bits <= 32 ? 4 : 8;
    case EC_COLUMN_REAL:
    case EC_COLUMN_TIME:
        return 8;
    default:
        return 0;
    }
}

void ec_column_buffer_init(ec_column_buffer *b, const ec_file_column *column) {
    *b = (ec_column_buffer){.column = column, .is_dictionary = !ec_file_column_bytes(column)};
    ea_text_init(&b->bytes);
}

void ec_column_buffer_deinit(ec_column_buffer *b) {
    free(b->present);
    free(b->numbers);
    free(b->starts);
    free(b->slots);
    ea_text_deinit(&b->bytes);
}

void ec_column_buffer_clear(ec_column_buffer *b) {
    const ec_file_column *column = b->column;
    ec_column_buffer_deinit(b);
    ec_column_buffer_init(b, column);
}

size_t ec_column_buffer_memory(const ec_column_buffer *b) {
    return b->present_capacity + b->number_capacity * sizeof *b->numbers + b->start_capacity * sizeof *b->starts +
           b->bytes.capacity + (b->slots ? (size_t)(b->slot_mask + 1) * sizeof *b->slots : 0);
}

/* Counts rows, with values or without. */
static int add_rows(ec_column_buffer *b, uint32_t count, int is_present) {
    if (count > EC_COLUMN_ROWS_MAX - b->rows)
        return EA_ELIMIT;
    int is_mixed = b->rows && (b->present || (is_present ? b->nulls != 0 : b->nulls == 0));
    if (is_mixed) {
        if (EA_GROW(b->present, b->present_capacity, (size_t)b->rows + count, EC_COLUMN_ROWS_MAX))
            return EA_ENOMEM;
        if (b->nulls == 0 || b->nulls == b->rows)
            memset(b->present, b->nulls == 0, b->rows);
        memset(b->present + b->rows, is_present, count);
    }
    b->rows += count;
    b->nulls += is_present ? 0 : count;
    return 0;
}

int ec_column_add_null(ec_column_buffer *b, uint32_t count) {
    if (!count)
        return 0;
    return b->column->is_optional ? add_rows(b, count, 0) : EA_EINVAL;
}

/* Every value gets a place of its own. */
static int expand(ec_column_buffer *b, uint32_t count) {
    size_t need = (size_t)b->values + count;
    if (need > EC_COLUMN_ROWS_MAX)
        return EA_ELIMIT;
    int is_new = !b->numbers;
    if (EA_GROW(b->numbers, b->number_capacity, need, EC_COLUMN_ROWS_MAX))
        return EA_ENOMEM;
    for (uint32_t i = 0; is_new && i < b->values; i++)
        b->numbers[i] = b->first;
    return 0;
}

int ec_column_add_number(ec_column_buffer *b, uint64_t value, uint32_t count) {
    if (!count)
        return 0;
    if (!b->values)
        b->first = value;
    if (b->numbers || value != b->first) {
        int rc = expand(b, count);
        if (rc)
            return rc;
        for (uint32_t i = 0; i < count; i++)
            b->numbers[b->values + i] = value;
    }
    int rc = add_rows(b, count, 1);
    if (!rc)
        b->values += count;
    return rc;
}

uint64_t *ec_column_append(ec_column_buffer *b, uint32_t count) {
    if (!count || expand(b, count) || add_rows(b, count, 1))
        return NULL;
    b->values += count;
    return b->numbers + b->values - count;
}

/* ---- texts ---- */

enum { SLOTS_FIRST = 64 };

/* Appends a text to the bytes, as the column may have it. */
static int append_text(ec_column_buffer *b, const char *data, size_t len_bytes) {
    if (len_bytes > EC_COLUMN_BYTES_MAX - b->bytes.len_bytes)
        return EA_ELIMIT;
    if (EA_GROW(b->starts, b->start_capacity, (size_t)b->text_count + 2, (size_t)EC_COLUMN_ROWS_MAX + 2))
        return EA_ENOMEM;
    size_t start = b->bytes.len_bytes;
    ea_text_add(&b->bytes, data, len_bytes);
    if (b->bytes.failed)
        return EA_ENOMEM;
    if (b->column->kind == EC_COLUMN_TEXT && len_bytes)
        ea_utf8_repair(b->bytes.data + start, len_bytes);
    b->starts[b->text_count] = (uint32_t)start;
    b->starts[++b->text_count] = (uint32_t)b->bytes.len_bytes;
    return 0;
}

static uint64_t hash_of(const char *data, size_t len_bytes) {
    return ea_hash64(len_bytes ? data : "", len_bytes, 0);
}

static int grow_slots(ec_column_buffer *b) {
    uint32_t count = b->slots ? 2 * (b->slot_mask + 1) : SLOTS_FIRST;
    uint32_t *slots = calloc(count, sizeof *slots);
    if (!slots)
        return EA_ENOMEM;
    for (uint32_t k = 0; k < b->text_count; k++) {
        uint32_t n, at;
        const char *text = ec_column_text(b, k, &n);
        for (at = (uint32_t)hash_of(text, n) & (count - 1); slots[at]; at = (at + 1) & (count - 1)) {
        }
        slots[at] = k + 1;
    }
    free(b->slots);
    b->slots = slots;
    b->slot_mask = count - 1;
    return 0;
}

/* There are too many different texts: each value gets its own. */
static int give_up_dictionary(ec_column_buffer *b) {
    ec_column_buffer plain = {.column = b->column};
    int rc = 0;
    ea_text_init(&plain.bytes);
    for (uint32_t i = 0; i < b->values && !rc; i++) {
        uint32_t n;
        const char *text = ec_column_text(b, (uint32_t)ec_column_number(b, i), &n);
        rc = append_text(&plain, text, n);
    }
    if (rc) {
        ec_column_buffer_deinit(&plain);
        return rc;
    }
    free(b->slots);
    free(b->numbers);
    free(b->starts);
    ea_text_deinit(&b->bytes);
    b->is_dictionary = 0;
    b->slots = NULL;
    b->slot_mask = 0;
    b->numbers = NULL;
    b->number_capacity = 0;
    b->bytes = plain.bytes;
    b->starts = plain.starts;
    b->start_capacity = plain.start_capacity;
    b->text_count = plain.text_count;
    return 0;
}

/* The place of a text that is in the dictionary, or the slot for it. */
static int column_buffer_find_text(const ec_column_buffer *b, const char *data, size_t len_bytes, uint32_t *ret) {
    uint32_t at = (uint32_t)hash_of(data, len_bytes) & b->slot_mask;
    for (; b->slots[at]; at = (at + 1) & b->slot_mask) {
        uint32_t n;
        const char *text = ec_column_text(b, b->slots[at] - 1, &n);
        if (n == len_bytes && (!n || memcmp(text, data, n) == 0)) {
            *ret = b->slots[at] - 1;
            return 1;
        }
    }
    *ret = at;
    return 0;
}

int64_t ec_column_learn(ec_column_buffer *b, const char *data, size_t len_bytes, int *ret_rc) {
    uint32_t at = 0;
    *ret_rc = 0;
    if (!b->is_dictionary)
        return -1;
    if (!b->slots && (*ret_rc = grow_slots(b)))
        return -1;
    if (column_buffer_find_text(b, data, len_bytes, &at))
        return at;
    if (b->text_count >= EC_COLUMN_TEXTS_MAX || len_bytes > EC_COLUMN_TEXTS_BYTES_MAX - b->bytes.len_bytes) {
        *ret_rc = give_up_dictionary(b);
        return -1;
    }
    *ret_rc = append_text(b, data, len_bytes);
    if (*ret_rc)
        return -1;
    /* by what it became: a text that was repaired may be known */
    uint32_t n, made = b->text_count - 1;
    const char *text = ec_column_text(b, made, &n);
    if (column_buffer_find_text(b, text, n, &at)) {
        b->bytes.len_bytes = b->starts[made];
        b->text_count--;
        return at;
    }
    b->slots[at] = made + 1;
    if (2 * b->text_count > b->slot_mask)
        *ret_rc = grow_slots(b);
    return *ret_rc ? -1 : (int64_t)made;
}

int ec_column_add_known(ec_column_buffer *b, uint32_t place, uint32_t count) {
    return ec_column_add_number(b, place, count);
}

int ec_column_add_text(ec_column_buffer *b, const char *data, size_t len_bytes, uint32_t count) {
    int rc = 0;
    int64_t place = ec_column_learn(b, data, len_bytes, &rc);
    if (rc)
        return rc;
    if (b->is_dictionary)
        return ec_column_add_known(b, (uint32_t)place, count);
    for (uint32_t i = 0; i < count && !rc; i++)
        rc = append_text(b, data, len_bytes);
    if (!rc)
        rc = add_rows(b, count, 1);
    if (!rc)
        b->values += count;
    return rc;
}
