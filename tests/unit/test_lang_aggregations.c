/* Aggregations of the query language, beside naive ones; their output; bounds of keys, memory, texts and time. */
#include "tests/unit/lang_rig.h"

#ifndef _WIN32
#include <sys/resource.h>
#endif

static void aggregations_equal_naive_ones(void **state) {
    enum { EVENTS = 5000, KEYS = 7 };

    world *w = *state;
    uint64_t count[KEYS] = {0}, sum[KEYS] = {0}, min[KEYS], max[KEYS] = {0}, buckets[KEYS][40] = {{0}};
    start(
        w,
        "Thread/CSwitch { @count[NewThreadId] = count(); @sum[NewThreadId] = sum(OldThreadId);"
        "@min[NewThreadId] = min(OldThreadId); @max[NewThreadId] = max(OldThreadId);"
        "@avg[NewThreadId] = avg(OldThreadId); @dev[NewThreadId] = stddev(OldThreadId);"
        "@q[NewThreadId] = quantize(OldThreadId); @d[NewThreadId] = distinct(OldThreadId); }"
        "end { k = 0; emit(c = @count[0], s = @sum[0], n = @min[0], x = @max[0], a = @avg[0], d = @dev[0], u = @d[0]);"
        "emit(c = @count[6], s = @sum[6], n = @min[6], x = @max[6], a = @avg[6], d = @dev[6], u = @d[6]); "
        "clear(@count);"
        "clear(@sum); clear(@min); clear(@max); clear(@avg); clear(@dev); clear(@d); }");
    double squares[KEYS] = {0};
    uint32_t random = 1;
    char seen[KEYS][256] = {{0}};
    uint64_t distinct[KEYS] = {0};
    for (int i = 0; i < EVENTS; i++) {
        random = random * 1103515245u + 12345u;
        uint32_t key = (random >> 16) % KEYS, value = (random >> 8) % 200;
        if (!count[key] || value < min[key])
            min[key] = value;
        max[key] = value > max[key] ? value : max[key];
        count[key]++;
        sum[key] += value;
        squares[key] += (double)value * value;
        distinct[key] += !seen[key][value];
        seen[key][value] = 1;
        int bucket = 0;
        while (value >> bucket)
            bucket++;
        buckets[key][bucket]++;
        assert_int_equal(switch_to(w, key, value, 0, 0), 0);
    }
    assert_true(ea_lang_run_end(w->run) >= 0);
    const char *at = output(w);
    for (int k = 0; k < KEYS; k += 6) {
        double mean = (double)sum[k] / (double)count[k], got_avg, got_dev;
        unsigned long long c, s, n, x, u;
        at = strstr(at, "{\"row\"");
        assert_non_null(at);
        assert_int_equal(sscanf(at,
                                "{\"row\":{\"c\":%llu,\"s\":%llu,\"n\":%llu,\"x\":%llu,\"a\":%lf,\"d\":%lf,\"u\":%llu}",
                                &c, &s, &n, &x, &got_avg, &got_dev, &u),
                         7);
        double dev2 = squares[k] / (double)count[k] - mean * mean;
        assert_int_equal(c, count[k]);
        assert_int_equal(s, sum[k]);
        assert_int_equal(n, min[k]);
        assert_int_equal(x, max[k]);
        assert_int_equal(u, distinct[k]);
        assert_true(got_avg > mean - 0.001 && got_avg < mean + 0.001);
        assert_true(got_dev * got_dev > dev2 - 0.1 && got_dev * got_dev < dev2 + 0.1);
        at++;
    }
    for (int k = 0; k < KEYS; k++) {
        char key[64], part[96];
        snprintf(key, sizeof key, "\"aggregation\":\"@q\"");
        at = strstr(output(w), key);
        snprintf(part, sizeof part, "\"keys\":[%d],\"quantize\":", k);
        at = at ? strstr(at, part) : NULL;
        assert_non_null(at);
        const char *end = strchr(at, '\n');
        for (int b = 0; b < 9; b++) {
            snprintf(part, sizeof part, "{\"from\":%d,\"to\":%d,\"count\":%llu}", b ? 1 << (b - 1) : 0, 1 << b,
                     (unsigned long long)buckets[k][b]);
            const char *found = strstr(at, part);
            assert_int_equal(found && found < end, buckets[k][b] != 0);
        }
    }
    end_run(w);
}

