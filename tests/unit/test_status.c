/* The status of an agent, as JSON: whatever names a configuration and a disk have, it is well-formed; what it says is
 * so; each of its keys is in the help of "etwagent status". */
#include "tests/unit/agent_kit.h"

#include "proto/base/counters.h"
#include "service/core/status_json.h"

#include <ctype.h>

static int setup(void **state) {
    int rc = scratch_make(state);
    if (!rc)
        make_certificate();
    return rc;
}

/* ---- a reader of JSON that forgives nothing ---- */

typedef struct reader {
    const char *at, *end;
    const char *wanted; /* the decoded text of the last string value that equals it is counted */
    unsigned found;
    int depth;
} reader;

static void json_value(reader *r);

static void json_space(reader *r) {
    while (r->at < r->end && strchr(" \n\t\r", *r->at))
        r->at++;
}

static void json_expect(reader *r, char c) {
    json_space(r);
    if (r->at >= r->end || *r->at != c)
        fail_msg("expected %c at: %.40s", c, r->at);
    r->at++;
}

static int json_has(reader *r, char c) {
    json_space(r);
    return r->at < r->end && *r->at == c;
}

/* A string, decoded into out (its size: 1024); of \u escapes only those below 128 are expected. */
static void json_string(reader *r, char *out) {
    size_t n = 0;
    json_expect(r, '"');
    for (;;) {
        assert_true(r->at < r->end && n < 1000);
        unsigned char c = (unsigned char)*r->at++;
        if (c == '"')
            break;
        if (c < 0x20)
            fail_msg("a control character (%u) in a string", c);
        if (c != '\\') {
            out[n++] = (char)c;
            continue;
        }
        static const char FROM[] = "\"\\/bfnrt", TO[] = "\"\\/\b\f\n\r\t";
        char e = *r->at++;
        if (e == 'u') {
            unsigned code = 0;
            for (int i = 0; i < 4; i++) {
                assert_true(isxdigit((unsigned char)*r->at));
                code = code * 16 + (unsigned)(isdigit((unsigned char)*r->at) ? *r->at - '0' : (*r->at | 32) - 'a' + 10);
                r->at++;
            }
            assert_in_range(code, 1, 127);
            out[n++] = (char)code;
        } else {
            const char *which = strchr(FROM, e);
            if (!which)
                fail_msg("an escape that JSON lacks: \\%c", e);
            else
                out[n++] = TO[which - FROM];
        }
    }
    out[n] = 0;
}

/* 1 when the help names the key, as a whole word. */
static int is_documented(const char *key) {
    size_t n = strlen(key);
    for (const char *s = EA_AGENT_STATUS_TEXT; (s = strstr(s, key)); s += n)
        if (!isalnum((unsigned char)s[-1]) && s[-1] != '_' && !isalnum((unsigned char)s[n]) && s[n] != '_')
            return 1;
    return 0;
}

static void json_object(reader *r) {
    char key[1024];
    json_expect(r, '{');
    do {
        json_string(r, key);
        if (!is_documented(key))
            fail_msg("the help of \"etwagent status\" lacks %s", key);
        json_expect(r, ':');
        json_value(r);
    } while (json_has(r, ',') && r->at++);
    json_expect(r, '}');
}

static void json_array(reader *r) {
    json_expect(r, '[');
    if (!json_has(r, ']'))
        do
            json_value(r);
        while (json_has(r, ',') && r->at++);
    json_expect(r, ']');
}

static void json_value(reader *r) {
    char text[1024];
    assert_true(++r->depth < 10);
    if (json_has(r, '{')) {
        json_object(r);
    } else if (json_has(r, '[')) {
        json_array(r);
    } else if (json_has(r, '"')) {
        json_string(r, text);
        r->found += r->wanted && strcmp(text, r->wanted) == 0;
    } else if (strncmp(r->at, "true", 4) == 0) {
        r->at += 4;
    } else if (strncmp(r->at, "false", 5) == 0) {
        r->at += 5;
    } else {
        size_t n = strspn(r->at, "0123456789");
        assert_true(n > 0 && (n == 1 || *r->at != '0'));
        r->at += n;
    }
    r->depth--;
}

