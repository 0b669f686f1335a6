/* The files of a store: what was committed is there, once, whatever the moment of a crash; what is damaged costs only
 * itself; owners, readers beside the writer, retention. */
#include "collector/store/segment.h"
#include "proto/base/map.h"
#include "proto/wire/envelope.h"
#include "tests/unit/store_rig.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>

static void one_writer_at_a_time(void **state) {
    fixture *f = *state;
    ec_store *second;
    open_store(f);
    ec_store_options o = {.writable = 1};
    assert_int_equal(ec_store_open(&second, f->dir, &o, &f->err), EA_EBUSY);
    assert_int_equal(ec_store_open(&second, "/nonexistent/store", &(ec_store_options){0}, &f->err), EA_ENOTFOUND);
}

static void an_uncommitted_group_is_gone(void **state) {
    fixture *f = *state;
    test_batch sent[SENT];
    make_all(sent, SENT);
    open_store(f);
    assert_int_equal(append(f, "alpha", &sent[0]), EC_STORED);
    commit(f);
    assert_int_equal(append(f, "alpha", &sent[1]), EC_STORED);
    close_store(f);
    open_store(f);
    ec_stream_row row;
    assert_int_equal(ec_store_each_stream(f->store, NULL, keep_first, &row, &f->err), 0);
    assert_int_equal(row.batch_count, 1);
    assert_int_equal(append(f, "alpha", &sent[1]), EC_STORED);
    commit(f);
    assert_int_equal(readable(f, f->store, row.stream_id, sent, SENT), 2);
    free_all(sent, SENT);
}

static void segments_roll_and_the_index_is_rebuilt(void **state) {
    fixture *f = *state;
    test_batch sent[SENT];
    char path[128];
    make_all(sent, SENT);
    f->segment_bytes = 100; /* a segment a group */
    open_store(f);
    for (size_t i = 0; i < SENT; i++) {
        assert_int_equal(append(f, "alpha", &sent[i]), EC_STORED);
        commit(f);
    }
    ec_stream_row before, after;
    assert_int_equal(ec_store_each_stream(f->store, NULL, keep_first, &before, &f->err), 0);
    close_store(f);
    snprintf(path, sizeof path, "%s/segments/0000000000000005.seg", f->dir);
    assert_true(ea_path_exists(path));
    snprintf(path, sizeof path, "%s/index.db", f->dir);
    assert_int_equal(ea_path_remove(path, &f->err), 0);
    open_store(f);
    assert_int_equal(ec_store_each_stream(f->store, NULL, keep_first, &after, &f->err), 0);
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(readable(f, f->store, after.stream_id, sent, SENT), SENT);
    for (size_t i = 0; i < SENT; i++)
        assert_int_equal(append(f, "alpha", &sent[i]), EC_DUPLICATE);
    free_all(sent, SENT);
}

static char *slurp(fixture *f, const char *name, size_t *ret_bytes) {
    char path[128], *data;
    snprintf(path, sizeof path, "%s/%s", f->dir, name);
    if (ea_path_read_all(path, 64 << 20, &data, ret_bytes, &f->err))
        fail_msg("%s", f->err.message);
    return data;
}

static void spill(fixture *f, const char *name, const void *data, size_t len_bytes) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", f->dir, name);
    if (ea_path_write_all(path, data, len_bytes, 1, &f->err))
        fail_msg("%s", f->err.message);
}

static const char SEGMENT[] = "segments/0000000000000001.seg";

