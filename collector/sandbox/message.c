/* See message.h. */
#include "collector/sandbox/message.h"

#include "proto/base/array.h"
#include "proto/base/bytes.h"
#include "proto/base/platform.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEAD_BYTES = 5, LOOK_MS = 100, CHUNK = 1 << 16 };

void ec_message_u8(ea_text *t, uint8_t v) {
    ea_text_add(t, &v, 1);
}

void ec_message_u32(ea_text *t, uint32_t v) {
    ea_text_le32(t, v);
}

void ec_message_u64(ea_text *t, uint64_t v) {
    ea_text_le64(t, v);
}

void ec_message_string(ea_text *t, const char *s) {
    s = s ? s : "";
    ec_message_u32(t, (uint32_t)strlen(s));
    ea_text_add(t, s, strlen(s) + 1);
}

void ec_message_bytes(ea_text *t, const void *data, size_t len_bytes) {
    if (len_bytes > UINT32_MAX) {
        t->failed = 1;
        return;
    }
    ec_message_u32(t, (uint32_t)len_bytes);
    ea_text_add(t, data, len_bytes);
}

size_t ec_message_append(ea_text *t, char letter) {
    size_t begin = t->len_bytes;
    ea_text_char(t, letter);
    ec_message_u32(t, 0);
    return begin;
}

int ec_message_end(ea_text *t, size_t begin, size_t max_bytes) {
    if (t->failed)
        return EA_ENOMEM;
    size_t n = t->len_bytes - begin - HEAD_BYTES;
    if (n > max_bytes || n > UINT32_MAX)
        return EA_ELIMIT;
    ea_store32((uint8_t *)t->data + begin + 1, (uint32_t)n);
    return 0;
}

int ec_message_flush(int fd, ea_text *t) {
    if (t->failed)
        return EA_ENOMEM;
    for (size_t at = 0; at < t->len_bytes;) {
        ssize_t n = write(fd, t->data + at, t->len_bytes - at);
        if (n > 0)
            at += (size_t)n;
        else if (n == 0 || errno != EINTR)
            return EA_EIO;
    }
    ea_text_clear(t);
    return 0;
}

void ec_message_begin(ea_text *t, char letter) {
    ea_text_clear(t);
    (void)ec_message_append(t, letter);
}

int ec_message_send(int fd, ea_text *t) {
    int rc = ec_message_end(t, 0, EC_MESSAGE_MAX);
    return rc ? rc : ec_message_flush(fd, t);
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

const void *ec_message_get_bytes(ec_message *m, size_t *ret_bytes) {
    size_t n = (size_t)ec_message_get(m, 4);
    *ret_bytes = 0;
    if (m->failed || n > (size_t)(m->end - m->at)) {
        m->failed = 1;
        return "";
    }
    const void *data = m->at;
    m->at += n;
    *ret_bytes = n;
    return data;
}

/* 1: a whole one is there. */
static int message_take(ec_message_reader *r, ec_message *ret) {
    size_t left = r->bytes - r->taken;
    if (left < HEAD_BYTES)
        return 0;
    const uint8_t *head = r->data + r->taken;
    size_t n = ea_load32(head + 1);
    if (n > (r->max_bytes ? r->max_bytes : EC_MESSAGE_MAX))
        return EA_ECORRUPT;
    if (left - HEAD_BYTES < n)
        return 0;
    *ret = (ec_message){.letter = (char)head[0], .at = head + HEAD_BYTES, .end = head + HEAD_BYTES + n};
    r->taken += HEAD_BYTES + n;
    return 1;
}

int ec_message_next(ec_message_reader *r, ec_message *ret) {
    for (;;) {
        int rc = message_take(r, ret);
        if (rc)
            return rc;
        if (r->taken) { /* once for all messages that came together */
            memmove(r->data, r->data + r->taken, r->bytes - r->taken);
            r->bytes -= r->taken;
            r->taken = 0;
        }
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
