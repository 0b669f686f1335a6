/* The file of a recorder's triggers. Text, replaced as a whole (write, sync, rename):
 *
 *     etwagent triggers 1
 *     fired <program> <trigger> <UTC in ns>             firings that limits may still count, from old to new
 *     window <from, UTC in ns> <to>                     that wait for their ends
 *     planned <recording> <stream> <base> <numbers>     on their way into the spool (trigger_plan)
 *     sent <recording> <stream> <count> <numbers>       given out, with those that are planned (trigger_sent)
 *     end <16 hex: checksum of all lines above>
 *
 * See triggers_parts.h. Thread: as it says. */
#include "service/core/triggers_parts.h"

#include "proto/base/array.h"
#include "proto/base/map.h"
#include "service/core/agent_log.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char FIRST_LINE[] = "etwagent triggers 1\n";

#define FILE_SEED 0x72676774u

static void triggers_file_put_part(ea_text *out, const char *what, const uint8_t *recording, const uint8_t *stream,
                                   uint64_t number, const ea_range_set *numbers) {
    ea_text_printf(out, "%s ", what);
    ea_text_hex(out, recording, EA_STREAM_ID_BYTES);
    ea_text_char(out, ' ');
    ea_text_hex(out, stream, EA_STREAM_ID_BYTES);
    ea_text_printf(out, " %" PRIu64 " ", number);
    ea_range_set_put(out, numbers);
}

static void triggers_file_put_text(const ea_triggers *t, ea_text *out) {
    ea_text_str(out, FIRST_LINE);
    for (size_t i = 0; i < t->fired_count; i++)
        ea_text_printf(out, "fired %s %s %" PRIu64 "\n", t->fired[i].program, t->fired[i].trigger,
                       (uint64_t)t->fired[i].utc_ns);
    for (size_t i = 0; i < t->window_count; i++)
        if (!t->windows[i].serial)
            ea_text_printf(out, "window %" PRIu64 " %" PRIu64 "\n", (uint64_t)t->windows[i].from_utc_ns,
                           (uint64_t)t->windows[i].to_utc_ns);
    for (size_t i = 0; i < t->plan_count; i++)
        triggers_file_put_part(out, "planned", t->plans[i].recording, t->plans[i].stream, t->plans[i].base,
                               &t->plans[i].numbers);
    for (size_t i = 0; i < t->sent_count; i++)
        triggers_file_put_part(out, "sent", t->sent[i].recording, t->sent[i].stream, t->sent[i].count,
                               &t->sent[i].numbers);
    if (!out->failed)
        ea_text_printf(out, "end %016" PRIx64 "\n", ea_hash64(out->data, out->len_bytes, FILE_SEED));
}

int triggers_save(ea_triggers *t, ea_err *err) {
    ea_text text;
    ea_text_init(&text);
    ea_mutex_lock(t->lock);
    triggers_file_put_text(t, &text);
    t->is_unsaved = 0;
    ea_mutex_unlock(t->lock);
    int rc = text.failed ? ea_fail(err, EA_ENOMEM, "save %s", t->path)
                         : ea_path_write_all(t->path, text.data, text.len_bytes, 1, err);
    ea_text_deinit(&text);
    if (rc) {
        ea_mutex_lock(t->lock);
        t->is_unsaved = 1;
        ea_mutex_unlock(t->lock);
    }
    return rc;
}

/* ---- reading ---- */

static int triggers_name(const char **at, char *ret) {
    size_t n = strcspn(*at, " \n");
    if (!n || n >= TRIGGER_NAME_BYTES || (*at)[n] != ' ')
        return 0;
    memcpy(ret, *at, n);
    ret[n] = 0;
    *at += n + 1;
    return 1;
}

static int number(const char **at, const char *end, uint64_t *ret) {
    return ea_digits_parse(at, 10, ret) && ea_text_parse(at, end);
}

