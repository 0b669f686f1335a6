/* See message.h. */
#include "collector/web/message.h"

#include "proto/base/array.h"
#include "proto/base/bytes.h"
#include "proto/base/platform.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEAD_BYTES = 5, LOOK_MS = 100, CHUNK = 1 << 16 };

void ec_message_u32(ea_text *t, uint32_t v) {
    uint8_t bytes[4];
    ea_store32(bytes, v);
    ea_text_add(t, bytes, sizeof bytes);
}

void ec_message_u64(ea_text *t, uint64_t v) {
    uint8_t bytes[8];
    ea_store64(bytes, v);
    ea_text_add(t, bytes, sizeof bytes);
}

void ec_message_string(ea_text *t, const char *s) {
    s = s ? s : "";
    ec_message_u32(t, (uint32_t)strlen(s));
    ea_text_add(t, s, strlen(s) + 1);
}

void ec_message_begin(ea_text *t, char letter) {
    ea_text_clear(t);
    ea_text_char(t, letter);
    ec_message_u32(t, 0);
}

int ec_message_send(int fd, ea_text *t) {
    if (t->failed)
        return EA_ENOMEM;
    if (t->len_bytes - HEAD_BYTES > EC_MESSAGE_MAX)
        return EA_ELIMIT;
    ea_store32((uint8_t *)t->data + 1, (uint32_t)(t->len_bytes - HEAD_BYTES));
    for (size_t at = 0; at < t->len_bytes;) {
        ssize_t n = write(fd, t->data + at, t->len_bytes - at);
        if (n > 0)
            at += (size_t)n;
        else if (n == 0 || errno != EINTR)
            return EA_EIO;
    }
    return 0;
}

uint64_t ec_message_get(ec_message *m, unsigned bytes) {
    if (m->failed || (size_t)(m->end - m->at) < bytes) {
        m->failed = 1;
        return 0;
    }
    uint64_t v = ea_load_uint(m->at, bytes);
    m->at += bytes;
    return v;
}

const char *ec_message_get_string(ec_message *m) {
    size_t n = (size_t)ec_message_get(m, 4);
    if (m->failed || n >= (size_t)(m->end - m->at) || memchr(m->at, 0, n + 1) != m->at + n) {
        m->failed = 1;
        return "";
    }
    const char *s = (const char *)m->at;
    m->at += n + 1;
    return s;
}

/* 1: a whole one is there. */
static int take(ec_message_reader *r, ec_message *ret) {
    size_t n = r->bytes < HEAD_BYTES ? 0 : ea_load32(r->data + 1);
    if (r->bytes < HEAD_BYTES)
        return 0;
    if (n > EC_MESSAGE_MAX)
        return EA_ECORRUPT;
    if (r->bytes - HEAD_BYTES < n)
        return 0;
    *ret = (ec_message){.letter = (char)r->data[0], .at = r->data + HEAD_BYTES, .end = r->data + HEAD_BYTES + n};
    r->taken = HEAD_BYTES + n;
    return 1;
}

int ec_message_next(ec_message_reader *r, ec_message *ret) {
    if (r->taken)
        memmove(r->data, r->data + r->taken, r->bytes - r->taken);
    r->bytes -= r->taken;
    r->taken = 0;
    for (;;) {
        int rc = take(r, ret);
        if (rc)
            return rc;
        if (EA_GROW(r->data, r->capacity, r->bytes + CHUNK, SIZE_MAX))
            return EA_ENOMEM;
        struct pollfd p = {.fd = r->fd, .events = POLLIN};
        if (r->stop && *r->stop)
            return EA_ECANCELED;
        if (ea_monotonic_ns() > r->deadline_ns)
            return EA_ETIMEOUT;
        int ready = poll(&p, 1, LOOK_MS);
        ssize_t got = ready > 0 ? read(r->fd, r->data + r->bytes, r->capacity - r->bytes) : -1;
        if (ready > 0 && got == 0)
            return r->bytes ? EA_EIO : 0;
        if ((ready < 0 || (ready > 0 && got < 0)) && errno != EINTR)
            return EA_EIO;
        r->bytes += got > 0 ? (size_t)got : 0;
    }
}

void ec_message_reader_deinit(ec_message_reader *r) {
    free(r->data);
    r->data = NULL;
    r->bytes = r->capacity = r->taken = 0;
}
