/* service/eventlog on an event log of the test's: records arrive once, after a restart from the saved position on; what
 * the log no longer has is counted; a channel that is missing, refused or broken does not stop the others; positions
 * are read back, and damaged ones lose no record. */
#include "service/eventlog/channel_source.h"

#include "proto/base/pattern.h"
#include "proto/base/platform.h"
#include "service/eventlog/positions.h"
#include "tests/unit/scratch.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

enum { CHANNELS = 4, RECORDS_MAX = 400, NOTES_BYTES = 4096 };

/* ---- an event log ---- */

typedef struct one_record {
    uint64_t id;
    const char *xml; /* NULL: a sound event */
} one_record;

typedef struct fake_channel {
    const char *name;
    int is_missing, is_refused, is_broken; /* broken: each reader fails at its next record */
    size_t count;
    one_record records[RECORDS_MAX];
    uint64_t opened_after; /* of the last reader */
    unsigned opened;
} fake_channel;

struct ea_channel_reader {
    fake_channel *channel;
    uint64_t last;
    uint8_t utf16[4096];
};

static struct {
    fake_channel channels[CHANNELS];
    const char *refused_query;
    unsigned readers;
    int64_t waited_ns;
} machine;

static ea_counters counters;
static char notes[NOTES_BYTES];

static fake_channel *find(const char *name) {
    for (size_t i = 0; i < CHANNELS; i++)
        if (machine.channels[i].name && ea_name_equal(machine.channels[i].name, name))
            return &machine.channels[i];
    fail_msg("no channel %s", name);
    return NULL;
}

static int fake_state(const fake_channel *c, ea_err *err) {
    if (c->is_missing)
        return ea_fail(err, EA_ENOTFOUND, "no channel %s", c->name);
    return c->is_refused ? ea_fail(err, EA_EREFUSED, "%s is refused", c->name) : 0;
}

static int fake_newest(const char *channel, uint64_t *ret, ea_err *err) {
    const fake_channel *c = find(channel);
    *ret = c->count ? c->records[c->count - 1].id : 0;
    return fake_state(c, err);
}

static int fake_open(ea_channel_reader **ret, const char *channel, const char *query, uint64_t after, ea_err *err) {
    fake_channel *c = find(channel);
    int rc = fake_state(c, err);
    if (!rc && query && machine.refused_query && strcmp(query, machine.refused_query) == 0)
        rc = ea_fail(err, EA_EINVAL, "the query is refused");
    if (rc)
        return rc;
    c->opened++;
    c->opened_after = after;
    *ret = calloc(1, sizeof **ret);
    assert_non_null(*ret);
    (*ret)->channel = c;
    (*ret)->last = after;
    machine.readers++;
    return 0;
}

static int fake_next(ea_channel_reader *r, const uint8_t **ret, uint32_t *ret_len_bytes, ea_err *err) {
    char xml[1024];
    const one_record *next = NULL;
    for (size_t i = 0; i < r->channel->count && !next; i++)
        if (r->channel->records[i].id > r->last)
            next = &r->channel->records[i];
    if (!next)
        return 0;
    if (r->channel->is_broken)
        return ea_fail(err, EA_EIO, "the reader of %s is broken", r->channel->name);
    r->last = next->id;
    if (next->xml)
        snprintf(xml, sizeof xml, "%s", next->xml);
    else
        snprintf(xml, sizeof xml,
                 "<Event xmlns='http://schemas.microsoft.com/win/2004/08/events/event'><System><Provider Name='Maker'/>"
                 "<EventID>%u</EventID><TimeCreated SystemTime='2023-11-14T22:13:20.0000000Z'/><EventRecordID>%" PRIu64
                 "</EventRecordID><Channel>%s</Channel><Computer>pc</Computer></System><EventData><Data Name='Text'>of "
                 "%" PRIu64 "</Data></EventData></Event>",
                 (unsigned)(next->id % 7), next->id, r->channel->name, next->id);
    *ret = r->utf16;
    *ret_len_bytes = (uint32_t)ea_utf8_to_utf16(xml, strlen(xml), r->utf16, sizeof r->utf16);
    return 1;
}

static void fake_close(ea_channel_reader *r) {
    machine.readers--;
    free(r);
}

