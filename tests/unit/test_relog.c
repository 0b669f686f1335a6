/* proto/relog: what is kept comes back equal and in order, from made-up files of every header form; what a program
 * changes, adds and sends to several outputs; a run that fails, is canceled or ended leaves no output. */
#include "proto/base/platform.h"
#include "proto/relog/relog.h"
#include "tests/unit/etl_samples.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if !defined(_WIN32)
#include <sys/stat.h>
#include <unistd.h>
#endif

#include "tests/unit/scratch.h"

static const char *claimed_while_renamed; /* NULL: nothing */
static int claim_rc;

/* A whole other run in place of that, when a name is given: it writes other_out while other_at is renamed. */
static const char *other_in, *other_out, *other_at;
static int other_rc;

static int run_of(const char *const *ins, size_t count, const char *out);

int __real_ea_path_rename(const char *from, const char *to, ea_err *err);
int __wrap_ea_path_rename(const char *from, const char *to, ea_err *err);

/* Another run acts before the rename. */
int __wrap_ea_path_rename(const char *from, const char *to, ea_err *err) {
    ea_file *f = NULL;
    ea_err ignored;
    if (claimed_while_renamed) {
        claim_rc = ea_file_claim(&f, claimed_while_renamed, &ignored);
        if (!claim_rc)
            ea_file_close(f);
    }
    if (other_at && strcmp(other_at, to) == 0) {
        other_at = NULL; /* its own renames are no occasion */
        other_rc = run_of(&other_in, 1, other_out);
    }
    return __real_ea_path_rename(from, to, err);
}

static void make_file(const char *path, unsigned number) {
    made_up m;
    ea_err err;
    assert_int_equal(made_up_write(path, number, &m, NULL, NULL, &err), 0);
}

/* The next record that is no header event. */
static const ea_record *next_event(ea_etl_set *set) {
    const ea_record *r = NULL;
    ea_err err;
    int rc;
    do
        rc = ea_etl_next(set, &r, &err);
    while (rc > 0 && ea_etl_is_header_record(r));
    assert_true(rc >= 0);
    return rc ? r : NULL;
}

static ea_etl_set *open_etl(const char *path) {
    ea_etl_set *set = NULL;
    ea_err err;
    assert_int_equal(ea_etl_open(&set, &path, 1, NULL, &err), 0);
    return set;
}

static size_t assert_same_events(const char *a, const char *b) {
    ea_etl_set *left = open_etl(a), *right = open_etl(b);
    size_t n = 0;
    for (;; n++) {
        const ea_record *x = next_event(left), *y = next_event(right);
        if (!x || !y) {
            assert_true(!x && !y);
            break;
        }
        assert_true(ea_record_equal(x, y));
    }
    ea_etl_close(left);
    ea_etl_close(right);
    return n;
}

