/* The flag of a request to stop. See stop_flag.h. */
#include "proto/base/stop_flag.h"

#include "proto/base/platform.h"

#include <stddef.h>

static atomic_int own_flag;
static _Atomic(atomic_int *) used_flag; /* a signal handler reads it, and the wake */
static _Atomic(ea_wake *) used_wake;

static void on_stop(void) {
    atomic_store(atomic_load(&used_flag), 1);
    ea_wake_set(atomic_load(&used_wake));
}

void ea_stop_flag_use(atomic_int *flag, ea_wake *wake) {
    atomic_store(&used_wake, wake);
    if (atomic_exchange(&used_flag, flag) == NULL)
        ea_on_stop(on_stop);
}

atomic_int *ea_stop_flag(void) {
    if (atomic_load(&used_flag) == NULL)
        ea_stop_flag_use(&own_flag, NULL);
    return &own_flag;
}
