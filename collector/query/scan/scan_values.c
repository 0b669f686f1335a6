/* The values of a scan's columns, read out of the block at hand. Called by: scan.c, which finds the block. See scan.h.
 */
#include "collector/query/scan/scan_parts.h"

#include "collector/query/scan/event_cursor.h"
#include "proto/event/render.h"
#include "proto/event/value.h"

#include <string.h>

ec_scan_cell *ec_scan_find_cell(ec_scan *s, size_t column) {
    ec_scan_cell *c = &s->cells[column];
    if (c->block != s->block_number) {
        const ea_class *class = s->block.c;
        *c = (ec_scan_cell){.block = s->block_number, .top = ec_table_schema_field(s->shape, class, column)};
        if (c->top >= 0) {
            c->field_index = ea_class_top_field(class, (size_t)c->top);
            c->field = &class->fields[c->field_index];
            int is_list = c->field->count != 1 || c->field->count_field >= 0;
            c->is_slow = !c->field->width && (c->field->type == EA_STRUCT || is_list) && c->field->type != EA_BYTES &&
                         c->field->type != EA_UTF16_FIXED && c->field->type != EA_ANSI_FIXED &&
                         c->field->type != EA_UTF8_FIXED;
        }
    }
    return c;
}

int ec_scan_column(ec_scan *s, size_t column, ea_column *ret, const ea_field **ret_field, ea_err *err) {
    ec_scan_cell *c = ec_scan_find_cell(s, column);
    if (c->top < 0)
        return 0;
    if (!c->has_data) {
        int rc = ea_batch_column(s->view, s->block.group, (size_t)c->top, &c->data, err);
        if (rc)
            return rc;
        c->has_data = 1;
    }
    *ret = c->data;
    if (ret_field)
        *ret_field = c->field;
    return 1;
}

int ec_scan_dictionary(ec_scan *s, size_t column, ea_column *ret_values, const uint32_t **ret_index, ea_err *err) {
    const ec_scan_cell *c = ec_scan_find_cell(s, column);
    if (c->top < 0 || c->is_slow)
        return 0;
    return ea_batch_dictionary(s->view, s->block.group, (size_t)c->top, ret_values, ret_index, err);
}

static void scan_values_set_text(ec_scan *s, ec_value *ret) {
    *ret = (ec_value){.type = EC_TEXT, .data = s->text.data ? s->text.data : "", .len_bytes = s->text.len_bytes};
}

/* A number of a field, as a column of that kind shows it. */
static void scan_values_set_number(ec_scan *s, enum ec_kind kind, const ea_field *f, uint64_t v, ec_value *ret) {
    enum ec_kind own = ec_kind_of_field(f);
    if (kind == EC_KIND_ANY)
        kind = own;
    *ret = (ec_value){.type = EC_INT, .i = (int64_t)v};
    if (kind == EC_KIND_ADDRESS) {
        ret->i = ec_u64_to_sql(v);
    } else if (kind == EC_KIND_COUNT && !ec_is_signed(f) && v > INT64_MAX) {
        ea_text_clear(&s->text);
        ea_text_printf(&s->text, "%020llu", (unsigned long long)v);
        scan_values_set_text(s, ret);
    } else if (f->type == EA_FILETIME) {
        ret->i = ea_filetime_to_utc_ns((int64_t)v);
    }
}

static int slice_value(ec_scan *s, size_t column, const ea_slice *slice, ec_value *ret, ea_err *err) {
    const ec_scan_cell *c = ec_scan_find_cell(s, column);
    enum ec_kind kind = s->shape->columns[column].kind;
    uint64_t v;
    const ea_field *f = c->field;
    *ret = (ec_value){.type = EC_NULL};
    if (!f || (!slice->data && slice->len_bytes))
        return 0;
    ea_text_clear(&s->text);
    int is_list = f->count != 1 || f->count_field >= 0;
    /* a row of a column is what the batch says, whole or not */
    if ((f->type == EA_UTF16_COUNTED || f->type == EA_ANSI_COUNTED || f->type == EA_UTF8_COUNTED) &&
        slice->len_bytes < 2)
        return 0;
    switch (f->type) {
    case EA_BYTES:
        *ret = (ec_value){.type = EC_BLOB, .data = (const char *)slice->data, .len_bytes = slice->len_bytes};
        return 0;
    case EA_CHAR8:
    case EA_CHAR16:
    case EA_UTF16_FIXED:
    case EA_ANSI_FIXED:
    case EA_UTF8_FIXED:
        ea_value_text(f, slice, &s->text);
        scan_values_set_text(s, ret);
        break;
    default:
        if (f->width && slice->len_bytes < f->width && !is_list)
            return 0;
        if (is_list || f->type == EA_STRUCT) {
            ea_render_field_json(&s->text, s->block.c, c->field_index, slice);
            scan_values_set_text(s, ret);
        } else if (f->type == EA_SID || f->type == EA_WBEM_SID) {
            if (ea_value_sid(f, s->block.c->pointer_size, slice, &s->text))
                scan_values_set_text(s, ret);
        } else if (f->type == EA_F32 && slice->data) {
            float x;
            memcpy(&x, slice->data, sizeof x);
            *ret = (ec_value){.type = EC_REAL, .r = (double)x};
        } else if (f->type == EA_F64 && slice->data) {
            *ret = (ec_value){.type = EC_REAL};
            memcpy(&ret->r, slice->data, sizeof ret->r);
        } else if (f->width && ea_value_u64(f, slice->data, &v)) {
            scan_values_set_number(s, kind, f, v, ret);
        } else if (ea_value_text(f, slice, &s->text)) {
            scan_values_set_text(s, ret);
        } else { /* what is printed between quotes */
            ea_render_field_json(&s->text, s->block.c, c->field_index, slice);
            if (s->text.len_bytes >= 2 && s->text.data[0] == '"')
                *ret = (ec_value){.type = EC_TEXT, .data = s->text.data + 1, .len_bytes = s->text.len_bytes - 2};
        }
    }
    return s->text.failed ? ea_fail(err, EA_ENOMEM, "read a value") : 0;
}

