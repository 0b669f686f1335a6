/* See block_keys.h. */
#include "collector/query/analysis/block_keys.h"

#include "proto/base/array.h"
#include "proto/base/clock.h"

#include <stdlib.h>
#include <string.h>

static int keys_no_memory(ea_err *err) {
    return ea_fail(err, EA_ENOMEM, "group events");
}

void ec_keys_init(ec_keys *a, const ec_table_schema *shape) {
    *a = (ec_keys){.shape = shape};
    ea_arena_init(&a->arena, 0);
    ea_bytes_map_init(&a->interned, 0);
}

void ec_keys_deinit(ec_keys *a) {
    free(a->memo);
    free(a->texts);
    ea_bytes_map_deinit(&a->interned);
    ea_arena_deinit(&a->arena);
}

int ec_keys_intern(ec_keys *a, const char *data, size_t len_bytes, uint64_t *ret) {
    const void *known = ea_bytes_map_get(&a->interned, len_bytes ? data : "", len_bytes);
    if (known) {
        *ret = (uintptr_t)known - 1;
        return 0;
    }
    if (EA_GROW(a->texts, a->text_capacity, a->text_count + 1, SIZE_MAX))
        return EA_ENOMEM;
    const char *copy = ea_arena_copy(&a->arena, len_bytes ? data : "", len_bytes);
    if (!copy || ea_bytes_map_put(&a->interned, copy, len_bytes, (void *)(uintptr_t)(a->text_count + 1)))
        return EA_ENOMEM;
    *ret = a->text_count;
    a->texts[a->text_count++] = (ec_key_text){copy, len_bytes};
    return 0;
}

/* Values that SQL finds equal have one key: 0.0 and -0.0, too. */
int ec_keys_of_value(ec_keys *a, const ec_value *v, ec_key *ret) {
    double r = v->r;
    *ret = (ec_key){.type = v->type};
    switch (v->type) {
    case EC_INT:
        ret->bits = (uint64_t)v->i;
        return 0;
    case EC_REAL:
        if (r != r) { /* what SQLite makes of it */
            ret->type = EC_NULL;
            return 0;
        }
        r = r == 0 ? 0.0 : r;
        memcpy(&ret->bits, &r, sizeof ret->bits);
        return 0;
    case EC_TEXT:
    case EC_BLOB:
        return ec_keys_intern(a, v->data, v->len_bytes, &ret->bits);
    default:
        return 0;
    }
}

void ec_keys_value(const ec_keys *a, const ec_key *k, ec_value *ret) {
    *ret = (ec_value){.type = (enum ec_value_type)k->type};
    switch (ret->type) {
    case EC_INT:
        ret->i = (int64_t)k->bits;
        break;
    case EC_REAL:
        memcpy(&ret->r, &k->bits, sizeof ret->r);
        break;
    case EC_TEXT:
    case EC_BLOB:
        ret->data = a->texts[k->bits].data;
        ret->len_bytes = a->texts[k->bits].len_bytes;
        break;
    default:
        break;
    }
}

/* A column whose rows are fixed-width numbers that stand for themselves, but perhaps for the highest bit. The fields of
 * these kinds are of 1, 2, 4 or 8 bytes. */
static int block_keys_is_plain(enum ec_kind kind, const ea_field *f, const ea_column *data) {
    return (kind == EC_KIND_INT || kind == EC_KIND_HEX || kind == EC_KIND_ADDRESS) && data->width == f->width &&
           f->type != EA_PORT;
}

/* Calls use(i, number) for each selected event. */
#define EACH_NUMBER(b, column, type, load, use)                                                                        \
    for (uint32_t i = 0; i < (b)->selected_count; i++) {                                                               \
        uint64_t number = (uint64_t)(type)load((column)->data + (size_t)(b)->selected[i] * (column)->stride);          \
        use(i, number ^ flip);                                                                                         \
    }
