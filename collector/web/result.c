/* Rows as JSON and CSV. See result.h. */
#include "collector/web/result.h"

#include "collector/query/scan/cell.h"
#include "collector/web/nothing_found.h"
#include "collector/web/unknown_names.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    ANSWER_MAX = 64 << 20, /* bytes of an answer that is not sent in pieces */
    PIECE_BYTES = 64 << 10,
};

static const int64_t EXACT_MAX = INT64_C(9007199254740991); /* 2^53 - 1 */

typedef struct printer {
    ec_call *call;
    const ec_result *q;
    char **names, **types;
    size_t columns;
    uint64_t rows;
    int has_more, has_subject;
    ea_text cell;
    ea_err *err;
    int rc;
} printer;

void ec_result_json_cell(ea_text *out, ea_text *scratch, const ec_value *v, const char *type) {
    enum ec_look look = ec_cell_text(scratch, v, type);
    if (look == EC_LOOK_NUMBER && v->type == EC_INT && (v->i > EXACT_MAX || v->i < -EXACT_MAX))
        look = EC_LOOK_WORD;
    if (look == EC_LOOK_EMPTY) {
        ea_text_str(out, "null");
        return;
    }
    if (look == EC_LOOK_WORD)
        ea_text_char(out, '"');
    ea_text_json(out, scratch->data ? scratch->data : "", scratch->len_bytes);
    if (look == EC_LOOK_WORD)
        ea_text_char(out, '"');
}

static int is_streamed(const ec_result *q) {
    return q->form == EC_FORM_CSV || q->form == EC_FORM_JSONL;
}

static void add_object(printer *p, const ec_value *cells) {
    ea_text *out = &p->call->out;
    ea_text_char(out, '{');
    for (size_t i = 0; i < p->columns; i++) {
        if (i)
            ea_text_char(out, ',');
        ea_text_json_str(out, p->names[i]);
        ea_text_char(out, ':');
        ec_result_json_cell(out, &p->cell, &cells[i], p->types[i]);
    }
    ea_text_char(out, '}');
}

static void add_csv(printer *p, const ec_value *cells) {
    ea_text *out = &p->call->out;
    for (size_t i = 0; i < p->columns; i++) {
        if (i)
            ea_text_char(out, ',');
        if (ec_cell_text(&p->cell, &cells[i], p->types[i]) != EC_LOOK_EMPTY && p->cell.len_bytes)
            ea_text_csv(out, p->cell.data, p->cell.len_bytes);
    }
    ea_text_str(out, "\r\n");
}

static void result_begin(printer *p) {
    ea_text *out = &p->call->out;
    switch (p->q->form) {
    case EC_FORM_ITEMS:
        ea_text_str(out, "{\"items\":[");
        break;
    case EC_FORM_ARRAY:
        ea_text_str(out, "{\"columns\":[");
        for (size_t i = 0; p->names && i < p->columns; i++) {
            ea_text_str(out, i ? ",{\"name\":" : "{\"name\":");
            ea_text_json_str(out, p->names[i]);
            ea_text_str(out, ",\"type\":");
            ea_text_json_str(out, p->types[i]);
            ea_text_char(out, '}');
        }
        ea_text_str(out, "],\"rows\":[");
        break;
    case EC_FORM_CSV:
        for (size_t i = 0; p->names && i < p->columns; i++) {
            if (i)
                ea_text_char(out, ',');
            ea_text_csv(out, p->names[i] ? p->names[i] : "", p->names[i] ? strlen(p->names[i]) : 0);
        }
        ea_text_str(out, "\r\n");
        break;
    default:
        break;
    }
}

static int result_on_columns(void *arg, size_t count, const char *const *names, const char *const *types) {
    printer *p = arg;
    p->names = calloc(count + 1, sizeof *p->names);
    p->types = calloc(count + 1, sizeof *p->types);
    for (size_t i = 0; p->names && p->types && i < count; i++) {
        p->columns = i + 1;
        p->names[i] = strdup(names[i]);
        p->types[i] = strdup(types[i]);
        if (!p->names[i] || !p->types[i])
            break;
    }
    if (!p->names || !p->types || (p->columns && (!p->names[p->columns - 1] || !p->types[p->columns - 1]))) {
        p->rc = ea_fail(p->err, EA_ENOMEM, "answer");
        return 1;
    }
    result_begin(p);
    return 0;
}

