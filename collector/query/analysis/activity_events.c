/* See activity.h: what the rows are computed from, the events of a stream by their roles. */
#include "collector/query/analysis/activity_internal.h"
#include "collector/query/analysis/event_roles.h"
#include "collector/query/analysis/profile_merge.h"
#include "collector/query/analysis/query.h"
#include "proto/stack/stack_join.h"

#include <string.h>

typedef struct plan {
    ec_event_cursor_plan cursor; /* first */
    enum ec_role role;
    const char *text; /* the operation; NULL: it has no name */
} plan;

static const char *activity_events_file_of(ec_activity *a, uint64_t file_object, int64_t utc_ns) {
    ea_resolver resolver;
    ea_text_clear(&a->scratch);
    int rc = file_object ? ec_archive_names(a->archive, a->stream, &resolver, NULL) : 0;
    a->is_short |= rc == EA_ENOMEM;
    if (rc != 1 || !resolver.number(resolver.arg, EA_SEM_FILE_OBJECT, file_object, utc_ns, &a->scratch))
        return NULL;
    a->is_short |= a->scratch.failed;
    return ec_activity_text(a, a->scratch.data ? a->scratch.data : "", a->scratch.len_bytes);
}

static uint32_t activity_pid_of(ec_activity *a, uint32_t tid, int64_t utc_ns) {
    return ec_address_space_pid_of_thread(ec_activity_space(a, EC_INSTANCE_THREAD, utc_ns), tid, utc_ns);
}

/* A time of a key: ns, the longest, bytes; it counts where it ended. */
static int activity_events_add_part(ec_activity *a, ec_activity_key *k, uint64_t ns, uint64_t bytes, int is_end) {
    ec_activity_row *r = NULL;
    int rc = ec_activity_row_of(a, k, &r);
    if (rc)
        return rc;
    r->sum[SUM_COUNT] += (uint64_t)is_end;
    r->sum[SUM_NS] += ns;
    if (ns > r->sum[SUM_MAX_NS])
        r->sum[SUM_MAX_NS] = ns;
    r->sum[SUM_BYTES] += bytes;
    return 0;
}

static int add_latency(ec_activity *a, ec_activity_key *k, uint64_t ns, uint64_t bytes) {
    return activity_events_add_part(a, k, ns, bytes, 1);
}

/* ---- threads ---- */

/* What CPUs did until now is not known any more. */
static void forget_cpus(ec_activity *a) {
    for (size_t i = 0; i < EC_ACTIVITY_CPUS; i++) {
        a->cpus[i].count = 0;
        a->cpus[i].since = INT64_MIN;
    }
    ea_cswitch_expander_destroy(a->expander);
    a->expander = NULL;
}

/* The part of a time that is inside the range: 1, *begin, which becomes its beginning, and *ret_ns; 0 when there is
 * none. */
static int activity_clip(const ec_activity *a, int64_t *begin, int64_t end, uint64_t *ret_ns) {
    if (end < a->from_utc_ns || *begin >= a->to_utc_ns)
        return 0;
    if (*begin < a->from_utc_ns)
        *begin = a->from_utc_ns;
    if (end > a->to_utc_ns)
        end = a->to_utc_ns;
    *ret_ns = end > *begin ? (uint64_t)(end - *begin) : 0;
    return end >= *begin;
}

static int add_slice(ec_activity *a, const ec_sched_slice *s, const ea_clock *clock) {
    int64_t began = ea_clock_to_utc_ns(clock, s->begin), at = ea_clock_to_utc_ns(clock, s->end), begin = began;
    uint64_t ns;
    if ((a->kind != EC_ACTIVITY_THREADS && s->state != EC_SCHED_WAITING) || !activity_clip(a, &begin, at, &ns))
        return 0;
    uint32_t pid = activity_pid_of(a, s->tid, begin);
    ec_activity_key k = {.key = {[KEY_PID] = pid, [KEY_TID] = s->tid}};
    ec_activity_row *r = NULL;
    int rc = 0;
    ec_activity_put_process(a, &k, 0, pid, begin);
    if (a->kind == EC_ACTIVITY_THREADS) {
        rc = ec_activity_row_of(a, &k, &r);
        if (!rc)
            r->sum[SUM_RUNNING_NS + s->state - EC_SCHED_RUNNING] += ns;
    } else if (a->kind == EC_ACTIVITY_WAITS) {
        k.key[KEY_REASON] = s->reason;
        rc = activity_events_add_part(a, &k, ns, 0, ec_activity_is_in_range(a, at));
    } else if (a->kind == EC_ACTIVITY_WAKES && s->waker != UINT32_MAX && ec_activity_is_in_range(a, at)) {
        uint32_t waker_pid = activity_pid_of(a, s->waker, at);
        k = (ec_activity_key){.key = {[KEY_WAKER_PID] = waker_pid,
                                      [KEY_WAKER_TID] = s->waker,
                                      [KEY_WOKEN_PID] = pid,
                                      [KEY_WOKEN_TID] = s->tid}};
        ec_activity_put_process(a, &k, 0, waker_pid, at);
        ec_activity_put_process(a, &k, 1, pid, begin);
        rc = add_latency(a, &k, at > began ? (uint64_t)(at - began) : 0, 0);
    }
    return rc;
}