int ec_scan_row_value(ec_scan *s, size_t column, const ea_column *data, uint32_t row, ec_value *ret, ea_err *err) {
    const ec_scan_cell *c = ec_scan_find_cell(s, column);
    *ret = (ec_value){.type = EC_NULL};
    if (c->top < 0 || ea_column_missing(data, row))
        return 0;
    ea_slice slice = ea_column_row(data, row);
    if (c->field->width)
        slice.element_count = slice.len_bytes / c->field->width;
    return slice_value(s, column, &slice, ret, err);
}

/* A list of elements that vary in size: found by splitting the payload. */
static int slow_value(ec_scan *s, size_t column, const ec_scan_cell *c, uint32_t row, ec_value *ret, ea_err *err) {
    ea_column payloads;
    ea_slice slices[EA_FIELDS_MAX];
    size_t used;
    int rc = ea_batch_payloads(s->view, s->block.group, &payloads, err);
    if (rc)
        return rc;
    ea_slice payload = ea_column_row(&payloads, row);
    *ret = (ec_value){.type = EC_NULL};
    if (ea_class_split(s->block.c, payload.data, payload.len_bytes, slices, &used) <= (size_t)c->top)
        return 0;
    return slice_value(s, column, &slices[c->top], ret, err);
}

/* The event as a record with what text forms need: payload and extended items. */
static int record_of(ec_scan *s, uint32_t row, ea_record *ret, ea_ext *items, ea_err *err) {
    ea_column payloads, data;
    const ec_block *b = &s->block;
    *ret = *b->constants;
    int rc = ea_batch_payloads(s->view, b->group, &payloads, err);
    if (rc)
        return rc;
    ea_slice payload = ea_column_row(&payloads, row);
    ret->payload = payload.data;
    ret->payload_bytes = (uint16_t)payload.len_bytes;
    ret->time_raw = b->events->time[b->rows[row]];
    ret->ext = items;
    for (unsigned i = 0; i < ret->ext_count; i++) {
        rc = ea_batch_item(s->view, b->group, i, &items[i].type, &data, err);
        if (rc)
            return rc;
        ea_slice item = ea_column_row(&data, row);
        items[i].data = item.data;
        items[i].size_bytes = item.len_bytes;
    }
    return 0;
}

/* A column as `export` prints it, out of {"name":...}. */
static int values_rendered(ec_scan *s, const char *name, uint32_t row, ec_value *ret, ea_err *err) {
    ea_record record;
    ea_ext items[EA_EXT_MAX];
    int rc = record_of(s, row, &record, items, err);
    if (rc)
        return rc;
    ea_text_clear(&s->text);
    uint32_t event = s->block.rows[row];
    ea_render_columns_json(&s->text, &record, s->block.c,
                           &ea_batch_source(s->view, s->block.events->source[event])->clock, &name, 1);
    if (s->text.failed)
        return ea_fail(err, EA_ENOMEM, "read a value");
    size_t head = strlen(name) + 4; /* {"name": */
    *ret = (ec_value){.type = EC_TEXT, .data = s->text.data + head, .len_bytes = s->text.len_bytes - head - 1};
    if (ret->len_bytes == 4 && memcmp(ret->data, "null", 4) == 0) {
        *ret = (ec_value){.type = EC_NULL};
    } else if (ret->data[0] == '"') {
        ret->data++;
        ret->len_bytes -= 2;
    }
    return 0;
}