static int utc_number(const char **at, const char *end, int64_t *ret) {
    uint64_t utc_ns;
    int good = number(at, end, &utc_ns) && utc_ns <= INT64_MAX;
    *ret = good ? (int64_t)utc_ns : 0;
    return good;
}

static int read_fired(ea_triggers *t, const char **at) {
    if (EA_GROW(t->fired, t->fired_capacity, t->fired_count + 1, TRIGGER_FIRED_MAX))
        return 0;
    trigger_fired *f = &t->fired[t->fired_count];
    if (!triggers_name(at, f->program) || !triggers_name(at, f->trigger) || !utc_number(at, "\n", &f->utc_ns))
        return 0;
    t->fired_count++;
    return 1;
}

static int triggers_file_read_window(ea_triggers *t, const char **at) {
    int64_t from, to;
    if (!utc_number(at, " ", &from) || !utc_number(at, "\n", &to) ||
        EA_GROW(t->windows, t->window_capacity, t->window_count + 1, TRIGGER_WINDOWS_MAX))
        return 0;
    t->windows[t->window_count++] = (trigger_window){.from_utc_ns = from, .to_utc_ns = to};
    return 1;
}

static int read_plan(ea_triggers *t, const char **at) {
    if (EA_GROW(t->plans, t->plan_capacity, t->plan_count + 1, EA_SPOOL_STREAMS_MAX))
        return 0;
    trigger_plan *p = &t->plans[t->plan_count++];
    *p = (trigger_plan){.base = 0};
    return ea_stream_id_parse(at, p->recording) && ea_stream_id_parse(at, p->stream) && number(at, " ", &p->base) &&
           p->base && ea_range_set_parse(at, &p->numbers) && p->numbers.count;
}

static int read_sent(ea_triggers *t, const char **at) {
    if (EA_GROW(t->sent, t->sent_capacity, t->sent_count + 1, EA_SPOOL_STREAMS_MAX))
        return 0;
    trigger_sent *s = &t->sent[t->sent_count++];
    *s = (trigger_sent){.count = 0};
    return ea_stream_id_parse(at, s->recording) && ea_stream_id_parse(at, s->stream) && number(at, " ", &s->count) &&
           ea_range_set_parse(at, &s->numbers);
}

static int triggers_file_read_lines(ea_triggers *t, const char *data, size_t len_bytes) {
    const char *at = data;
    uint64_t said;
    int good = strlen(data) == len_bytes && ea_text_parse(&at, FIRST_LINE);
    while (good && ea_text_parse(&at, "fired "))
        good = read_fired(t, &at);
    while (good && ea_text_parse(&at, "window "))
        good = triggers_file_read_window(t, &at);
    while (good && ea_text_parse(&at, "planned "))
        good = read_plan(t, &at);
    while (good && ea_text_parse(&at, "sent "))
        good = read_sent(t, &at);
    uint64_t is = ea_hash64(data, (size_t)(at - data), FILE_SEED);
    return good && ea_text_parse(&at, "end ") && ea_digits_parse(&at, 16, &said) && ea_text_parse(&at, "\n") && !*at &&
           said == is;
}

int triggers_read(ea_triggers *t, ea_err *err) {
    char *data = NULL;
    size_t len_bytes = 0;
    int rc = ea_path_read_all(t->path, TRIGGER_FILE_MAX, &data, &len_bytes, err);
    if (rc == EA_ENOTFOUND)
        return 0;
    if (rc == EA_ELIMIT || (!rc && !triggers_file_read_lines(t, data, len_bytes))) {
        ea_log_warning(
            "session %.128s: %s is damaged: windows that its triggers had not sent are lost, those that they "
            "had sent may be sent again, and their limits begin anew",
            t->o.name, t->path);
        triggers_drop_plans(t);
        triggers_drop_sent(t);
        t->fired_count = t->window_count = 0;
        rc = 0;
    }
    free(data);
    return rc;
}
