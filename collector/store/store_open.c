/* The embedded store: opening and closing it. See store.h. */
#include "collector/store/store_parts.h"

#include "collector/store/retention.h"

#include <stdlib.h>
#include <string.h>

enum { DEFAULT_SEGMENT_MIB = 256 };

/* Where questions make temporary files (collector/query/sql/confine.h); those have no names, so that it is empty. */
static int make_temp_folder(const char *dir, ea_err *err) {
    ea_text path;
    ea_text_init(&path);
    ea_text_printf(&path, "%s/temp", dir);
    int rc = path.failed ? ea_fail(err, EA_ENOMEM, "open %s", dir) : ea_path_make_dirs(path.data, err);
    ea_text_deinit(&path);
    return rc;
}

int ec_store_open(ec_store **ret, const char *dir, const ec_store_options *options, ea_err *err) {
    ec_store *s = calloc(1, sizeof *s);
    if (!s)
        return ea_fail(err, EA_ENOMEM, "open %s", dir);
    s->writable = options->writable;
    s->is_scratch = options->is_scratch;
    s->segment_bytes = options->segment_bytes ? options->segment_bytes : (uint64_t)DEFAULT_SEGMENT_MIB << 20;
    s->trusts_checksums = options->trusts_checksums;
    s->agent_streams = options->agent_streams;
    s->agent_classes = options->agent_classes;
    s->agent_tombstones = options->agent_tombstones;
    s->agent_definition_bytes = options->agent_definition_bytes;
    s->counters = options->counters ? options->counters : &s->own_counters;
    ea_text_init(&s->classes);
    ea_text_init(&s->pids);
    ea_text_init(&s->completed);
    ea_text_init(&s->definition);
    ea_bytes_map_init(&s->cache, EC_CACHED_DEFINITIONS);
    ea_bytes_map_init(&s->spellings, 0);
    size_t n = strlen(dir);
    s->dir = malloc(n + 1);
    s->segments = malloc(n + sizeof "/segments");
    if (!s->dir || !s->segments) {
        ec_store_close(s);
        return ea_fail(err, EA_ENOMEM, "open %s", dir);
    }
    memcpy(s->dir, dir, n + 1);
    snprintf(s->segments, n + sizeof "/segments", "%s/segments", dir);

    int rc = 0;
    if (s->writable) {
        ea_text path;
        ea_text_init(&path);
        ea_text_printf(&path, "%s/lock", dir);
        rc = path.failed ? ea_fail(err, EA_ENOMEM, "open %s", dir) : ea_path_make_dirs(s->segments, err);
        if (!rc)
            rc = make_temp_folder(dir, err);
        if (!rc)
            rc = ea_file_open(&s->lock, path.data, EA_OPEN_APPEND, err);
        if (!rc)
            rc = ea_file_try_lock(s->lock, err);
        ea_text_deinit(&path);
    }
    if (!rc && s->writable)
        rc = ec_retention_restore_index(dir, err);
    if (!rc)
        rc = ec_db_open(s, err);
    if (!rc && s->writable)
        rc = ec_store_read_spellings(s, err);
    if (!rc && s->writable)
        rc = ea_registry_create(&s->checker, 0, err);
    if (!rc && s->writable)
        rc = ec_store_recover(s, err);
    if (rc) {
        ec_store_close(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void ec_store_close(ec_store *s) {
    if (!s)
        return;
    ec_retention_close(s);
    if (s->in_group)
        ec_store_abandon_group(s);
    for (size_t i = 0; i < EC_STATEMENT_COUNT; i++)
        sqlite3_finalize(s->statements[i]);
    sqlite3_close(s->db);
    ec_segment_close(&s->segment);
    ec_segment_close(&s->reading);
    ea_batch_close(s->view);
    ea_batch_free(s->batch);
    ea_registry_destroy(s->checker);
    ea_text_deinit(&s->classes);
    ea_text_deinit(&s->pids);
    ea_text_deinit(&s->completed);
    ea_text_deinit(&s->definition);
    ec_store_empty_cache(s);
    ea_bytes_map_deinit(&s->cache);
    ec_store_drop_spellings(s);
    ec_store_free_names(s);
    free(s->hashes);
    free(s->carried);
    free(s->notes.described);
    free(s->notes.missing);
    free(s->data);
    free(s->dir);
    free(s->segments);
    ea_file_close(s->lock);
    free(s);
}