/* What the value of a field is called. */
static int name_value(ec_scan *s, const ec_scan_cell *c, size_t column, uint32_t row, ec_value *ret, ea_err *err) {
    ea_column data;
    ea_record record = *s->block.constants;
    ea_ext items[EA_EXT_MAX];
    ea_resolver resolver;
    uint32_t event = s->block.rows[row];
    ea_rendering how = {.clock = &ea_batch_source(s->view, s->block.events->source[event])->clock};
    int is_elsewhere = ec_is_named_elsewhere(c->field);
    int rc = ec_scan_column(s, column, &data, NULL, err);
    if (rc < 0 || ea_column_missing(&data, row))
        return rc < 0 ? rc : 0;
    ea_slice slice = ea_column_row(&data, row);
    if (is_elsewhere) {
        rc = ec_archive_names(s->archive, s->stream, &resolver, err);
        how.resolver = rc == 1 ? &resolver : NULL;
        if (rc >= 0 && c->field->semantic != EA_SEM_PATH) /* a path is named by itself: it needs no payload */
            rc = record_of(s, row, &record, items, err);
    }
    if (rc < 0)
        return rc;
    ea_text_clear(&s->text);
    if (ea_render_name(&s->text, &record, s->block.c, c->field, &slice, &how))
        scan_values_set_text(s, ret);
    return s->text.failed ? ea_fail(err, EA_ENOMEM, "read a value") : 0;
}

static int scan_values_field_value(ec_scan *s, size_t column, uint32_t row, ec_value *ret, ea_err *err) {
    const ec_scan_cell *c = ec_scan_find_cell(s, column);
    ea_column data;
    *ret = (ec_value){.type = EC_NULL};
    if (c->top < 0)
        return 0;
    if (s->shape->columns[column].is_name)
        return name_value(s, c, column, row, ret, err);
    if (c->is_slow)
        return slow_value(s, column, c, row, ret, err);
    int rc = ec_scan_column(s, column, &data, NULL, err);
    if (rc < 0)
        return rc;
    return ec_scan_row_value(s, column, &data, row, ret, err);
}

static int values_activity(ec_scan *s, uint32_t row, ec_value *ret, ea_err *err) {
    ea_column ids = {0};
    ea_guid guid;
    *ret = (ec_value){.type = EC_NULL};
    int rc = ea_batch_activities(s->view, s->block.group, &ids, err);
    if (rc != 1)
        return rc;
    const uint8_t *id = ea_column_row(&ids, row).data;
    if (!id)
        return 0;
    memcpy(&guid, id, sizeof guid);
    if (ea_guid_is_zero(&guid))
        return 0;
    ea_text_clear(&s->text);
    ea_text_guid(&s->text, &guid);
    scan_values_set_text(s, ret);
    return s->text.failed ? ea_fail(err, EA_ENOMEM, "read a value") : 0;
}

/* The hash of the stack that was joined to the event. */
static int stack_hash(ec_scan *s, uint32_t event, ec_value *ret, ea_err *err) {
    const ec_annotator *a = &s->annotator;
    uint64_t hash = 0;
    *ret = (ec_value){.type = EC_NULL};
    int rc = a->stack ? a->stack(a->arg, s->stream, s->from_utc_ns, s->to_utc_ns,
                                 ec_event_position_of(s->block.batch, event), &hash, err)
                      : 0;
    if (rc == 1)
        *ret = (ec_value){.type = EC_INT, .i = (int64_t)hash};
    return rc < 0 ? rc : 0;
}

/* The hardware counters' values that were logged with the event, by name where the names are known. */
static int values_counters(ec_scan *s, uint32_t row, ec_value *ret, ea_err *err) {
    const ec_block *b = &s->block;
    const ec_counter_config *config = NULL;
    ea_column data = {0};
    uint16_t type = 0;
    unsigned i = 0, count = b->constants->ext_count;
    int rc = 0;
    *ret = (ec_value){.type = EC_NULL};
    while (!rc && i < count && !(rc = ea_batch_item(s->view, b->group, i, &type, &data, err)) &&
           type != EA_EXT_PMC_COUNTERS)
        i++;
    if (rc || i == count)
        return rc;
    ea_slice values = ea_column_row(&data, row);
    size_t n = values.len_bytes / 8;
    const ec_annotator *a = &s->annotator;
    if (a->counters)
        rc = a->counters(a->arg, s->stream, ec_event_position_of(b->batch, b->rows[row]), &config, err);
    if (rc)
        return rc;
    int is_named = n > 0;
    for (size_t k = 0; k < n; k++)
        is_named &= ec_counter_name(config, n, k) != NULL;
    ea_text_clear(&s->text);
    ea_text_char(&s->text, is_named ? '{' : '[');
    for (size_t k = 0; k < n; k++) {
        if (k)
            ea_text_char(&s->text, ',');
        if (is_named) {
            ea_text_json_str(&s->text, ec_counter_name(config, n, k));
            ea_text_char(&s->text, ':');
        }
        ea_text_printf(&s->text, "%llu", (unsigned long long)ea_load64(values.data + 8 * k));
    }
    ea_text_char(&s->text, is_named ? '}' : ']');
    scan_values_set_text(s, ret);
    return s->text.failed ? ea_fail(err, EA_ENOMEM, "read a value") : 0;
}