static int add_slices(ec_activity *a, const ec_sched_slice *s, size_t n) {
    int rc = 0;
    for (size_t i = 0; !rc && i < n; i++)
        rc = add_slice(a, &s[i], ec_event_cursor_clock(a->cursor));
    return rc;
}

/* Adds a slice whose end was not recorded, as far as the thread is known to have continued. */
static int add_unfinished(ec_activity *a, const ec_sched_slice *s, int64_t until_utc_ns) {
    int64_t begin = ea_clock_to_utc_ns(&a->clock, s->begin);
    int is_wait = a->kind == EC_ACTIVITY_WAITS && s->state == EC_SCHED_WAITING;
    uint64_t ns;
    ec_activity_row *r = NULL;
    if ((a->kind != EC_ACTIVITY_THREADS && !is_wait) || !activity_clip(a, &begin, until_utc_ns, &ns) || !ns)
        return 0;
    uint32_t pid = activity_pid_of(a, s->tid, begin);
    ec_activity_key k = {.key = {[KEY_PID] = pid, [KEY_TID] = s->tid, [KEY_REASON] = is_wait ? s->reason : 0}};
    ec_activity_put_process(a, &k, 0, pid, begin);
    int rc = ec_activity_row_of(a, &k, &r);
    if (!rc)
        r->sum[is_wait ? SUM_UNFINISHED_NS : SUM_UNFINISHED_RUNNING_NS + s->state - EC_SCHED_RUNNING] += ns;
    return rc;
}

/* Nothing is known of any thread, or CPU, from then on. */
static int know_nothing(ec_activity *a, int64_t until_utc_ns) {
    ec_sched_slice s;
    int rc = 0;
    for (size_t cursor = 0; !rc && ec_sched_next_open(a->sched, &cursor, &s);)
        rc = add_unfinished(a, &s, until_utc_ns);
    ec_sched_lost(a->sched);
    forget_cpus(a);
    ea_bytes_map_clear(&a->runtimes);
    return rc;
}

/* Every switch counts for the thread that begins to run, every wait for the thread that begins to wait. */
static int count_switch(ec_activity *a, uint32_t tid, enum sum_of_threads sum, int64_t utc_ns) {
    ec_activity_row *r = NULL;
    if (!tid || a->kind != EC_ACTIVITY_THREADS || !ec_activity_is_in_range(a, utc_ns))
        return 0;
    uint32_t pid = activity_pid_of(a, tid, utc_ns);
    ec_activity_key k = {.key = {[KEY_PID] = pid, [KEY_TID] = tid}};
    ec_activity_put_process(a, &k, 0, pid, utc_ns);
    int rc = ec_activity_row_of(a, &k, &r);
    if (!rc)
        r->sum[sum]++;
    return rc;
}

static int add_problem(ec_activity *a, uint64_t cpu, uint64_t source, const char *what) {
    ec_activity_key k = {.key = {[KEY_PROBLEM_CPU] = cpu, [KEY_PROBLEM_SOURCE] = source},
                         .text = {[TEXT_PROBLEM] = ec_activity_text(a, what, strlen(what))}};
    return a->kind == EC_ACTIVITY_COUNTER_PROBLEMS ? add_latency(a, &k, 0, 0) : 0;
}

/* Windows says of counters that they are wrong: of each its source and when it was last right. */
static int on_corruption(ec_activity *a, const ec_event_cursor_event *e, const char *what) {
    enum { STATUS_BYTES = 12 };

    uint64_t cpu = ec_event_cursor_u64_or_0(a->cursor, e, EC_CORRUPTION_CPU);
    ea_slice list = ec_event_cursor_bytes(a->cursor, e, EC_CORRUPTION_LIST);
    int rc = 0;
    for (size_t i = 0; !rc && i + STATUS_BYTES <= list.len_bytes; i += STATUS_BYTES)
        rc = add_problem(a, cpu, ea_load32(list.data + i), what);
    return rc;
}

/* Interns the names of a configuration: once, not for each event that has them. */
static int use_config(ec_activity *a, const ec_counter_config *config) {
    for (uint32_t i = 0; i < EC_COUNTERS_MAX; i++) {
        const char *name = config && i < config->name_count ? config->names[i] : "";
        a->counter_texts[i] = *name ? ec_activity_text(a, name, strlen(name)) : NULL;
        if (*name && !a->counter_texts[i])
            return EA_ENOMEM;
    }
    a->config = config;
    return 0;
}

static int activity_events_add_counted(ec_activity *a, ec_activity_key *k, uint64_t value) {
    ec_activity_row *r = NULL;
    int rc = ec_activity_row_of(a, k, &r);
    if (!rc) {
        r->sum[SUM_EVENTS]++;
        r->sum[SUM_VALUE] += value;
    }
    return rc;
}

/* Why nothing is known of what counters counted since the CPU's last switch; NULL: it is. n: how many are on this one.
 */