static void copies_are_equal(void **state) {
    (void)state;
    static const uint32_t compressions[] = {EA_RELOG_COMPRESSION_SAME, EA_RELOG_COMPRESSION_NONE,
                                            EA_RELOG_COMPRESSION_LZNT1, EA_RELOG_COMPRESSION_XPRESS,
                                            EA_RELOG_COMPRESSION_XPRESS_HUFF};
    for (unsigned i = 0; i < MADE_UP_FILES; i++) {
        const char *in = scratch_path("in.etl"), *out = scratch_path("out.etl");
        make_file(in, i);
        ea_relog *g;
        ea_relog_output o = {.compression = compressions[i % LENGTH(compressions)],
                             .buffer_size_bytes = i % 4 == 3 ? 16384 : 0};
        assert_int_equal(ea_relog_create(&g), 0);
        assert_int_equal(ea_relog_add_input(g, in, NULL, NULL), 0);
        assert_int_equal(ea_relog_add_output(g, out, &o, NULL), 0);
        assert_int_equal(ea_relog_run(g, NULL, NULL), 0);
        const ea_relog_counts *c = ea_relog_count(g);
        size_t n = assert_same_events(in, out);
        assert_int_equal(c->headers, 1);
        assert_int_equal(c->read, n);
        assert_int_equal(c->kept, n);
        assert_int_equal(c->dropped + c->added + c->damaged, 0);
        assert_int_equal(ea_relog_written(g, 0), n);
        ea_relog_destroy(g);
        /* the header says what the first one said, and what the output is */
        ea_etl_set *a = open_etl(in), *b = open_etl(out);
        const ea_etl_info *x = ea_etl_file_info(a, 0), *y = ea_etl_file_info(b, 0);
        assert_string_equal(x->session_name, y->session_name);
        assert_int_equal(x->start_filetime, y->start_filetime);
        assert_int_equal(x->end_filetime, y->end_filetime);
        assert_int_equal(x->events_lost, y->events_lost);
        assert_int_equal(x->buffers_lost, y->buffers_lost);
        assert_int_equal(y->buffers_written, y->buffer_count);
        assert_int_equal(y->compression, o.compression == EA_RELOG_COMPRESSION_SAME ? x->compression : o.compression);
        assert_int_equal(y->buffer_size_bytes, o.buffer_size_bytes ? o.buffer_size_bytes : x->buffer_size_bytes);
        assert_int_equal(!!(y->log_file_mode & EA_ETL_MODE_COMPRESSED), y->compression != 0);
        assert_memory_equal(&x->clock, &y->clock, sizeof x->clock);
        ea_etl_close(a);
        ea_etl_close(b);
    }
}

/* ---- a program that changes, drops, keeps for later and adds ---- */

typedef struct program {
    unsigned begun, seen, ended;
    unsigned main_output, other_output;
    ea_relog_event *kept;
    uint8_t schema[64];
    size_t schema_bytes;
} program;

static const ea_relog_guid OURS = {{1, 2, 3}};

static int on_begin(ea_relog *g, const ea_relog_input *input, const ea_relog_event *header, void *arg) {
    program *p = arg;
    (void)g;
    assert_int_equal(input->context ? *(int *)input->context : -1, (int)p->begun);
    assert_int_equal(header->hook_id, 0);
    assert_true(header->payload_bytes > 200);
    assert_int_equal(input->cpu_count, 4);
    p->begun++;
    return 0;
}

static int on_event(ea_relog *g, const ea_relog_input *input, const ea_relog_event *event, void *arg) {
    program *p = arg;
    assert_int_equal(*(int *)input->context, event->input);
    unsigned n = p->seen++;
    if (n == 7)
        assert_non_null(p->kept = ea_relog_clone(event));
    if (n % 10 == 1)
        return EA_RELOG_DROP;
    if (n % 10 == 2) { /* the question's sample: some events get another provider */
        ea_relog_event changed = *event;
        changed.provider = OURS;
        assert_int_equal(ea_relog_emit(g, p->main_output, &changed), 0);
        assert_int_equal(ea_relog_emit(g, p->other_output, &changed), 0);
        return EA_RELOG_DROP;
    }
    return EA_RELOG_KEEP;
}

