/* Statements become instructions. See lang_compile.h. */
#include "proto/lang/lang_aggregate.h"
#include "proto/lang/lang_compile.h"

#include <string.h>

static void statement_assign(compiler *k, const statement *st) {
    const node *n = st->target;
    lang_variable *v = lang_find_variable(k, n->text, lang_scope_of(k, n));
    if (!v)
        lang_fail(&k->s, n->at, "unknown variable %.*s", SHOWN(n->text));
    unsigned value = v->key_count;
    if (v->scope == SCOPE_MAP)
        lang_keys(k, n, 0, v->keys, v->key_count);
    enum lang_type t;
    int literal = lang_is_literal(st->value);
    lang_use_register(k, value + 1, n->at);
    if (st->op) {
        lang_emit(k, v->scope == SCOPE_SELF ? CODE_LOAD_SELF : CODE_LOAD, value, 0, 0, lang_variable_number(k, v));
        enum lang_type a = (enum lang_type)v->type,
                       b = lang_number_expression(k, st->value, value + 1, "the assignment");
        if (!lang_is_number(a))
            lang_fail(&k->s, n->at, "the operation needs numbers; this is %s", LANG_TYPE_TEXTS[a]);
        t = lang_arithmetic(k, st->op, n->at, value, a == TYPE_NONE ? b : a, b, 0, literal);
        /* x++ keeps the type of x; x -= y may go below zero, so it is signed if nothing else says */
        int is_signed = b == TYPE_INT && !literal; /* what is added may be below zero: then so may the sum */
        if (v->type != TYPE_NONE && v->is_assigned && t != TYPE_FLOAT && !is_signed)
            t = (enum lang_type)v->type;
    } else {
        t = lang_expression(k, st->value, value);
    }
    lang_take_type(k, &v->type, &v->is_assigned, t, literal, n->at, "variable", n->text);
    lang_convert(k, value, t, (enum lang_type)v->type);
    lang_emit(k, v->scope == SCOPE_SELF ? CODE_STORE_SELF : CODE_STORE, 0, value, 0, lang_variable_number(k, v));
}

static void statement_aggregate(compiler *k, const statement *st) {
    const node *n = st->target, *call = st->value;
    const function *f = lang_find_function(k, call);
    lang_aggregation *a = lang_find_aggregation(k, n);
    unsigned value = a->key_count, wanted = f->function == FUNCTION_COUNT ? 0 : 1 + f->params;
    if (call->arg_count != wanted)
        lang_fail(&k->s, call->at, "expected %s", f->form);
    lang_keys(k, n, 0, a->keys, a->key_count);
    lang_aggregation params = *a;
    for (unsigned i = 0; i < f->params; i++)
        params.params[i] = lang_constant_argument(k, call->args[1 + i]);
    if (a->params[0] || a->params[1] || a->params[2] || a->params[3]) {
        if (memcmp(a->params, params.params, sizeof a->params) != 0)
            lang_fail(&k->s, call->at, "@%.*s has other parameters in another statement", SHOWN(n->text));
    } else {
        if ((f->function == FUNCTION_LQUANTIZE || f->function == FUNCTION_LLQUANTIZE) && !lang_bounds(&params, NULL))
            lang_fail(&k->s, call->at, "%s: these parameters give no buckets, or more than %d", f->form,
                      HISTOGRAM_BUCKETS_MAX);
        if (f->function == FUNCTION_TOP && (params.params[0] < 1 || params.params[0] > TOP_MAX))
            lang_fail(&k->s, call->at, "top(x, n): expected n of 1 to %d", TOP_MAX);
        memcpy(a->params, params.params, sizeof a->params);
    }
    lang_use_register(k, value, n->at);
    if (wanted) {
        int any = f->function == FUNCTION_TOP || f->function == FUNCTION_DISTINCT;
        enum lang_type t =
            any ? lang_expression(k, call->args[0], value) : lang_number_expression(k, call->args[0], value, f->name);
        uint8_t assigned = 1;
        lang_take_type(k, &a->type, &assigned, t, lang_is_literal(call->args[0]), call->at, "aggregation", n->text);
        lang_convert(k, value, t, (enum lang_type)a->type);
    }
    lang_emit(k, wanted ? CODE_AGGREGATE : CODE_COUNT_KEYS, 0, 0, value, lang_aggregation_number(k, a));
}