/* Checks a status; returns how many of its string values are wanted. */
static unsigned check(const ea_text *status, const char *wanted) {
    reader r = {.at = status->data, .end = status->data + status->len_bytes, .wanted = wanted};
    json_value(&r);
    json_space(&r);
    assert_true(r.at == r.end);
    return r.found;
}

static void says(const ea_text *status, const char *text) {
    if (!strstr(status->data, text))
        fail_msg("no %s in %s", text, status->data);
}

/* ---- tests ---- */

static void hostile_names_are_escaped(void **state) {
    (void)state;
    static const char NAME[] = "a \"b\" \\c\\ </script> \t\n\x01 \xC3\xA9";
    test_agent a;
    agent_start(&a, make_config("", "\n  - {name: \"a \\\"b\\\" \\\\c\\\\ </script> \\t\\n\\x01 \\u00e9\", files: "
                                    "[\"no \\\"such\\\" \\\\file\\n.etl\"]}"));
    agent_wait_for(&a, "\"state\": \"running\"", 0);
    agent_wait_for(&a, "such", 0); /* its error names the file */
    agent_stop(&a);
    assert_int_equal(check(&a.status, NAME), 1);
    says(&a.status, "{\"state\": \"stopped\"");
    says(&a.status, "\"state\": \"waiting\"");
    agent_free(&a);
}

/* What was read, and how much of it waits. */
static void numbers_are_the_ledgers(void **state) {
    (void)state;
    test_agent a;
    char list[512];
    make_trace("one.etl", 120);
    snprintf(list, sizeof list, "\n  - {name: one, files: [%s]}", scratch_path("one.etl"));
    agent_start(&a, make_config("", list));
    agent_wait_for(&a, "\"name\": \"one\", \"state\": \"read\"", 0);
    agent_stop(&a);
    assert_int_equal(check(&a.status, "one"), 1);
    says(&a.status, "\"progress_permille\": 1000, \"events_delivered\": 121, \"events_synthesised\": 0");
    says(&a.status, "\"batches\": 3, \"ledger_balanced\": true");
    says(&a.status, "\"spool\": {\"batches\": 3,");
    says(&a.status, "\"error\": \"\", \"trouble\": \"\""); /* the second is the old name */
    agent_free(&a);
}

/* A session's part, of the numbers that its task has. */
static void a_session_has_its_part(void **state) {
    (void)state;
    ea_agent_options options = {.config_path = "agent \"1\".yaml"};
    ea_agent a = {.o = &options, .path = options.config_path};
    ea_config_snapshot snapshot = {.users = 1};
    ea_session_config session = {.name = "kernel", .images = 1};
    ea_counters counters = {0};
    ea_err err;
    ea_text t;
    uint64_t lost = 0;
    must(ea_source_tasks_init(&a.tasks, 1, &err), &err);
    ea_source_task task = {.tasks = &a.tasks, .name = session.name, .session = &session, .counters = &counters};
    snprintf(task.error.text, sizeof task.error.text, "refused: \"%s\"", "\\");
    a.snapshot = &snapshot;
    a.tasks.first = &task;
    ea_text_init(&t);
    ea_status_put(&a, "running", &t, &lost);
    assert_false(t.failed);
    assert_int_equal(check(&t, "refused: \"\\\""), 2); /* error, and its old name */
    says(&t, "\"session\": {\"name\": \"\", \"runs\": false");
    says(&t, "\"images_left_end\": 0, \"accounts_asked\": 0, \"accounts_named\": 0, \"accounts_unnamed\": 0, "
             "\"accounts_left\": 0}");
    assert_int_equal(lost, 0);
    ea_text_clear(&t);
    snprintf(a.config_error.text, sizeof a.config_error.text, "line 3: \"\n\"");
    ea_status_put_waiting(&a, 5, &t);
    assert_int_equal(check(&t, "line 3: \"\n\""), 2);
    says(&t, "{\"state\": \"waiting\"");
    ea_text_deinit(&t);
    a.tasks.first = NULL;
    ea_source_tasks_deinit(&a.tasks);
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, scratch_clear)
    const struct CMUnitTest tests[] = {
        T(hostile_names_are_escaped),
        T(numbers_are_the_ledgers),
        T(a_session_has_its_part),
    };
    return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}