static int on_end(ea_relog *g, void *arg) {
    static const uint64_t frames[] = {7, 0x7ff600001000, 0x7ff600002000};
    program *p = arg;
    p->ended++;
    /* an event that Windows' relogger cannot make: TraceLogging, with a stack */
    assert_int_equal(ea_relog_schema_begin(p->schema, sizeof p->schema, &p->schema_bytes, "Loaded"), 0);
    assert_int_equal(ea_relog_schema_field(p->schema, sizeof p->schema, &p->schema_bytes, "Base", 10, 7), 0);
    assert_int_equal(ea_relog_schema_field(p->schema, sizeof p->schema, &p->schema_bytes, "Size", 8, 0), 0);
    assert_int_equal(ea_relog_schema_field(p->schema, p->schema_bytes + 5, &p->schema_bytes, "Pages", 8, 0), EA_ELIMIT);
    ea_relog_item items[] = {{.type = 6, .linkage = 1, .size_bytes = sizeof frames, .data = (const uint8_t *)frames},
                             {.type = 11, .size_bytes = (uint32_t)p->schema_bytes, .data = p->schema}};
    ea_relog_event e = {.provider = OURS,
                        .channel = 11,
                        .level = 4,
                        .keyword = 1,
                        .flags = 0x1 | 0x40,
                        .pointer_size = 8,
                        .pid = 100,
                        .tid = 200,
                        .cpu = 3,
                        .time_raw = ea_relog_raw(g, ea_relog_utc_ns(g, p->kept->time_raw)),
                        .items = items,
                        .item_count = 2,
                        .payload = (const uint8_t *)frames,
                        .payload_bytes = 12};
    assert_true(e.time_raw <= p->kept->time_raw && e.time_raw + 2 > p->kept->time_raw);
    assert_int_equal(ea_relog_emit(g, p->other_output, &e), 0);
    assert_int_equal(ea_relog_emit(g, p->other_output, p->kept), 0);
    assert_int_equal(ea_relog_emit(g, 2, &e), EA_EINVAL);
    return 0;
}

static void programs_change_events(void **state) {
    (void)state;
    const char *one = scratch_path("one.etl"), *two = scratch_path("two.etl"), *all = scratch_path("all.etl"),
               *some = scratch_path("some.etl");
    int contexts[] = {0, 1};
    program p = {0};
    make_file(one, 5);
    make_file(two, 5);
    ea_relog *g;
    assert_int_equal(ea_relog_create(&g), 0);
    assert_int_equal(ea_relog_add_input(g, one, &contexts[0], NULL), 0);
    assert_int_equal(ea_relog_add_input(g, two, &contexts[1], NULL), 0);
    assert_int_equal(ea_relog_add_output(g, all, NULL, &p.main_output), 0);
    assert_int_equal(ea_relog_add_output(g, some, &(ea_relog_output){.only_emitted = 1}, &p.other_output), 0);
    const ea_relog_callbacks callbacks = {.on_begin = on_begin, .on_event = on_event, .on_end = on_end};
    assert_int_equal(ea_relog_run(g, &callbacks, &p), 0);
    const ea_relog_counts *c = ea_relog_count(g);
    assert_int_equal(p.begun, 2);
    assert_int_equal(p.ended, 1);
    assert_int_equal(c->headers, 2);
    assert_int_equal(c->read, p.seen);
    assert_int_equal(c->dropped, (p.seen + 8) / 10 + (p.seen + 7) / 10);
    assert_int_equal(c->kept, c->read - c->dropped);
    uint64_t changed = (p.seen + 7) / 10;
    assert_int_equal(c->added, 2 * changed + 2);
    assert_int_equal(ea_relog_written(g, p.main_output), c->kept + changed);
    assert_int_equal(ea_relog_written(g, p.other_output), changed + 2);
    /* what the second output has: the changed ones, the made one, the one of before; in order of time */
    ea_etl_set *set = open_etl(some);
    const ea_record *r;
    unsigned ours = 0, made = 0, before = 0;
    int64_t last = INT64_MIN;
    while ((r = next_event(set)) != NULL) {
        assert_true(r->time_raw >= last);
        last = r->time_raw;
        ours += memcmp(r->provider.bytes, OURS.bytes, 16) == 0 || r->hook_id || r->header_type == EA_HEADER_MESSAGE;
        ea_record copy = *(const ea_record *)p.kept;
        copy.source = 0;
        before += (unsigned)ea_record_equal(r, &copy);
        if (r->pid != 100 || r->tid != 200)
            continue;
        made++;
        assert_int_equal(r->ext_count, 2);
        assert_int_equal(r->ext[0].size_bytes, 24);
        assert_int_equal(r->header_type, EA_HEADER_EVENT64);
        assert_int_equal(r->ext[1].size_bytes, p.schema_bytes);
        assert_memory_equal(r->ext[1].data, p.schema, p.schema_bytes);
        assert_int_equal(ea_load16(r->ext[1].data), p.schema_bytes);
    }
    assert_int_equal(made, 1);
    assert_int_equal(before, 1);
    assert_true(ours >= changed / 3);
    ea_etl_close(set);
    ea_relog_free(p.kept);
    ea_relog_destroy(g);
}

