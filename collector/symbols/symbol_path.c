/* Symbol paths. See symbol_path.h. */
#include "collector/symbols/symbol_path.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int is_server(const char *s) {
    return strncasecmp(s, "http://", 7) == 0 || strncasecmp(s, "https://", 8) == 0;
}

/* What srv* alone stands for, Microsoft, ".symfix": its own server. */
static const char DEFAULT_SERVER[] = "https://msdl.microsoft.com/download/symbols";

/* A path of a Windows machine would be a folder of that odd name here. */
static int check_folder(const char *s, ea_err *err) {
    int is_share = strncmp(s, "\\\\", 2) == 0;
    int is_drive =
        ((s[0] | 0x20) >= 'a' && (s[0] | 0x20) <= 'z') && s[1] == ':' && (!s[2] || s[2] == '/' || s[2] == '\\');
    if (is_share)
        return ea_fail(err, EA_EUSAGE, "symbol path: the share %s cannot be read from here; mount it as a folder", s);
    if (is_drive)
        return ea_fail(err, EA_EUSAGE, "symbol path: %s is a folder of a Windows machine; expected one of this machine",
                       s);
    return 0;
}

static int symbol_path_add_place(ec_chain *c, enum ec_event_position_kind kind, const char *where) {
    if (c->count == EC_SYMBOL_STORES_MAX)
        return EA_ELIMIT;
    c->places[c->count++] = (ec_symbol_place){kind, where};
    return 0;
}

static void trim(char *s) {
    size_t n = strlen(s);
    while (n > 1 && s[n - 1] == '/')
        s[--n] = 0;
}

/* The next part of *s up to the separator, which becomes its end; *s is NULL after the last part. */
static char *next_part(char **s, char separator) {
    char *part = *s, *end = strchr(part, separator);
    *s = end ? end + 1 : NULL;
    if (end)
        *end = 0;
    return part;
}

/* Reads the stores after "srv*". */
static int read_chain(ec_chain *c, char *stores, const char *default_cache, ea_err *err) {
    int rc = 0;
    if (!*stores) {
        rc = c->count ? 0 : symbol_path_add_place(c, EC_PLACE_STORE, default_cache);
        return rc ? rc : symbol_path_add_place(c, EC_PLACE_SERVER, DEFAULT_SERVER);
    }
    while (!rc && stores) {
        char *store = next_part(&stores, '*');
        trim(store);
        if (is_server(store) && stores)
            return ea_fail(err, EA_EUSAGE, "symbol path: the server %s is not the last of its chain", store);
        if (!is_server(store) && strstr(store, "://"))
            return ea_fail(err, EA_EUSAGE,
                           "symbol path: %s is no server that can be asked; expected http: or https:", store);
        if (check_folder(store, err))
            return EA_EUSAGE;
        if (is_server(store) && !c->count)
            rc = symbol_path_add_place(c, EC_PLACE_STORE, default_cache);
        if (!rc)
            rc = *store ? symbol_path_add_place(c, is_server(store) ? EC_PLACE_SERVER : EC_PLACE_STORE, store)
                        : symbol_path_add_place(c, EC_PLACE_STORE, default_cache);
    }
    return rc;
}

/* What follows prefix and its star, or NULL. */
static char *after_prefix(char *element, const char *prefix) {
    size_t n = strlen(prefix);
    return strncasecmp(element, prefix, n) == 0 && element[n] == '*' ? element + n + 1 : NULL;
}

static int symbol_path_read_element(ec_symbol_path *p, char *element, const char *default_cache, const char **cache,
                                    ea_err *err) {
    ec_chain c = {0};
    char *stores = after_prefix(element, "srv"), *dll = after_prefix(element, "symsrv"),
         *folder = after_prefix(element, "cache");
    int rc = 0;
    if (folder) {
        trim(folder);
        *cache = *folder ? folder : default_cache;
        return check_folder(folder, err);
    }
    if (dll) {
        (void)next_part(&dll, '*');
        stores = dll;
        if (!dll)
            return ea_fail(err, EA_EUSAGE, "symbol path: %s names no store; expected symsrv*DLL*STORE", element);
    }
    if (*cache)
        rc = symbol_path_add_place(&c, EC_PLACE_STORE, *cache);
    if (!rc && stores)
        rc = read_chain(&c, stores, default_cache, err);
    else if (!rc && (strchr(element, '*') || strstr(element, "://")))
        return ea_fail(err, EA_EUSAGE, "symbol path: %s; expected srv*STORE..., cache*FOLDER or a folder", element);
    else if (!rc) {
        trim(element);
        if (check_folder(element, err))
            return EA_EUSAGE;
        rc = symbol_path_add_place(&c, EC_PLACE_FOLDER, element);
    }
    if (rc == EA_ELIMIT)
        return ea_fail(err, EA_EUSAGE, "symbol path: more than %d stores in a chain", EC_SYMBOL_STORES_MAX);
    if (!rc && p->count == EC_SYMBOL_ELEMENTS_MAX)
        return ea_fail(err, EA_EUSAGE, "symbol path: more than %d elements", EC_SYMBOL_ELEMENTS_MAX);
    if (!rc)
        p->chains[p->count++] = c;
    return rc;
}

int ec_symbol_path_init(ec_symbol_path *ret, const char *text, const char *default_cache, ea_err *err) {
    const char *cache = NULL;
    if (strlen(text) > EC_SYMBOL_PATH_MAX)
        return ea_fail(err, EA_EUSAGE, "symbol path: longer than %d bytes", EC_SYMBOL_PATH_MAX);
    ec_symbol_path *p = calloc(1, sizeof *p);
    char *rest = p ? strdup(text) : NULL;
    if (!rest) {
        free(p);
        return ea_fail(err, EA_ENOMEM, "read a symbol path");
    }
    p->text = rest;
    int rc = 0;
    while (!rc && rest) {
        char *element = next_part(&rest, ';');
        if (*element)
            rc = symbol_path_read_element(p, element, default_cache, &cache, err);
    }
    if (rc)
        ec_symbol_path_deinit(p);
    else
        *ret = *p;
    free(p);
    return rc;
}

void ec_symbol_path_deinit(ec_symbol_path *p) {
    free(p->text);
    p->text = NULL;
    p->count = 0;
}