static void buckets_are_as_the_reference_says(void **state) {
    world *w = *state;
    start(
        w,
        "begin { @l = lquantize(-1, 0, 10, 4); @l = lquantize(0, 0, 10, 4); @l = lquantize(9, 0, 10, 4);"
        "@l = lquantize(10, 0, 10, 4); @q = quantize(-5); @q = quantize(0); @q = quantize(-1); @q = quantize(1 << 62);"
        "@e = llquantize(0, 10, 0, 1, 10); @e = llquantize(7, 10, 0, 1, 10); @e = llquantize(35, 10, 0, 1, 10);"
        "@e = llquantize(1000, 10, 0, 1, 10); @s = quantize(0 - 9223372036854775807); @s = quantize(1 << 63);"
        "@u = quantize(9223372036854775808); @u = quantize(9223372036854775807); }");
    ends_with(
        w,
        "{\"aggregation\":\"@l\",\"keys\":[],\"lquantize\":[{\"from\":null,\"to\":0,\"count\":1},{\"from\":0,\"to\":4,"
        "\"count\":1},{\"from\":8,\"to\":10,\"count\":1},{\"from\":10,\"to\":null,\"count\":1}]}\n"
        "{\"aggregation\":\"@q\",\"keys\":[],\"quantize\":[{\"from\":-7,\"to\":-3,\"count\":1},{\"from\":-1,\"to\":0,"
        "\"count\":1},{\"from\":0,\"to\":1,\"count\":1},{\"from\":4611686018427387904,\"to\":9223372036854775808,"
        "\"count\":1}]}\n"
        "{\"aggregation\":\"@e\",\"keys\":[],\"llquantize\":[{\"from\":null,\"to\":1,\"count\":1},{\"from\":7,\"to\":8,"
        "\"count\":1},{\"from\":30,\"to\":40,\"count\":1},{\"from\":100,\"to\":null,\"count\":1}]}\n"
        "{\"aggregation\":\"@s\",\"keys\":[],\"quantize\":[{\"from\":null,\"to\":-9223372036854775807,\"count\":1},"
        "{\"from\":-9223372036854775807,\"to\":-4611686018427387903,\"count\":1}]}\n"
        "{\"aggregation\":\"@u\",\"keys\":[],\"quantize\":[{\"from\":4611686018427387904,\"to\":9223372036854775808,"
        "\"count\":1},{\"from\":9223372036854775808,\"to\":null,\"count\":1}]}\n");
}

static void fractions_have_no_number_and_signs(void **state) {
    world *w = *state;
    start(w,
          "begin { inf = 1000000000000000000.0; inf = inf * inf; inf = inf * inf; inf = inf * inf; inf = inf * inf;"
          "inf = inf * inf; nan = inf - inf; @x = max(5.5); @x = max(nan); @x = max(1.5); @n = min(nan);"
          "@n = min(2.5); @n = min(nan); emit(i = inf, n = nan, x = @x, m = @n); @l = lquantize(0.0 - 0.5, -2, 2, 1);"
          "clear(@x); clear(@n); }");
    ends_with(w, "{\"row\":{\"i\":null,\"n\":null,\"x\":5.5,\"m\":2.5}}\n"
                 "{\"aggregation\":\"@l\",\"keys\":[],\"lquantize\":[{\"from\":-1,\"to\":0,\"count\":1}]}\n");
}