/* ---- runs that do not succeed ---- */

static int cancel_late(ea_relog *g, const ea_relog_input *input, const ea_relog_event *event, void *arg) {
    int *n = arg;
    (void)input;
    (void)event;
    if (++*n == 3000)
        ea_relog_cancel(g);
    return EA_RELOG_KEEP;
}

static int refuse_late(ea_relog *g, const ea_relog_input *input, const ea_relog_event *event, void *arg) {
    int *n = arg;
    (void)g;
    (void)input;
    (void)event;
    return ++*n == 3000 ? -77 : EA_RELOG_KEEP;
}

static int emit_too_large(ea_relog *g, const ea_relog_input *input, const ea_relog_event *event, void *arg) {
    static const uint8_t payload[60000];
    ea_relog_event e = *event;
    (void)input;
    (void)arg;
    e.header_type = EA_RELOG_HEADER_EVENT64;
    e.flags = 0x40;
    e.item_count = 0;
    e.payload = payload;
    e.payload_bytes = sizeof payload;
    return ea_relog_emit(g, 0, &e);
}

static void failures_leave_no_output(void **state) {
    (void)state;

    static const struct {
        ea_relog_callbacks callbacks;
        int rc;
    } cases[] = {{{.on_event = cancel_late}, EA_ECANCELED},
                 {{.on_event = refuse_late}, -77},
                 {{.on_event = emit_too_large}, EA_ELIMIT}};

    ea_err err;
    const char *in = scratch_path("in.etl"), *out = scratch_path("out.etl"), *partial = scratch_path("out.etl.partial");
    make_file(in, 1); /* buffers of 8 KiB */
    for (size_t i = 0; i < 2 * LENGTH(cases); i++) {
        int n = 0, is_there = i >= LENGTH(cases);
        if (is_there)
            assert_int_equal(ea_path_write_all(out, "before", 6, 0, &err), 0);
        ea_relog *g;
        assert_int_equal(ea_relog_create(&g), 0);
        assert_int_equal(ea_relog_add_input(g, in, NULL, NULL), 0);
        assert_int_equal(ea_relog_add_output(g, out, NULL, NULL), 0);
        assert_int_equal(ea_relog_run(g, &cases[i % LENGTH(cases)].callbacks, &n), cases[i % LENGTH(cases)].rc);
        assert_true(*ea_relog_error(g));
        ea_relog_destroy(g);
        assert_false(ea_path_exists(partial));
        assert_int_equal(ea_path_exists(out), is_there);
        if (is_there) {
            char *data;
            size_t len;
            assert_int_equal(ea_path_read_all(out, 100, &data, &len, &err), 0);
            assert_int_equal(len, 6);
            free(data);
        }
    }
}

static int run_of(const char *const *inputs, size_t count, const char *out) {
    ea_relog *g;
    assert_int_equal(ea_relog_create(&g), 0);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(ea_relog_add_input(g, inputs[i], NULL, NULL), 0);
    assert_int_equal(ea_relog_add_output(g, out, NULL, NULL), 0);
    int rc = ea_relog_run(g, NULL, NULL);
    if (!rc)
        assert_int_equal(ea_relog_run(g, NULL, NULL), EA_EINVAL); /* once only */
    ea_relog_destroy(g);
    return rc;
}