static uint32_t statement_parse_format(compiler *k, const node *n, const enum lang_type *types, uint32_t count) {
    span f = n->args[0]->text;
    lang_piece *pieces = lang_alloc(&k->s, f.len_bytes + 1, sizeof *pieces);
    uint32_t piece_count = 0, arg = 0;
    for (size_t i = 0; i < f.len_bytes;) {
        lang_piece *p = &pieces[piece_count++];
        size_t begin = i;
        while (i < f.len_bytes && f.text[i] != '%')
            i++;
        *p = (lang_piece){.text = {f.text + begin, i - begin}, .precision = -1};
        if (i == f.len_bytes)
            break;
        i++;
        if (i < f.len_bytes && f.text[i] == '%') { /* the sign itself: the piece ends with it */
            p->text.len_bytes++;
            i++;
            continue;
        }
        int left = 0;
        for (; i < f.len_bytes && (f.text[i] == '-' || f.text[i] == '0'); i++) {
            left |= f.text[i] == '-';
            p->has_zero |= f.text[i] == '0';
        }
        for (; i < f.len_bytes && f.text[i] >= '0' && f.text[i] <= '9' && p->width < 1000; i++)
            p->width = p->width * 10 + (f.text[i] - '0');
        if (i < f.len_bytes && f.text[i] == '.') {
            p->precision = 0;
            for (i++; i < f.len_bytes && f.text[i] >= '0' && f.text[i] <= '9' && p->precision < 20; i++)
                p->precision = p->precision * 10 + (f.text[i] - '0');
        }
        while (i < f.len_bytes && f.text[i] == 'l')
            i++;
        p->letter = i < f.len_bytes ? f.text[i++] : 0;
        if (p->letter == 'i')
            p->letter = 'd';
        if (!p->letter || !strchr("duxsf", p->letter))
            lang_fail(&k->s, n->args[0]->at, "printf knows %%d, %%u, %%x, %%s, %%f and %%%%");
        if (p->precision >= 0 && p->letter != 'f')
            lang_fail(&k->s, n->args[0]->at, "printf: %%f alone has a precision");
        if (p->width > 200 || p->precision > 17)
            lang_fail(&k->s, n->args[0]->at, "printf: expected a width up to 200 and a precision up to 17");
        p->width = left ? -p->width : p->width;
        if (arg >= count)
            lang_fail(&k->s, n->at, "printf has fewer arguments than its format");
        enum lang_type t = types[arg++];
        int fits = p->letter == 's'   ? t == TYPE_TEXT || t == TYPE_STACK
                   : p->letter == 'f' ? lang_is_number(t)
                                      : lang_is_number(t) && t != TYPE_FLOAT;
        if (!fits && t != TYPE_NONE)
            lang_fail(&k->s, n->args[arg]->at, "printf: %%%c does not fit %s", p->letter,
                      t == TYPE_FLOAT     ? "a number with a fraction; use %f"
                      : lang_is_number(t) ? "a number; use %d, %u or %x"
                                          : LANG_TYPE_TEXTS[t]);
        p->type = (uint8_t)t;
    }
    if (arg < count)
        lang_fail(&k->s, n->at, "printf has more arguments than its format");
    if (k->is_dry)
        return 0;
    ea_lang_program *p = k->p;
    p->formats = lang_room_for_one(k, p->formats, p->format_count, sizeof *p->formats, &k->format_capacity, 16);
    p->formats[p->format_count] = (lang_format){pieces, piece_count, count};
    return p->format_count++;
}

static uint32_t statement_add_row(compiler *k, const lang_row *row) {
    ea_lang_program *p = k->p;
    if (k->is_dry)
        return 0;
    p->rows = lang_room_for_one(k, p->rows, p->row_count, sizeof *p->rows, &k->row_capacity, 16);
    p->rows[p->row_count] = *row;
    return p->row_count++;
}

/* Where a statement is in the text, from 1. */
static void statement_place(const compiler *k, uint32_t at, uint32_t *ret_line, uint32_t *ret_column) {
    *ret_line = *ret_column = 1;
    for (uint32_t i = 0; i < at; i++) {
        *ret_line += k->s.text[i] == '\n';
        *ret_column = k->s.text[i] == '\n' ? 1 : *ret_column + 1;
    }
}