static void top_and_distinct_are_near_the_truth(void **state) {
    world *w = *state;
    start(w, "Thread/CSwitch { @t = top(OldThreadId, 3); @d = distinct(OldThreadId); @all = distinct(NewThreadId); }"
             "end { emit(d = @d, all = @all); print(@t); clear(@d); clear(@all); }");
    /* 5,000 values once, three of them often */
    for (uint32_t i = 0; i < 20000; i++)
        assert_int_equal(switch_to(w, i, i % 4 ? i % 4 : 1000 + i / 4, 0, 0), 0);
    assert_true(ea_lang_run_end(w->run) >= 0);
    unsigned long long d, all;
    assert_int_equal(sscanf(output(w), "{\"row\":{\"d\":%llu,\"all\":%llu}", &d, &all), 2);
    assert_in_range(d, 4750, 5250); /* within 5 % */
    assert_in_range(all, 19000, 21000);
    for (int i = 1; i < 4; i++) {
        char part[64];
        snprintf(part, sizeof part, "{\"value\":%d,\"count\":5000,\"over\":0}", i);
        assert_non_null(strstr(output(w), part));
    }
    end_run(w);
}

static void entries_are_printed_by_result_then_by_keys(void **state) {
    world *w = *state;
    start_with(w,
               "begin { @a[\"b\", 1] = sum(5); @a[\"a\", 1] = sum(5); @a[\"c\", 1] = sum(9); @a[\"a\", -1] = sum(5); }"
               "end { print(@a, 3); trunc(@a, 1); print(@a); trunc(@a); print(@a); }",
               &(ea_lang_run_options){.form = EA_LANG_TEXT});
    ends_with(
        w, "@a sum\n\"b\"   1             sum\nc     1               9\na    -1               5\na     1               "
           "5\n\n@a sum\n\"b\"  1             sum\nc    1               9\n\n");
}

static void columns_are_named_as_keys_are_written(void **state) {
    world *w = *state;
    start_with(w, "begin { @[(1 + 2) * 3, 1 == 2 ? 5 : 6] = count(); } end { print(@, 0); print(@, 1); }",
               &(ea_lang_run_options){.form = EA_LANG_CSV});
    ends_with(w, "aggregation,(1 + 2) * 3,1 == 2 ? 5 : 6,count\n@,9,6,1\n");
    char text[512];
    size_t n = (size_t)snprintf(text, sizeof text, "begin { @[1");
    for (int i = 0; i < 50; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, " + 1");
    snprintf(text + n, sizeof text - n, "] = count(); }");
    start_with(w, text, &(ea_lang_run_options){.form = EA_LANG_TEXT});
    assert_int_equal(ea_lang_run_end(w->run), 0);
    const char *row = strchr(strchr(output(w), '\n') + 1, '\n') + 1;
    assert_in_range(strchr(row, '\n') - row, 60, 80); /* however long the name is */
    end_run(w);
}

static void csv_on_a_terminal_does_not_steer_it(void **state) {
    world *w = *state;
    for (int is_terminal = 0; is_terminal < 2; is_terminal++) {
        start_with(w, "begin { emit(x = \"a\\rb\"); }",
                   &(ea_lang_run_options){.form = EA_LANG_CSV, .is_terminal = is_terminal});
        ends_with(w, is_terminal ? "x\na\\x0db\n" : "x\n\"a\rb\"\n");
    }
}

static size_t flushed_bytes, largest_bytes;

static int take(void *arg, ea_text *out) {
    (void)arg;
    flushed_bytes += out->len_bytes;
    largest_bytes = out->len_bytes > largest_bytes ? out->len_bytes : largest_bytes;
    ea_text_clear(out);
    return 0;
}

static void a_large_aggregation_is_printed_in_parts(void **state) {
    world *w = *state;
    flushed_bytes = largest_bytes = 0;
    start_with(w, "Thread/CSwitch { @[NewThreadId] = count(); }",
               &(ea_lang_run_options){.form = EA_LANG_JSON, .flush = take});
    for (uint32_t i = 0; i < 60000; i++)
        assert_int_equal(switch_to(w, i, 3, 0, 0), 0);
    assert_int_equal(ea_lang_run_end(w->run), 0);
    assert_true(flushed_bytes > 4000000);
    assert_true(largest_bytes < 300000);
    end_run(w);
}

