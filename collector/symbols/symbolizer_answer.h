/* What an address is in the source: frames, and how an answer of llvm-symbolizer is read into them. Input:
 * symbolizer.c, the results' cache. Used by: symbols.c. Thread: its owner's.
 *
 * The answer comes from a process that has read a file from anybody, so it is taken as such: bounded, any bytes. */
#ifndef EC_SYMBOLS_SYMBOLIZER_ANSWER_H
#define EC_SYMBOLS_SYMBOLIZER_ANSWER_H

#include "proto/base/err.h"

#include <stddef.h>
#include <stdint.h>

enum {
    EC_FRAMES_MAX = 128,          /* of one address; further ones are left out */
    EC_FRAME_TEXT_MAX = 4095,     /* bytes of a function's or a file's name; the rest is left out */
    EC_ANSWER_MAX_BYTES = 1 << 20 /* of a line */
};

typedef struct ec_frame {
    const char *function; /* UTF-8; "" unknown */
    const char *file;     /* as the compiler wrote it; "" unknown */
    uint32_t line;        /* 0 unknown */
} ec_frame;

/* The frames of one address, the innermost first: all but the last one are inlined into the next. */
typedef struct ec_frames {
    ec_frame items[EC_FRAMES_MAX];
    size_t count;
    uint32_t offset_bytes; /* from the beginning of the last frame's function, when has_offset */
    int has_offset;
    char *text; /* what the frames point to */
    size_t text_bytes, text_capacity;
} ec_frames;

void ec_frames_init(ec_frames *f);
void ec_frames_deinit(ec_frames *f);
void ec_frames_clear(ec_frames *f);
/* Adds a frame with copies of the names; frames beyond the limit are dropped. EA_ENOMEM. */
EA_MUST_CHECK int ec_frames_add(ec_frames *f, const char *function, size_t function_bytes, const char *file,
                                size_t file_bytes, uint32_t line);

/* Reads one answer, a line of JSON: fills f, which is cleared first; no frames when nothing is known of the address.
 * EA_EFORMAT: it is no such line; EA_EREFUSED: it is an error, whose text is in err. */
EA_MUST_CHECK int ec_answer_read(ec_frames *f, const char *line, size_t len_bytes, ea_err *err);

#endif