static void fake_wait(ea_channel_reader *const *readers, size_t count, int64_t ns) {
    (void)readers;
    assert_in_range(count, 1, EA_CHANNELS_MAX);
    machine.waited_ns += ns;
}

static const ea_channel_api API = {
    .newest = fake_newest, .open = fake_open, .next = fake_next, .close = fake_close, .wait = fake_wait};

static void add(const char *channel, uint64_t first, uint64_t last) {
    fake_channel *c = find(channel);
    for (uint64_t id = first; id <= last; id++) {
        assert_true(c->count < RECORDS_MAX);
        c->records[c->count++] = (one_record){.id = id};
    }
}

/* The log is full: its oldest records make room. */
static void drop_until(const char *channel, uint64_t last) {
    fake_channel *c = find(channel);
    size_t n = 0;
    while (n < c->count && c->records[n].id <= last)
        n++;
    c->count -= n;
    memmove(c->records, c->records + n, c->count * sizeof *c->records);
}

static void on_note(void *arg, const char *text) {
    (void)arg;
    size_t n = strlen(notes);
    snprintf(notes + n, sizeof notes - n, "%s\n", text);
}

/* ---- a source of it ---- */

static const char *const NAMES[] = {"Security", "System"};

static ea_source *open_with(const ea_channel_options *o) {
    ea_source *s;
    ea_err err;
    int rc = ea_channel_source_open(&s, o, &err);
    if (rc)
        fail_msg("%s", err.message);
    return s;
}

static ea_channel_options options(void) {
    return (ea_channel_options){.name = "logs",
                                .channels = NAMES,
                                .channel_count = 2,
                                .positions_path = scratch_path("positions"),
                                .counters = &counters,
                                .api = &API,
                                .on_note = on_note,
                                .retry_ns = 1,
                                .save_ns = 1};
}

/* Reads until there is nothing: "Security 5, Security 6, System 1, ". */
static const char *read_all(ea_source *s) {
    static char out[RECORDS_MAX * 20];
    size_t n = 0;
    const ea_record *r;
    ea_err err = {0};
    int rc;
    out[0] = 0;
    while ((rc = ea_source_next(s, &r, &err)) == 1) {
        const ea_ext *schema = ea_record_ext(r, EA_EXT_SCHEMA_TL);
        assert_non_null(schema);
        assert_int_equal(r->header_type, EA_HEADER_NONE);
        assert_true(r->time_raw == INT64_C(116444736000000000) + INT64_C(17000000000000000));
        const char *name = (const char *)schema->data + 3, *slash = strrchr(name, '/');
        n += (size_t)snprintf(out + n, sizeof out - n, "%.*s %" PRIu64 ", ", (int)(slash - name), name,
                              ea_load64(r->payload)); /* EventRecordID is the first field */
        assert_true(n < sizeof out);
    }
    assert_int_equal(rc, EA_SOURCE_NOTHING_YET);
    return out;
}

static void save(ea_source *s) {
    ea_err err;
    assert_int_equal(ea_source_is_ahead(s, 1), 1);
    assert_int_equal(ea_source_stored(s, &err), 0);
    assert_int_equal(ea_source_is_ahead(s, 1), 0);
}

static uint64_t missing(void) {
    return ea_counter_get(&counters, EA_COUNT_source_records_missing);
}

static int begin(void **state) {
    memset(&machine, 0, sizeof machine);
    memset(&counters, 0, sizeof counters);
    notes[0] = 0;
    machine.channels[0].name = "Security";
    machine.channels[1].name = "System";
    machine.channels[2].name = "Application";
    return scratch_make(state);
}

static int end(void **state) {
    assert_int_equal(machine.readers, 0); /* each reader is closed */
    return scratch_clear(state);
}

/* ---- tests ---- */