#define EACH_PLAIN(b, column, f, use)                                                                                  \
    do {                                                                                                               \
        int sign = (f)->type == EA_I8 || (f)->type == EA_I16 || (f)->type == EA_I32 || (f)->type == EA_I64;            \
        switch ((column)->width * 2 + (unsigned)sign) {                                                                \
        case 2:                                                                                                        \
            EACH_NUMBER(b, column, uint8_t, *, use)                                                                    \
            break;                                                                                                     \
        case 3:                                                                                                        \
            EACH_NUMBER(b, column, int8_t, *, use)                                                                     \
            break;                                                                                                     \
        case 4:                                                                                                        \
            EACH_NUMBER(b, column, uint16_t, ea_load16, use)                                                           \
            break;                                                                                                     \
        case 5:                                                                                                        \
            EACH_NUMBER(b, column, int16_t, ea_load16, use)                                                            \
            break;                                                                                                     \
        case 8:                                                                                                        \
            EACH_NUMBER(b, column, uint32_t, ea_load32, use)                                                           \
            break;                                                                                                     \
        case 9:                                                                                                        \
            EACH_NUMBER(b, column, int32_t, ea_load32, use)                                                            \
            break;                                                                                                     \
        default:                                                                                                       \
            EACH_NUMBER(b, column, uint64_t, ea_load64, use)                                                           \
        }                                                                                                              \
    } while (0)

static uint64_t flip_of(enum ec_kind kind) {
    return kind == EC_KIND_ADDRESS ? (uint64_t)1 << 63 : 0;
}

static void plain_keys(enum ec_kind kind, const ec_block *b, const ea_column *data, const ea_field *f, ec_key *to) {
    uint64_t flip = flip_of(kind);
#define PUT_KEY(i, v) to[i] = (ec_key){.bits = (v), .type = EC_INT}
    EACH_PLAIN(b, data, f, PUT_KEY);
#undef PUT_KEY
}

static void plain_numbers(enum ec_kind kind, const ec_block *b, const ea_column *data, const ea_field *f, int64_t *to) {
    uint64_t flip = flip_of(kind);
#define PUT_NUMBER(i, v) to[i] = (int64_t)(v)
    EACH_PLAIN(b, data, f, PUT_NUMBER);
#undef PUT_NUMBER
}

static int dictionary_keys(ec_keys *a, size_t column, const ec_block *b, const ea_column *values, const uint32_t *index,
                           ec_key *to, ea_err *err) {
    if (EA_GROW(a->memo, a->memo_capacity, values->count, SIZE_MAX))
        return keys_no_memory(err);
    for (uint32_t i = 0; i < values->count; i++) {
        ec_value v;
        int rc = ec_scan_row_value(a->scan, column, values, i, &v, err);
        if (!rc && ec_keys_of_value(a, &v, &a->memo[i]))
            rc = keys_no_memory(err);
        if (rc)
            return rc;
    }
    for (uint32_t i = 0; i < b->selected_count; i++)
        to[i] = a->memo[index[b->selected[i]]]; /* NOLINT(clang-analyzer-*): a dictionary comes with its indexes */
    return 0;
}

/* One value after the other, whatever the column is. */
static int slow_keys(ec_keys *a, size_t column, const ec_block *b, ec_key *to, ea_err *err) {
    for (uint32_t i = 0; i < b->selected_count; i++) {
        ec_value v;
        int rc = ec_scan_value(a->scan, column, b->selected[i], &v, err);
        if (!rc && ec_keys_of_value(a, &v, &to[i]))
            rc = keys_no_memory(err);
        if (rc)
            return rc;
    }
    return 0;
}

static int field_keys(ec_keys *a, size_t column, const ec_block *b, ec_key *to, ea_err *err) {
    enum ec_kind kind = a->shape->columns[column].kind;
    ea_column data = {0};
    const uint32_t *index = NULL;
    const ea_field *f = NULL;
    if (kind == EC_KIND_TEXT) {
        int rc = ec_scan_dictionary(a->scan, column, &data, &index, err);
        if (rc == 1)
            return dictionary_keys(a, column, b, &data, index, to, err);
        /* damaged values are NULL; slow_keys reports them */
        return rc && !ec_is_damage(rc) ? rc : slow_keys(a, column, b, to, err);
    }
    int rc = ec_scan_column(a->scan, column, &data, &f, err);
    if (rc == 1 && block_keys_is_plain(kind, f, &data)) {
        plain_keys(kind, b, &data, f, to);
        return 0;
    }
    return rc < 0 && !ec_is_damage(rc) ? rc : slow_keys(a, column, b, to, err);
}

