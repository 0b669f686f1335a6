/* See image_sources.h. */
#include "proto/relog/image_sources.h"

#include "proto/base/pattern.h"
#include "proto/base/platform.h"
#include "proto/relog/image_files.h"
#include "proto/relog/image_list.h"

#include <stdlib.h>
#include <string.h>

enum { FACTS_MAX_BYTES = 1 << 28 };

/* One of its members is set. */
typedef struct image_source {
    ea_image_files *files;
    ea_image_list *list;
    ea_image_server *server;
} image_source;

struct ea_image_sources {
    image_source sources[EA_IMAGE_SOURCES_MAX];
    size_t count;
};

static int image_sources_begins(const char *word, const char *prefix) {
    for (; *prefix; word++, prefix++)
        if (ea_ascii_lower(*word) != *prefix)
            return 0;
    return 1;
}

static int image_sources_ends(const char *word, const char *end) {
    size_t n = strlen(word), m = strlen(end);
    return n > m && image_sources_begins(word + n - m, end);
}

static int image_sources_open_list(image_source *source, const char *path, ea_err *err) {
    char *text = NULL;
    size_t len_bytes;
    int rc = ea_path_read_all(path, FACTS_MAX_BYTES, &text, &len_bytes, err);
    if (!rc)
        rc = ea_image_list_read(&source->list, path, text, len_bytes, err);
    free(text);
    return rc;
}

static int open_image_source(image_source *source, const char *word, const ea_image_sources_options *o, ea_err *err) {
    if (image_sources_begins(word, "http://") || image_sources_begins(word, "https://")) {
        if (!o->cache)
            return ea_fail(err, EA_EUSAGE, "--image-ids %s: a symbol server goes with --image-cache FOLDER", word);
        return ea_image_server_open(&source->server, word, o->cache, o->stop, err);
    }
    if (strstr(word, "://"))
        return ea_fail(err, EA_EUSAGE, "--image-ids %s: expected a symbol server with http: or https:", word);
    if (image_sources_ends(word, ".jsonl") || image_sources_ends(word, ".tsv"))
        return image_sources_open_list(source, word, err);
    return ea_image_files_open(&source->files, word, err);
}

int ea_image_sources_open(ea_image_sources **ret, const ea_image_sources_options *options, ea_err *err) {
    int rc = 0;
    if (options->count > EA_IMAGE_SOURCES_MAX)
        return ea_fail(err, EA_EUSAGE, "--image-ids may be given %d times at most", EA_IMAGE_SOURCES_MAX);
    ea_image_sources *x = calloc(1, sizeof *x);
    if (!x)
        return ea_fail(err, EA_ENOMEM, "read images");
    while (!rc && x->count < options->count) {
        rc = open_image_source(&x->sources[x->count], options->words[x->count], options, err);
        x->count++;
    }
    if (rc) {
        ea_image_sources_close(x);
        return rc;
    }
    *ret = x;
    return 0;
}

void ea_image_sources_close(ea_image_sources *x) {
    if (!x)
        return;
    for (size_t i = 0; i < x->count; i++) {
        ea_image_files_close(x->sources[i].files);
        ea_image_list_close(x->sources[i].list);
        ea_image_server_close(x->sources[i].server);
    }
    free(x);
}

int ea_image_sources_find(ea_image_sources *x, const char *path, size_t path_bytes, uint64_t size_bytes,
                          uint32_t timestamp, ea_image_fact *ret, int *ret_found, ea_err *err) {
    ea_image_wanted wanted = {.size_bytes = size_bytes, .timestamp = timestamp};
    int rc = 0;
    wanted.name = ea_image_name(path, path_bytes, &wanted.name_bytes);
    *ret_found = 0;
    for (size_t i = 0; !rc && !*ret_found && i < x->count; i++) {
        image_source *source = &x->sources[i];
        if (source->server)
            rc = ea_image_server_find(source->server, &wanted, ret, ret_found, err);
        else
            *ret_found = source->list ? ea_image_list_find(source->list, &wanted, ret)
                                      : ea_image_files_find(source->files, &wanted, ret);
    }
    return rc;
}

ea_image_server_counts ea_image_sources_count(const ea_image_sources *x, int *ret_has) {
    ea_image_server_counts sum = {0};
    *ret_has = 0;
    for (size_t i = 0; i < x->count; i++) {
        if (!x->sources[i].server)
            continue;
        const ea_image_server_counts *c = ea_image_server_count(x->sources[i].server);
        *ret_has = 1;
        sum.asked += c->asked;
        sum.fetched += c->fetched;
        sum.failed += c->failed;
        sum.left_out += c->left_out;
    }
    return sum;
}