static int on_subject(void *arg, size_t count, const ec_value *cells) {
    printer *p = arg;
    (void)count, (void)cells;
    p->has_subject = 1;
    return 0;
}

static int result_on_row(void *arg, size_t count, const ec_value *cells) {
    printer *p = arg;
    ea_text *out = &p->call->out;
    (void)count;
    if (p->q->has_pages && p->rows == p->q->limit_rows) {
        p->has_more = 1;
        return 0;
    }
    if (p->q->form == EC_FORM_ONE && p->rows)
        return 0;
    p->rows++;
    switch (p->q->form) {
    case EC_FORM_CSV:
        add_csv(p, cells);
        break;
    case EC_FORM_ARRAY:
        ea_text_str(out, p->rows > 1 ? ",\n[" : "\n[");
        for (size_t i = 0; i < p->columns; i++) {
            if (i)
                ea_text_char(out, ',');
            ec_result_json_cell(out, &p->cell, &cells[i], p->types[i]);
        }
        ea_text_char(out, ']');
        break;
    default:
        if (p->q->form == EC_FORM_ITEMS)
            ea_text_str(out, p->rows > 1 ? ",\n" : "\n");
        add_object(p, cells);
        if (p->q->form == EC_FORM_JSONL)
            ea_text_char(out, '\n');
    }
    if (is_streamed(p->q) ? out->len_bytes >= PIECE_BYTES : 0)
        p->rc = ec_call_flush(p->call, p->err);
    else if (out->len_bytes > ANSWER_MAX)
        p->rc = ea_fail(p->err, EA_ELIMIT, "the answer has more than %d MiB: ask for fewer rows, or as csv or jsonl",
                        ANSWER_MAX >> 20);
    return p->rc != 0;
}

static int result_finish(printer *p, const ec_outcome *outcome) {
    ea_text *out = &p->call->out;
    const ec_result *q = p->q;
    /* CSV and JSON lines have no "next". A list with pages selects one row more than its limit, so the query itself
     * ended whole. */
    ec_outcome marked = *outcome;
    if (is_streamed(q) && p->has_more && marked.ending == EC_ENDED_WHOLE)
        marked.ending = EC_ENDED_ROWS;
    int is_cut =
        outcome->ending == EC_ENDED_TIME || outcome->ending == EC_ENDED_MEMORY || outcome->ending == EC_ENDED_TEMP;
    /* an answer without a row that is not whole is no answer: it must not be read as "there is none" */
    if (is_cut && (q->form == EC_FORM_ONE || (!p->rows && q->form == EC_FORM_ITEMS)))
        return ea_fail(p->err, EA_ETIMEOUT, "the question ended at its limit of %s", ec_ending_name(outcome->ending));
    if ((q->form == EC_FORM_ONE && !p->rows) || (q->subject && !p->has_subject && !is_cut))
        return ea_fail(p->err, EA_ENOTFOUND, "%s", q->missing ? q->missing : "there is no such thing");
    if (q->form == EC_FORM_ONE) {
        out->len_bytes -= out->len_bytes && !out->failed; /* the object's brace */
        ea_text_printf(out, ",\"damaged\":%" PRIu64 ",\"behind\":%" PRIu64 "}\n", outcome->damaged, outcome->backlog);
    } else if (!is_streamed(q)) {
        if (!p->names)
            result_begin(p);
        ea_text_str(out, "]");
        if (q->form == EC_FORM_ITEMS) {
            ea_text_str(out, ",\"next\":");
            if (p->has_more)
                ea_text_printf(out, "\"%" PRIu64 "\"", q->offset + q->limit_rows);
            else
                ea_text_str(out, "null");
        }
        ea_text_printf(out, ",\"ending\":\"%s\",\"damaged\":%" PRIu64 ",\"behind\":%" PRIu64,
                       ec_ending_name(outcome->ending), outcome->damaged, outcome->backlog);
        if (!p->rows && !q->offset && outcome->ending == EC_ENDED_WHOLE) {
            int rc = ec_nothing_found(p->call, q->host && *q->host ? q->host : NULL, q->range, outcome->notice, p->err);
            if (rc)
                return rc;
        } else if (q->form == EC_FORM_ARRAY && *outcome->notice) {
            ea_text_str(out, ",\"notice\":\"");
            ea_text_json(out, outcome->notice, strlen(outcome->notice));
            ea_text_char(out, '"');
        }
        ea_text_str(out, "}\n");
    } else if (!ec_is_whole(&marked)) {
        ea_text_printf(out,
                       q->form == EC_FORM_JSONL ? "{\"ending\":\"%s\",\"damaged\":%" PRIu64 ",\"behind\":%" PRIu64 "}\n"
                                                : "# not whole: ending %s; damaged %" PRIu64 "; behind %" PRIu64 "\r\n",
                       ec_ending_name(marked.ending), marked.damaged, marked.backlog);
    }
    return 0;
}