static void a_restart_goes_on(void **state) {
    (void)state;
    ea_channel_options o = options();
    add("Security", 100, 105);
    ea_source *s = open_with(&o);
    assert_string_equal(read_all(s), ""); /* new ones only */
    save(s);                              /* the place is saved before the first record */
    add("Security", 106, 107);
    add("System", 1, 1);
    assert_string_equal(read_all(s), "System 1, Security 106, Security 107, ");
    save(s);
    add("Security", 108, 108);
    assert_string_equal(read_all(s), "Security 108, ");
    ea_source_close(s); /* killed before that one was stored */

    add("Security", 109, 109);
    s = open_with(&o);
    assert_string_equal(read_all(s), "Security 108, Security 109, ");
    assert_int_equal(missing(), 0);
    ea_source_close(s);

    o.begins_with_oldest = 1;
    o.positions_path = scratch_path("other");
    s = open_with(&o);
    assert_string_equal(read_all(s),
                        "Security 100, Security 101, Security 102, Security 103, Security 104, Security 105, "
                        "Security 106, Security 107, Security 108, Security 109, System 1, ");
    assert_int_equal(missing(), 0); /* where a log begins is no gap */
    assert_string_equal(notes, "");
    ea_source_close(s);
}

/* Windows' names of channels are equal in any case: a configuration that spells one in another way leaves out nothing.
 */
static void a_name_may_change_its_case(void **state) {
    static const char *const OTHERWISE[] = {"SECURITY", "system"};
    (void)state;
    ea_channel_options o = options();
    add("Security", 1, 5);
    ea_source *s = open_with(&o);
    save(s);
    ea_source_close(s);
    add("Security", 6, 7);
    o.channels = OTHERWISE;
    s = open_with(&o);
    assert_string_equal(read_all(s), "Security 6, Security 7, ");
    save(s);
    ea_source_close(s);
    add("Security", 8, 8);
    o.channels = NAMES;
    s = open_with(&o);
    assert_string_equal(read_all(s), "Security 8, ");
    ea_source_close(s);
}

static void gaps_are_counted(void **state) {
    (void)state;
    ea_channel_options o = options();
    add("Security", 1, 5);
    ea_source *s = open_with(&o);
    save(s);
    ea_source_close(s);
    add("Security", 6, 20);
    drop_until("Security", 12);
    s = open_with(&o);
    assert_string_equal(read_all(s), "Security 13, Security 14, Security 15, Security 16, Security 17, Security 18, "
                                     "Security 19, Security 20, ");
    assert_int_equal(missing(), 7); /* 6 to 12 */
    add("Security", 24, 24);        /* and while it is read */
    assert_string_equal(read_all(s), "Security 24, ");
    assert_int_equal(missing(), 10);
    save(s);
    ea_source_close(s);

    o.query = "*[System[(EventID=1)]]"; /* numbers that a query leaves out are not missing */
    add("Security", 30, 30);
    s = open_with(&o);
    assert_string_equal(read_all(s), "Security 30, ");
    assert_int_equal(missing(), 10);
    ea_source_close(s);
}

static void a_cleared_log_is_read_from_its_begin(void **state) {
    (void)state;
    ea_channel_options o = options();
    add("Security", 50, 60);
    ea_source *s = open_with(&o);
    save(s);
    ea_source_close(s);
    drop_until("Security", 60);
    add("Security", 1, 2);
    s = open_with(&o);
    assert_string_equal(read_all(s), "Security 1, Security 2, ");
    assert_int_equal(missing(), 0);
    assert_non_null(strstr(notes, "channel Security has no record after number 2"));
    ea_source_close(s);
}

static void a_channel_may_fail(void **state) {
    (void)state;
    ea_channel_options o = options();
    find("Security")->is_missing = 1;
    add("System", 1, 1);
    o.begins_with_oldest = 1;
    ea_source *s = open_with(&o);
    assert_string_equal(read_all(s), "System 1, ");
    assert_int_equal(ea_counter_get(&counters, EA_COUNT_source_parts_refused), 1); /* however often it is tried */
    assert_string_equal(notes, "channel Security: no channel Security; it is tried again\n");
    find("Security")->is_missing = 0;
    find("Security")->is_refused = 1;
    assert_string_equal(read_all(s), "");
    assert_non_null(strstr(notes, "Security is refused"));
    find("Security")->is_refused = 0;
    add("Security", 5, 6);
    assert_string_equal(read_all(s), "Security 5, Security 6, ");
    assert_non_null(strstr(notes, "channel Security is read now"));
    assert_int_equal(ea_counter_get(&counters, EA_COUNT_source_parts_refused), 1);

    find("System")->is_broken = 1; /* a reader fails between two records */
    add("System", 2, 2);
    add("Security", 7, 7);
    assert_string_equal(read_all(s), "Security 7, ");
    find("System")->is_broken = 0;
    assert_string_equal(read_all(s), "System 2, ");
    assert_int_equal(find("System")->opened_after, 1);
    assert_int_equal(missing(), 0);
    ea_source_close(s);

    o.retry_ns = INT64_C(3600) * 1000000000; /* and it is not tried all the time */
    find("System")->is_refused = 1;
    s = open_with(&o);
    unsigned opened = find("System")->opened;
    find("System")->is_refused = 0;
    read_all(s);
    assert_int_equal(find("System")->opened, opened);
    ea_source_close(s);
}

