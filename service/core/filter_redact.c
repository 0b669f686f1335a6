/* Fields that are replaced. See filter.h. Texts that end themselves, or carry their length, become a fixed text or a
 * keyed hash; other values keep their size. What cannot be replaced without breaking the fields after it (a structure,
 * the length of another field, a field that is not whole) ends the payload there: nothing of the value stays. Of an
 * event whose fields are not known no payload stays. */
#include "service/core/filter_parts.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

static const char REDACTED[] = "(redacted)";

enum { HASH_BYTES = 32, HASH_DIGITS = 32, TEXT_MAX_BYTES = 2 * HASH_DIGITS };

/* How a text is written, 0: it is none. */
static unsigned filter_redact_unit_of(const ea_field *f) {
    switch (f->type) {
    case EA_UTF16Z:
    case EA_UTF16_COUNTED:
    case EA_UTF16_REST:
    case EA_UTF16_FIXED:
        return 2;
    case EA_ANSIZ:
    case EA_UTF8Z:
    case EA_ANSI_COUNTED:
    case EA_UTF8_COUNTED:
    case EA_ANSI_FIXED:
    case EA_UTF8_FIXED:
        return 1;
    default:
        return 0;
    }
}

static int is_fixed_text(const ea_field *f) {
    return f->type == EA_UTF16_FIXED || f->type == EA_ANSI_FIXED || f->type == EA_UTF8_FIXED;
}

static int filter_redact_has_length(const ea_field *f) {
    return f->type == EA_UTF16_COUNTED || f->type == EA_ANSI_COUNTED || f->type == EA_UTF8_COUNTED;
}

/* The bytes of a text without its NUL and its length. */
static ea_slice filter_redact_text_of(const ea_field *f, const ea_slice *value) {
    ea_slice s = *value;
    unsigned unit = filter_redact_unit_of(f);
    if (filter_redact_has_length(f)) {
        s.data += 2;
        s.len_bytes -= 2;
        return s;
    }
    size_t n = 0;
    while (n + unit <= s.len_bytes && (s.data[n] || (unit == 2 && s.data[n + 1])))
        n += unit;
    s.len_bytes = (uint32_t)n;
    return s;
}

/* The hash of a value; without a key it is not used. */
static int hash_value(const filter *r, const ea_slice *value, uint8_t *ret_hash) {
    unsigned n = 0;
    return HMAC(EVP_sha256(), r->key, (int)r->key_bytes, value->data, value->len_bytes, ret_hash, &n) &&
           n == HASH_BYTES;
}

/* The replacement of a text. Returns its bytes. */
static size_t replacement(const filter *r, const ea_field *f, const uint8_t *hash, uint8_t *out) {
    static const char HEX[] = "0123456789abcdef";
    char digits[HASH_DIGITS + 1] = {0};
    for (size_t i = 0; r->key && i < HASH_DIGITS; i++)
        digits[i] = HEX[hash[i / 2] >> (i % 2 ? 0 : 4) & 15];
    const char *text = r->key ? digits : REDACTED;
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i++) {
        out[i * filter_redact_unit_of(f)] = (uint8_t)text[i];
        if (filter_redact_unit_of(f) == 2)
            out[i * 2 + 1] = 0;
    }
    return n * filter_redact_unit_of(f);
}

/* The part of a value that can change without its size. */
static size_t first_byte(const ea_class *c, const ea_field *f) {
    return f->type == EA_SID ? 8 : f->type == EA_WBEM_SID ? 8 + 2 * (size_t)c->pointer_size : 0;
}