static void trigger_statement(compiler *k, const node *n) {
    ea_lang_program *p = k->p;
    span name = n->args[0]->text;
    ea_lang_trigger t = {.before_ns = (int64_t)n->args[1]->number,
                         .after_ns = (int64_t)n->args[2]->number,
                         .most = (uint32_t)n->args[3]->number,
                         .per_ns = (int64_t)n->args[4]->number,
                         .cooldown_ns = (int64_t)n->args[5]->number};
    int is_good = name.len_bytes && name.len_bytes <= EA_LANG_TRIGGER_NAME_MAX;
    for (size_t i = 0; is_good && i < name.len_bytes; i++) {
        char c = name.text[i];
        is_good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
                  c == '.';
    }
    if (!is_good)
        lang_fail(&k->s, n->args[0]->at, "a trigger's name has 1 to %d letters, digits, _, - and .",
                  EA_LANG_TRIGGER_NAME_MAX);
    for (const probe *pr = k->c->probes; pr; pr = pr->next)
        if (pr->kind == PROBE_BEGIN)
            lang_fail(&k->s, n->at, "a trigger has the time of an event, and begin is before the first one");
    if (!k->is_dry) {
        char *copy = lang_alloc(&k->s, name.len_bytes + 1, 1);
        memcpy(copy, name.text, name.len_bytes);
        t.name = copy;
        statement_place(k, n->at, &t.line, &t.column);
        for (uint32_t i = 0; i < p->trigger_count; i++)
            if (strcmp(p->triggers[i].name, copy) == 0)
                lang_fail(&k->s, n->args[0]->at, "two triggers are named %s", copy);
        if (p->trigger_count == EA_LANG_TRIGGERS_MAX)
            lang_fail(&k->s, n->at, "more than %d triggers", EA_LANG_TRIGGERS_MAX);
        if (!p->triggers)
            p->triggers = lang_alloc(&k->s, EA_LANG_TRIGGERS_MAX, sizeof *p->triggers);
        p->triggers[p->trigger_count++] = t;
    }
    lang_emit(k, CODE_TRIGGER, 0, 0, 0, k->is_dry ? 0 : p->trigger_count - 1);
}

static void ship_statement(compiler *k, const node *n) {
    ea_lang_program *p = k->p;
    if (n->arg_count)
        lang_fail(&k->s, n->at, "expected ship()");
    for (const probe *pr = k->c->probes; pr; pr = pr->next)
        if (pr->kind == PROBE_BEGIN || pr->kind == PROBE_END || pr->kind == PROBE_TICK)
            lang_fail(&k->s, n->at, "ship() is about an event, and begin, end and tick have none");
    if (!k->is_dry && !p->ship_line)
        statement_place(k, n->at, &p->ship_line, &p->ship_column);
    lang_emit(k, CODE_SHIP, 0, 0, 0, 0);
}

