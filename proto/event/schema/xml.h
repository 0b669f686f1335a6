/* XML as a tree, for manifests: names and attributes with their places. Namespaces other than Windows' event ones, text
 * and comments are left out. Input: a file or a trace. Used by: manifest.c. Thread: any. */
#ifndef EA_EVENT_SCHEMA_XML_H
#define EA_EVENT_SCHEMA_XML_H

#include "proto/base/arena.h"
#include "proto/base/err.h"

#include <stddef.h>

typedef struct ea_xml_node {
    const char *name;        /* without its namespace */
    const char **attributes; /* name, value, ..., NULL */
    struct ea_xml_node *child, *next;
    unsigned long line, column; /* of its <, from 1 */
} ea_xml_node;

/* Reads a document; the tree lives in the arena, whose limit bounds it. file: for messages. Errors: EA_EFORMAT with
 * "FILE:LINE:COLUMN: what", EA_ELIMIT, EA_ENOMEM. */
EA_MUST_CHECK int ea_xml_parse(ea_arena *arena, const char *file, const void *data, size_t len_bytes,
                               const ea_xml_node **ret, ea_err *err);
/* NULL when there is no such attribute. */
const char *ea_xml_attribute(const ea_xml_node *node, const char *name);
/* The first child of that name, or the next sibling of that name; NULL. */
const ea_xml_node *ea_xml_child(const ea_xml_node *node, const char *name);
const ea_xml_node *ea_xml_next(const ea_xml_node *node, const char *name);

#endif
