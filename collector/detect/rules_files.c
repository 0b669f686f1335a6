/* See rules_files.h. */
#include "collector/detect/rules_files.h"

#include "proto/base/platform.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DEPTH_MAX = 32, FILES_MAX = 100000, FOLDERS_MAX = 10000 };

typedef struct rules_reader {
    ea_rules_builder *builder;
    ec_rules_files *files;
    ea_err *err;
    const char *folder; /* that is being listed */
    unsigned depth;
    uint64_t folder_count; /* links may lead to one again and again */
    int rc;
} rules_reader;

static void rules_on_problem(void *arg, const ea_rules_problem *p) {
    ec_rules_files *r = arg;
    ea_text *t = &r->problems;
    if (r->is_json) {
        ea_text_str(t, r->mistake_count + r->unsupported_count ? ",\n  {\"file\": " : "\n  {\"file\": ");
        ea_text_json_str(t, p->file);
        ea_text_printf(t, ", \"line\": %" PRIu32 ", \"column\": %" PRIu32 ", \"kind\": \"%s\", \"message\": ", p->line,
                       p->column, p->is_unsupported ? "unsupported" : "mistake");
        ea_text_json_str(t, p->message);
        ea_text_char(t, '}');
    } else {
        ea_text_safe(t, p->file, strlen(p->file));
        ea_text_printf(t, ":%" PRIu32 ":%" PRIu32 ": %s: ", p->line, p->column,
                       p->is_unsupported ? "not supported" : "mistake");
        ea_text_safe(t, p->message, strlen(p->message));
        ea_text_char(t, '\n');
    }
    if (p->is_unsupported)
        r->unsupported_count++;
    else
        r->mistake_count++;
}

static int rules_read_file(rules_reader *r, const char *path) {
    char *text = NULL;
    size_t len = 0;
    if (++r->files->file_count > FILES_MAX)
        return ea_fail(r->err, EA_ELIMIT, "read %.300s: there are more than %d rule files", path, FILES_MAX);
    int rc = ea_path_read_all(path, EA_RULES_FILE_MAX_BYTES + 1, &text, &len, r->err);
    if (rc == EA_ELIMIT) {
        ea_rules_problem p = {.file = path, .line = 1, .column = 1};
        snprintf(p.message, sizeof p.message, "the file has more than %d bytes: split it", EA_RULES_FILE_MAX_BYTES);
        rules_on_problem(r->files, &p);
        return 0;
    }
    if (rc)
        return rc;
    rc = ea_rules_add(r->builder, path, text, len, rules_on_problem, r->files);
    if (!rc && r->files->tests)
        rc = ea_rule_tests_read(r->files->tests, path, text, len, rules_on_problem, r->files);
    free(text);
    return rc ? ea_fail(r->err, rc, "read %.300s", path) : 0;
}

/* A pipe in a folder would be waited for. */
static int rules_read_entry(rules_reader *r, const char *path) {
    ea_rules_problem p = {.file = path, .line = 1, .column = 1, .message = "expected a file, found something else"};
    if (ea_path_is_file(path))
        return rules_read_file(r, path);
    rules_on_problem(r->files, &p);
    return 0;
}

static int rules_ends_with(const char *name, const char *end) {
    size_t len = strlen(name), end_len = strlen(end);
    return len > end_len && strcmp(name + len - end_len, end) == 0;
}

static int rules_read_folder(rules_reader *r, const char *path);

static int rules_on_entry(const char *name, int is_dir, void *arg) {
    rules_reader *r = arg;
    ea_text path;
    if (name[0] == '.' || (!is_dir && !rules_ends_with(name, ".yml") && !rules_ends_with(name, ".yaml")))
        return 0;
    ea_text_init(&path);
    ea_text_printf(&path, "%s/%s", r->folder, name);
    if (path.failed)
        r->rc = ea_fail(r->err, EA_ENOMEM, "read the folder %.300s", r->folder);
    else
        r->rc = is_dir ? rules_read_folder(r, path.data) : rules_read_entry(r, path.data);
    ea_text_deinit(&path);
    return r->rc != 0;
}

static int rules_read_folder(rules_reader *r, const char *path) {
    const char *outer = r->folder;
    if (r->depth == DEPTH_MAX)
        return ea_fail(r->err, EA_ELIMIT, "read the folder %.300s: there are more than %d folders inside each other",
                       path, DEPTH_MAX);
    if (++r->folder_count > FOLDERS_MAX)
        return ea_fail(r->err, EA_ELIMIT, "read the folder %.300s: there are more than %d folders", path, FOLDERS_MAX);
    r->folder = path;
    r->depth++;
    int rc = ea_path_list(path, rules_on_entry, r, r->err);
    r->depth--;
    r->folder = outer;
    return r->rc ? r->rc : rc;
}

static int rules_read_all(rules_reader *r, int count, char **operands) {
    int rc = ea_rules_builder_create(&r->builder);
    if (rc)
        return ea_fail(r->err, rc, "read the rules");
    for (int i = 0; i < count && !rc; i++) {
        struct stat st;
        if (stat(operands[i], &st) == 0 && S_ISDIR(st.st_mode))
            rc = rules_read_folder(r, operands[i]);
        else
            rc = rules_read_file(r, operands[i]);
    }
    if (!rc && !r->files->file_count)
        return ea_fail(r->err, EA_ENOTFOUND, "%.300s has no rule files: expected .yml or .yaml", operands[0]);
    return rc;
}

int ec_rules_files_read(ec_rules_files *f, int operand_count, char **operands, ea_err *err) {
    rules_reader r = {.files = f, .err = err};
    ea_text_init(&f->problems);
    int rc = rules_read_all(&r, operand_count, operands);
    if (!rc) {
        rc = ea_rules_build(r.builder, &f->rules, rules_on_problem, f);
        if (rc)
            rc = ea_fail(err, rc, "compile the rules");
    }
    if (!rc && f->problems.failed)
        rc = ea_fail(err, EA_ENOMEM, "read the rules");
    ea_rules_builder_destroy(r.builder);
    return rc;
}

void ec_rules_files_deinit(ec_rules_files *f) {
    ea_rules_destroy(f->rules);
    ea_text_deinit(&f->problems);
}

const char *ec_rules_key(const ea_rule_info *info, const char *source) {
    return *info->id ? info->id : *info->title && !info->shares_title ? info->title : source;
}

const char *ec_rules_filter_key(const ea_rule_filter *filter, char *buffer, size_t size) {
    if (*filter->id || (*filter->title && !filter->shares_title))
        return *filter->id ? filter->id : filter->title;
    snprintf(buffer, size, "%s:%" PRIu32, filter->file, filter->line);
    return buffer;
}
