/* See session_text.h. */
#include "service/app/session_text.h"

#include "config/kernel_flags.h"

#include <inttypes.h>
#include <string.h>

/* The kernel's flags by name; PROC_THREAD in place of its halves. */
static void session_text_add_flags(ea_text *t, const uint32_t *masks) {
    uint32_t printed[EA_KERNEL_MASK_WORDS] = {0};
    size_t count = 0;
    ea_text_char(t, '[');
    for (const ea_kernel_flag *f = ea_kernel_flags; f->name; f++) {
        unsigned word = ea_kernel_flag_word(f->mask);
        uint32_t bits = ea_kernel_flag_bits(f->mask);
        if ((masks[word] & bits) != bits || (printed[word] & bits) == bits)
            continue;
        printed[word] |= bits;
        ea_text_printf(t, "%s\"%s\"", count++ ? ", " : "", f->name);
    }
    ea_text_char(t, ']');
}

void ea_session_text_json(ea_text *t, const ea_live_status *s) {
    ea_text_str(t, "\"name\": ");
    ea_text_json_str(t, s->name);
    ea_text_printf(t,
                   ", \"logger\": %" PRIu32 ", \"mode\": \"0x%08" PRIx32 "\", \"buffer_bytes\": %" PRIu64
                   ", \"min_buffers\": %" PRIu32 ", \"max_buffers\": %" PRIu32 ", \"buffers\": %" PRIu32
                   ", \"free_buffers\": %" PRIu32 ", \"flush_seconds\": %" PRIu32 ", \"clock\": %" PRIu32
                   ", \"file\": ",
                   s->logger, s->mode, s->buffer_bytes, s->min_buffers, s->max_buffers, s->buffers, s->free_buffers,
                   s->flush_seconds, s->clock);
    if (*s->file)
        ea_text_json_str(t, s->file);
    else
        ea_text_str(t, "null");
    ea_text_printf(t,
                   ", \"file_mib\": %" PRIu32 ", \"written_buffers\": %" PRIu64 ", \"lost_events\": %" PRIu64
                   ", \"lost_buffers\": %" PRIu64 ", \"flags\": ",
                   s->file_mib, s->written_buffers, s->lost_events, s->lost_buffers);
    session_text_add_flags(t, s->masks);
}

void ea_session_text_line(ea_text *t, const ea_live_status *s) {
    ea_text_safe(t, s->name, strlen(s->name));
    ea_text_printf(t,
                   ": %" PRIu32 " buffers (%" PRIu32 " free, at most %" PRIu32 ") of %" PRIu64 " KiB, %" PRIu64
                   " written; lost: %" PRIu64 " events, %" PRIu64 " buffers; mode 0x%08" PRIx32,
                   s->buffers, s->free_buffers, s->max_buffers, s->buffer_bytes / 1024, s->written_buffers,
                   s->lost_events, s->lost_buffers, s->mode);
    if (*s->file) {
        ea_text_str(t, "; file ");
        ea_text_safe(t, s->file, strlen(s->file));
    }
    ea_text_char(t, '\n');
}