static const char *gap_of(const ec_cpu_counters *c, const ec_counter_config *config, size_t n, uint32_t old_tid) {
    if (!n)
        return "a switch without counters";
    if (c->config != config)
        return "other counters from here on";
    if (c->count != n)
        return "another number of counters";
    return c->tid != old_tid ? "a switch is missing" : NULL;
}

/* Counters on a switch: what they counted since the CPU's last switch is the old thread's. */
static int count_counters(ec_activity *a, const ec_event_cursor_event *e, uint32_t old_tid, uint32_t new_tid,
                          int64_t utc_ns) {
    ea_ext item;
    unsigned i = 0;
    int rc = 0, has_item, is_inside = ec_activity_is_in_range(a, utc_ns);
    while ((has_item = ec_event_cursor_item(a->cursor, e, i, &item)) && item.type != EA_EXT_PMC_COUNTERS)
        i++;
    if (e->cpu >= EC_ACTIVITY_CPUS)
        return 0;
    size_t n = !has_item ? 0 : item.size_bytes / 8 < EC_COUNTERS_MAX ? item.size_bytes / 8 : EC_COUNTERS_MAX;
    const ec_counter_config *config = ec_counter_names_at(a->names, ec_event_position(a->cursor));
    int is_named = config && config->count == n;
    if (config != a->config)
        rc = use_config(a, config);
    ec_cpu_counters *c = &a->cpus[e->cpu];
    const char *gap = c->count ? gap_of(c, config, n, old_tid) : NULL;
    if (!rc && gap && is_inside)
        rc = add_problem(a, e->cpu, UINT32_MAX, gap);
    if (!rc && is_inside && n && config && config->count && config->count != n)
        rc = add_problem(a, e->cpu, UINT32_MAX, "not the counters that were configured");
    int is_known = c->count && !gap, is_counted = is_known && a->kind == EC_ACTIVITY_COUNTERS && is_inside;
    uint32_t pid = is_counted ? activity_pid_of(a, old_tid, utc_ns) : 0;
    ec_activity_key of = {.key = {[KEY_PID] = pid, [KEY_TID] = old_tid}};
    if (is_counted)
        ec_activity_put_process(a, &of, 0, pid, utc_ns);
    for (size_t k = 0; !rc && k < n; k++) {
        uint64_t now = ea_load64(item.data + 8 * k);
        if (is_known && is_inside && now < c->last[k])
            rc = add_problem(a, e->cpu, k, "a counter went backwards");
        else if (is_counted) {
            of.key[KEY_NUMBER] = k;
            of.text[TEXT_COUNTER] = is_named ? a->counter_texts[k] : NULL;
            rc = activity_events_add_counted(a, &of, now - c->last[k]);
        }
        c->last[k] = now;
    }
    c->count = (uint8_t)n;
    c->tid = new_tid;
    c->config = config;
    return rc;
}

static int activity_events_on_switch(ec_activity *a, const ec_event_cursor_event *e, int64_t utc_ns) {
    enum { WAITING = 5 };

    ec_sched_slice slices[3];
    uint64_t new_tid, old_tid, state;
    if (!ec_event_cursor_u64(a->cursor, e, EC_SWITCH_NEW_TID, &new_tid) ||
        !ec_event_cursor_u64(a->cursor, e, EC_SWITCH_OLD_TID, &old_tid) ||
        !ec_event_cursor_u64(a->cursor, e, EC_SWITCH_OLD_STATE, &state))
        return 0;
    if (a->kind == EC_ACTIVITY_COUNTERS || a->kind == EC_ACTIVITY_COUNTER_PROBLEMS)
        return count_counters(a, e, (uint32_t)old_tid, (uint32_t)new_tid, utc_ns);
    int rc = add_slices(a, slices, ec_sched_event(a->sched, a->cursor, e, EC_ROLE_SWITCH, slices));
    if (!rc)
        rc = count_switch(a, (uint32_t)new_tid, SUM_SWITCHES, utc_ns);
    return rc || state != WAITING ? rc : count_switch(a, (uint32_t)old_tid, SUM_WAITS, utc_ns);
}

/* A compact switch says who ran since the CPU's last one, and nothing that is known of what the thread does next. */
static int on_compact_switch(void *arg, const ea_record *record, const ea_class *c, const ea_clock *clock) {
    enum { OLD_AT = 1, NEW_AT = 11, WHOLE_BYTES = 15 }; /* proto/event/classes/thread.c, Thread/CompactCSwitch */

    ec_activity *a = arg;
    (void)c;
    if (record->cpu >= EC_ACTIVITY_CPUS)
        return 0;
    ec_cpu_counters *cpu = &a->cpus[record->cpu];
    uint32_t old_tid = ea_load32(record->payload + OLD_AT);
    int64_t since = cpu->since;
    int rc = 0;
    cpu->since = record->time_raw;
    if (old_tid && since != INT64_MIN && since <= record->time_raw)
        rc = add_slice(a,
                       &(ec_sched_slice){.tid = old_tid,
                                         .state = EC_SCHED_RUNNING,
                                         .cpu = record->cpu,
                                         .begin = since,
                                         .end = record->time_raw,
                                         .waker = UINT32_MAX},
                       clock);
    return rc || record->payload_bytes < WHOLE_BYTES
               ? rc
               : count_switch(a, ea_load32(record->payload + NEW_AT), SUM_SWITCHES,
                              ea_clock_to_utc_ns(clock, record->time_raw));
}

