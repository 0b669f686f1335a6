/* Text: a growing buffer, and how bytes from events become UTF-8, JSON, hex, GUIDs. Used by: proto/event (rendering),
 * every command. Thread: its owner's. */
#ifndef EA_BASE_TEXT_H
#define EA_BASE_TEXT_H

#include "proto/base/bytes.h"
#include "proto/base/err.h"

#include <stddef.h>
#include <stdint.h>

/* A growing buffer of bytes. Out of memory sticks: `failed` is set, later calls do nothing, the caller checks once. */
typedef struct ea_text {
    char *data;       /* NUL after the last byte once something was added; NULL before */
    size_t len_bytes; /* without the NUL */
    size_t capacity;
    int failed;
} ea_text;

/* Names and what they stand for, in order. */
typedef struct ea_label {
    const char *name, *value;
} ea_label;

typedef struct ea_labels {
    ea_label *items;
    size_t count;
} ea_labels;

void ea_text_init(ea_text *t);
void ea_text_deinit(ea_text *t);
void ea_text_clear(ea_text *t); /* keeps the memory */
void ea_text_add(ea_text *t, const void *data, size_t len_bytes);
void ea_text_str(ea_text *t, const char *s);
void ea_text_char(ea_text *t, char c);
void ea_text_printf(ea_text *t, const char *format, ...) EA_PRINTF(2, 3);
void ea_text_u64(ea_text *t, uint64_t v);                         /* decimal */
void ea_text_i64(ea_text *t, int64_t v);                          /* decimal */
void ea_text_hex64(ea_text *t, uint64_t v);                       /* "0x1f", lower case, no padding */
void ea_text_hex(ea_text *t, const void *data, size_t len_bytes); /* "00ff", lower case */
void ea_text_varint(ea_text *t, uint64_t v);                      /* the bytes of LEB128, as protobuf has them */
void ea_text_le32(ea_text *t, uint32_t v);                        /* the four bytes, little-endian */
void ea_text_le64(ea_text *t, uint64_t v);                        /* the eight bytes, little-endian */
void ea_text_guid(ea_text *t, const ea_guid *g);                  /* "9e814aad-3204-11d2-9a82-006008a86939" */
/* "S-1-5-18" of the bytes of a SID, which may be followed by others, as Windows writes it: 1; 0, and nothing: they are
 * none. */
int ea_text_sid(ea_text *t, const uint8_t *sid, size_t len_bytes);

/* A character, below 0x110000, as UTF-8; of a surrogate its three-byte form. */
void ea_text_code_point(ea_text *t, uint32_t c);
/* UTF-16LE of len_bytes (an odd last byte is ignored) as UTF-8. A lone surrogate becomes its three-byte form
 * (WTF-8), so that nothing is lost and the way back is exact. */
void ea_text_utf16(ea_text *t, const void *utf16, size_t len_bytes);
/* The reverse: converts UTF-8 (or WTF-8) to UTF-16LE without a NUL after it; each invalid sequence becomes U+FFFD.
 * Writes at most capacity_bytes, whole characters only, and returns the bytes that the whole text needs; out may be
 * NULL when the capacity is 0. */
size_t ea_utf8_to_utf16(const char *utf8, size_t len_bytes, void *out, size_t capacity_bytes);
/* Makes it valid UTF-8 (RFC 3629) in place, of the same length: a surrogate's three bytes become U+FFFD, any other byte
 * that is not valid a question mark. */
void ea_utf8_repair(char *utf8, size_t len_bytes);
/* How many of a text's bytes fit into max_bytes, so that no character of UTF-8 is cut. */
size_t ea_utf8_fit(const char *utf8, size_t len_bytes, size_t max_bytes);
/* The text and the NUL after it. Of more than max_bytes of UTF-8 it adds the whole characters that fit. */
void ea_text_str_nul(ea_text *t, const char *utf8, size_t max_bytes);
/* Windows-1252 (what ANSI strings in events nearly always are) as UTF-8. */
void ea_text_ansi(ea_text *t, const void *data, size_t len_bytes);

/* The inside of a JSON string (no quotes): escapes ", \, control characters, DEL, the characters that change
 * the direction of text, and whatever is not valid UTF-8 as \u00XX of the byte (a WTF-8 surrogate as \uD8XX), so that
 * hostile text stays text. */
void ea_text_json(ea_text *t, const char *utf8, size_t len_bytes);
void ea_text_json_str(ea_text *t, const char *s); /* with quotes; NULL gives null */
/* As in a URL: ASCII letters, digits and the characters of plain as they are, each other byte as %XX. */
void ea_text_percent(ea_text *t, const char *utf8, size_t len_bytes, const char *plain);
/* For a terminal or a log: control characters, DEL, C1 and the characters that change the direction of text (U+061C,
 * U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069) as \xNN of each byte, so that no escape sequence gets through and
 * no text looks like another one. */
void ea_text_safe(ea_text *t, const char *utf8, size_t len_bytes);
/* One CSV field after RFC 4180, quoted when needed; a leading = + - @ tab or CR that is not a number gets an
 * apostrophe before it, so that a spreadsheet does not run it. */
void ea_text_csv(ea_text *t, const char *utf8, size_t len_bytes);

/* Text inside an element of HTML, or inside a quoted attribute. */
void ea_text_html(ea_text *t, const char *utf8, size_t len_bytes);

/* out has room for 37 bytes. */
void ea_guid_format(const ea_guid *g, char *out);
/* With or without braces, any case. EA_EINVAL for anything else. */
EA_MUST_CHECK int ea_guid_parse(const char *s, ea_guid *ret);

enum { EA_SID_MAX_BYTES = 68 };

/* The bytes of the SID that the whole text is, in out, and their number; 0: it is none. Source: [MS-DTYP] 2.4.2.1. */
size_t ea_sid_parse(const char *s, uint8_t out[EA_SID_MAX_BYTES]);
/* Hex digits, an even number; *ret_len_bytes <= capacity. */
EA_MUST_CHECK int ea_hex_parse(const char *s, void *out, size_t capacity, size_t *ret_len_bytes);
/* Digits of base 10 or 16 at *at, without a sign or an overflow; moves *at after them. 1 when there was at least one
 * digit. */
int ea_digits_parse(const char **at, unsigned base, uint64_t *ret);
/* Moves *at after the text when it is there. 1 when it was. */
int ea_text_parse(const char **at, const char *text);
/* Decimal, or hex after 0x; the whole of s. EA_EINVAL otherwise. */
EA_MUST_CHECK int ea_u64_parse(const char *s, uint64_t *ret);

#endif
