/* Opening traces for a command. See input.h. */
#include "input.h"

#include "text.h"

#include <inttypes.h>

enum { DAMAGE_LINES = 10 };

void ea_input_on_damage(const ea_etl_damage *damage, void *arg) {
    ea_input *in = arg;
    ea_text line;
    if (in->damage_count++ >= DAMAGE_LINES)
        return;
    ea_text_init(&line);
    ea_text_str(&line, "etwagent: ");
    ea_text_safe(&line, damage->path, strlen(damage->path));
    ea_text_printf(&line, ": buffer at offset %" PRIu64, damage->offset);
    if (damage->inside)
        ea_text_printf(&line, ", byte %" PRIu32 " inside", damage->inside);
    ea_text_str(&line, ": ");
    ea_text_safe(&line, damage->reason, strlen(damage->reason));
    ea_text_printf(&line, " (%" PRIu64 " bytes skipped)\n", damage->bytes);
    if (!line.failed)
        fwrite(line.data, 1, line.len_bytes, stderr);
    ea_text_deinit(&line);
}

int ea_input_open(ea_input *in, char **paths, int path_count) {
    ea_err err = {0};
    *in = (ea_input){0};
    ea_etl_options options = {.counters = &in->counters, .on_damage = ea_input_on_damage, .on_damage_arg = in};
    int rc = ea_etl_open(&in->set, (const char *const *)paths, (size_t)path_count, &options, &err);
    if (rc) {
        ea_err_print(stderr, "etwagent", &err);
        return ea_exit_code(rc);
    }
    return 0;
}

int ea_input_close(ea_input *in, int rc, int strict, const ea_err *err) {
    if (in->damage_count > DAMAGE_LINES)
        fprintf(stderr, "etwagent: %" PRIu64 " places are damaged; the first %d are named above\n", in->damage_count,
                DAMAGE_LINES);
    ea_etl_close(in->set);
    in->set = NULL;
    if (rc < 0) {
        ea_err_print(stderr, "etwagent", err);
        return ea_exit_code(rc);
    }
    return strict && in->damage_count ? 3 : 0;
}
