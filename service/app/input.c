/* Opening traces for a command. See input.h. */
#include "service/app/input.h"

#include "proto/base/platform.h"
#include "proto/base/stop_flag.h"

#include <inttypes.h>
#include <string.h>

static const int64_t HOLD_BACK_NS = 1000000000, WAIT_NS = 50000000;

int ea_input_open(ea_input *in, char **paths, int path_count, int follow, int strict) {
    ea_err err = {0};
    *in = (ea_input){.follow = follow, .strict = strict, .damage = {.is_silent = strict}};
    ea_etl_options options = {.counters = &in->counters,
                              .on_damage = ea_damage_log_add,
                              .on_damage_arg = &in->damage,
                              .follow = follow,
                              .hold_back_ns = HOLD_BACK_NS};
    if (follow)
        (void)ea_stop_flag();
    int rc = ea_etl_open(&in->set, (const char *const *)paths, (size_t)path_count, &options, &err);
    if (rc) {
        ea_err_print(stderr, "etwagent", &err);
        ea_damage_log_deinit(&in->damage);
        return ea_exit_code(rc);
    }
    return 0;
}

int ea_input_names_end(const char *time) {
    return time && strncmp(time, "end", 3) == 0;
}

int ea_input_read_end(char **paths, int path_count, atomic_int *stop, int64_t *ret_utc_ns, ea_err *err) {
    ea_etl_set *set = NULL;
    const ea_record *r;
    int64_t end = INT64_MIN;
    int rc = ea_etl_open(&set, (const char *const *)paths, (size_t)path_count, &(ea_etl_options){0}, err);
    while (!rc && (rc = ea_etl_next(set, &r, err)) > 0) {
        int64_t utc_ns = ea_clock_to_utc_ns(&ea_etl_file_info(set, r->source)->clock, r->time_raw);
        rc = stop && atomic_load(stop) ? ea_fail(err, EA_ECANCELED, "read the end of the traces") : 0;
        if (utc_ns >= end && utc_ns < INT64_MAX)
            end = utc_ns + 1;
    }
    ea_etl_close(set);
    if (!rc && end > INT64_MIN)
        *ret_utc_ns = end;
    return rc;
}

int ea_input_next(ea_input *in, const ea_record **ret_record, ea_err *err) {
    if (in->follow && atomic_load(ea_stop_flag()))
        return 0;
    int rc = ea_etl_next(in->set, ret_record, err);
    if (in->strict && in->damage.first.code && rc >= 0) {
        *err = in->damage.first;
        return err->code;
    }
    if (rc == EA_ETL_NOTHING_YET)
        ea_sleep_ns(WAIT_NS);
    return rc;
}

static int collect_names(ea_object_names *names, char **paths, int path_count, ea_registry *registry, ea_err *err) {
    ea_etl_set *set = NULL;
    const ea_record *r;
    int rc = ea_etl_open(&set, (const char *const *)paths, (size_t)path_count, &(ea_etl_options){0}, err);
    while (!rc && (rc = ea_etl_next(set, &r, err)) > 0) {
        rc = 0;
        if (!ea_object_names_concerns(&r->provider, r->flags & EA_FLAG_CLASSIC_HEADER ? r->opcode : r->id))
            continue;
        int64_t utc_ns = ea_clock_to_utc_ns(&ea_etl_file_info(set, r->source)->clock, r->time_raw);
        rc = ea_object_names_apply(names, r, ea_registry_find(registry, r), utc_ns, err);
    }
    ea_etl_close(set);
    return rc;
}

int ea_input_names(ea_object_names **ret, char **paths, int path_count, ea_registry *registry, ea_err *err) {
    ea_object_names *names = NULL;
    int rc = ea_object_names_create(&names, &(ea_object_names_options){0}, err);
    if (!rc)
        rc = collect_names(names, paths, path_count, registry, err);
    if (rc) {
        ea_object_names_destroy(names);
        return rc;
    }
    ea_object_names_seal(names);
    ea_object_names_report_left_out(names, "etwagent");
    *ret = names;
    return 0;
}

int ea_input_close(ea_input *in, int rc, const ea_err *err) {
    if (in->damage.map.places > EA_DAMAGE_LINES && !in->strict)
        fprintf(stderr, "etwagent: %" PRIu64 " places are damaged; the first %d are named above\n",
                in->damage.map.places, EA_DAMAGE_LINES);
    ea_etl_close(in->set);
    in->set = NULL;
    ea_damage_log_deinit(&in->damage);
    if (rc < 0) {
        ea_err_print(stderr, "etwagent", err);
        return ea_exit_code(rc);
    }
    return 0;
}
