/* Which records belong to a process and its descendants. See process_tree_filter.h. */
#include "proto/state/process_tree_filter.h"

#include "proto/base/map.h"
#include "proto/base/provider_guids.h"

#include <stdlib.h>

enum { IDS_MAX = 1 << 20, START = 1, DC_START = 3 };

static const ea_guid PROCESS = EA_PROVIDER_PROCESS, THREAD = EA_PROVIDER_THREAD, IMAGE = EA_PROVIDER_IMAGE,
                     IMAGE_ID = EA_PROVIDER_IMAGE_ID;

/* Events that describe the machine and not one process, by provider and a range of opcodes. */
static const struct {
    ea_guid provider;
    uint8_t low, high;
} DESCRIPTIONS[] = {
    {EA_PROVIDER_EVENT_TRACE, 0, 255},   /* all */
    {EA_PROVIDER_SYSTEM_CONFIG, 0, 255}, /* all */
    {EA_PROVIDER_META_DATA, 0, 255},     /* all */
    {EA_PROVIDER_LOST_EVENT, 0, 255},    /* all */
    {EA_PROVIDER_FILE_IO, 0, 0},         /* names */
    {EA_PROVIDER_FILE_IO, 32, 36},       /* names */
    {EA_PROVIDER_PERF_INFO, 48, 48},     /* what is set */
    {EA_PROVIDER_PERF_INFO, 72, 74},     /* what is set */
    {EA_PROVIDER_STACK_WALK, 34, 38},    /* stack keys */
};

struct ea_process_tree_filter {
    int with_children;
    ea_u64_map pids, tids;
    size_t processes;
};

int ea_process_tree_filter_create(ea_process_tree_filter **ret, uint32_t pid, int with_children, ea_err *err) {
    ea_process_tree_filter *f = calloc(1, sizeof *f);
    if (!f)
        return ea_fail(err, EA_ENOMEM, "follow a process");
    f->with_children = with_children;
    f->processes = 1;
    ea_u64_map_init(&f->pids, IDS_MAX);
    ea_u64_map_init(&f->tids, IDS_MAX);
    int rc = ea_u64_map_put(&f->pids, pid, 1);
    if (rc) {
        ea_process_tree_filter_destroy(f);
        return ea_fail(err, rc, "follow a process");
    }
    *ret = f;
    return 0;
}

void ea_process_tree_filter_destroy(ea_process_tree_filter *f) {
    if (!f)
        return;
    ea_u64_map_deinit(&f->pids);
    ea_u64_map_deinit(&f->tids);
    free(f);
}

static int tree_has(const ea_u64_map *ids, uint64_t id) {
    return ea_u64_map_get(ids, id) != NULL;
}

/* Children and threads that begin; an id that begins anew elsewhere is no longer theirs. */
static int tree_learn(ea_process_tree_filter *f, const ea_record *r, const ea_class *c) {
    uint64_t pid, parent, tid;
    if (!(r->flags & EA_FLAG_CLASSIC_HEADER) || (r->opcode != START && r->opcode != DC_START) ||
        !ea_event_u64(c, r, "ProcessId", &pid))
        return 0;
    if (ea_guid_equal(&r->provider, &PROCESS) && r->opcode == START && ea_event_u64(c, r, "ParentId", &parent)) {
        if (f->with_children && tree_has(&f->pids, parent)) {
            int rc = ea_u64_map_put(&f->pids, pid, 1);
            f->processes += !rc;
            return rc;
        }
        ea_u64_map_remove(&f->pids, pid);
    } else if (ea_guid_equal(&r->provider, &THREAD) && ea_event_u64(c, r, "TThreadId", &tid)) {
        if (tree_has(&f->pids, pid))
            return ea_u64_map_put(&f->tids, tid, 1);
        ea_u64_map_remove(&f->tids, tid);
    }
    return 0;
}

static int describes(const ea_record *r, const ea_class *c) {
    uint64_t pid;
    for (size_t i = 0; i < sizeof DESCRIPTIONS / sizeof *DESCRIPTIONS; i++)
        if (r->opcode >= DESCRIPTIONS[i].low && r->opcode <= DESCRIPTIONS[i].high &&
            ea_guid_equal(&r->provider, &DESCRIPTIONS[i].provider))
            return 1;
    return (ea_guid_equal(&r->provider, &IMAGE) || ea_guid_equal(&r->provider, &IMAGE_ID)) &&
           ea_event_u64(c, r, "ProcessId", &pid) && (pid == 0 || pid == 4); /* the kernel's */
}

/* A field of the event names one of them. */
static int names_one(const ea_process_tree_filter *f, const ea_record *r, const ea_class *c) {
    ea_slice slices[EA_FIELDS_MAX];
    size_t used, whole = ea_class_split(c, r->payload, r->payload_bytes, slices, &used);
    for (size_t i = 0; i < whole; i++) {
        const ea_field *field = &c->fields[ea_class_top_field(c, i)];
        const ea_u64_map *ids = field->semantic == EA_SEM_PID   ? &f->pids
                                : field->semantic == EA_SEM_TID ? &f->tids
                                                                : NULL;
        if (!ids)
            continue;
        if ((slices[i].len_bytes == 4 && tree_has(ids, ea_load32(slices[i].data))) ||
            (slices[i].len_bytes == 8 && tree_has(ids, ea_load64(slices[i].data))))
            return 1;
    }
    return 0;
}

int ea_process_tree_filter_take(ea_process_tree_filter *f, const ea_record *r, const ea_class *c, ea_err *err) {
    int is_classic = (r->flags & EA_FLAG_CLASSIC_HEADER) != 0, rc = tree_learn(f, r, c);
    if (rc)
        return ea_fail(err, rc, "follow a process: too many processes or threads");
    if (r->pid != UINT32_MAX ? tree_has(&f->pids, r->pid) : r->tid != UINT32_MAX && tree_has(&f->tids, r->tid))
        return 1;
    return is_classic && (describes(r, c) || names_one(f, r, c));
}

size_t ea_process_tree_filter_processes(const ea_process_tree_filter *f) {
    return f->processes;
}