static void keys_beyond_the_limit_count_as_others(void **state) {
    world *w = *state;
    start_with(
        w, "Thread/CSwitch { @n[NewThreadId] = count(); @q[NewThreadId] = quantize(OldThreadId); m[NewThreadId] = 1; }",
        &(ea_lang_run_options){.form = EA_LANG_CSV, .limit_entries = 2});
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(switch_to(w, i, 3, 0, 0), 0);
    assert_int_equal(switch_to(w, 1, 3, 0, 0), 0);
    ea_lang_counts c = ea_lang_run_counts(w->run);
    assert_int_equal(c.others, 16);
    assert_int_equal(c.dropped, 8);
    ends_with(w, "aggregation,NewThreadId,count\n@n,1,2\n@n,0,1\n@n,(others),8\n"
                 "aggregation,NewThreadId,from,to,count\n@q,1,2,4,2\n@q,0,2,4,1\n@q,(others),2,4,8\n");
}

static void memory_is_bounded_and_nothing_is_lost(void **state) {
    enum { EVENTS = 300000 };

    world *w = *state;
    start_with(w, "Thread/CSwitch { @n[NewThreadId] = count(); @h[NewThreadId] = quantize(OldThreadId); }",
               &(ea_lang_run_options){.form = EA_LANG_CSV, .limit_entries = 10000000, .limit_bytes = 4 << 20});
    for (uint32_t i = 0; i < EVENTS; i++)
        assert_int_equal(switch_to(w, i, i, 0, 0), 0);
    ea_lang_counts c = ea_lang_run_counts(w->run);
    assert_true(c.others > EVENTS); /* of both aggregations */
    assert_int_equal(ea_lang_run_end(w->run), 0);
    uint64_t n = 0, h = 0;
    for (const char *line = output(w); line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        const char *end = strchr(line, '\n'), *last = end;
        while (last > line && last[-1] != ',')
            last--;
        if (line[0] == '@')
            *(line[1] == 'n' ? &n : &h) += strtoull(last, NULL, 10);
    }
    assert_int_equal(n, EVENTS);
    assert_int_equal(h, EVENTS);
    end_run(w);
}

/* Of the process, the most that it had; 0: not known. */
static uint64_t memory_peak_bytes(void) {
#ifdef _WIN32
    return 0;
#else
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) ? 0 : (uint64_t)u.ru_maxrss * 1024;
#endif
}

static void ten_million_keys_have_the_memory_that_is_given(void **state) {
#ifdef IS_SANITIZED
    enum { EVENTS = 500000 };
#else
    enum { EVENTS = 10000000 };
#endif
    enum { LIMIT_BYTES = 16 << 20 };

    world *w = *state;
    uint8_t payload[24] = {0};
    ea_record record = {.provider = THREAD,
                        .flags = EA_FLAG_CLASSIC_HEADER,
                        .opcode = 36,
                        .version = 2,
                        .pointer_size = 8,
                        .pid = UINT32_MAX,
                        .tid = UINT32_MAX,
                        .payload = payload,
                        .payload_bytes = sizeof payload};
    ea_lang_event event = {.record = &record, .utc_ns = 1, .c = ea_registry_find(w->registry, &record)};
    start_with(
        w,
        "Thread/CSwitch { @[NewThreadId] = count(); m[NewThreadId] = 1; } end { printf(\"%d\", @[0]); trunc(@, 1); "
        "print(@); }",
        &(ea_lang_run_options){.form = EA_LANG_CSV, .limit_entries = 16777216, .limit_bytes = LIMIT_BYTES});
    uint64_t before = memory_peak_bytes();
    clock_t since = clock();
    for (uint32_t i = 0; i < EVENTS; i++) {
        memcpy(payload, &i, sizeof i);
        if (ea_lang_run_event(w->run, &event))
            fail_msg("event %u", i);
    }
    uint64_t grown = memory_peak_bytes() - before;
    ea_lang_counts c = ea_lang_run_counts(w->run);
    assert_int_equal(c.events, EVENTS);
    assert_true(c.others > EVENTS / 10 && c.others < EVENTS && c.dropped > 0);
#ifndef IS_SANITIZED
    assert_true(grown < LIMIT_BYTES + LIMIT_BYTES / 2); /* a table that grows is there twice for a moment */
#endif
    assert_true(was_enough(since, 60));
    assert_int_equal(ea_lang_run_end(w->run), 0);
    char last[64];
    snprintf(last, sizeof last, "@,(others),%llu\n", (unsigned long long)c.others);
    assert_non_null(strstr(output(w), last)); /* each value is in an entry, or among the others */
    print_message("%u keys: %llu bytes, %llu of others\n", EVENTS, (unsigned long long)grown,
                  (unsigned long long)c.others);
    end_run(w);
}

