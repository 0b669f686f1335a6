/* An alias: a process of the trace gets the id of a program that runs now, in headers and in fields, so that a
 * recording of the program finds the events of the process. A process of the trace that has the program's id gets the
 * id of the first process: otherwise both would be one process. See emulator_stream.h. */
#include "tests/windows/emulator_stream.h"

#include "proto/event/event.h"

#include <stdlib.h>
#include <string.h>
#include <tlhelp32.h>
#include <wchar.h>

struct emul_alias {
    uint32_t from, to; /* to 0: no such program runs */
    ea_registry *registry;
    ea_record record;
    uint8_t payload[65536];
};

static uint32_t find_program(const WCHAR *name) {
    PROCESSENTRY32W p = {.dwSize = sizeof p};
    HANDLE all = CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0);
    uint32_t found = 0;
    for (BOOL more = Process32FirstW(all, &p); more && !found; more = Process32NextW(all, &p))
        if (_wcsicmp(p.szExeFile, name) == 0)
            found = p.th32ProcessID;
    CloseHandle(all);
    return found;
}

emul_alias *emul_alias_create(void) {
    const emul_script *w = emul_what();
    emul_alias *a = w->alias_pid ? calloc(1, sizeof *a) : NULL;
    if (!a || ea_registry_create(&a->registry, 0, NULL)) {
        free(a);
        return NULL;
    }
    a->from = w->alias_pid;
    a->to = find_program(w->alias_program);
    return a;
}

void emul_alias_destroy(emul_alias *a) {
    if (a)
        ea_registry_destroy(a->registry);
    free(a);
}

static uint32_t alias_of(const emul_alias *a, uint32_t pid) {
    return pid == a->from ? a->to : pid == a->to ? a->from : pid;
}

const ea_record *emul_alias_apply(emul_alias *a, const ea_record *r) {
    ea_slice slices[EA_FIELDS_MAX];
    size_t used;
    if (!a || !a->to)
        return r;
    a->record = *r;
    a->record.payload = a->payload;
    memcpy(a->payload, r->payload, r->payload_bytes);
    a->record.pid = alias_of(a, r->pid);
    const ea_class *c = ea_registry_find(a->registry, r);
    size_t whole = ea_class_split(c, a->payload, r->payload_bytes, slices, &used);
    for (size_t i = 0; i < whole; i++) {
        uint8_t semantic = c->fields[ea_class_top_field(c, i)].semantic;
        if ((semantic == EA_SEM_PID || semantic == EA_SEM_PARENT_PID) && slices[i].len_bytes == 4)
            ea_store32(a->payload + (slices[i].data - a->payload), alias_of(a, ea_load32(slices[i].data)));
    }
    return &a->record;
}