/* Writes a field's new value at out, of which room bytes are free. Returns its bytes; SIZE_MAX: it has no new value. */
static size_t filter_redact_put_value(const filter *r, const ea_class *c, const ea_field *f, const ea_slice *value,
                                      uint8_t *out, size_t room) {
    uint8_t hash[HASH_BYTES] = {0}, text[TEXT_MAX_BYTES];
    if (f->type == EA_STRUCT || f->is_count)
        return SIZE_MAX;
    int is_plain = f->count == 1 || is_fixed_text(f);
    int is_text = filter_redact_unit_of(f) && is_plain && (f->count_field < 0 || is_fixed_text(f));
    if (filter_redact_unit_of(f) && !is_text)
        return SIZE_MAX; /* several texts that end themselves */
    ea_slice hashed = is_text ? filter_redact_text_of(f, value) : *value;
    if (r->key && !hash_value(r, &hashed, hash))
        return SIZE_MAX;
    if (!is_text || is_fixed_text(f)) {
        if (value->len_bytes > room)
            return SIZE_MAX;
        memcpy(out, value->data, value->len_bytes);
        size_t n = is_text ? replacement(r, f, hash, text) : 0, from = first_byte(c, f);
        for (size_t i = from; i < value->len_bytes; i++)
            out[i] = is_text ? (i < n ? text[i] : 0) : r->key ? hash[(i - from) % HASH_BYTES] : 0;
        return value->len_bytes;
    }
    size_t n = replacement(r, f, hash, text), before = filter_redact_has_length(f) ? 2 : 0;
    size_t after = filter_redact_has_length(f) || f->type == EA_UTF16_REST ? 0 : filter_redact_unit_of(f);
    if (before + n + after > room)
        return SIZE_MAX;
    if (before) {
        out[0] = (uint8_t)n;
        out[1] = (uint8_t)(n >> 8);
    }
    memcpy(out + before, text, n);
    memset(out + before + n, 0, after);
    return before + n + after;
}

/* The filter that redacts a field; NULL. */
static const filter *redacting(const ea_event_filters *f, uint32_t redacts, const ea_field *field) {
    for (size_t i = 0; i < f->count; i++)
        for (size_t k = 0; redacts >> i & 1 && k < f->items[i].field_count; k++)
            if (strcmp(f->items[i].fields[k], field->name) == 0)
                return &f->items[i];
    return NULL;
}

int filters_redact_fields(ea_event_filters *f, const ea_record *record, const ea_class *c, uint32_t redacts) {
    ea_slice slices[EA_FIELDS_MAX];
    size_t used = 0, whole, n = 0, changed = 0, i = 0;
    if (c->status == EA_CLASS_UNKNOWN && record->payload_bytes) { /* a reader that knows its fields would find them */
        f->record = *record;
        f->record.payload = f->payload;
        f->record.payload_bytes = 0;
        return 1;
    }
    whole = ea_class_split(c, record->payload, record->payload_bytes, slices, &used);
    for (; i < c->top_count; i++) {
        const ea_field *field = &c->fields[ea_class_top_field(c, i)];
        const filter *r = redacting(f, redacts, field);
        size_t room = UINT16_MAX - n, bytes;
        if (i >= whole) { /* the rest of the payload may hold a part of it */
            if (!r)
                continue;
            changed++;
            break;
        }
        if (c->unfolded && i + 1 == c->top_count && changed)
            break; /* the payload as it was logged has the values, too */
        if (!r) {
            if (slices[i].len_bytes > room)
                break;
            memcpy(f->payload + n, slices[i].data, slices[i].len_bytes);
            n += slices[i].len_bytes;
            continue;
        }
        changed++;
        bytes = filter_redact_put_value(r, c, field, &slices[i], f->payload + n, room);
        if (bytes == SIZE_MAX)
            break;
        n += bytes;
    }
    if (!changed)
        return 0;
    if (i == c->top_count && record->payload_bytes - used <= UINT16_MAX - n) { /* what comes after the fields */
        memcpy(f->payload + n, record->payload + used, record->payload_bytes - used);
        n += record->payload_bytes - used;
    }
    f->record = *record;
    f->record.payload = f->payload;
    f->record.payload_bytes = (uint16_t)n;
    return 1;
}
