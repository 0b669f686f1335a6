/* An eventfd in a libevent loop. See wake.h. */
#include "collector/net/wake.h"

#include <errno.h>
#include <event2/event.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void on_readable(evutil_socket_t fd, short what, void *arg) {
    const ec_wake *w = arg;
    uint64_t n;
    (void)what;
    if (read((int)fd, &n, sizeof n) >= 0) /* else nothing is there yet */
        w->fn(w->arg);
}

int ec_wake_open(ec_wake *ret, struct event_base *events, void (*fn)(void *arg), void *arg, ea_err *err) {
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    struct event *event = fd >= 0 ? event_new(events, fd, EV_READ | EV_PERSIST, on_readable, ret) : NULL;
    if (!event || event_add(event, NULL)) {
        if (event)
            event_free(event);
        if (fd >= 0)
            close(fd);
        return ea_fail(err, EA_ENOMEM, "make a loop's alarm clock");
    }
    *ret = (ec_wake){event, fd, fn, arg};
    return 0;
}

void ec_wake_now(const ec_wake *w) {
    uint64_t one = 1;
    while (write(w->fd, &one, sizeof one) < 0 && errno == EINTR) {
        /* else an eventfd's write fails only when its counter is full: it is awake then */
    }
}

void ec_wake_close(ec_wake *w) {
    if (!w->event)
        return;
    event_free(w->event);
    close(w->fd);
    w->event = NULL;
}