static int on_compact_switches(ec_activity *a, const ec_event_cursor_event *e) {
    ea_record record;
    int rc = a->expander ? 0 : ea_cswitch_expander_create(&a->expander, NULL);
    ec_event_cursor_record(a->cursor, e, &record);
    return rc ? rc
              : ea_cswitch_expand(a->expander, &record, e->c, ec_event_cursor_clock(a->cursor), on_compact_switch, a,
                                  NULL);
}

/* ---- samples of counters ---- */

/* NULL: no memory. */
static const char *module_name(ec_activity *a, const ea_module *m, int is_unloaded) {
    char marked[1024];
    const char *name = ec_base_name(m->path);
    if (is_unloaded)
        name = ec_unloaded_name(name, marked, sizeof marked);
    return ec_activity_text(a, name, strlen(name));
}

/* The file that an address was in; NULL: in none that is known. *ret_offset: from the module's base; without one the
 * address. */
static const char *module_of(ec_activity *a, uint32_t pid, uint64_t address, unsigned pointer_size, int64_t utc_ns,
                             uint64_t *ret_offset) {
    uint32_t process = ec_address_space_process(a->space, pid, utc_ns);
    int unloaded, is_kernel = ea_stack_is_kernel(address, pointer_size);
    const ea_module *m = ec_address_space_module(a->space, process, ec_address_space_epoch(a->space, process, utc_ns),
                                                 address, is_kernel, &unloaded);
    *ret_offset = m ? address - m->base : address;
    return m ? module_name(a, m, unloaded) : NULL;
}

/* The .NET method that an address was in; NULL: in none that is known. */
static const char *method_of(ec_activity *a, uint32_t pid, uint64_t address, int64_t utc_ns) {
    const ec_method *m = ec_methods_find(a->methods, pid, address, utc_ns);
    const ea_process *p =
        m ? ec_address_space_get_process(a->space, ec_address_space_process(a->space, pid, utc_ns)) : NULL;
    if (!p || (m->begin_utc_ns != INT64_MIN && m->begin_utc_ns < p->life.begin_utc_ns))
        return NULL; /* of a process that had this number before */
    return ec_activity_text(a, m->name, strlen(m->name));
}

/* The place of an address, as in a profile. */
static int activity_events_place_of(ec_activity *a, uint32_t pid, uint64_t address, unsigned pointer_size,
                                    int64_t utc_ns, uint64_t *ret) {
    uint32_t process = ec_address_space_process(a->space, pid, utc_ns), place = 0;
    int unloaded, is_kernel = ea_stack_is_kernel(address, pointer_size);
    const ea_module *m = ec_address_space_module(a->space, process, ec_address_space_epoch(a->space, process, utc_ns),
                                                 address, is_kernel, &unloaded);
    const char *method = is_kernel ? NULL : method_of(a, pid, address, utc_ns);
    int rc = method ? ec_merge_method(a->places, unloaded ? NULL : m, method, &place)
                    : ec_merge_frame(a->places, m, unloaded, address, 0, &place);
    *ret = place;
    return rc;
}

static int on_sample(ec_activity *a, const ec_event_cursor_event *e, int64_t utc_ns) {
    uint32_t tid = (uint32_t)ec_event_cursor_u64_or_0(a->cursor, e, EC_SAMPLE_TID),
             pid = activity_pid_of(a, tid, utc_ns);
    uint64_t source = ec_event_cursor_u64_or_0(a->cursor, e, EC_SAMPLE_SOURCE);
    uint64_t interval = ec_sample_interval(&a->sources, source);
    const char *name = ec_sample_source_name(&a->sources, source, e->c);
    ec_activity_key k = {.key = {[KEY_PID] = pid, [KEY_TID] = tid, [KEY_SOURCE] = source, [KEY_INTERVAL] = interval},
                         .text = {[TEXT_COUNTER] = name ? ec_activity_text(a, name, strlen(name)) : NULL}};
    ec_activity_put_process(a, &k, 0, pid, utc_ns);
    uint64_t address = ec_event_cursor_u64_or_0(a->cursor, e, EC_SAMPLE_ADDRESS);
    if (a->places) {
        int rc = ec_activity_is_in_range(a, utc_ns)
                     ? activity_events_place_of(a, pid, address, e->c->pointer_size, utc_ns, &k.key[KEY_PLACE])
                     : 0;
        if (rc)
            return rc;
        k.key[KEY_HAS_NO_INTERVAL] = !interval;
    } else if (a->kind != EC_ACTIVITY_COUNTER_SAMPLES) {
        uint64_t offset = 0;
        k.text[TEXT_MODULE] = module_of(a, pid, address, e->c->pointer_size, utc_ns, &offset);
        if (a->kind == EC_ACTIVITY_CODE_COUNTERS && !ea_stack_is_kernel(address, e->c->pointer_size))
            k.text[TEXT_METHOD] = method_of(a, pid, address, utc_ns);
        k.key[KEY_OFFSET] = a->kind == EC_ACTIVITY_CODE_COUNTERS ? offset : 0;
        k.key[KEY_HAS_NO_INTERVAL] = !interval; /* samples whose events are unknown are rows of their own */
    }
    return ec_activity_is_in_range(a, utc_ns) ? add_latency(a, &k, interval, 0) : 0;
}