static void call_statement(compiler *k, const node *n) {
    if (n->kind == NODE_TRIGGER)
        trigger_statement(k, n);
    else if (span_is(n->text, "printf")) {
        enum lang_type types[32];
        if (!n->arg_count || n->args[0]->kind != NODE_TEXT)
            lang_fail(&k->s, n->at, "expected printf(\"format\", arguments)");
        for (uint32_t i = 1; i < n->arg_count; i++)
            types[i - 1] = lang_expression(k, n->args[i], i - 1);
        lang_emit(k, CODE_PRINTF, 0, 0, 0, statement_parse_format(k, n, types, n->arg_count - 1));
    } else if (span_is(n->text, "print") || span_is(n->text, "printa") || span_is(n->text, "trunc")) {
        int is_trunc = span_is(n->text, "trunc");
        if (!n->arg_count || n->arg_count > 2)
            lang_fail(&k->s, n->at, "expected %.*s(@name) or %.*s(@name, rows)", SHOWN(n->text), SHOWN(n->text));
        lang_aggregation *a = lang_find_aggregation(k, n->args[0]);
        if (n->args[0]->arg_count)
            lang_fail(&k->s, n->args[0]->at, "expected the whole aggregation, without keys");
        if (n->arg_count == 2) {
            enum lang_type t = lang_number_expression(k, n->args[1], 0, "the number of rows");
            if (t == TYPE_FLOAT)
                lang_fail(&k->s, n->args[1]->at, "the number of rows is a whole number");
        } else if (is_trunc) {
            lang_emit(k, CODE_CONST, lang_use_register(k, 0, n->at), 0, 0, lang_constant(k, TYPE_INT, 0));
        }
        lang_emit(k, is_trunc ? CODE_TRUNC : CODE_PRINT, 0, n->arg_count == 2 || is_trunc ? 0 : NO_REGISTER, 0,
                  lang_aggregation_number(k, a));
    } else if (span_is(n->text, "clear")) {
        if (n->arg_count != 1)
            lang_fail(&k->s, n->at, "expected clear(@name) or clear(map)");
        const lang_variable *v =
            n->args[0]->kind == NODE_NAME ? lang_find_variable(k, n->args[0]->text, SCOPE_MAP) : NULL;
        if (v)
            lang_emit(k, CODE_ERASE, 0, 0, 0, lang_variable_number(k, v));
        else
            lang_emit(k, CODE_CLEAR, 0, 0, 0, lang_aggregation_number(k, lang_find_aggregation(k, n->args[0])));
    } else if (span_is(n->text, "emit")) {
        lang_row row = {0};
        if (!n->arg_count || n->arg_count > ARGS_OF_ROW_MAX)
            lang_fail(&k->s, n->at, "expected emit(name = value, ...), 1 to %d of them", ARGS_OF_ROW_MAX);
        for (; row.count < n->arg_count; row.count++) {
            const node *arg = n->args[row.count];
            if (arg->kind != NODE_NAMED)
                lang_fail(&k->s, arg->at, "expected name = value");
            if (arg->text.len_bytes > EA_LANG_NAME_MAX_BYTES)
                lang_fail(&k->s, arg->at, "the name has %zu bytes; at most %d name a column", arg->text.len_bytes,
                          EA_LANG_NAME_MAX_BYTES);
            char *name = lang_alloc(&k->s, arg->text.len_bytes + 1, 1);
            memcpy(name, arg->text.text, arg->text.len_bytes);
            for (uint32_t i = 0; i < row.count; i++)
                if (strcmp(row.names[i], name) == 0)
                    lang_fail(&k->s, arg->at, "emit has %s twice", name);
            row.names[row.count] = name;
            row.types[row.count] = (uint8_t)lang_expression(k, arg->a, row.count);
        }
        lang_emit(k, CODE_EMIT, 0, 0, 0, statement_add_row(k, &row));
    } else if (span_is(n->text, "exit")) {
        if (n->arg_count > 1 || (n->arg_count && (n->args[0]->kind != NODE_INT || n->args[0]->number)))
            lang_fail(&k->s, n->at, "expected exit()");
        lang_emit(k, CODE_EXIT, 0, 0, 0, 0);
    } else if (span_is(n->text, "delta")) {
        (void)lang_call_expression(k, n, lang_use_register(k, 0, n->at));
        if (!k->is_dry)
            k->ops[k->op_count - 1].code = CODE_MARK;
    } else if (span_is(n->text, "ship")) {
        ship_statement(k, n);
    } else {
        nearest m;
        lang_nearest_begin(&m, n->text);
        lang_nearest_words(&m, EA_LANG_WORD_STATEMENT);
        lang_fail(&k->s, n->at, "%.*s is no statement%s%s%s", SHOWN(n->text), MEANT(m));
    }
}

void lang_statements(compiler *k, const statement *st) {
    for (; st; st = st->next) {
        uint32_t first = k->op_count, jump, end;
        switch (st->kind) {
        case STATEMENT_ASSIGN:
            statement_assign(k, st);
            break;
        case STATEMENT_AGGREGATE:
            statement_aggregate(k, st);
            break;
        case STATEMENT_CALL:
            call_statement(k, st->value);
            break;
        case STATEMENT_IF:
            jump = lang_jump_unless(k, st->value, 0);
            lang_statements(k, st->body);
            end = st->rest ? lang_emit(k, CODE_JUMP, 0, 0, 0, 0) : 0;
            lang_land_all(k, jump);
            lang_statements(k, st->rest);
            if (st->rest)
                lang_land(k, end);
            break;
        }
        lang_end_statement(k, first);
    }
}
