/* Positions in the event log. See positions.h. */
#include "service/eventlog/positions.h"

#include "proto/base/pattern.h"
#include "proto/base/platform.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char FIRST_LINE[] = "etwagent: positions in the event log, 1\n";

enum { FILE_MAX_BYTES = 64 << 10 };

_Static_assert(EA_CHANNELS_MAX *(EA_CHANNEL_NAME_MAX + 22) + sizeof FIRST_LINE < FILE_MAX_BYTES, "it fits");

int ea_channel_name_is_good(const char *name) {
    size_t len = strlen(name);
    if (len == 0 || len > EA_CHANNEL_NAME_MAX || strpbrk(name, "<>&\"'"))
        return 0;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
            return 0;
    return 1;
}

/* One line "NUMBER<tab>CHANNEL": 0 when it is another. */
static int positions_take_line(char *line, ea_channel_position *all, size_t count) {
    uint64_t id;
    char *tab = strchr(line, '\t');
    if (!tab)
        return 0;
    *tab = 0;
    if (ea_u64_parse(line, &id) || !ea_channel_name_is_good(tab + 1))
        return 0;
    for (size_t i = 0; i < count; i++)
        if (ea_name_equal(all[i].channel, tab + 1)) {
            all[i].id = id;
            all[i].is_known = 1;
        }
    return 1;
}

int ea_channel_positions_read(const char *path, ea_channel_position *all, size_t count, ea_err *err) {
    char *data = NULL;
    size_t len_bytes;
    if (!ea_path_exists(path))
        return 0;
    int rc = ea_path_read_all(path, FILE_MAX_BYTES, &data, &len_bytes, err);
    if (rc && rc != EA_ELIMIT)
        return rc;
    int is_whole = !rc && !memchr(data, 0, len_bytes) && strncmp(data, FIRST_LINE, sizeof FIRST_LINE - 1) == 0;
    for (char *line = is_whole ? data + sizeof FIRST_LINE - 1 : NULL; is_whole && *line;) {
        char *end = strchr(line, '\n');
        is_whole = end != NULL;
        if (end) {
            *end = 0;
            is_whole = positions_take_line(line, all, count);
            line = end + 1;
        }
    }
    free(data);
    if (is_whole)
        return 0;
    for (size_t i = 0; i < count; i++) {
        all[i].id = 0;
        all[i].is_known = 1;
    }
    return ea_fail(err, EA_EFORMAT, "%s: expected positions in the event log", path);
}

int ea_channel_positions_write(const char *path, const ea_channel_position *all, size_t count, ea_err *err) {
    ea_text t;
    ea_text_init(&t);
    ea_text_str(&t, FIRST_LINE);
    for (size_t i = 0; i < count; i++)
        if (all[i].is_known)
            ea_text_printf(&t, "%" PRIu64 "\t%s\n", all[i].id, all[i].channel);
    int rc =
        t.failed ? ea_fail(err, EA_ENOMEM, "write %s", path) : ea_path_write_all(path, t.data, t.len_bytes, 1, err);
    ea_text_deinit(&t);
    return rc;
}