/* ---- what processes use ---- */

/* The beginning of the bucket that a time is in. */
static int64_t activity_bucket_of(const ec_activity *a, int64_t utc_ns) {
    if (!a->every_ns)
        return INT64_MIN;
    int64_t rest = utc_ns % a->every_ns;
    if (rest < 0)
        rest += a->every_ns;
    return utc_ns < INT64_MIN + 1 + rest ? INT64_MIN + 1 : utc_ns - rest;
}

static int on_cpu_sample(ec_activity *a, const ec_event_cursor_event *e, int64_t utc_ns) {
    if (!ec_activity_is_in_range(a, utc_ns))
        return 0;
    uint32_t pid = activity_pid_of(a, (uint32_t)ec_event_cursor_u64_or_0(a->cursor, e, EC_SAMPLE_TID), utc_ns);
    ec_activity_key k = {.key = {[KEY_PID] = pid}, .bucket = activity_bucket_of(a, utc_ns)};
    ec_activity_put_process(a, &k, 0, pid, utc_ns);
    return activity_events_add_counted(a, &k, 0);
}

/* direction: EC_OPERATION_IN or _OUT. ns: how long a disk took; 0 of other transfers. is_manifest: the event is of
 * Microsoft-Windows-Kernel-Network, which logs the same bytes as the kernel logger's TcpIp and UdpIp. */
static int add_transfer(ec_activity *a, uint32_t pid, int64_t utc_ns, const char *direction, uint64_t bytes,
                        uint64_t ns, int is_manifest) {
    ec_activity_row *r = NULL;
    ec_activity_key k = {.key = {[KEY_PID] = pid, [KEY_IS_MANIFEST] = is_manifest != 0},
                         .bucket = activity_bucket_of(a, utc_ns)};
    ec_activity_put_process(a, &k, 0, pid, utc_ns);
    int rc = ec_activity_row_of(a, &k, &r), at = strcmp(direction, EC_OPERATION_OUT) == 0 ? SUM_OUT : SUM_IN;
    if (rc)
        return rc;
    r->sum[at]++;
    r->sum[at + SUM_IN_BYTES - SUM_IN] += bytes;
    r->sum[SUM_TRANSFER_NS] += ns;
    if (ns > r->sum[SUM_TRANSFER_MAX_NS])
        r->sum[SUM_TRANSFER_MAX_NS] = ns;
    return 0;
}

enum { RUN_KEY_MAX = 256 + EA_STREAM_RUN_BYTES };

/* A run of an agent, as bytes: how many. */
static size_t run_key(const ec_archive_stream *s, char *to) {
    size_t n = strlen(s->row.host);
    n = n < RUN_KEY_MAX - EA_STREAM_RUN_BYTES ? n : RUN_KEY_MAX - EA_STREAM_RUN_BYTES;
    memcpy(to, s->row.stream, EA_STREAM_RUN_BYTES);
    memcpy(to + EA_STREAM_RUN_BYTES, s->row.host, n);
    return n + EA_STREAM_RUN_BYTES;
}

static int note_kernel_network(ec_activity *a) {
    char key[RUN_KEY_MAX];
    size_t n = run_key(a->stream, key);
    if (ea_bytes_map_get(&a->kernel_network, key, n))
        return 0;
    const char *copy = ea_arena_copy(&a->arena, key, n);
    return copy ? ea_bytes_map_put(&a->kernel_network, copy, n, (void *)(uintptr_t)1) : EA_ENOMEM;
}

void ec_activity_drop_doubles(ec_activity *a) {
    size_t kept = 0;
    for (size_t i = 0; i < a->count; i++) {
        char key[RUN_KEY_MAX];
        size_t n = run_key(a->rows[i].k.stream, key);
        if (!a->rows[i].k.key[KEY_IS_MANIFEST] || !ea_bytes_map_get(&a->kernel_network, key, n))
            a->rows[kept++] = a->rows[i];
    }
    a->count = kept;
}

static int on_transfer(ec_activity *a, const ec_event_cursor_event *e, const plan *p, int64_t utc_ns) {
    uint64_t pid = e->pid, tid = e->tid;
    if (!ec_activity_is_in_range(a, utc_ns))
        return 0;
    (void)ec_event_cursor_u64(a->cursor, e, EC_TRANSFER_TID, &tid);
    if (!ec_event_cursor_u64(a->cursor, e, EC_TRANSFER_PID, &pid) && pid == UINT32_MAX)
        pid = activity_pid_of(a, (uint32_t)tid, utc_ns);
    int is_manifest = a->kind == EC_ACTIVITY_NETWORK_USAGE && !e->c->classic;
    int rc = a->kind == EC_ACTIVITY_NETWORK_USAGE && !is_manifest ? note_kernel_network(a) : 0;
    return rc ? rc
              : add_transfer(a, (uint32_t)pid, utc_ns, p->text,
                             ec_event_cursor_u64_or_0(a->cursor, e, EC_TRANSFER_SIZE), 0, is_manifest);
}