static void a_wrong_query_is_an_error(void **state) {
    (void)state;
    ea_channel_options o = options();
    ea_source *s;
    ea_err err;
    o.query = machine.refused_query = "*[";
    assert_int_equal(ea_channel_source_open(&s, &o, &err), EA_EINVAL);
    assert_string_equal(err.message, "the query is refused");
    assert_string_equal(notes, "");
    o.api = NULL;
    if (!ea_channel_api_of_machine()) {
        assert_int_equal(ea_channel_source_open(&s, &o, &err), EA_EUNSUPPORTED);
        assert_string_equal(err.message, "source logs: only Windows has an event log");
    }
}

static void records_that_are_no_events_are_counted(void **state) {
    (void)state;
    ea_channel_options o = options();
    o.begins_with_oldest = 1;
    add("Security", 1, 4);
    find("Security")->records[1].xml = "";
    find("Security")->records[2].xml = /* damaged, with its number and its time */
        "<Event><System><EventID>1</EventID><EventRecordID>3</EventRecordID><TimeCreated "
        "SystemTime='2023-11-14T22:13:20Z'/><Channel>Security</Channel></System><EventData><Data Name='Text'>";
    ea_source *s = open_with(&o);
    static char all[100];
    snprintf(all, sizeof all, "%s", read_all(s));
    snprintf(all + strlen(all), sizeof all - strlen(all), "%s", read_all(s));
    assert_string_equal(all, "Security 1, Security 3, Security 4, ");
    assert_int_equal(ea_counter_get(&counters, EA_COUNT_source_bad_records), 2);
    assert_int_equal(missing(), 1); /* its number is unknown */
    ea_source_close(s);
}

/* A channel with many records does not keep others waiting, and is not waited for in between. */
static void channels_take_turns(void **state) {
    (void)state;
    ea_channel_options o = options();
    o.begins_with_oldest = 1;
    add("Security", 1, 300);
    add("System", 1, 3);
    ea_source *s = open_with(&o);
    const char *all = read_all(s), *other = strstr(all, "System 3, ");
    assert_non_null(other);
    assert_true(other < strstr(all, "Security 80, "));
    assert_non_null(strstr(all, "Security 300, "));
    assert_true(machine.waited_ns > 0);
    ea_source_close(s);

    o.channel_count = 1;
    o.positions_path = scratch_path("other");
    machine.waited_ns = 0;
    s = open_with(&o);
    const ea_record *r;
    ea_err err;
    for (unsigned i = 0; i < 300; i++)
        assert_int_equal(ea_source_next(s, &r, &err), 1);
    assert_int_equal(machine.waited_ns, 0);
    ea_source_stop(s);
    assert_int_equal(ea_source_next(s, &r, &err), 0);
    ea_source_close(s);
}