/* A store of another version is refused with its number; one that is damaged is not taken for it. */
static void another_version_is_called_so(void **state) {
    fixture *f = *state;
    test_batch sent[1];
    size_t len_bytes;
    char path[128];
    ec_store *s;
    make_all(sent, 1);
    open_store(f);
    assert_int_equal(append(f, "alpha", &sent[0]), EC_STORED);
    commit(f);
    close_store(f);
    char *data = slurp(f, SEGMENT, &len_bytes);
    snprintf(path, sizeof path, "%s/index.db", f->dir);
    for (int whole = 1; whole >= 0; whole--) {
        assert_int_equal(ea_path_remove(path, &f->err), 0);
        data[6] = '3';
        ea_store64((uint8_t *)data + 32, ea_hash64(data, 32, 0) ^ (whole ? 0 : 1));
        spill(f, SEGMENT, data, len_bytes);
        int rc = ec_store_open(&s, f->dir, &(ec_store_options){.writable = 1, .counters = &f->counters}, &f->err);
        assert_int_equal(rc, whole ? EA_EUNSUPPORTED : 0);
        if (whole)
            assert_non_null(strstr(f->err.message, "another format (version 3, this program reads 1)"));
        else
            ec_store_close(s);
    }
    free(data);
    data = slurp(f, "index.db", &len_bytes);
    data[63] = 7; /* SQLite's file format, 1.3: the user version, big-endian */
    spill(f, "index.db", data, len_bytes);
    assert_int_equal(ec_store_open(&s, f->dir, &(ec_store_options){.writable = 1}, &f->err), EA_EUNSUPPORTED);
    assert_non_null(strstr(f->err.message, "another format (version 7, this program reads 1)"));
    free(data);
    free_all(sent, 1);
}

/* The last record cut at every byte, with an index from before it: the state that a crash leaves when the write, or the
 * sync, was cut short, or when the process died between the sync and the index's commit. */
static void torn_tail_at_every_byte(void **state) {
    fixture *f = *state;
    test_batch sent[3];
    size_t index_bytes, before_bytes, whole_bytes;
    make_all(sent, 3);
    open_store(f);
    assert_int_equal(append(f, "alpha", &sent[0]), EC_STORED);
    assert_int_equal(append(f, "alpha", &sent[1]), EC_STORED);
    commit(f);
    close_store(f);
    char *index = slurp(f, "index.db", &index_bytes);
    char *before = slurp(f, SEGMENT, &before_bytes);
    open_store(f);
    assert_int_equal(append(f, "alpha", &sent[2]), EC_STORED);
    commit(f);
    close_store(f);
    char *whole = slurp(f, SEGMENT, &whole_bytes);
    assert_true(whole_bytes > before_bytes);
    for (size_t cut = before_bytes; cut <= whole_bytes; cut++) {
        spill(f, "index.db", index, index_bytes);
        spill(f, SEGMENT, whole, cut);
        open_store(f);
        uint64_t expected = cut == whole_bytes ? 3 : 2;
        ec_stream_row row;
        assert_int_equal(ec_store_each_stream(f->store, NULL, keep_first, &row, &f->err), 0);
        assert_int_equal(row.batch_count, expected);
        assert_int_equal(ea_counter_get(&f->counters, EA_COUNT_store_torn_bytes),
                         expected == 3 ? 0 : cut - before_bytes);
        assert_int_equal(ea_counter_get(&f->counters, EA_COUNT_store_damaged_bytes), 0);
        assert_int_equal(append(f, "alpha", &sent[2]), expected == 3 ? EC_DUPLICATE : EC_STORED);
        commit(f);
        assert_int_equal(readable(f, f->store, row.stream_id, sent, 3), 3);
        close_store(f);
    }
    free(index);
    free(before);
    free(whole);
    free_all(sent, 3);
}