static void inputs_that_do_not_fit(void **state) {
    (void)state;
    const char *in = scratch_path("in.etl"), *other = scratch_path("other.etl"), *out = scratch_path("out.etl");
    make_file(in, 2);
    make_file(other, 3); /* another clock */
    const char *both[] = {in, other}, *missing = scratch_path("missing.etl");
    assert_int_equal(run_of(NULL, 0, out), EA_EINVAL);
    assert_int_equal(run_of(&missing, 1, out), EA_ENOTFOUND);
    assert_int_equal(run_of(&in, 1, in), EA_EINVAL);
    assert_int_equal(run_of(both, 2, out), EA_EUNSUPPORTED);
    assert_false(ea_path_exists(out));
    assert_int_equal(run_of(&in, 1, out), 0);
    assert_true(assert_same_events(in, out) >= MADE_UP_RECORDS);
}

/* ---- names of outputs ---- */

typedef struct second_run {
    const char *in, *out;
    int has_run, rc;
} second_run;

static int run_again(ea_relog *g, const ea_relog_input *input, const ea_relog_event *event, void *arg) {
    second_run *s = arg;
    (void)g;
    (void)input;
    (void)event;
    if (!s->has_run)
        s->rc = run_of(&s->in, 1, s->out);
    s->has_run = 1;
    return EA_RELOG_KEEP;
}

static void outputs_belong_to_one_run(void **state) {
    (void)state;
    ea_err err;
    char same[512];
    const char *in = scratch_path("in.etl"), *out = scratch_path("out.etl"), *partial = scratch_path("out.etl.partial");
    make_file(in, 2);
    make_file(partial, 2);
    snprintf(same, sizeof same, "./%s", out);
    /* what an earlier run left is the input, by another name than the output's */
    assert_int_equal(run_of(&partial, 1, same), EA_EINVAL);
    assert_true(assert_same_events(in, partial) >= MADE_UP_RECORDS);
    snprintf(same, sizeof same, "./%s", in);
    assert_int_equal(run_of(&in, 1, same), EA_EINVAL);
    /* a name that is no file's */
    assert_int_equal(ea_path_make_dirs(out, &err), 0);
    assert_int_equal(run_of(&in, 1, out), EA_EINVAL);
#if !defined(_WIN32)
    const char *pipe = scratch_path("pipe");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(run_of(&in, 1, pipe), EA_EINVAL);
    assert_false(ea_path_is_file(pipe));
#endif
    assert_true(ea_path_is_file(partial));
    assert_false(ea_path_is_same(in, partial));

    const char *two = scratch_path("two.etl");
    ea_relog *g;
    snprintf(same, sizeof same, "./%s", two);
    assert_int_equal(ea_relog_create(&g), 0);
    assert_int_equal(ea_relog_add_input(g, in, NULL, NULL), 0);
    assert_int_equal(ea_relog_add_output(g, two, NULL, NULL), 0);
    assert_int_equal(ea_relog_add_output(g, same, NULL, NULL), 0);
    assert_int_equal(ea_relog_run(g, NULL, NULL), EA_EBUSY);
    ea_relog_destroy(g);
    assert_false(ea_path_exists(two));

    second_run s = {in, two, 0, 0};
    const ea_relog_callbacks callbacks = {.on_event = run_again};
    assert_int_equal(ea_relog_create(&g), 0);
    assert_int_equal(ea_relog_add_input(g, in, NULL, NULL), 0);
    assert_int_equal(ea_relog_add_output(g, two, NULL, NULL), 0);
    assert_int_equal(ea_relog_run(g, &callbacks, &s), 0);
    assert_int_equal(s.rc, EA_EBUSY);
    ea_relog_destroy(g);
    assert_true(assert_same_events(in, two) >= MADE_UP_RECORDS);
}

/* While the output gets its name, another run with the same output does not get the partial file. */
static void a_claim_lasts_until_the_name(void **state) {
    (void)state;
    const char *in = scratch_path("in.etl"), *out = scratch_path("out.etl"), *partial = scratch_path("out.etl.partial");
    make_file(in, 2);
    claimed_while_renamed = partial;
    claim_rc = 0;
    assert_int_equal(run_of(&in, 1, out), 0);
    claimed_while_renamed = NULL;
    assert_int_equal(claim_rc, EA_EBUSY);
    assert_true(assert_same_events(in, out) >= MADE_UP_RECORDS);
    assert_false(ea_path_exists(partial));
}