static int on_no_columns(void *arg, size_t count, const char *const *names, const char *const *types) {
    (void)arg, (void)count, (void)names, (void)types;
    return 0;
}

/* Asks for the subject alone, when its list has no table. */
static int find_subject(printer *p, const ec_question *of, ec_outcome *outcome) {
    ec_question question = *of;
    question.sql = p->q->subject;
    question.first_sql = NULL;
    return ec_call_ask(p->call, &question, &(ec_listener){.on_columns = on_no_columns, .on_row = on_subject, .arg = p},
                       outcome, p->err);
}

int ec_result_is_no_table(int rc, const ea_err *err) {
    static const char NO_TABLE[] = "no such table";
    return (rc == EA_EUSAGE || rc == EA_ENOTFOUND) && strncmp(err->message, NO_TABLE, sizeof NO_TABLE - 1) == 0;
}

int ec_result_answer(ec_call *c, const ec_result *q, ea_err *err) {
    printer p = {.call = c, .q = q, .err = err};
    ec_outcome outcome = {.ending = EC_ENDED_WHOLE};
    ec_question question = {.store = c->options->store,
                            .host = q->host && *q->host ? q->host : NULL,
                            .sql = q->sql,
                            .first_sql = q->subject,
                            .params = q->params,
                            .param_count = q->param_count,
                            .is_written = q->is_written,
                            .limit_ns = c->options->limit_ns,
                            .limit_bytes = c->options->limit_bytes,
                            .limit_rows = q->limit_rows + (q->has_pages != 0)};
    ea_text_init(&p.cell);
    if (q->form == EC_FORM_CSV)
        c->type = "text/csv; charset=utf-8";
    else if (q->form == EC_FORM_JSONL)
        c->type = "application/x-ndjson";
    int rc = ec_call_ask(
        c, &question,
        &(ec_listener){.on_columns = result_on_columns, .on_row = result_on_row, .arg = &p, .on_first = on_subject},
        &outcome, err);
    if (rc == EA_EUSAGE && strncmp(err->message, "no state tables yet", 19) == 0)
        rc = ea_fail(err, EA_ETIMEOUT, "the history of machines is being made: ask again");
    if (q->is_empty_without_table && ec_result_is_no_table(rc, err) && !(q->names_class && rc == EA_EUSAGE))
        rc = q->subject ? find_subject(&p, &question, &outcome) : 0;
    if (!rc)
        rc = p.rc;
    if (!rc && outcome.ending == EC_ENDED_CANCELED)
        rc = ea_fail(err, EA_ECANCELED, "stopped on request");
    if (!rc && !p.rows && outcome.ending == EC_ENDED_WHOLE)
        rc = ec_unknown_names_check(c, question.host, err);
    if (!rc)
        rc = result_finish(&p, &outcome);
    for (size_t i = 0; i < p.columns; i++) {
        free(p.names[i]);
        free(p.types[i]);
    }
    free(p.names);
    free(p.types);
    ea_text_deinit(&p.cell);
    return rc;
}