static void set_string(const char *text, ec_value *ret) {
    *ret = (ec_value){.type = EC_TEXT, .data = text, .len_bytes = strlen(text)};
}

/* How much of the event its class explains, as the agent counts it: decode_whole, decode_partial, decode_unknown. */
static int values_decoded(ec_scan *s, uint32_t row, ec_value *ret, ea_err *err) {
    const ea_class *c = s->block.c;
    ea_column column;
    size_t used;
    if (c->unfolded || c->status == EA_CLASS_UNKNOWN) { /* a plug-in's values are whole */
        set_string(c->unfolded ? "whole" : "unknown", ret);
        return 0;
    }
    int rc = ea_batch_payloads(s->view, s->block.group, &column, err);
    if (rc)
        return rc;
    ea_slice payload = ea_column_row(&column, row);
    size_t whole = ea_class_places(c, payload.data, payload.len_bytes, NULL, &used);
    set_string(ea_class_is_whole(c, whole, used, payload.len_bytes) ? "whole" : "partial", ret);
    return 0;
}

static int common_value(ec_scan *s, int common, uint32_t row, ec_value *ret, ea_err *err) {
    const ec_block *b = &s->block;
    uint32_t event = b->rows ? b->rows[row] : 0; /* of a whole block only constants are asked for */
    ea_column column;
    int rc;
    switch (common) {
    case EC_HOST:
        set_string(b->stream->row.host, ret);
        return 0;
    case EC_STREAM:
        set_string(b->stream->id, ret);
        return 0;
    case EC_NAME:
        set_string(b->c->name, ret);
        return 0;
    case EC_PROVIDER_NAME:
        set_string(b->c->provider_name, ret);
        return 0;
    case EC_PROVIDER:
        ea_text_clear(&s->text);
        ea_text_guid(&s->text, &b->constants->provider);
        scan_values_set_text(s, ret);
        return s->text.failed ? ea_fail(err, EA_ENOMEM, "read a value") : 0;
    case EC_BATCH:
        *ret = (ec_value){.type = EC_INT, .i = (int64_t)b->batch};
        return 0;
    case EC_ID:
    case EC_VERSION:
    case EC_CHANNEL:
    case EC_LEVEL:
    case EC_OPCODE:
    case EC_TASK:
    case EC_KEYWORD:
        *ret = (ec_value){.type = EC_INT, .i = ec_scan_constant(b, common)};
        return 0;
    case EC_ACTIVITY_ID:
        return values_activity(s, row, ret, err);
    case EC_RELATED_ACTIVITY_ID:
        return values_rendered(s, "related_activity_id", row, ret, err);
    case EC_FIELDS:
        return values_rendered(s, "fields", row, ret, err);
    case EC_STACK:
        return values_rendered(s, "stack", row, ret, err);
    case EC_STACK_HASH:
        return stack_hash(s, event, ret, err);
    case EC_COUNTERS:
        return values_counters(s, row, ret, err);
    case EC_DECODED:
        return values_decoded(s, row, ret, err);
    case EC_PAYLOAD: {
        rc = ea_batch_payloads(s->view, b->group, &column, err);
        if (rc)
            return rc;
        ea_slice stored = ea_column_row(&column, row);
        ea_slice payload = ea_class_logged(b->c, stored.data, stored.len_bytes);
        *ret = (ec_value){.type = EC_BLOB, .data = (const char *)payload.data, .len_bytes = payload.len_bytes};
        return 0;
    }
    default:
        *ret = (ec_value){.type = EC_INT, .i = ec_scan_number(s, common, event)};
        return 0;
    }
}

int64_t ec_scan_utc_ns(const ec_scan *s, uint32_t event) {
    const ea_batch_events *e = s->block.events;
    return ea_clock_to_utc_ns(&ea_batch_source(s->view, e->source[event])->clock, e->time[event]);
}

int ec_scan_value(ec_scan *s, size_t column, uint32_t row, ec_value *ret, ea_err *err) {
    ea_err why = {0};
    int common = s->shape->columns[column].common;
    int rc = common == EC_COMMON_COUNT ? scan_values_field_value(s, column, row, ret, &why)
                                       : common_value(s, common, row, ret, &why);
    if (rc && ec_is_damage(rc)) {
        ec_archive_damaged(s->archive, s->stream, s->block.batch, &why);
        *ret = (ec_value){.type = EC_NULL};
        return 0;
    }
    if (rc && err)
        *err = why;
    return rc;
}