#if !defined(_WIN32)
/* A link where the unfinished output goes would let another user choose which file is overwritten. */
static void links_are_not_followed(void **state) {
    (void)state;
    ea_err err;
    char *data;
    size_t len;
    const char *in = scratch_path("in.etl"), *out = scratch_path("out.etl"), *partial = scratch_path("out.etl.partial"),
               *other = scratch_path("other"), *missing = scratch_path("missing");
    make_file(in, 2);
    assert_int_equal(ea_path_write_all(other, "before", 6, 0, &err), 0);
    const char *targets[] = {"other", "missing"};
    for (size_t i = 0; i < LENGTH(targets); i++) {
        assert_int_equal(symlink(targets[i], partial), 0);
        assert_int_equal(run_of(&in, 1, out), EA_EEXIST);
        assert_int_equal(unlink(partial), 0); /* it is still there */
    }
    assert_false(ea_path_exists(out));
    assert_false(ea_path_exists(missing));
    assert_int_equal(mkfifo(partial, 0600), 0);
    assert_int_equal(run_of(&in, 1, out), EA_EEXIST);
    assert_int_equal(unlink(partial), 0);
    /* another name of a file: the name goes, the file stays */
    assert_int_equal(link(other, partial), 0);
    assert_int_equal(run_of(&in, 1, out), 0);
    assert_int_equal(ea_path_read_all(other, 100, &data, &len, &err), 0);
    assert_int_equal(len, 6);
    free(data);
    assert_true(assert_same_events(in, out) >= MADE_UP_RECORDS);
    assert_false(ea_path_exists(partial));
}
#endif

/* ---- several outputs ---- */

static int make_folder(ea_relog *g, void *arg) {
    ea_err err;
    (void)g;
    return arg ? ea_path_make_dirs(arg, &err) : 0;
}

static int run_with_outputs(const char *in, const char *const *outs, size_t count, const char *folder) {
    const ea_relog_callbacks callbacks = {.on_end = make_folder};
    ea_relog *g;
    assert_int_equal(ea_relog_create(&g), 0);
    assert_int_equal(ea_relog_add_input(g, in, NULL, NULL), 0);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(ea_relog_add_output(g, outs[i], NULL, NULL), 0);
    int rc = ea_relog_run(g, &callbacks, (void *)(uintptr_t)folder);
    ea_relog_destroy(g);
    return rc;
}

static void assert_no_leftovers(const char *const *outs, size_t count) {
    static const char *const ENDS[] = {".partial", ".replaced"};
    char name[600];
    for (size_t i = 0; i < count * LENGTH(ENDS); i++) {
        snprintf(name, sizeof name, "%s%s", outs[i / LENGTH(ENDS)], ENDS[i % LENGTH(ENDS)]);
        assert_false(ea_path_exists(name));
    }
}

/* The third output's name becomes a folder while the run is on: the first two get what they were back. */
static void outputs_appear_together(void **state) {
    (void)state;
    ea_err err;
    char *data;
    size_t len;
    const char *in = scratch_path("in.etl"), *const outs[] = {scratch_path("a.etl"), scratch_path("b.etl"),
                                                              scratch_path("c.etl")};
    make_file(in, 2);
    assert_int_equal(ea_path_write_all(outs[1], "before", 6, 0, &err), 0);
    assert_true(run_with_outputs(in, outs, 3, outs[2]) < 0);
    assert_false(ea_path_exists(outs[0]));
    assert_int_equal(ea_path_read_all(outs[1], 100, &data, &len, &err), 0);
    assert_int_equal(len, 6);
    free(data);
    assert_true(ea_path_exists(outs[2]) && !ea_path_is_file(outs[2]));
    assert_no_leftovers(outs, LENGTH(outs));

    const char *const two[] = {outs[0], outs[1]};
    assert_int_equal(run_with_outputs(in, two, 2, NULL), 0);
    assert_true(assert_same_events(in, outs[0]) >= MADE_UP_RECORDS);
    assert_true(assert_same_events(in, outs[1]) >= MADE_UP_RECORDS);
    assert_no_leftovers(outs, LENGTH(outs));
}

