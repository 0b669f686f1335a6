/* The file of an agent's requests. Text, replaced as a whole (write, sync, rename):
 *
 *     etwagent requests 1
 *     serial <the largest one>
 *     seen <serial>                                                          the last ones, from old to new
 *     open <serial> <kind> <from, UTC in ns> <to> <limit> <expires> <hosts>  accepted, and not done
 *     report <serial> <state> <UTC in ns> <batches> <events> <bytes> <text>  that no collector has
 *     end <16 hex: checksum of all lines above>
 *
 * See remote_parts.h. Thread: as it says. */
#include "service/core/remote_parts.h"

#include "proto/base/map.h"
#include "service/core/agent_log.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char FIRST_LINE[] = "etwagent requests 1\n";

#define FILE_SEED 0x72717374u

static void remote_put_text(const ea_remote *r, ea_text *out) {
    ea_text_printf(out, "%sserial %" PRIu64 "\n", FIRST_LINE, r->serial);
    for (size_t i = 0; i < r->seen_count; i++)
        ea_text_printf(out, "seen %" PRIu64 "\n", r->seen[i]);
    for (size_t i = 0; i < r->open_count; i++) {
        const ea_request *q = &r->open[i].request;
        ea_text_printf(out, "open %" PRIu64 " %" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %s\n",
                       q->serial, q->kind, (uint64_t)q->from_utc_ns, (uint64_t)q->to_utc_ns, q->limit_bytes,
                       (uint64_t)q->expires_utc_ns, q->hosts);
    }
    for (size_t i = 0; i < r->report_count; i++) {
        const ea_report *p = &r->reports[i];
        ea_text_printf(out, "report %" PRIu64 " %" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %s\n",
                       p->serial, p->state, (uint64_t)p->utc_ns, p->batches, p->events, p->bytes, p->text);
    }
    if (!out->failed)
        ea_text_printf(out, "end %016" PRIx64 "\n", ea_hash64(out->data, out->len_bytes, FILE_SEED));
}

int remote_save(ea_remote *r, ea_err *err) {
    ea_text text;
    ea_text_init(&text);
    remote_put_text(r, &text);
    int rc = text.failed ? ea_fail(err, EA_ENOMEM, "save %s", r->path)
                         : ea_path_write_all(r->path, text.data, text.len_bytes, 1, err);
    ea_text_deinit(&text);
    r->is_unsaved = rc != 0;
    return rc;
}

/* ---- reading ---- */

static int remote_number(const char **at, const char *end, uint64_t *ret) {
    return ea_digits_parse(at, 10, ret) && *ret <= INT64_MAX && ea_text_parse(at, end);
}

/* The rest of a line. */
static int remote_rest(const char **at, char *ret, size_t room) {
    size_t n = strcspn(*at, "\n");
    if (n >= room || (*at)[n] != '\n')
        return 0;
    memcpy(ret, *at, n);
    ret[n] = 0;
    *at += n + 1;
    return 1;
}

static int remote_file_read_open(ea_remote *r, const char **at) {
    uint64_t v[6];
    ea_request q = {.serial = 0};
    if (r->open_count == REMOTE_OPEN_MAX)
        return 0;
    for (size_t i = 0; i < sizeof v / sizeof *v; i++)
        if (!remote_number(at, " ", &v[i]))
            return 0;
    if (v[1] > UINT32_MAX || !remote_rest(at, q.hosts, sizeof q.hosts))
        return 0;
    q.serial = v[0];
    q.kind = (uint32_t)v[1];
    q.from_utc_ns = (int64_t)v[2];
    q.to_utc_ns = (int64_t)v[3];
    q.limit_bytes = v[4];
    q.expires_utc_ns = (int64_t)v[5];
    r->open[r->open_count++] = (remote_open){.request = q};
    return q.from_utc_ns < q.to_utc_ns;
}

static int remote_read_report(ea_remote *r, const char **at) {
    uint64_t v[6];
    if (r->report_count == EA_POLL_MAX_REPORTS)
        return 0;
    ea_report *p = &r->reports[r->report_count++];
    for (size_t i = 0; i < sizeof v / sizeof *v; i++)
        if (!remote_number(at, " ", &v[i]))
            return 0;
    *p = (ea_report){.serial = v[0],
                     .state = v[1] <= EA_REPORT_EXPIRED ? (uint32_t)v[1] : 0,
                     .utc_ns = (int64_t)v[2],
                     .batches = v[3],
                     .events = v[4],
                     .bytes = v[5]};
    return p->state && remote_rest(at, p->text, sizeof p->text);
}

static int remote_read_lines(ea_remote *r, const char *data, size_t len_bytes) {
    const char *at = data;
    uint64_t said;
    int good = strlen(data) == len_bytes && ea_text_parse(&at, FIRST_LINE) && ea_text_parse(&at, "serial ") &&
               remote_number(&at, "\n", &r->serial);
    while (good && ea_text_parse(&at, "seen "))
        good = r->seen_count < REMOTE_SEEN_MAX && remote_number(&at, "\n", &r->seen[r->seen_count++]);
    while (good && ea_text_parse(&at, "open "))
        good = remote_file_read_open(r, &at);
    while (good && ea_text_parse(&at, "report "))
        good = remote_read_report(r, &at);
    uint64_t is = ea_hash64(data, (size_t)(at - data), FILE_SEED);
    return good && ea_text_parse(&at, "end ") && ea_digits_parse(&at, 16, &said) && ea_text_parse(&at, "\n") && !*at &&
           said == is;
}

int remote_read(ea_remote *r, ea_err *err) {
    char *data = NULL;
    size_t len_bytes = 0;
    int rc = ea_path_read_all(r->path, REMOTE_FILE_MAX, &data, &len_bytes, err);
    if (rc == EA_ENOTFOUND)
        return 0;
    if (rc == EA_ELIMIT || (!rc && !remote_read_lines(r, data, len_bytes))) {
        ea_log_warning(
            "%s is damaged: requests that were accepted are forgotten, and those that have not expired may be "
            "accepted again",
            r->path);
        r->serial = 0;
        r->seen_count = r->open_count = r->report_count = 0;
        rc = 0;
    }
    free(data);
    return rc;
}