/* ---- requests ---- */

static int on_disk_begin(ec_activity *a, const ec_event_cursor_event *e) {
    uint64_t tid = e->tid;
    (void)ec_event_cursor_u64(a->cursor, e, EC_DISK_BEGIN_TID, &tid);
    return ec_request_begin(&a->requests, ec_event_cursor_u64_or_0(a->cursor, e, EC_DISK_BEGIN_IRP),
                            &(ec_request){.time = e->time, .tid = (uint32_t)tid, .pid = e->pid});
}

static int on_disk_end(ec_activity *a, const ec_event_cursor_event *e, const plan *p, int64_t utc_ns) {
    ec_request q = {.tid = UINT32_MAX, .pid = UINT32_MAX};
    uint64_t tid;
    int is_known = ec_request_end(&a->requests, ec_event_cursor_u64_or_0(a->cursor, e, EC_DISK_IRP), &q);
    if (ec_event_cursor_u64(a->cursor, e, EC_DISK_TID, &tid))
        q.tid = (uint32_t)tid;
    if (!ec_activity_is_in_range(a, utc_ns))
        return 0;
    /* whose thread it is decides: an IRP is used again, and a begin may be lost or belong to another request */
    uint32_t pid = activity_pid_of(a, q.tid, utc_ns);
    if (pid == UINT32_MAX && is_known)
        pid = q.pid;
    uint64_t bytes = ec_event_cursor_u64_or_0(a->cursor, e, EC_DISK_SIZE);
    if (a->kind == EC_ACTIVITY_DISK_USAGE)
        return add_transfer(a, pid, utc_ns, p->text, bytes, ec_disk_request_ns(a->cursor, e), 0);
    uint64_t file_object = ec_event_cursor_u64_or_0(a->cursor, e, EC_DISK_FILE_OBJECT);
    ec_activity_key k = {
        .key = {[KEY_PID] = pid,
                [KEY_DISK] = ec_event_cursor_u64_or_0(a->cursor, e, EC_DISK_NUMBER),
                [KEY_FILE_OBJECT] = file_object},
        .text = {[TEXT_OPERATION] = p->text, [TEXT_FILE] = activity_events_file_of(a, file_object, utc_ns)}};
    ec_activity_put_process(a, &k, 0, pid, utc_ns);
    return add_latency(a, &k, ec_disk_request_ns(a->cursor, e), bytes);
}

static int on_file_begin(ec_activity *a, const ec_event_cursor_event *e, const plan *p) {
    return ec_request_begin(&a->requests, ec_event_cursor_u64_or_0(a->cursor, e, EC_FILE_IRP),
                            &(ec_request){.time = e->time,
                                          .tid = e->tid,
                                          .pid = e->pid,
                                          .subject = ec_event_cursor_u64_or_0(a->cursor, e, EC_FILE_OBJECT),
                                          .operation = p->text});
}

static int on_file_end(ec_activity *a, const ec_event_cursor_event *e, int64_t utc_ns) {
    ec_request q;
    if (!ec_request_end(&a->requests, ec_event_cursor_u64_or_0(a->cursor, e, EC_FILE_IRP), &q) ||
        !ec_activity_is_in_range(a, utc_ns))
        return 0;
    int64_t begin = ea_clock_to_utc_ns(e->clock, q.time);
    uint32_t pid = q.pid != UINT32_MAX ? q.pid : activity_pid_of(a, q.tid, begin);
    ec_activity_key k = {
        .key = {[KEY_PID] = pid, [KEY_FILE_OBJECT] = q.subject},
        .text = {[TEXT_OPERATION] = q.operation, [TEXT_FILE] = activity_events_file_of(a, q.subject, begin)}};
    ec_activity_put_process(a, &k, 0, pid, begin);
    return add_latency(a, &k, ec_event_span_ns(e, q.time, e->time), 0);
}

static int on_fault(ec_activity *a, const ec_event_cursor_event *e, int64_t utc_ns) {
    uint32_t tid = (uint32_t)ec_event_cursor_u64_or_0(a->cursor, e, EC_FAULT_TID),
             pid = activity_pid_of(a, tid, utc_ns);
    uint64_t file_object = ec_event_cursor_u64_or_0(a->cursor, e, EC_FAULT_FILE_OBJECT);
    int64_t begin_raw = (int64_t)ec_event_cursor_u64_or_0(a->cursor, e, EC_FAULT_BEGIN);
    ec_activity_key k = {.key = {[KEY_PID] = pid, [KEY_FILE_OBJECT] = file_object},
                         .text = {[TEXT_FILE] = activity_events_file_of(a, file_object, utc_ns)}};
    ec_activity_put_process(a, &k, 0, pid, utc_ns);
    return ec_activity_is_in_range(a, utc_ns) ? add_latency(a, &k, ec_event_span_ns(e, begin_raw, e->time),
                                                            ec_event_cursor_u64_or_0(a->cursor, e, EC_FAULT_SIZE))
                                              : 0;
}

