/* See export_files.h. */
#include "collector/app/export_files.h"

#include "collector/app/question.h"
#include "collector/query/scan/data_times.h"
#include "proto/base/platform.h"
#include "proto/base/stop_flag.h"

#include <inttypes.h>
#include <string.h>

static int export_files_goes_on(void *arg) {
    (void)arg;
    return !atomic_load(ea_stop_flag());
}

static void add_files_text(ea_text *t, const ec_export_files *x, const ec_event_files *f) {
    size_t count;
    uint64_t bytes = 0;
    const ec_event_file *files = ec_event_files_list(f, &count);
    for (size_t i = 0; i < count; i++) {
        ea_text_printf(t, "%12" PRIu64 " events %12" PRIu64 " bytes  ", files[i].rows, files[i].bytes);
        ea_text_safe(t, files[i].path, strlen(files[i].path));
        ea_text_char(t, '\n');
        bytes += files[i].bytes;
    }
    ea_text_printf(t, "%s: %" PRIu64 " events in %zu files, %" PRIu64 " bytes\n", x->folder, ec_event_files_rows(f),
                   count, bytes);
}

static void add_files_json(ea_text *t, const ec_export_files *x, const ec_event_files *f) {
    size_t count;
    const char *first = NULL;
    const ec_event_file *files = ec_event_files_list(f, &count);
    ea_text_str(t, "{\"folder\":");
    ea_text_json_str(t, x->folder);
    ea_text_printf(t, ",\"format\":\"%s\",\"events\":%" PRIu64 ",\"damaged_batches\":%" PRIu64 ",\"files\":[",
                   ec_file_format_name(x->format), ec_event_files_rows(f), ec_event_files_damage(f, &first));
    for (size_t i = 0; i < count; i++) {
        ea_text_str(t, i ? ",{\"path\":" : "{\"path\":");
        ea_text_json_str(t, files[i].path);
        ea_text_str(t, ",\"day\":");
        ea_text_json_str(t, *files[i].day ? files[i].day : NULL);
        ea_text_str(t, ",\"host\":");
        ea_text_json_str(t, files[i].host);
        ea_text_str(t, ",\"class\":");
        ea_text_json_str(t, files[i].name);
        ea_text_printf(t, ",\"events\":%" PRIu64 ",\"bytes\":%" PRIu64 "}", files[i].rows, files[i].bytes);
    }
    ea_text_str(t, "]}\n");
}

static int print_files(const ec_export_files *x, const ec_event_files *f, ea_err *err) {
    ea_text t;
    ea_text_init(&t);
    if (x->json)
        add_files_json(&t, x, f);
    else
        add_files_text(&t, x, f);
    int rc = ec_answer_write(&t, err);
    ea_text_deinit(&t);
    return rc;
}

static int find_times(const ec_export_files *x, ec_event_files_options *o, ea_err *err) {
    int rc = x->print->from ? ec_data_time("--from", x->print->from, x->store, x->host, NULL, &o->from_utc_ns, err) : 0;
    if (!rc && x->print->to)
        rc = ec_data_time("--to", x->print->to, x->store, x->host, NULL, &o->to_utc_ns, err);
    if (!rc && o->from_utc_ns >= o->to_utc_ns)
        rc = ea_fail(err, EA_EUSAGE, "--from %s: expected a time before --to", x->print->from);
    return rc;
}

enum { COLUMNS_MAX = 512 };

/* --fields A,B,...: names, which are part of *text. */
static int split_columns(const ec_export_files *x, ea_text *text, const char **names, size_t *ret_count, ea_err *err) {
    size_t n = 0;
    for (size_t i = 0; i < x->print->fields.count; i++)
        ea_text_add(text, x->print->fields.items[i], strlen(x->print->fields.items[i]) + 1);
    if (text->failed)
        return ea_fail(err, EA_ENOMEM, "read --fields");
    for (size_t at = 0; at < text->len_bytes;) {
        size_t end = at + strcspn(text->data + at, ",");
        text->data[end] = 0;
        if (n == COLUMNS_MAX)
            return ea_fail(err, EA_EUSAGE, "--fields: at most %d columns", COLUMNS_MAX);
        if (end > at)
            names[n++] = text->data + at;
        at = end + 1;
    }
    *ret_count = n;
    return 0;
}

int ec_export_files_run(const ec_export_files *x, ea_err *err) {
    ec_event_files *f = NULL;
    const char *first = NULL;
    const char *columns[COLUMNS_MAX];
    ea_text names;
    const ec_sandbox_path folder = {.path = x->folder, .access = EC_SANDBOX_WRITE};
    ec_event_files_options o = {.store = x->store,
                                .folder = x->folder,
                                .host = x->host,
                                .stream = x->stream,
                                .format = x->format,
                                .part = "part-0",
                                .created_by = "etwcollector version " EA_VERSION,
                                .from_utc_ns = INT64_MIN,
                                .to_utc_ns = INT64_MAX,
                                .choice = &x->print->choice,
                                .columns = columns,
                                .keep_going = export_files_goes_on};
    (void)ea_stop_flag();
    ea_text_init(&names);
    int rc = split_columns(x, &names, columns, &o.column_count, err);
    if (!rc)
        rc = find_times(x, &o, err);
    if (!rc)
        rc = ec_event_files_open(&f, &o, err);
    if (!rc)
        rc = ec_question_confine_with(x->store, &(ec_sandbox){.paths = &folder, .path_count = 1}, err);
    if (!rc)
        rc = ec_event_files_write(f, err);
    if (!rc)
        rc = print_files(x, f, err);
    uint64_t damaged = rc ? 0 : ec_event_files_damage(f, &first);
    if (damaged)
        rc = ea_fail(err, EA_ECORRUPT, "%" PRIu64 " batches are damaged, and their events are missing in part: %.300s",
                     damaged, first);
    ec_event_files_close(f);
    ea_text_deinit(&names);
    return rc;
}