/* One byte of one record changed at a time, first with the index at hand (reading), then without (recovery). */
static void damage_costs_only_itself(void **state) {
    fixture *f = *state;
    test_batch sent[3];
    size_t segment_bytes, index_bytes;
    make_all(sent, 3);
    open_store(f);
    uint64_t begin = 0, end = 0;
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(append(f, "alpha", &sent[i]), EC_STORED);
    commit(f);
    ec_batch_row row = {0};
    assert_int_equal(ec_store_next_batch(f->store, 1, 1, &row, &f->err), 1);
    begin = row.offset;
    assert_int_equal(ec_store_next_batch(f->store, 1, 2, &row, &f->err), 1);
    end = row.offset;
    close_store(f);
    char *whole = slurp(f, SEGMENT, &segment_bytes), *index = slurp(f, "index.db", &index_bytes);
    char path[128];
    snprintf(path, sizeof path, "%s/index.db", f->dir);
    for (uint64_t at = begin; at < end - 8; at += 5) { /* the last 8: padding perhaps */
        whole[at] ^= 0x20;
        spill(f, SEGMENT, whole, segment_bytes);
        spill(f, "index.db", index, index_bytes);
        ec_store *s;
        const uint8_t *data;
        size_t len_bytes;
        assert_int_equal(ec_store_open(&s, f->dir, &(ec_store_options){0}, &f->err), 0);
        for (uint64_t number = 1; number <= 3; number++) {
            assert_int_equal(ec_store_next_batch(s, 1, number - 1, &row, &f->err), 1);
            int rc = ec_store_read(s, &row, &data, &len_bytes, &f->err);
            if (number != 2)
                assert_int_equal(rc, 0);
            else if (at >= begin + EC_RECORD_HEADER_BYTES + 8) /* in the data */
                assert_int_equal(rc, EA_ECORRUPT);
        }
        ec_store_close(s);
        assert_int_equal(ea_path_remove(path, &f->err), 0);
        open_store(f);
        ec_stream_row stream;
        assert_int_equal(ec_store_each_stream(f->store, NULL, keep_first, &stream, &f->err), 0);
        assert_int_equal(stream.batch_count, 2);
        assert_int_equal(stream.missing_count, 1);
        assert_int_equal(ea_counter_get(&f->counters, EA_COUNT_store_damaged_bytes), end - begin);
        assert_int_equal(ea_counter_get(&f->counters, EA_COUNT_store_torn_bytes), 0);
        close_store(f);
        whole[at] ^= 0x20;
    }
    free(whole);
    free(index);
    free_all(sent, 3);
}

/* A batch whose bytes look like records: after damage before it, the search for the next record must not find them. */
static void a_batch_cannot_forge_records(void **state) {
    fixture *f = *state;
    ec_segment s, forged;
    ec_record r;
    char dir[80], other[80];
    snprintf(dir, sizeof dir, "%s/a", f->dir);
    snprintf(other, sizeof other, "%s/b", f->dir);
    assert_int_equal(ea_path_make_dirs(dir, &f->err), 0);
    assert_int_equal(ea_path_make_dirs(other, &f->err), 0);
    /* the attacker's best: a record that is right in every way it can know, at every place */
    assert_int_equal(ec_segment_create(&forged, other, 1, &f->err), 0);
    static const uint8_t payload[] = "forged";
    assert_int_equal(ec_segment_append(&forged, "victim", payload, sizeof payload, 1, &r, &f->err), 0);
    uint8_t record[512] = {0}, body[4096];
    size_t got;
    assert_int_equal(ea_file_read_at(forged.file, r.offset, record, (size_t)(r.next - r.offset), &got, &f->err), 0);
    for (size_t i = 0; i + got <= sizeof body; i += got)
        memcpy(body + i, record, got);
    ec_segment_close(&forged);
    assert_int_equal(ec_segment_create(&s, dir, 1, &f->err), 0);
    assert_int_equal(ec_segment_append(&s, "attacker", body, sizeof body, 1, &r, &f->err), 0);
    uint64_t first = r.offset;
    assert_int_equal(ec_segment_append(&s, "honest", payload, sizeof payload, 1, &r, &f->err), 0);
    assert_int_equal(ea_file_write_at(s.file, first + 9, "\xff", 1, &f->err), 0);
    uint8_t *data = NULL;
    size_t capacity = 0;
    uint64_t next = 0;
    assert_int_equal(ec_segment_scan(&s, first, &r, &data, &capacity, &f->err), EA_ECORRUPT);
    assert_int_equal(ec_segment_resync(&s, first, &next, &data, &capacity, &f->err), 1);
    assert_int_equal(ec_segment_scan(&s, next, &r, &data, &capacity, &f->err), 1);
    assert_string_equal(r.agent, "honest");
    free(data);
    ec_segment_close(&s);
}

