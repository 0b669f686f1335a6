/* Power supply and network cost, the POSIX half. See platform.h. */
#if !defined(_WIN32)
#include "proto/base/platform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* State of a power supply: 1 for a mains supply that is online, 0 for one that is not, -1 when it is no mains supply or
 * its state is unknown. */
static int supply_online(const char *name) {
    char path[320], *type = NULL, *online = NULL;
    size_t n;
    ea_err err;
    int result = -1;
    snprintf(path, sizeof path, "/sys/class/power_supply/%.200s/type", name);
    if (!ea_path_read_all(path, 4096, &type, &n, &err) && strncmp(type, "Mains", 5) == 0) {
        snprintf(path, sizeof path, "/sys/class/power_supply/%.200s/online", name);
        if (!ea_path_read_all(path, 4096, &online, &n, &err))
            result = online[0] == '1';
    }
    free(type);
    free(online);
    return result;
}

static int look_at_supply(const char *name, int is_dir, void *arg) {
    int *known = arg, online = supply_online(name);
    (void)is_dir;
    if (online >= 0 && *known != 1)
        *known = online;
    return 0;
}

int ea_power_is_battery(void) {
    int mains = -1;
    ea_err err;
    return ea_path_list("/sys/class/power_supply", look_at_supply, &mains, &err) || mains < 0 ? -1 : !mains;
}

int ea_network_is_metered(void) {
    return -1;
}
#endif
