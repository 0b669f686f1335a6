/* Which records belong to a process and its descendants. See process_tree_filter.h. */
#include "proto/state/process_tree_filter.h"

#include "proto/base/map.h"

#include <stdlib.h>

enum { IDS_MAX = 1 << 20, START = 1, DC_START = 3 };

static const ea_guid PROCESS = EA_GUID(0x3d6fa8d0, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c),
                     THREAD = EA_GUID(0x3d6fa8d1, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c),
                     IMAGE = EA_GUID(0x2cb15d1d, 0x5fc1, 0x11d2, 0xab, 0xe1, 0x00, 0xa0, 0xc9, 0x11, 0xf5, 0x18),
                     IMAGE_ID = EA_GUID(0xb3e675d7, 0x2554, 0x4f18, 0x83, 0x0b, 0x27, 0x62, 0x73, 0x25, 0x60, 0xde);

/* What describes, by provider and a range of opcodes. */
static const struct {
    ea_guid provider;
    uint8_t low, high;
} DESCRIPTIONS[] = {
    {EA_GUID(0x68fdd900, 0x4a3e, 0x11d1, 0x84, 0xf4, 0x00, 0x00, 0xf8, 0x04, 0x64, 0xe3), 0, 255}, /* EventTrace */
    {EA_GUID(0x01853a65, 0x418f, 0x4f36, 0xae, 0xfc, 0xdc, 0x0f, 0x1d, 0x2f, 0xd2, 0x35), 0, 255}, /* SystemConfig */
    {EA_GUID(0xbbccf6c1, 0x6cd1, 0x48c4, 0x80, 0xff, 0x83, 0x94, 0x82, 0xe3, 0x76, 0x71), 0, 255}, /* MetaData */
    {EA_GUID(0x6a399ae0, 0x4bc6, 0x4de9, 0x87, 0x0b, 0x36, 0x57, 0xf8, 0x94, 0x7e, 0x7e), 0, 255}, /* lost events */
    {EA_GUID(0x90cbdc39, 0x4a3e, 0x11d1, 0x84, 0xf4, 0x00, 0x00, 0xf8, 0x04, 0x64, 0xe3), 0, 0},   /* FileIo: names */
    {EA_GUID(0x90cbdc39, 0x4a3e, 0x11d1, 0x84, 0xf4, 0x00, 0x00, 0xf8, 0x04, 0x64, 0xe3), 32, 36},
    {EA_GUID(0xce1dbfb4, 0x137e, 0x4da6, 0x87, 0xb0, 0x3f, 0x59, 0xaa, 0x10, 0x2c, 0xbc), 48, 48}, /* PerfInfo: */
    {EA_GUID(0xce1dbfb4, 0x137e, 0x4da6, 0x87, 0xb0, 0x3f, 0x59, 0xaa, 0x10, 0x2c, 0xbc), 72, 74}, /* what is set */
    {EA_GUID(0xdef2fe46, 0x7bd6, 0x4b80, 0xbd, 0x94, 0xf5, 0x7f, 0xe2, 0x0d, 0x0c, 0xe3), 34, 38}, /* stack keys */
};

struct ea_process_tree_filter {
    int with_children;
    ea_u64_map pids, tids;
    size_t processes;
};

int ea_process_tree_filter_create(ea_process_tree_filter **ret, uint32_t pid, int with_children, ea_err *err) {
    ea_process_tree_filter *l = calloc(1, sizeof *l);
    if (!l)
        return ea_fail(err, EA_ENOMEM, "follow a process");
    l->with_children = with_children;
    l->processes = 1;
    ea_u64_map_init(&l->pids, IDS_MAX);
    ea_u64_map_init(&l->tids, IDS_MAX);
    int rc = ea_u64_map_put(&l->pids, pid, 1);
    if (rc) {
        ea_process_tree_filter_destroy(l);
        return ea_fail(err, rc, "follow a process");
    }
    *ret = l;
    return 0;
}

void ea_process_tree_filter_destroy(ea_process_tree_filter *l) {
    if (!l)
        return;
    ea_u64_map_deinit(&l->pids);
    ea_u64_map_deinit(&l->tids);
    free(l);
}

static int tree_has(const ea_u64_map *ids, uint64_t id) {
    return ea_u64_map_get(ids, id) != NULL;
}

/* Children and threads that begin; an id that begins anew elsewhere is no longer theirs. */
static int tree_learn(ea_process_tree_filter *l, const ea_record *r, const ea_class *c) {
    uint64_t pid, parent, tid;
    if (!(r->flags & EA_FLAG_CLASSIC_HEADER) || (r->opcode != START && r->opcode != DC_START) ||
        !ea_event_u64(c, r, "ProcessId", &pid))
        return 0;
    if (ea_guid_equal(&r->provider, &PROCESS) && r->opcode == START && ea_event_u64(c, r, "ParentId", &parent)) {
        if (l->with_children && tree_has(&l->pids, parent)) {
            int rc = ea_u64_map_put(&l->pids, pid, 1);
            l->processes += !rc;
            return rc;
        }
        ea_u64_map_remove(&l->pids, pid);
    } else if (ea_guid_equal(&r->provider, &THREAD) && ea_event_u64(c, r, "TThreadId", &tid)) {
        if (tree_has(&l->pids, pid))
            return ea_u64_map_put(&l->tids, tid, 1);
        ea_u64_map_remove(&l->tids, tid);
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
static int names_one(const ea_process_tree_filter *l, const ea_record *r, const ea_class *c) {
    ea_slice slices[EA_FIELDS_MAX];
    size_t used, whole = ea_class_split(c, r->payload, r->payload_bytes, slices, &used);
    for (size_t i = 0; i < whole; i++) {
        const ea_field *f = &c->fields[ea_class_top_field(c, i)];
        const ea_u64_map *ids = f->semantic == EA_SEM_PID ? &l->pids : f->semantic == EA_SEM_TID ? &l->tids : NULL;
        if (!ids)
            continue;
        if ((slices[i].len_bytes == 4 && tree_has(ids, ea_load32(slices[i].data))) ||
            (slices[i].len_bytes == 8 && tree_has(ids, ea_load64(slices[i].data))))
            return 1;
    }
    return 0;
}

int ea_process_tree_filter_take(ea_process_tree_filter *l, const ea_record *r, const ea_class *c, ea_err *err) {
    int is_classic = (r->flags & EA_FLAG_CLASSIC_HEADER) != 0, rc = tree_learn(l, r, c);
    if (rc)
        return ea_fail(err, rc, "follow a process: too many processes or threads");
    if (r->pid != UINT32_MAX ? tree_has(&l->pids, r->pid) : r->tid != UINT32_MAX && tree_has(&l->tids, r->tid))
        return 1;
    return is_classic && (describes(r, c) || names_one(l, r, c));
}

size_t ea_process_tree_filter_processes(const ea_process_tree_filter *l) {
    return l->processes;
}
