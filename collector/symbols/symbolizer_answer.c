/* Frames and answers. See symbolizer_answer.h. */
#include "collector/symbols/symbolizer_answer.h"
#include "proto/base/text.h"

#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 16 };

/* ---- frames ---- */

void ec_frames_init(ec_frames *f) {
    ec_frames_clear(f);
    f->text = NULL;
    f->text_capacity = 0;
}

void ec_frames_deinit(ec_frames *f) {
    free(f->text);
    ec_frames_init(f);
}

void ec_frames_clear(ec_frames *f) {
    f->count = f->text_bytes = 0;
    f->offset_bytes = 0;
    f->has_offset = 0;
}

static size_t symbolizer_answer_keep_text(ec_frames *f, const char *s, size_t n) {
    size_t at = f->text_bytes;
    memcpy(f->text + at, s, n);
    f->text[at + n] = 0;
    f->text_bytes += n + 1;
    return at;
}

int ec_frames_add(ec_frames *f, const char *function, size_t function_bytes, const char *file, size_t file_bytes,
                  uint32_t line) {
    function_bytes = function_bytes < EC_FRAME_TEXT_MAX ? function_bytes : EC_FRAME_TEXT_MAX;
    file_bytes = file_bytes < EC_FRAME_TEXT_MAX ? file_bytes : EC_FRAME_TEXT_MAX;
    if (f->count == EC_FRAMES_MAX)
        return 0;
    size_t need = f->text_bytes + function_bytes + file_bytes + 2;
    if (need > f->text_capacity) {
        char *text = malloc(need * 2);
        if (!text)
            return EA_ENOMEM;
        for (size_t i = 0; i < f->count; i++) {
            f->items[i].function = text + (f->items[i].function - f->text);
            f->items[i].file = text + (f->items[i].file - f->text);
        }
        if (f->text)
            memcpy(text, f->text, f->text_bytes);
        free(f->text);
        f->text = text;
        f->text_capacity = need * 2;
    }
    size_t a = symbolizer_answer_keep_text(f, function, function_bytes),
           b = symbolizer_answer_keep_text(f, file, file_bytes);
    f->items[f->count++] = (ec_frame){f->text + a, f->text + b, line};
    return 0;
}

/* ---- JSON, as much of it as an answer has ---- */

typedef struct reader {
    const char *at, *end;
    int depth;
} reader;

static void skip_space(reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r' || *r->at == '\n'))
        r->at++;
}

/* 1 when the next character is c; then c is consumed. */
static int symbolizer_answer_take(reader *r, char c) {
    skip_space(r);
    if (r->at == r->end || *r->at != c)
        return 0;
    r->at++;
    return 1;
}

static int symbolizer_answer_hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Four hex digits; -1 when they are none. */
static int32_t symbolizer_answer_take_unit(reader *r) {
    int32_t unit = 0;
    if (r->end - r->at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = symbolizer_answer_hex_digit(r->at[i]);
        if (digit < 0)
            return -1;
        unit = unit << 4 | digit;
    }
    r->at += 4;
    return unit;
}

/* What follows a backslash. */
static int symbolizer_answer_take_escape(reader *r, ea_text *out) {
    static const char LETTERS[] = "\"\\/bfnrt", MEANING[] = "\"\\/\b\f\n\r\t";
    uint8_t utf16[4];
    size_t n = 2;
    if (r->at == r->end)
        return EA_EFORMAT;
    char c = *r->at++;
    const char *letter = c ? strchr(LETTERS, c) : NULL;
    if (letter) {
        ea_text_char(out, MEANING[letter - LETTERS]);
        return 0;
    }
    int32_t unit = c == 'u' ? symbolizer_answer_take_unit(r) : -1;
    if (unit < 0)
        return EA_EFORMAT;
    ea_store16(utf16, (uint16_t)unit);
    if (unit >= 0xd800 && unit < 0xdc00 && r->end - r->at >= 6 && r->at[0] == '\\' && r->at[1] == 'u') {
        r->at += 2;
        int32_t low = symbolizer_answer_take_unit(r);
        if (low < 0)
            return EA_EFORMAT;
        ea_store16(utf16 + 2, (uint16_t)low);
        n = 4;
    }
    ea_text_utf16(out, utf16, n);
    return 0;
}

static int symbolizer_answer_take_string(reader *r, ea_text *out) {
    ea_text_clear(out);
    if (!symbolizer_answer_take(r, '"'))
        return EA_EFORMAT;
    while (r->at < r->end && *r->at != '"') {
        const char *plain = r->at;
        while (r->at < r->end && *r->at != '"' && *r->at != '\\')
            r->at++;
        ea_text_add(out, plain, (size_t)(r->at - plain));
        if (r->at < r->end && *r->at == '\\') {
            r->at++;
            int rc = symbolizer_answer_take_escape(r, out);
            if (rc)
                return rc;
        }
    }
    return r->at++ < r->end ? 0 : EA_EFORMAT;
}

/* A value of any kind. A number or a word is left in out unchanged, a string without its quotes. */
static int skip_value(reader *r, ea_text *out);

typedef int (*member_fn)(reader *r, const char *key, void *arg);

