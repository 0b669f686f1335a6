/* A list of modules, as relog --modules reads it, or of stored facts, as --image-ids does: any bytes. What is taken has
 * what records need of it, and records are made of it. */
#include "proto/relog/image_list.h"
#include "proto/relog/module_list.h"
#include "proto/relog/module_records.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int count_record(void *arg, const ea_record *r) {
    unsigned *count = arg;
    uint64_t sum = 0;
    for (size_t i = 0; i < r->payload_bytes; i++)
        sum += r->payload[i];
    *count += 1 + (sum == UINT64_MAX);
    return 0;
}

static void read_facts_list(const uint8_t *data, size_t size) {
    ea_image_list *list = NULL;
    ea_image_fact fact;
    ea_err err = {0};
    if (ea_image_list_read(&list, "list", (const char *)data, size, &err)) {
        if (!*err.message)
            abort();
        return;
    }
    for (size_t n = 0; n <= size && n < 64; n++) {
        const ea_image_wanted wanted = {.name = (const char *)data, .name_bytes = n, .size_bytes = n};
        if (ea_image_list_find(list, &wanted, &fact) && (!fact.has_pdb || !fact.pdb_path || !fact.original_name))
            abort();
    }
    ea_image_list_close(list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { RECORDS = 3 };

    ea_module_list *list = NULL;
    size_t count = 0;
    ea_err err = {0};
    read_facts_list(data, size);
    int rc = ea_module_list_read(&list, "list", (const char *)data, size, &err);
    if (rc) {
        if (!*err.message)
            abort();
        return 0;
    }
    const ea_listed_module *items = ea_module_list_items(list, &count);
    for (size_t i = 0; i < count; i++) {
        const ea_module *m = &items[i].m;
        unsigned records = 0;
        if (m->path[0] != '\\' || !m->original_name || !m->pdb_path || !items[i].line)
            abort();
        const ea_module_place place = {
            .verb = EA_MODULE_LOAD, .version = 3, .pointer_size = m->base > UINT32_MAX ? 8 : 4};
        rc = ea_module_records(m, &place, count_record, &records, &err);
        if (!rc && records != RECORDS)
            abort();
    }
    ea_module_list_destroy(list);
    return 0;
}