static void assert_holds(const char *path, const char *wanted) {
    ea_err err;
    char *data;
    size_t len;
    assert_int_equal(ea_path_read_all(path, 100, &data, &len, &err), 0);
    assert_int_equal(len, strlen(wanted));
    assert_memory_equal(data, wanted, len);
    free(data);
}

/* What an output replaces takes no name of another output, of the input or of another file meanwhile. */
static void replaced_files_take_free_names(void **state) {
    (void)state;
    ea_err err;
    const char *in = scratch_path("a.etl.replaced.2"), *other = scratch_path("b.etl.replaced"),
               *const outs[] = {scratch_path("a.etl"), scratch_path("b.etl"), scratch_path("a.etl.replaced"),
                                scratch_path("c.etl")};
    static const char *const GONE[] = {"a.etl.replaced.3", "b.etl.replaced.2", "a.etl.replaced.replaced"};
    char name[600];
    make_file(in, 2);
    assert_int_equal(ea_path_write_all(other, "other", 5, 0, &err), 0);
    for (int turn = 0; turn < 2; turn++) { /* at first one of the names is free, and is an output's all the same */
        assert_int_equal(ea_path_write_all(outs[0], "before", 6, 0, &err), 0);
        assert_int_equal(ea_path_write_all(outs[1], "before", 6, 0, &err), 0);
        if (turn)
            assert_int_equal(ea_path_write_all(outs[2], "third", 5, 0, &err), 0);
        assert_true(run_with_outputs(in, outs, 4, outs[3]) < 0);
        assert_holds(outs[0], "before");
        assert_holds(outs[1], "before");
        if (turn)
            assert_holds(outs[2], "third");
        else
            assert_false(ea_path_exists(outs[2]));
        assert_holds(other, "other");
        assert_int_equal(ea_path_remove_folder(outs[3], &err), 0);
        assert_int_equal(run_with_outputs(in, outs, 3, NULL), 0);
        for (size_t i = 0; i < 3; i++)
            assert_true(assert_same_events(in, outs[i]) >= MADE_UP_RECORDS);
        assert_holds(other, "other");
        for (size_t i = 0; i < LENGTH(GONE); i++) {
            snprintf(name, sizeof name, "%s/%s", scratch, GONE[i]);
            assert_false(ea_path_exists(name));
        }
    }
}

/* Another run of the first output comes while the second one is renamed: it fails, and changes nothing. The third one
 * fails: the first is what it was before both. */
static void runs_do_not_mix_outputs(void **state) {
    (void)state;
    ea_err err;
    char *data;
    size_t len;
    const char *in = scratch_path("in.etl"), *const outs[] = {scratch_path("a.etl"), scratch_path("b.etl"),
                                                              scratch_path("c.etl")};
    make_file(in, 2);
    for (int fails = 0; fails < 2; fails++) {
        assert_int_equal(ea_path_write_all(outs[0], "before", 6, 0, &err), 0);
        other_in = in, other_out = outs[0], other_at = outs[1];
        other_rc = 0;
        int rc = run_with_outputs(in, outs, 3, fails ? outs[2] : NULL);
        assert_int_equal(other_rc, EA_EBUSY);
        assert_null(other_at);
        assert_true(fails ? rc < 0 : rc == 0);
        if (fails) {
            assert_int_equal(ea_path_read_all(outs[0], 100, &data, &len, &err), 0);
            assert_int_equal(len, 6);
            free(data);
        } else {
            assert_true(assert_same_events(in, outs[0]) >= MADE_UP_RECORDS);
            assert_int_equal(ea_path_remove(outs[2], &err), 0);
        }
        assert_no_leftovers(outs, LENGTH(outs));
    }
}