static void others_have_room_when_there_is_no_memory(void **state) {
    world *w = *state;
    start_with(w, "Thread/CSwitch { @[NewThreadId] = top(OldThreadId, 5); }",
               &(ea_lang_run_options){.form = EA_LANG_CSV, .limit_bytes = 1 << 16});
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(switch_to(w, i, 3, 0, 0), 0);
    uint64_t others = ea_lang_run_counts(w->run).others;
    assert_in_range(others, 50, 99);
    assert_int_equal(ea_lang_run_end(w->run), 0);
    char line[64];
    snprintf(line, sizeof line, "\n@,(others),3,%llu,0\n", (unsigned long long)others);
    assert_non_null(strstr(output(w), line));
    end_run(w);
}

static void next_activity(world *w, uint32_t number) {
    memset(&w->activity, 0, sizeof w->activity);
    memcpy(&w->activity, &number, sizeof number);
}

static void texts_of_conditions_take_no_memory(void **state) {
    enum { EVENTS = 20000 };

    world *w = *state;
    start_with(w,
               "Thread/CSwitch /activity =~ \"*-0000-*\"/ { @n = count(); this.a = activity; if (this.a == activity) { "
               "@m = count(); } }",
               &(ea_lang_run_options){.form = EA_LANG_CSV, .limit_bytes = 1 << 16});
    for (uint32_t i = 0; i < EVENTS; i++) {
        next_activity(w, i);
        assert_int_equal(switch_to(w, 1, 2, 0, 0), 0);
    }
    assert_int_equal(ea_lang_run_counts(w->run).texts, 0);
    ends_with(w, "aggregation,count\n@n,20000\naggregation,count\n@m,20000\n");
}

/* A program that clears what it printed needs no more memory than one interval does, however long it runs. */
static void texts_that_were_cleared_make_room(void **state) {
    enum { EVENTS = 40000, EACH = 200 };

    world *w = *state;
    start_with(w,
               "Thread/CSwitch { @[activity] = count(); if (probe == \"Thread/CSwitch\") { @n = count(); } "
               "delta(NewThreadId); } "
               "tick:1ms { printf(\"%d\\n\", @n); clear(@); clear(@n); }",
               &(ea_lang_run_options){.form = EA_LANG_CSV, .limit_bytes = 1 << 18});
    w->now_ns = 0;
    for (uint32_t i = 0; i < EVENTS; i++) {
        if (i % EACH == 0)
            w->now_ns = (int64_t)(i / EACH) * 1000000;
        next_activity(w, i);
        assert_int_equal(switch_to(w, 1, 2, 0, 0), 0);
    }
    ea_lang_counts c = ea_lang_run_counts(w->run);
    assert_int_equal(c.texts, 0);
    assert_int_equal(c.others, 0);
    unsigned lines = 0;
    for (const char *at = output(w); (at = strstr(at, "printf,")) != NULL; lines++) {
        at += strlen("printf,");
        assert_int_equal(strtoul(at, NULL, 10), EACH);
    }
    assert_int_equal(lines, EVENTS / EACH - 1);
    end_run(w);
}

/* Texts that something still needs stay what they are. */
static void texts_that_are_needed_stay(void **state) {
    enum { EVENTS = 20000 };

    world *w = *state;
    start_with(w,
               "Thread/CSwitch { @[activity] = count(); if (!n) { first = activity; } n++; } tick:1ms { clear(@); } "
               "end { printf(\"%s\", first); }",
               &(ea_lang_run_options){.form = EA_LANG_CSV, .limit_bytes = 1 << 18});
    for (uint32_t i = 0; i < EVENTS; i++) {
        next_activity(w, i + 1);
        assert_int_equal(switch_to(w, 1, 2, 0, 0), 0);
    }
    assert_true(ea_lang_run_end(w->run) >= 0);
    assert_non_null(strstr(output(w), "00000001-0000-0000-0000-000000000000"));
    end_run(w);
}

