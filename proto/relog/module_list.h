/* A list of modules in a file, for relog --modules: what a program with a module format of its own knows of its
 * modules. TSV, of which the first line names the columns, or JSON lines, of which each is an object with these keys:
 *
 *   load, unload   times as their readers take them; load absent: before the trace; unload absent: never
 *   pid, base, size, path   needed; path is an NT path, as in \Device\HarddiskVolume3\plug.in
 *   guid, age, pdb   of its PDB: all of them or none
 *   timestamp, checksum, default_base, name   of its image; 0, 0, base and the path's last part when absent
 *
 * Numbers are decimal, or hex after 0x. Input: bytes of a file. Called by: `etwagent relog`. Thread: its owner's. */
#ifndef EA_RELOG_MODULE_LIST_H
#define EA_RELOG_MODULE_LIST_H

#include "proto/state/machine.h"

typedef struct ea_listed_module {
    ea_module m;               /* life is not filled */
    const char *load, *unload; /* texts; NULL: absent */
    size_t line;               /* in the file, from 1 */
} ea_listed_module;

typedef struct ea_module_list ea_module_list;

enum { EA_MODULE_LIST_MAX = 1 << 20 };

/* name: of the file, for messages. EA_EINVAL with the line and what is wrong there; EA_ELIMIT. */
EA_MUST_CHECK int ea_module_list_read(ea_module_list **ret, const char *name, const char *text, size_t len_bytes,
                                      ea_err *err);
void ea_module_list_destroy(ea_module_list *l); /* NULL is allowed */
/* In the file's order; borrowed. */
const ea_listed_module *ea_module_list_items(const ea_module_list *l, size_t *ret_count);

#endif