static int on_interrupt(ec_activity *a, const ec_event_cursor_event *e, const plan *p, int64_t utc_ns) {
    uint64_t begin, routine;
    int unloaded;
    if (!ec_activity_is_in_range(a, utc_ns) || !ec_event_cursor_u64(a->cursor, e, EC_INTERRUPT_BEGIN, &begin) ||
        !ec_event_cursor_u64(a->cursor, e, EC_INTERRUPT_ROUTINE, &routine))
        return 0;
    ec_activity_key k = {.key = {[KEY_ROUTINE] = routine, [KEY_CPU] = e->cpu}, .text = {[TEXT_INTERRUPT] = p->text}};
    int rc = add_latency(a, &k, ec_event_span_ns(e, (int64_t)begin, e->time), 0);
    ec_activity_row *r = NULL;
    if (!rc)
        rc = ec_activity_row_of(a, &k, &r);
    if (rc || r->module)
        return rc;
    const ea_module *m = ec_address_space_module(a->space, (uint32_t)EC_NO_PROCESS,
                                                 ec_address_space_epoch(a->space, (uint32_t)EC_NO_PROCESS, utc_ns),
                                                 routine, 1, &unloaded);
    r->module = m ? module_name(a, m, unloaded) : ec_activity_text(a, "", 0);
    return r->module ? 0 : EA_ENOMEM;
}

/* ---- events by role ---- */

int ec_activity_reads_threads(enum ec_activity_kind kind) {
    return kind == EC_ACTIVITY_THREADS || kind == EC_ACTIVITY_WAITS || kind == EC_ACTIVITY_WAKES;
}

int ec_activity_reads_on(enum ec_activity_kind kind) {
    return ec_activity_reads_threads(kind) || kind == EC_ACTIVITY_GC_PAUSES || kind == EC_ACTIVITY_JIT_METHODS;
}

#define BIT          EC_ROLE_BIT
#define THREAD_ROLES (BIT(SWITCH) | BIT(READY) | BIT(THREAD_BEGIN) | BIT(THREAD_END) | BIT(LOST))
#define SAMPLE_ROLES (BIT(COUNTER_SAMPLE) | BIT(SAMPLE_INTERVAL))

/* The roles that count for each table. */
static const uint32_t ROLES_OF_TABLES[EC_ACTIVITY_KINDS] = {
    [EC_ACTIVITY_THREADS] = THREAD_ROLES | BIT(COMPACT_SWITCHES),
    [EC_ACTIVITY_WAITS] = THREAD_ROLES,
    [EC_ACTIVITY_WAKES] = THREAD_ROLES,
    [EC_ACTIVITY_COUNTERS] = BIT(SWITCH) | BIT(LOST),
    [EC_ACTIVITY_COUNTER_SAMPLES] = SAMPLE_ROLES,
    [EC_ACTIVITY_MODULE_COUNTERS] = SAMPLE_ROLES,
    [EC_ACTIVITY_CODE_COUNTERS] = SAMPLE_ROLES,
    [EC_ACTIVITY_FUNCTION_COUNTERS] = SAMPLE_ROLES,
    [EC_ACTIVITY_COUNTER_PROBLEMS] = BIT(SWITCH) | BIT(LOST) | BIT(COUNTER_CORRUPTION),
    [EC_ACTIVITY_INTERRUPTS] = BIT(INTERRUPT),
    [EC_ACTIVITY_DISK] = BIT(DISK_BEGIN) | BIT(DISK_END) | BIT(FLUSH_BEGIN) | BIT(FLUSH_END),
    [EC_ACTIVITY_FILES] = BIT(FILE_BEGIN) | BIT(FILE_END),
    [EC_ACTIVITY_FAULTS] = BIT(HARD_FAULT),
    [EC_ACTIVITY_CPU_USAGE] = BIT(CPU_SAMPLE),
    [EC_ACTIVITY_DISK_USAGE] = BIT(DISK_BEGIN) | BIT(DISK_END),
    [EC_ACTIVITY_FILE_USAGE] = BIT(FILE_TRANSFER),
    [EC_ACTIVITY_NETWORK_USAGE] = BIT(NETWORK_TRANSFER),
    [EC_ACTIVITY_GC_PAUSES] = BIT(GC_BEGIN) | BIT(GC_END) | BIT(GC_SUSPEND) | BIT(GC_SUSPENDED) | BIT(GC_RESTARTED) |
                              BIT(GC_HEAPS) | BIT(GC_HISTORY) | BIT(LOST),
    [EC_ACTIVITY_JIT_METHODS] = BIT(JIT_BEGIN) | BIT(JIT_END) | BIT(LOST),
};