static void texts_without_room_are_no_keys(void **state) {
    enum { EVENTS = 5000 };

    world *w = *state;
    start_with(w,
               "Thread/CSwitch { delta(activity); m[activity] = 1; @n = sum(m[activity]); @t = sum(delta(activity)); }",
               &(ea_lang_run_options){.form = EA_LANG_CSV, .limit_bytes = 1 << 16});
    for (uint32_t i = 0; i < EVENTS; i++) {
        next_activity(w, i);
        assert_int_equal(switch_to(w, 1, 2, 0, 0), 0);
    }
    ea_lang_counts c = ea_lang_run_counts(w->run);
    uint64_t absent = c.absent, found;
    assert_int_equal(c.texts, 0);
    assert_int_equal(ea_lang_run_end(w->run), 0);
    const char *at = strstr(output(w), "@n,");
    assert_non_null(at);
    found = strtoull(at + 3, NULL, 10);
    assert_in_range(found, 100, 2000);
    assert_int_equal(c.dropped, absent + EVENTS - found); /* what was dropped, and nothing else, is not found */
    end_run(w);
}

static void texts_that_are_kept_stay_what_they_are(void **state) {
    enum { EVENTS = 3000, KEYS = 1000 };

    world *w = *state;
    start_with(
        w,
        "Thread/CSwitch { last = activity; m[1] = activity; self.t = activity; delta(activity, 1); }"
        "Thread/CSwitch /activity == last && self.t == m[1]/ { @[activity] = count(); @t[1] = top(activity, 3); }"
        "Thread/End { @d = count(); @ns = sum(delta(last, 1)); }"
        "end { printf(\"%s %s\\n\", last, m[1]); print(@ns); print(@, 3); print(@t); }",
        &(ea_lang_run_options){.form = EA_LANG_TEXT, .limit_entries = KEYS});
    for (uint32_t i = 0; i < EVENTS; i++) {
        next_activity(w, i % (KEYS + KEYS / 2));
        assert_int_equal(switch_to(w, 1, 2, 0, 0), 0);
    }
    w->now_ns += 1000;
    assert_int_equal(end_thread(w, 9, 8), 0);
    ea_lang_counts c = ea_lang_run_counts(w->run);
    assert_int_equal(c.others, KEYS);
    assert_int_equal(c.texts, 0);
    assert_int_equal(ea_lang_run_end(w->run), 0);
    static const char EXPECTED[] = "000005db-0000-0000-0000-000000000000 000005db-0000-0000-0000-000000000000\n";
    assert_memory_equal(output(w), EXPECTED, sizeof EXPECTED - 1);
    assert_non_null(strstr(output(w), "\n00000000-0000-0000-0000-000000000000               2\n"
                                      "00000001-0000-0000-0000-000000000000               2\n"
                                      "00000002-0000-0000-0000-000000000000               2\n"));
    end_run(w);
}

static void what_print_and_clear_cost_is_bounded(void **state) {
    enum { KEYS = 1 << 20, EVENTS = 3000 };

    world *w = *state;
    start_with(w, "Thread/CSwitch { @[NewThreadId] = count(); print(@, 1); } end { print(@, 1); }",
               &(ea_lang_run_options){.form = EA_LANG_CSV, .limit_visits = 10});
    for (uint32_t i = 0; i < EVENTS; i++)
        assert_int_equal(switch_to(w, i, 2, 0, 0), 0);
    ea_lang_counts c = ea_lang_run_counts(w->run);
    assert_in_range(c.costly, 1000, EVENTS - 500); /* 256 keys an event */
    ea_text_clear(ea_lang_run_output(w->run));
    ends_with(w, "@,0,1\n"); /* end clauses are never skipped */
    /* clearing costs as the number of keys does, not as the greatest number before */
    start_with(w, "Thread/CSwitch { @[NewThreadId] = count(); } Thread/CSwitch /OldThreadId == 1/ { clear(@); }",
               &(ea_lang_run_options){.form = EA_LANG_CSV, .limit_entries = KEYS});
    for (uint32_t i = 0; i < KEYS; i++)
        assert_int_equal(switch_to(w, i, 2, 0, 0), 0);
    clock_t before = clock();
    for (uint32_t i = 0; i < EVENTS; i++)
        assert_int_equal(switch_to(w, i, 1, 0, 0), 0);
    assert_true(was_enough(before, 0.2));
    assert_int_equal(switch_to(w, 7, 2, 0, 0), 0);
    ends_with(w, "aggregation,NewThreadId,count\n@,7,1\n");
}