static void thread_keys(const ec_block *b, const uint32_t *ids, ec_key *to) {
    for (uint32_t i = 0; i < b->selected_count; i++)
        to[i] = (ec_key){.bits = ids[b->events->thread[b->rows[b->selected[i]]]], .type = EC_INT};
}

int ec_keys_constant(ec_keys *a, size_t column, const ec_block *b, ec_key *ret, ea_err *err) {
    ec_value v;
    int rc = ec_scan_value(a->scan, column, b->selected ? b->selected[0] : 0, &v, err);
    return rc ? rc : ec_keys_of_value(a, &v, ret) ? keys_no_memory(err) : 0;
}

int ec_keys_take(ec_keys *a, size_t column, const ec_block *b, ec_key *to, ea_err *err) {
    ec_key same;
    int rc;
    if (ec_scan_is_constant(a->shape, column)) {
        rc = ec_keys_constant(a, column, b, &same, err);
        for (uint32_t i = 0; !rc && i < b->selected_count; i++)
            to[i] = same;
        return rc;
    }
    switch (a->shape->columns[column].common) {
    case EC_COMMON_COUNT:
        return a->shape->columns[column].is_name ? slow_keys(a, column, b, to, err) : field_keys(a, column, b, to, err);
    case EC_TIME:
        for (uint32_t i = 0; i < b->selected_count; i++)
            to[i] = (ec_key){.bits = (uint64_t)ec_scan_utc_ns(a->scan, b->rows[b->selected[i]]), .type = EC_INT};
        return 0;
    case EC_PID:
        thread_keys(b, b->events->pid, to);
        return 0;
    case EC_TID:
        thread_keys(b, b->events->tid, to);
        return 0;
    case EC_CPU:
        for (uint32_t i = 0; i < b->selected_count; i++)
            to[i] = (ec_key){.bits = b->events->cpu[b->rows[b->selected[i]]], .type = EC_INT};
        return 0;
    default:
        return slow_keys(a, column, b, to, err);
    }
}

int ec_keys_numbers(ec_keys *a, size_t column, const ec_block *b, int64_t *to, int *ret_all_null, ea_err *err) {
    enum ec_kind kind = a->shape->columns[column].kind;
    ea_column data = {0};
    const ea_field *f = NULL;
    *ret_all_null = 0;
    if (a->shape->columns[column].common != EC_COMMON_COUNT)
        return 0;
    int rc = ec_scan_column(a->scan, column, &data, &f, err);
    *ret_all_null = rc == 0;
    if (rc != 1 || !block_keys_is_plain(kind, f, &data))
        return rc < 0 && !ec_is_damage(rc) ? rc : 0;
    plain_numbers(kind, b, &data, f, to);
    return 1;
}

int64_t ec_bucket_of(ec_bucket *k, const ec_keys *a, const ec_block *b, int64_t width, uint32_t row) {
    uint32_t event = b->rows[row];
    int64_t raw = b->events->time[event];
    uint16_t source = b->events->source[event];
    if (k->is_known && source == k->source && raw >= k->first_raw && raw <= k->last_raw)
        return k->begin_utc_ns;
    int64_t utc = ec_scan_utc_ns(a->scan, event), rest = utc % width;
    if (rest < 0)
        rest += width;
    int64_t begin = utc < INT64_MIN + rest ? INT64_MIN : utc - rest;
    *k = (ec_bucket){.begin_utc_ns = begin, .first_raw = raw, .last_raw = raw, .source = source, .is_known = 1};
    if (begin > INT64_MIN && begin <= INT64_MAX - width) {
        const ea_clock *clock = &ea_batch_source(b->view, source)->clock;
        int64_t first = ea_clock_from_utc_ns(clock, begin), last = ea_clock_from_utc_ns(clock, begin + width);
        if (first < raw && last > raw) { /* both are rounded: their own ticks may lie outside */
            k->first_raw = first + 1;
            k->last_raw = last - 1;
        }
    }
    return begin;
}