/* No room in the middle of a group: that group is refused, the store goes on. */
static void a_failed_write_is_taken_back(void **state) {
    fixture *f = *state;
    test_batch sent[SENT];
    make_all(sent, SENT);
    open_store(f);
    assert_int_equal(append(f, "alpha", &sent[0]), EC_STORED);
    commit(f);
    uint64_t size = 0;
    size_t bytes;
    free(slurp(f, SEGMENT, &bytes));
    size = bytes;
    struct rlimit old, low;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    for (uint64_t room = 0; room < sent[1].len_bytes + 64; room += 16) {
        low = old;
        low.rlim_cur = size + room;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
        int rc = append(f, "alpha", &sent[1]);
        if (rc == EC_STORED)
            rc = ec_store_commit(f->store, &f->err);
        else
            (void)!ec_store_commit(f->store, &f->err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        assert_true(rc < 0);
        ec_stream_row row;
        assert_int_equal(ec_store_each_stream(f->store, NULL, keep_first, &row, &f->err), 0);
        assert_int_equal(row.batch_count, 1);
    }
    signal(SIGXFSZ, handler);
    for (size_t i = 1; i < SENT; i++)
        assert_int_equal(append(f, "alpha", &sent[i]), EC_STORED);
    commit(f);
    assert_int_equal(readable(f, f->store, 1, sent, SENT), SENT);
    close_store(f);
    open_store(f);
    assert_int_equal(readable(f, f->store, 1, sent, SENT), SENT);
    free_all(sent, SENT);
}

/* SQLite rolls the group's transaction back by itself, in whichever statement a disk or memory fails: nothing of the
 * group is acknowledged, and nothing of it counts as stored. */
static void a_lost_transaction_is_noticed(void **state) {
    fixture *f = *state;
    test_batch sent[SENT];
    make_all(sent, SENT);
    for (int appends_after = 0; appends_after < 2; appends_after++) {
        open_store(f);
        assert_int_equal(append(f, "alpha", &sent[0]), appends_after ? EC_DUPLICATE : EC_STORED);
        commit(f);
        assert_int_equal(append(f, "alpha", &sent[1]), EC_STORED);
        assert_int_equal(append(f, "beta", &sent[2]), EC_STORED);
        assert_int_equal(sqlite3_exec(ec_store_database(f->store), "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
        if (appends_after)
            assert_int_equal(append(f, "alpha", &sent[3]), EA_EIO);
        assert_true(ec_store_commit(f->store, &f->err) < 0);
        for (size_t i = 1; appends_after && i < SENT; i++)
            assert_int_equal(append(f, "alpha", &sent[i]), EC_STORED);
        commit(f);
        assert_int_equal(readable(f, f->store, 1, sent, SENT), appends_after ? SENT : 1);
        close_store(f);
    }
    open_store(f);
    assert_int_equal(ea_counter_get(&f->counters, EA_COUNT_store_damaged_bytes), 0);
    assert_int_equal(readable(f, f->store, 1, sent, SENT), SENT);
    free_all(sent, SENT);
}

/* ---- giving files to the store's owner ---- */

int __real_lchown(const char *path, uid_t owner, gid_t group);
int __wrap_lchown(const char *path, uid_t owner, gid_t group);
int __real_fchownat(int folder, const char *path, uid_t owner, gid_t group, int flags);
int __wrap_fchownat(int folder, const char *path, uid_t owner, gid_t group, int flags);

static const char *swapped, *aside, *elsewhere; /* paths; NULL: nothing is swapped */

/* What the owner of the store may do at any time: the folder becomes a link to another. */
static void swap(void) {
    if (swapped && rename(swapped, aside) == 0)
        assert_int_equal(symlink(elsewhere, swapped), 0);
    swapped = NULL;
}

int __wrap_lchown(const char *path, uid_t owner, gid_t group) {
    swap();
    return __real_lchown(path, owner, group);
}

int __wrap_fchownat(int folder, const char *path, uid_t owner, gid_t group, int flags) {
    swap();
    return __real_fchownat(folder, path, owner, group, flags);
}

enum { OWNER = 12345 };

static uid_t owner_of(const char *dir, const char *name) {
    char path[200];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(lstat(path, &st), 0);
    return st.st_uid;
}

static void make_file(const char *dir, const char *name) {
    char path[200];
    ea_err err;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(ea_path_write_all(path, "x", 1, 1, &err), 0);
}

static void roots_files_are_the_owners(void **state) {
    fixture *f = *state;
    char store[100], folder[120], moved[120], other[100], path[200], target[200];
    if (geteuid() != 0)
        skip();
    snprintf(store, sizeof store, "%s/store", f->dir);
    snprintf(folder, sizeof folder, "%s/folder", store);
    snprintf(moved, sizeof moved, "%s/moved", store);
    snprintf(other, sizeof other, "%s/other", f->dir);
    assert_int_equal(ea_path_make_dirs(folder, &f->err), 0);
    assert_int_equal(ea_path_make_dirs(other, &f->err), 0);
    make_file(store, "tokens");
    make_file(folder, "deep");
    make_file(folder, "passwd");
    make_file(other, "passwd");
    make_file(other, "linked");
    snprintf(target, sizeof target, "%s/linked", other);
    snprintf(path, sizeof path, "%s/hard", store);
    assert_int_equal(link(target, path), 0);
    snprintf(path, sizeof path, "%s/soft", store);
    assert_int_equal(symlink(target, path), 0);
    ec_store_give_to_owner(store); /* root's store: all as it was */
    assert_int_equal(owner_of(store, "tokens"), 0);
    assert_int_equal(chown(store, OWNER, OWNER), 0);
    ec_store_give_to_owner(store);
    assert_int_equal(owner_of(store, "tokens"), OWNER);
    assert_int_equal(owner_of(store, "folder"), OWNER);
    assert_int_equal(owner_of(folder, "deep"), OWNER);
    assert_int_equal(owner_of(other, "linked"), 0);
    /* a file of root's in a folder that becomes a link between the look at the file and the gift */
    snprintf(path, sizeof path, "%s/passwd", folder);
    assert_int_equal(chown(path, 0, 0), 0);
    swapped = folder;
    aside = moved;
    elsewhere = other;
    ec_store_give_to_owner(store);
    assert_null(swapped);
    assert_int_equal(owner_of(other, "passwd"), 0);
    assert_int_equal(owner_of(moved, "passwd"), OWNER);
}

/* ---- a reader beside the writer ---- */

enum { MANY = 200 };

typedef struct reading {
    fixture *f;
    const test_batch *sent;
    atomic_int stop;
    atomic_uint rounds;
    uint64_t seen;
    int failed;
} reading;

static void read_along(void *arg) {
    reading *r = arg;
    ec_store *s;
    ea_err err;
    if (ec_store_open(&s, r->f->dir, &(ec_store_options){0}, &err)) {
        r->failed = 1;
        return;
    }
    for (int last = 0; !last && !r->failed;) {
        ec_batch_row row = {0};
        uint64_t n = 0;
        int rc;
        last = atomic_load(&r->stop);
        while ((rc = ec_store_next_batch(s, 1, row.number, &row, &err)) == 1) {
            const uint8_t *data;
            size_t len_bytes;
            if (row.number != ++n || ec_store_read(s, &row, &data, &len_bytes, &err) ||
                len_bytes != r->sent[n - 1].len_bytes || memcmp(data, r->sent[n - 1].data, len_bytes) != 0)
                r->failed = 1;
        }
        if (rc || n < r->seen)
            r->failed = 1;
        r->seen = n;
        atomic_fetch_add(&r->rounds, 1);
    }
    ec_store_close(s);
}

static void a_reader_beside_the_writer(void **state) {
    fixture *f = *state;
    test_batch *sent = calloc(MANY, sizeof *sent);
    reading r = {.f = f, .sent = sent};
    ea_thread *thread;
    make_all(sent, MANY);
    open_store(f);
    assert_int_equal(ea_thread_start(&thread, "reader", read_along, &r, &f->err), 0);
    for (size_t i = 0; i < MANY; i++) {
        if (append(f, "alpha", &sent[i]) != EC_STORED)
            fail_msg("%s", f->err.message);
        if (i % 4 == 3)
            commit(f);
        /* in the middle it has read once, however loaded the machine is */
        for (int wait = 0; i == MANY / 2 && !atomic_load(&r.rounds) && wait < 20000; wait++)
            ea_sleep_ns(1000000);
    }
    atomic_store(&r.stop, 1);
    ea_thread_join(thread);
    assert_int_equal(r.failed, 0);
    assert_int_equal(r.seen, MANY);
    assert_true(atomic_load(&r.rounds) > 1);
    free_all(sent, MANY);
    free(sent);
}

/* ---- retention ---- */

/* What was deleted stays known: the same again is a duplicate, another content a conflict; counts stay. */
static void deleted_batches_stay_known(void **state) {
    fixture *f = *state;
    test_batch sent[SENT], other;
    test_maker m;
    uint64_t first = 0, number = 0;
    int64_t begin = 0;
    make_all(sent, SENT);
    test_maker_init(&m, 7);
    test_make(&m, 1, 9, 5000, &other);
    test_maker_deinit(&m);
    f->segment_bytes = 1; /* a segment each */
    open_store(f);
    for (size_t i = 0; i < SENT; i++) {
        assert_int_equal(append(f, "alpha", &sent[i]), EC_STORED);
        commit(f);
    }
    retain_all(f, &(ec_retention){.bytes = 1});
    assert_int_equal(ec_store_first_segment(f->store, &first, &f->err), 0);
    assert_true(first >= SENT);
    ec_stream_row row;
    assert_int_equal(ec_store_each_stream(f->store, "alpha", keep_first, &row, &f->err), 0);
    assert_int_equal(row.batch_count, SENT);
    assert_int_equal(row.expired_batch_count, SENT); /* the last one, too: its segment was full, another is open */
    assert_int_equal(row.expired_event_count, row.event_count);
    assert_int_equal(row.missing_count, 0);
    assert_int_equal(ec_store_what_is_left(f->store, "alpha", sent[0].stream, &number, &begin, &f->err), 0);
    assert_int_equal(ec_store_what_is_left(f->store, "beta", sent[0].stream, &number, &begin, &f->err), EA_ENOTFOUND);
    assert_int_equal(append(f, "alpha", &sent[0]), EC_DUPLICATE);
    assert_int_equal(append(f, "alpha", &other), EA_ECONFLICT);
    commit(f);
    assert_int_equal(ea_counter_get(&f->counters, EA_COUNT_store_expired_events), row.event_count);
    assert_int_equal(ea_counter_get(&f->counters, EA_COUNT_store_expired_segments), SENT + 1); /* the first was empty */

    /* an index that is lost knows it all again, and what later batches need of the deleted ones */
    char command[128];
    close_store(f);
    snprintf(command, sizeof command, "rm -f '%s'/index.db*", f->dir);
    assert_int_equal(system(command), 0);
    open_store(f);
    assert_int_equal(append(f, "alpha", &sent[1]), EC_DUPLICATE);
    assert_int_equal(ec_store_each_stream(f->store, "alpha", keep_first, &row, &f->err), 0);
    assert_int_equal(row.batch_count, SENT);
    assert_int_equal(row.highest_number, SENT);
    test_maker_init(&m, 7);
    test_maker_forget_descriptions(&m);
    test_batch later;
    test_make(&m, SENT + 1, 4, 9000, &later);
    test_maker_deinit(&m);
    assert_int_equal(append(f, "alpha", &later), EC_STORED);
    commit(f);
    assert_int_equal(ec_store_what_is_left(f->store, "alpha", sent[0].stream, &number, &begin, &f->err), 1);
    assert_int_equal(number, SENT + 1);
    assert_int_equal(begin, later.begin_utc_ns);
    free(later.data);
    free(other.data);
    free_all(sent, SENT);
}

/* Appends a batch of the corpus under a number; with what it names by hash, and a shape that no batch uses, or without.
 */
static int append_named(fixture *f, uint64_t number, int with_definitions) {
    static const uint8_t STREAM[EA_STREAM_ID_BYTES] = "named";
    char *data;
    size_t len_bytes, offset = 0, begin = 0;
    ea_text named, batch;
    ea_pb_field field;
    assert_int_equal(ea_path_read_all(EA_CORPUS "/batch/context", 1 << 20, &data, &len_bytes, &f->err), 0);
    ea_text_init(&named);
    ea_text_init(&batch);
    assert_int_equal(ea_batch_rename((uint8_t *)data, len_bytes, STREAM, number, &named, &f->err), 0);
    for (; ea_pb_next((uint8_t *)named.data, named.len_bytes, &offset, &field) > 0; begin = offset)
        if (with_definitions ||
            (field.number != EA_BATCH_SOURCES && field.number != EA_BATCH_SHAPES && field.number != EA_BATCH_CONTEXTS))
            ea_text_add(&batch, named.data + begin, offset - begin);
    if (with_definitions) /* field 22, 1000 bytes */
        ea_text_printf(&batch, "\xb2\x01\xe8\x07%01000d", 7);
    int rc = ec_store_append(f->store, "alpha", (uint8_t *)batch.data, batch.len_bytes, &f->err);
    ea_text_deinit(&named);
    ea_text_deinit(&batch);
    free(data);
    return rc;
}

/* Definitions are freed with the last batch that uses them; the others stay, and later batches are asked for what is
 * gone. */
static void definitions_go_with_their_batches(void **state) {
    fixture *f = *state;
    static const char SUM[] = "SELECT count(*) FROM stream_bytes WHERE definition_bytes ="
                              " (SELECT ifnull(sum(bytes), 0) FROM definition_uses)";
    ec_store_size size;
    f->segment_bytes = 1; /* a segment each */
    open_store(f);
    assert_int_equal(append_named(f, 1, 1), EC_STORED);
    commit(f);
    int64_t all = ask_index(f, "SELECT count(*) FROM definitions");
    assert_true(all >= 4); /* a context, a source, a shape, and the unused one */
    assert_int_equal(append_named(f, 5000, 0), EC_STORED);
    commit(f);
    assert_int_equal(ask_index(f, SUM), 1);

    while (ask_index(f, "SELECT count(*) FROM batches") == 2) { /* the oldest segments go */
        assert_int_equal(ec_store_measure(f->store, &size, &f->err), 0);
        retain_all(f, &(ec_retention){.bytes = size.segment_bytes + size.index_bytes - 1});
    }
    assert_int_equal(ask_index(f, "SELECT count(*) FROM batches WHERE number = 5000"), 1);
    assert_int_equal(ask_index(f, "SELECT count(*) FROM definitions"), all - 1);
    assert_int_equal(ask_index(f, "SELECT count(*) FROM definitions WHERE length(data) = 1000"), 0);
    assert_int_equal(ask_index(f, SUM), 1);
    assert_int_equal(append_named(f, 5001, 0), EC_STORED);
    commit(f);
    ec_batch_row row = {0};
    const uint8_t *data;
    size_t len_bytes;
    for (uint64_t number = 5000; number <= 5001; number++) {
        assert_int_equal(ec_store_next_batch(f->store, 1, number - 1, &row, &f->err), 1);
        assert_int_equal(row.number, number);
        assert_int_equal(ec_store_read(f->store, &row, &data, &len_bytes, &f->err), 0);
    }

    retain_all(f, &(ec_retention){.bytes = 1});
    assert_int_equal(ask_index(f, "SELECT count(*) FROM batches"), 0);
    assert_int_equal(ask_index(f, "SELECT count(*) FROM definitions"), 0);
    assert_int_equal(ask_index(f, "SELECT count(*) FROM stream_definitions"), 0);
    assert_int_equal(ask_index(f, "SELECT definition_bytes FROM stream_bytes"), 0);
    assert_int_equal(append_named(f, 9000, 0), EA_ENOTFOUND);
    assert_true(ec_store_last_notes(f->store)->missing_count > 0);
    assert_int_equal(append_named(f, 9000, 1), EC_STORED);
    commit(f);
    assert_int_equal(ask_index(f, SUM), 1);
}

/* By age: what is younger stays; a store without limits keeps everything. */
static void young_segments_stay(void **state) {
    fixture *f = *state;
    test_batch sent[SENT];
    ec_store_size size;
    make_all(sent, SENT);
    f->segment_bytes = 1;
    open_store(f);
    for (size_t i = 0; i < SENT; i++) {
        assert_int_equal(append(f, "alpha", &sent[i]), EC_STORED);
        commit(f);
    }
    retain_all(f, &(ec_retention){0});
    retain_all(f, &(ec_retention){.age_ns = INT64_C(3600000000000)});
    assert_int_equal(ec_store_measure(f->store, &size, &f->err), 0);
    assert_int_equal(size.segment_count, SENT + 1); /* the full one was closed */
    assert_true(size.segment_bytes > 0 && size.index_bytes > 0 && size.state_bytes == 0);
    uint64_t all = size.segment_bytes + size.index_bytes;
    retain_all(f, &(ec_retention){.bytes = all});
    assert_int_equal(ec_store_measure(f->store, &size, &f->err), 0);
    assert_int_equal(size.segment_count, SENT + 1);
    retain_all(f, &(ec_retention){.bytes = all - 1});
    assert_int_equal(ec_store_measure(f->store, &size, &f->err), 0);
    assert_int_equal(size.segment_count, SENT);
    retain_all(f, &(ec_retention){.age_ns = 1});
    assert_int_equal(ec_store_measure(f->store, &size, &f->err), 0);
    assert_int_equal(size.segment_count, 1);
    free_all(sent, SENT);
}

/* Records are erased, and kept.db is written, on another thread: the store takes uploads meanwhile, and is closed at
 * any time. What was left is done after the next start. */
static void files_are_worked_on_elsewhere(void **state) {
    fixture *f = *state;
    test_batch sent[SENT];
    ec_stream_row row;
    int rc, busy = 0;
    make_all(sent, SENT);
    open_store(f);
    assert_int_equal(append(f, "beta", &sent[0]), EC_STORED);
    for (size_t i = 0; i + 1 < SENT; i++)
        assert_int_equal(append(f, "alpha", &sent[i]), EC_STORED);
    commit(f);
    const ec_retention tight = {.bytes = 1};
    assert_int_equal(ec_store_retain(f->store, &tight, &f->err), 1); /* rows leave */
    assert_int_equal(ec_store_retain(f->store, &tight, &f->err), EC_RETAIN_BUSY);
    assert_int_equal(append(f, "alpha", &sent[SENT - 1]), EC_STORED);
    commit(f);
    close_store(f);
    open_store(f);
    while ((rc = ec_store_retain(f->store, &(ec_retention){0}, &f->err)) > 0)
        busy += rc == EC_RETAIN_BUSY;
    assert_int_equal(rc, 0);
    assert_true(busy > 0); /* the place of what was erased is noted until a later step sees that it is done */
    assert_int_equal(ec_store_each_stream(f->store, "alpha", keep_first, &row, &f->err), 0);
    assert_int_equal(row.batch_count, SENT);
    assert_true(row.expired_batch_count > 0);
    const ec_stream_row row_of_alpha = row;
    assert_int_equal(append(f, "alpha", &sent[0]), EC_DUPLICATE);
    commit(f);
    assert_int_equal(ec_store_each_stream(f->store, "beta", keep_first, &row, &f->err), 0);
    assert_int_equal(row.expired_batch_count, 0);
    size_t len_bytes = 0, erased = 0;
    char *data = slurp(f, "segments/0000000000000001.seg", &len_bytes);
    for (size_t i = 0; i + 4 <= len_bytes; i += 8)
        erased += memcmp(data + i, "GONE", 4) == 0;
    assert_int_equal(erased, row_of_alpha.expired_batch_count);
    free(data);
    free_all(sent, SENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(deleted_batches_stay_known, setup, teardown),
        cmocka_unit_test_setup_teardown(definitions_go_with_their_batches, setup, teardown),
        cmocka_unit_test_setup_teardown(young_segments_stay, setup, teardown),
        cmocka_unit_test_setup_teardown(files_are_worked_on_elsewhere, setup, teardown),
        cmocka_unit_test_setup_teardown(one_writer_at_a_time, setup, teardown),
        cmocka_unit_test_setup_teardown(an_uncommitted_group_is_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(segments_roll_and_the_index_is_rebuilt, setup, teardown),
        cmocka_unit_test_setup_teardown(another_version_is_called_so, setup, teardown),
        cmocka_unit_test_setup_teardown(torn_tail_at_every_byte, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_costs_only_itself, setup, teardown),
        cmocka_unit_test_setup_teardown(a_batch_cannot_forge_records, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failed_write_is_taken_back, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lost_transaction_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(roots_files_are_the_owners, setup, teardown),
        cmocka_unit_test_setup_teardown(a_reader_beside_the_writer, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