static void keys_that_differ_in_high_bits_are_found_as_fast(void **state) {
    world *w = *state;
    clock_t times[2];
    for (int high = 0; high < 2; high++) {
        start(w, high ? "Thread/CSwitch { @[NewThreadId << 49] = count(); }"
                      : "Thread/CSwitch { @[NewThreadId] = count(); }");
        clock_t before = clock();
        for (uint32_t i = 0; i < 200000; i++)
            assert_int_equal(switch_to(w, i & 4095, i, 0, 0), 0);
        times[high] = clock() - before;
        end_run(w);
    }
    assert_true(times[1] < 8 * times[0]);
}

static void distinct_values_are_estimated_once_a_print(void **state) {
    enum { KEYS = 3000, VALUES_OF_KEY = 260 };

    world *w = *state;
    start_with(w, "Thread/CSwitch { @[NewThreadId] = distinct(OldThreadId); } end { print(@, 1); }",
               &(ea_lang_run_options){.form = EA_LANG_CSV});
    for (uint32_t i = 0; i < KEYS * VALUES_OF_KEY; i++)
        assert_int_equal(switch_to(w, i / VALUES_OF_KEY, i, 0, 0), 0);
    clock_t before = clock();
    assert_int_equal(ea_lang_run_end(w->run), 0);
    assert_true(was_enough(before, 0.5));
    end_run(w);
}

static void texts_beyond_the_memory_are_one_text(void **state) {
    world *w = *state;
    start_with(w, "Thread/CSwitch { @[OldThreadWaitReason_name] = count(); }",
               &(ea_lang_run_options){.form = EA_LANG_CSV, .limit_bytes = 8192});
    assert_int_equal(switch_to(w, 1, 2, 0, 0), 0);
    ends_with(w, "aggregation,OldThreadWaitReason_name,count\n@,UserRequest,1\n");
    start_with(w, "Thread/CSwitch { @[OldThreadWaitReason_name] = count(); }",
               &(ea_lang_run_options){.form = EA_LANG_CSV, .limit_bytes = 20});
    assert_int_equal(switch_to(w, 1, 2, 0, 0), 0);
    assert_true(ea_lang_run_counts(w->run).texts > 0);
    ends_with(w, "aggregation,OldThreadWaitReason_name,count\n@,(others),1\n");
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, make_world, free_world)
    const struct CMUnitTest tests[] = {
        T(fractions_have_no_number_and_signs),
        T(columns_are_named_as_keys_are_written),
        T(csv_on_a_terminal_does_not_steer_it),
        T(ten_million_keys_have_the_memory_that_is_given),
        T(others_have_room_when_there_is_no_memory),
        T(texts_of_conditions_take_no_memory),
        T(texts_that_were_cleared_make_room),
        T(texts_that_are_needed_stay),
        T(texts_without_room_are_no_keys),
        T(texts_that_are_kept_stay_what_they_are),
        T(what_print_and_clear_cost_is_bounded),
        T(keys_that_differ_in_high_bits_are_found_as_fast),
        T(distinct_values_are_estimated_once_a_print),
        T(aggregations_equal_naive_ones),
        T(buckets_are_as_the_reference_says),
        T(top_and_distinct_are_near_the_truth),
        T(entries_are_printed_by_result_then_by_keys),
        T(a_large_aggregation_is_printed_in_parts),
        T(keys_beyond_the_limit_count_as_others),
        T(memory_is_bounded_and_nothing_is_lost),
        T(texts_beyond_the_memory_are_one_text),
    };
#undef T
    return cmocka_run_group_tests(tests, NULL, NULL);
}