/* Calls fn for each member, which takes the value. */
static int take_object(reader *r, member_fn fn, void *arg) {
    ea_text key;
    int rc = 0;
    if (!symbolizer_answer_take(r, '{') || ++r->depth > DEPTH_MAX)
        return EA_EFORMAT;
    ea_text_init(&key);
    while (!rc && !symbolizer_answer_take(r, '}')) {
        rc = symbolizer_answer_take_string(r, &key);
        if (!rc && !symbolizer_answer_take(r, ':'))
            rc = EA_EFORMAT;
        if (!rc)
            rc = fn(r, key.data ? key.data : "", arg);
        if (!rc && !symbolizer_answer_take(r, ',') && (r->at == r->end || *r->at != '}'))
            rc = EA_EFORMAT;
    }
    if (!rc && key.failed)
        rc = EA_ENOMEM;
    ea_text_deinit(&key);
    r->depth--;
    return rc;
}

static int take_array(reader *r, int (*fn)(reader *r, void *arg), void *arg) {
    int rc = 0;
    if (!symbolizer_answer_take(r, '[') || ++r->depth > DEPTH_MAX)
        return EA_EFORMAT;
    while (!rc && !symbolizer_answer_take(r, ']')) {
        rc = fn(r, arg);
        if (!rc && !symbolizer_answer_take(r, ',') && (r->at == r->end || *r->at != ']'))
            rc = EA_EFORMAT;
    }
    r->depth--;
    return rc;
}

static int skip_member(reader *r, const char *key, void *arg) {
    (void)key;
    return skip_value(r, arg);
}

static int skip_element(reader *r, void *arg) {
    return skip_value(r, arg);
}

static int skip_value(reader *r, ea_text *out) {
    skip_space(r);
    ea_text_clear(out);
    if (r->at == r->end)
        return EA_EFORMAT;
    if (*r->at == '"')
        return symbolizer_answer_take_string(r, out);
    if (*r->at == '{')
        return take_object(r, skip_member, out);
    if (*r->at == '[')
        return take_array(r, skip_element, out);
    const char *word = r->at;
    while (r->at < r->end && !strchr(",]} \t\r\n", *r->at))
        r->at++;
    ea_text_add(out, word, (size_t)(r->at - word));
    return r->at > word ? 0 : EA_EFORMAT;
}

/* ---- an answer ---- */

typedef struct answer {
    ec_frames *frames;
    ea_text function, file, line, message, other;
    int has_symbols, has_error;
} answer;

static int frame_member(reader *r, const char *key, void *arg) {
    answer *a = arg;
    if (strcmp(key, "FunctionName") == 0)
        return skip_value(r, &a->function);
    if (strcmp(key, "FileName") == 0)
        return skip_value(r, &a->file);
    return skip_value(r, strcmp(key, "Line") == 0 ? &a->line : &a->other);
}

static int take_frame(reader *r, void *arg) {
    answer *a = arg;
    uint64_t line = 0;
    ea_text_clear(&a->function);
    ea_text_clear(&a->file);
    ea_text_clear(&a->line);
    int rc = take_object(r, frame_member, a);
    if (rc)
        return rc;
    if (a->line.len_bytes && ea_u64_parse(a->line.data, &line))
        return EA_EFORMAT;
    if (!a->function.len_bytes && !a->file.len_bytes)
        return 0;
    return ec_frames_add(a->frames, a->function.data ? a->function.data : "", a->function.len_bytes,
                         a->file.data ? a->file.data : "", a->file.len_bytes, line <= UINT32_MAX ? (uint32_t)line : 0);
}

static int error_member(reader *r, const char *key, void *arg) {
    answer *a = arg;
    return skip_value(r, strcmp(key, "Message") == 0 ? &a->message : &a->other);
}

static int answer_member(reader *r, const char *key, void *arg) {
    answer *a = arg;
    if (strcmp(key, "Symbol") == 0) {
        a->has_symbols = 1;
        return take_array(r, take_frame, a);
    }
    if (strcmp(key, "Error") == 0) {
        a->has_error = 1;
        return take_object(r, error_member, a);
    }
    return skip_value(r, &a->other);
}

int ec_answer_read(ec_frames *f, const char *line, size_t len_bytes, ea_err *err) {
    answer a = {.frames = f};
    ea_text *texts[] = {&a.function, &a.file, &a.line, &a.message, &a.other};
    reader r = {.at = line, .end = line + len_bytes};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        ea_text_init(texts[i]);
    ec_frames_clear(f);
    int rc = take_object(&r, answer_member, &a), is_failed = 0;
    skip_space(&r);
    if (!rc && (r.at != r.end || (!a.has_symbols && !a.has_error)))
        rc = EA_EFORMAT;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        is_failed |= texts[i]->failed;
    if (!rc && is_failed)
        rc = EA_ENOMEM;
    if (rc) {
        ec_frames_clear(f);
        (void)ea_fail(err, rc, "an answer of the symbolizer");
    } else if (a.has_error) {
        ec_frames_clear(f);
        rc = ea_fail(err, EA_EREFUSED, "the symbolizer says \"%.300s\"", a.message.data ? a.message.data : "");
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        ea_text_deinit(texts[i]);
    return rc;
}