typedef struct reading {
    unsigned trace, text; /* outputs */
    uint64_t events;
    int emit_rc, fails;
} reading;

static int emit_to_text(ea_relog *g, const ea_relog_input *input, const ea_relog_event *event, void *arg) {
    reading *r = arg;
    (void)input;
    r->emit_rc = ea_relog_emit(g, r->text, event);
    return ea_relog_write(g, r->text, "early", 5) ? EA_RELOG_KEEP : EA_EINVAL;
}

static int read_written(ea_relog *g, void *arg) {
    reading *r = arg;
    char line[32];
    ea_etl_set *set = open_etl(ea_relog_partial(g, r->trace));
    while (next_event(set))
        r->events++;
    ea_etl_close(set);
    assert_int_equal(ea_relog_write(g, r->trace, "x", 1), EA_EINVAL);
    int n = snprintf(line, sizeof line, "%u events\n", (unsigned)r->events);
    int rc = ea_relog_write(g, r->text, line, (size_t)n);
    if (!rc)
        rc = ea_relog_write(g, r->text, "end\n", 4);
    return r->fails ? EA_EFORMAT : rc;
}

/* An output of another form is made from the complete trace; it appears with the rest, or not at all. A temporary trace
 * leaves nothing. */
static void other_forms_are_made_at_the_end(void **state) {
    (void)state;
    const ea_relog_callbacks callbacks = {.on_event = emit_to_text, .on_written = read_written};
    ea_err err;
    const char *in = scratch_path("in.etl"), *trace = scratch_path("trace.etl"), *text = scratch_path("text");
    make_file(in, 2);
    for (int way = 0; way < 4; way++) {
        const ea_relog_output kept = {.kind = way & 1 ? EA_RELOG_TEMPORARY : EA_RELOG_TRACE},
                              other = {.kind = EA_RELOG_OTHER};
        reading r = {.fails = way & 2};
        ea_relog *g;
        assert_int_equal(ea_relog_create(&g), 0);
        assert_int_equal(ea_relog_add_input(g, in, NULL, NULL), 0);
        assert_int_equal(ea_relog_add_output(g, trace, &kept, &r.trace), 0);
        assert_int_equal(ea_relog_add_output(g, text, &other, &r.text), 0);
        assert_int_equal(ea_relog_run(g, &callbacks, &r), r.fails ? EA_EFORMAT : 0);
        assert_int_equal(ea_relog_count(g)->read, r.events);
        assert_int_equal(r.emit_rc, EA_EINVAL);
        ea_relog_destroy(g);
        assert_int_equal(ea_path_exists(trace), way == 0);
        assert_int_equal(ea_path_exists(text), !r.fails);
        assert_no_leftovers((const char *const[]){trace, text}, 2);
        if (r.fails)
            continue;
        char expected[64], *data;
        size_t len;
        int n = snprintf(expected, sizeof expected, "%u events\nend\n", (unsigned)r.events);
        assert_int_equal(ea_path_read_all(text, 100, &data, &len, &err), 0);
        assert_int_equal(len, n);
        assert_memory_equal(data, expected, len);
        free(data);
        assert_int_equal(ea_path_remove(text, &err), 0);
        if (!way)
            assert_int_equal(ea_path_remove(trace, &err), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(copies_are_equal, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(programs_change_events, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(failures_leave_no_output, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(inputs_that_do_not_fit, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(outputs_belong_to_one_run, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(a_claim_lasts_until_the_name, scratch_make, scratch_clear),
#if !defined(_WIN32)
        cmocka_unit_test_setup_teardown(links_are_not_followed, scratch_make, scratch_clear),
#endif
        cmocka_unit_test_setup_teardown(outputs_appear_together, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(replaced_files_take_free_names, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(runs_do_not_mix_outputs, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(other_forms_are_made_at_the_end, scratch_make, scratch_clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