static void positions_are_read_back(void **state) {
    (void)state;
    static const char *const NAMES_OK[] = {"Security", "Microsoft-Windows-Sysmon/Operational",
                                           "Gr\xc3\xb6\xc3\x9f\x65"};
    ea_channel_position all[3], back[3];
    ea_err err;
    const char *path = scratch_path("p");
    for (size_t i = 0; i < 3; i++) {
        all[i] = (ea_channel_position){.channel = NAMES_OK[i], .id = UINT64_MAX - i, .is_known = i != 2};
        back[i] = (ea_channel_position){.channel = NAMES_OK[i]};
    }
    assert_int_equal(ea_channel_positions_read(path, back, 3, &err), 0);
    assert_int_equal(back[0].is_known, 0);
    assert_int_equal(ea_channel_positions_write(path, all, 3, &err), 0);
    assert_int_equal(ea_channel_positions_read(path, back, 3, &err), 0);
    assert_true(back[0].is_known && back[0].id == UINT64_MAX && back[1].is_known && back[1].id == UINT64_MAX - 1);
    assert_int_equal(back[2].is_known, 0);

    static const char HEAD[] = "etwagent: positions in the event log, 1\n";
    static const char *const BAD[] = {
        "", "x", "7\n", "7 Security\n", "\tSecurity\n", "7\tSecurity", "-1\tSecurity\n", "7\t<\n"};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        char text[200];
        snprintf(text, sizeof text, "%s%s", i ? HEAD : "other\n", BAD[i]);
        assert_int_equal(ea_path_write_all(path, text, strlen(text), 0, &err), 0);
        back[0] = (ea_channel_position){.channel = "Security", .id = 3};
        assert_int_equal(ea_channel_positions_read(path, back, 1, &err), EA_EFORMAT);
        assert_true(back[0].is_known && back[0].id == 0); /* all records are read */
    }
    char *big = calloc(1, 70000);
    assert_non_null(big);
    memset(big, 'x', 69999);
    assert_int_equal(ea_path_write_all(path, big, 69999, 0, &err), 0);
    assert_int_equal(ea_channel_positions_read(path, back, 1, &err), EA_EFORMAT);
    free(big);

    ea_channel_options o = options(); /* a source logs that, and reads all */
    o.positions_path = path;
    add("Security", 1, 2);
    ea_source *s = open_with(&o);
    assert_string_equal(read_all(s), "Security 1, Security 2, ");
    assert_non_null(strstr(notes, "expected positions in the event log; all records are read"));
    ea_source_close(s);

    static const char *const NO_NAMES[] = {"", "a<b", "a&b", "a'b", "a\"b", "a\nb", "a\tb", "a\x7f"};
    for (size_t i = 0; i < sizeof NO_NAMES / sizeof *NO_NAMES; i++)
        assert_false(ea_channel_name_is_good(NO_NAMES[i]));
    char name[EA_CHANNEL_NAME_MAX + 2];
    memset(name, 'a', sizeof name);
    name[EA_CHANNEL_NAME_MAX + 1] = 0;
    assert_false(ea_channel_name_is_good(name));
    name[EA_CHANNEL_NAME_MAX] = 0;
    assert_true(ea_channel_name_is_good(name));
}

/* What is asked all the time saves now and then. */
static void saves_are_seldom(void **state) {
    (void)state;
    ea_channel_options o = options();
    o.save_ns = INT64_C(3600) * 1000000000;
    ea_source *s = open_with(&o);
    ea_err err;
    assert_int_equal(ea_source_is_ahead(s, 0), 1); /* the first place */
    assert_int_equal(ea_source_stored(s, &err), 0);
    add("Security", 1, 1);
    read_all(s);
    assert_int_equal(ea_source_is_ahead(s, 0), 0);
    assert_int_equal(ea_source_is_ahead(s, 1), 1);
    o.positions_path = scratch_path("no/such/folder");
    ea_source_close(s);
    s = open_with(&o);
    assert_true(ea_source_stored(s, &err) < 0);
    assert_int_equal(ea_source_is_ahead(s, 1), 1); /* it is still to be saved */
    ea_source_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_restart_goes_on, begin, end),
        cmocka_unit_test_setup_teardown(a_name_may_change_its_case, begin, end),
        cmocka_unit_test_setup_teardown(gaps_are_counted, begin, end),
        cmocka_unit_test_setup_teardown(a_cleared_log_is_read_from_its_begin, begin, end),
        cmocka_unit_test_setup_teardown(a_channel_may_fail, begin, end),
        cmocka_unit_test_setup_teardown(a_wrong_query_is_an_error, begin, end),
        cmocka_unit_test_setup_teardown(records_that_are_no_events_are_counted, begin, end),
        cmocka_unit_test_setup_teardown(channels_take_turns, begin, end),
        cmocka_unit_test_setup_teardown(positions_are_read_back, begin, end),
        cmocka_unit_test_setup_teardown(saves_are_seldom, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