const ec_event_cursor_plan *ec_activity_plan_class(void *arg, const ea_class *c) {
    ec_activity *a = arg;
    const char *text;
    ec_event_cursor_plan cursor = {.addresses = -1};
    /* of a CPU sample the thread is enough */
    unsigned field_count = a->kind == EC_ACTIVITY_CPU_USAGE ? EC_SAMPLE_TID + 1 : EC_EVENT_CURSOR_FIELDS;
    enum ec_role role = ec_role_of(c, ROLES_OF_TABLES[a->kind], field_count, &cursor, &text);
    if (role == EC_ROLE_NONE)
        return NULL;
    plan *p = ea_arena_zalloc(&a->arena, 1, sizeof *p);
    if (!p)
        return &EC_EVENT_CURSOR_NO_MEMORY;
    cursor.wants_items = role == EC_ROLE_SWITCH && !ec_activity_reads_threads(a->kind);
    cursor.wants_record = role == EC_ROLE_COMPACT_SWITCHES;
    *p = (plan){.cursor = cursor, .role = role, .text = text ? ec_activity_text(a, text, strlen(text)) : NULL};
    return &p->cursor;
}

static int on_thread_life(ec_activity *a, const ec_event_cursor_event *e, const plan *p, int64_t utc_ns) {
    ec_sched_slice s;
    return ec_sched_life_event(a->sched, a->cursor, e, p->role, &s) ? add_unfinished(a, &s, utc_ns) : 0;
}

static int on_ready(ec_activity *a, const ec_event_cursor_event *e) {
    ec_sched_slice slices[3];
    return add_slices(a, slices, ec_sched_event(a->sched, a->cursor, e, EC_ROLE_READY, slices));
}

int ec_activity_event(ec_activity *a, const ec_event_cursor_event *e) {
    const plan *p = (const plan *)e->plan;
    int64_t utc_ns = ec_event_cursor_utc_ns(e);
    int rc = 0;
    if (e->is_after_gap) {
        rc = know_nothing(a, a->last_utc_ns);
        ec_request_tracker_clear(&a->requests);
    }
    if (rc)
        return rc;
    a->clock = *e->clock;
    a->last_utc_ns = utc_ns;
    switch (p->role) {
    case EC_ROLE_SWITCH:
        return activity_events_on_switch(a, e, utc_ns);
    case EC_ROLE_COMPACT_SWITCHES:
        return on_compact_switches(a, e);
    case EC_ROLE_READY:
        return on_ready(a, e);
    case EC_ROLE_THREAD_BEGIN:
    case EC_ROLE_THREAD_END:
        return on_thread_life(a, e, p, utc_ns);
    case EC_ROLE_LOST:
        return know_nothing(a, utc_ns);
    case EC_ROLE_COUNTER_SAMPLE:
        return on_sample(a, e, utc_ns);
    case EC_ROLE_SAMPLE_INTERVAL:
        return ec_sample_sources_add(&a->sources, a->cursor, e);
    case EC_ROLE_COUNTER_CORRUPTION:
        return ec_activity_is_in_range(a, utc_ns) ? on_corruption(a, e, p->text) : 0;
    case EC_ROLE_INTERRUPT:
        return on_interrupt(a, e, p, utc_ns);
    case EC_ROLE_CPU_SAMPLE:
        return on_cpu_sample(a, e, utc_ns);
    case EC_ROLE_GC_BEGIN:
    case EC_ROLE_GC_END:
    case EC_ROLE_GC_SUSPEND:
    case EC_ROLE_GC_SUSPENDED:
    case EC_ROLE_GC_RESTARTED:
    case EC_ROLE_GC_HEAPS:
    case EC_ROLE_GC_HISTORY:
    case EC_ROLE_JIT_BEGIN:
    case EC_ROLE_JIT_END:
        return ec_activity_dotnet(a, e, p->role, utc_ns);
    case EC_ROLE_FILE_TRANSFER:
    case EC_ROLE_NETWORK_TRANSFER:
        return on_transfer(a, e, p, utc_ns);
    case EC_ROLE_DISK_BEGIN:
    case EC_ROLE_FLUSH_BEGIN:
        return on_disk_begin(a, e);
    case EC_ROLE_DISK_END:
    case EC_ROLE_FLUSH_END:
        return on_disk_end(a, e, p, utc_ns);
    case EC_ROLE_FILE_BEGIN:
        return on_file_begin(a, e, p);
    case EC_ROLE_FILE_END:
        return on_file_end(a, e, utc_ns);
    default:
        return on_fault(a, e, utc_ns);
    }
}

int ec_activity_end_events(ec_activity *a, int64_t until_utc_ns) {
    int rc = a->expander ? ea_cswitch_expand_end(a->expander, on_compact_switch, a) : 0;
    return rc ? rc : know_nothing(a, until_utc_ns);
}

void ec_activity_forget(ec_activity *a) {
    ec_request_tracker_clear(&a->requests);
    ec_sample_sources_clear(&a->sources);
    ea_bytes_map_clear(&a->runtimes);
    memset(a->images, 0, sizeof a->images);
    forget_cpus(a);
}
