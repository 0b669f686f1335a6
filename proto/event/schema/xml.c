/* XML as a tree, by expat. See xml.h. */
#include "proto/event/schema/xml.h"

#include <expat.h>
#include <limits.h>
#include <string.h>

enum { DEPTH_MAX = 64, ATTRIBUTES_MAX = 64 };

typedef struct reader {
    XML_Parser parser;
    ea_arena *arena;
    ea_xml_node *root, *open[DEPTH_MAX], *last[DEPTH_MAX]; /* last child of each open one */
    int depth, foreign;                                    /* levels inside an element that is not ours */
    const char *wrong;
    int code;
} reader;

static void xml_stop(reader *r, int code, const char *wrong) {
    if (!r->code) {
        r->code = code;
        r->wrong = wrong;
    }
    XML_StopParser(r->parser, XML_FALSE);
}

/* The name without its namespace, when it is a namespace that manifests use; NULL for other namespaces. Documents
 * without namespaces are read as well. */
static const char *own_name(const char *name) {
    static const char *const SPACES[] = {"http://schemas.microsoft.com/win/2004/08/events",
                                         "urn:schemas-microsoft-com:asm.v3"};
    const char *bar = strrchr(name, '|');
    if (!bar)
        return name;
    for (size_t i = 0; i < sizeof SPACES / sizeof SPACES[0]; i++)
        if (strlen(SPACES[i]) == (size_t)(bar - name) && memcmp(SPACES[i], name, (size_t)(bar - name)) == 0)
            return bar + 1;
    return NULL;
}

static void XMLCALL on_start(void *arg, const char *full_name, const char **attributes) {
    reader *r = arg;
    const char *name = own_name(full_name);
    size_t n = 0;
    if (r->code)
        return;
    if (r->foreign || !name) {
        r->foreign++;
        return;
    }
    if (r->depth == DEPTH_MAX) {
        xml_stop(r, EA_EFORMAT, "elements are nested more than 64 deep");
        return;
    }
    while (attributes[n])
        n += 2;
    if (n > (size_t)2 * ATTRIBUTES_MAX) {
        xml_stop(r, EA_EFORMAT, "an element has more than 64 attributes");
        return;
    }
    ea_xml_node *node = ea_arena_zalloc(r->arena, 1, sizeof *node);
    const char **own = ea_arena_zalloc(r->arena, n + 1, sizeof *own);
    char *own_copy = node && own ? ea_arena_strdup(r->arena, name) : NULL;
    for (size_t i = 0; own_copy && i < n; i++) {
        own[i] = ea_arena_strdup(r->arena, attributes[i]);
        if (!own[i])
            own_copy = NULL;
    }
    if (!own_copy) {
        xml_stop(r, EA_ELIMIT, "the document takes more memory than is allowed");
        return;
    }
    node->name = own_copy;
    node->attributes = own;
    node->line = (unsigned long)XML_GetCurrentLineNumber(r->parser);
    node->column = (unsigned long)XML_GetCurrentColumnNumber(r->parser) + 1;
    if (r->depth == 0)
        r->root = node;
    else if (r->last[r->depth - 1])
        r->last[r->depth - 1]->next = node;
    else
        r->open[r->depth - 1]->child = node;
    if (r->depth)
        r->last[r->depth - 1] = node;
    r->last[r->depth] = NULL;
    r->open[r->depth++] = node;
}

static void XMLCALL xml_on_end(void *arg, const char *name) {
    reader *r = arg;
    (void)name;
    if (r->foreign)
        r->foreign--;
    else if (r->depth)
        r->depth--;
}

/* Refuses a document type declaration: its entities could refer to text outside the file. */
static void XMLCALL on_doctype(void *arg, const char *name, const char *system, const char *public, int internal) {
    (void)name;
    (void)system;
    (void)public;
    (void)internal;
    xml_stop(arg, EA_EFORMAT, "a manifest has no document type declaration");
}

int ea_xml_parse(ea_arena *arena, const char *file, const void *data, size_t len_bytes, const ea_xml_node **ret,
                 ea_err *err) {
    reader r = {.arena = arena};
    if (len_bytes > INT_MAX)
        return ea_fail(err, EA_ELIMIT, "%s: it is larger than 2 GiB", file);
    r.parser = XML_ParserCreateNS(NULL, '|');
    if (!r.parser)
        return ea_fail(err, EA_ENOMEM, "%s: read XML", file);
    XML_SetUserData(r.parser, &r);
    XML_SetElementHandler(r.parser, on_start, xml_on_end);
    XML_SetStartDoctypeDeclHandler(r.parser, on_doctype);
    enum XML_Status status = XML_Parse(r.parser, data, (int)len_bytes, 1);
    int rc = 0;
    if (status != XML_STATUS_OK || r.code) {
        enum XML_Error code = XML_GetErrorCode(r.parser);
        unsigned long line = (unsigned long)XML_GetCurrentLineNumber(r.parser),
                      column = (unsigned long)XML_GetCurrentColumnNumber(r.parser) + 1;
        rc = code == XML_ERROR_NO_MEMORY ? ea_fail(err, EA_ENOMEM, "%s: read XML", file)
                                         : ea_fail(err, r.code ? r.code : EA_EFORMAT, "%s:%lu:%lu: expected XML: %s",
                                                   file, line, column, r.code ? r.wrong : XML_ErrorString(code));
    } else if (!r.root) {
        rc = ea_fail(err, EA_EFORMAT, "%s:1:1: expected an instrumentation manifest", file);
    }
    XML_ParserFree(r.parser);
    if (!rc)
        *ret = r.root;
    return rc;
}

const char *ea_xml_attribute(const ea_xml_node *node, const char *name) {
    for (const char **a = node->attributes; *a; a += 2)
        if (strcmp(*a, name) == 0)
            return a[1];
    return NULL;
}

const ea_xml_node *ea_xml_next(const ea_xml_node *node, const char *name) {
    for (node = node->next; node && strcmp(node->name, name) != 0;)
        node = node->next;
    return node;
}

const ea_xml_node *ea_xml_child(const ea_xml_node *node, const char *name) {
    const ea_xml_node *child = node->child;
    return !child || strcmp(child->name, name) == 0 ? child : ea_xml_next(child, name);
}
