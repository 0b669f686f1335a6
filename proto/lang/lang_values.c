/* Values of the event at hand and of the machine at its time. See lang_run.h. */
#include "proto/event/render.h"
#include "proto/event/value.h"
#include "proto/lang/lang_run.h"

#include <string.h>

enum { NO_ID = 0xFFFFFFFF };

static const ea_slice *values_slice_of(ea_lang_run *r, const bound_field *b) {
    const ea_record *record = r->event->record;
    if (!r->is_split) {
        size_t used;
        r->whole = ea_class_split(r->event->c, record->payload, record->payload_bytes, r->slices, &used);
        r->is_split = 1;
    }
    return b->top < r->whole ? &r->slices[b->top] : NULL;
}

static uint64_t values_add_scratch(ea_lang_run *r) {
    if (r->scratch.failed)
        return STRING_NO_ROOM;
    return lang_strings_add(&r->strings, r->scratch.data ? r->scratch.data : "", r->scratch.len_bytes);
}

static int values_read_text(ea_lang_run *r, const ea_field *f, size_t field, const ea_slice *slice, uint64_t *ret) {
    ea_text *t = &r->scratch;
    int is_array = f->count_field >= 0 || f->count != 1;
    ea_text_clear(t);
    if (f->type != EA_STRUCT && ea_value_text(f, slice, t)) {
        ;
    } else if (f->type == EA_SID || f->type == EA_WBEM_SID) {
        if (!ea_value_sid(f, r->event->c->pointer_size, slice, t))
            return 0;
    } else if (f->type == EA_GUID && !is_array && slice->len_bytes == sizeof(ea_guid)) {
        ea_guid g;
        memcpy(&g, slice->data, sizeof g);
        ea_text_guid(t, &g);
    } else {
        ea_render_field_json(t, r->event->c, field, slice);
        if (t->data && t->len_bytes >= 2 && t->data[0] == '"') { /* without the quotes */
            memmove(t->data, t->data + 1, t->len_bytes - 2);
            t->len_bytes -= 2;
        }
    }
    if (t->len_bytes)
        ea_utf8_repair(t->data, t->len_bytes);
    *ret = values_add_scratch(r);
    return 1;
}

static int values_read_name(ea_lang_run *r, const ea_field *f, const ea_slice *slice, uint64_t *ret) {
    uint64_t v = 0;
    int is_number = ea_value_u64(f, slice->data, &v);
    name_cache *cached = is_number && lang_names_are_fixed(f) ? &r->names[(v ^ (uintptr_t)f >> 4) % NAME_CACHE] : NULL;
    if (cached && cached->field == f && cached->value == v) {
        *ret = cached->text;
        return 1;
    }
    ea_text_clear(&r->scratch);
    ea_rendering how = {.form = EA_RENDER_TEXT, .clock = r->event->clock, .resolver = r->o.resolver};
    if (!ea_render_name(&r->scratch, r->event->record, r->event->c, f, slice, &how)) {
        cached = NULL;              /* there may be any number of them */
        ea_text_clear(&r->scratch); /* a number without a name is its own */
        if (!is_number) {
            if (!ea_value_text(f, slice, &r->scratch))
                return 0;
        } else if (lang_field_type(f) == TYPE_HEX) {
            ea_text_hex64(&r->scratch, v);
        } else {
            ea_text_u64(&r->scratch, v);
        }
    }
    if (r->scratch.len_bytes)
        ea_utf8_repair(r->scratch.data, r->scratch.len_bytes);
    *ret = values_add_scratch(r);
    if (cached && lang_strings_keep(&r->strings, *ret) == *ret)
        *cached = (name_cache){f, v, (uint32_t)*ret};
    return 1;
}

/* Ticks as ns; beyond 64 bits the nearest number. */
static uint64_t values_span_ns(int64_t ticks, uint64_t frequency) {
    double ns = (double)ticks * 1e9 / (double)frequency;
    return (uint64_t)(ns >= 9.2e18 ? INT64_MAX : ns <= -9.2e18 ? INT64_MIN : (int64_t)ns);
}

int lang_read_field(ea_lang_run *r, const bound_field *b, uint64_t *ret) {
    if (b->how == BOUND_ABSENT) /* of a clause without an event, too */
        return 0;
    const ea_record *record = r->event->record;
    if (b->how == BOUND_FIXED) {
        if ((uint32_t)b->offset + b->width > record->payload_bytes)
            return 0;
        *ret = lang_fixed(b, record->payload + b->offset);
    } else {
        const ea_slice *slice = values_slice_of(r, b);
        if (!slice)
            return 0;
        const ea_field *f = &r->event->c->fields[b->field];
        uint64_t v = 0;
        switch (b->how) {
        case BOUND_TEXT:
            return values_read_text(r, f, b->field, slice, ret);
        case BOUND_NAME:
            return values_read_name(r, f, slice, ret);
        case BOUND_F32: {
            float x;
            if (slice->len_bytes != sizeof x)
                return 0;
            memcpy(&x, slice->data, sizeof x);
            *ret = lang_bits((double)x);
            return 1;
        }
        case BOUND_F64:
            if (slice->len_bytes != sizeof v)
                return 0;
            memcpy(ret, slice->data, sizeof v);
            return 1;
        default:
            if (!ea_value_u64(f, slice->data, &v))
                return 0;
        }
        if (b->how == BOUND_CLOCK && r->event->clock)
            v = (uint64_t)ea_clock_to_utc_ns(r->event->clock, (int64_t)v);
        else if (b->how == BOUND_SPAN && r->event->clock && r->event->clock->frequency)
            v = values_span_ns((int64_t)v, r->event->clock->frequency);
        *ret = v;
    }
    if (b->to_float)
        *ret = lang_bits(b->is_signed ? (double)(int64_t)*ret : (double)*ret);
    return 1;
}

/* ---- counters of the processor ---- */

void lang_note_counters(ea_lang_run *r) {
    size_t f = lang_field_of(r->event->c, "CounterName", 11), place = 0;
    bound_field b = {.how = BOUND_TEXT, .field = (uint16_t)f};
    if (f == r->event->c->field_count)
        return;
    while (ea_class_top_field(r->event->c, b.top) < f)
        b.top++;
    const ea_slice *list = values_slice_of(r, &b);
    memset(r->place->counters, 0xFF, sizeof r->place->counters);
    for (size_t at = 0; list && at + 1 < list->len_bytes; place++) { /* names end with a zero each: UTF-16 */
        size_t end = at;
        while (end + 1 < list->len_bytes && ea_load16(list->data + end))
            end += 2;
        ea_text_clear(&r->scratch);
        ea_text_utf16(&r->scratch, list->data + at, end - at);
        for (uint32_t i = 0; i < r->p->counter_count && r->scratch.data; i++)
            if (lang_glob(r->p->counters[i], r->scratch.data, r->scratch.len_bytes))
                r->place->counters[i] = (int)place;
        at = end + 2;
    }
}

int lang_read_counter(ea_lang_run *r, uint32_t counter, uint64_t *ret) {
    const ea_ext *item = r->event ? ea_record_ext(r->event->record, EA_EXT_PMC_COUNTERS) : NULL;
    int place = r->place->counters[counter];
    if (!item || place < 0 || item->size_bytes < ((size_t)place + 1) * sizeof *ret)
        return 0;
    *ret = ea_load64(item->data + (size_t)place * sizeof *ret);
    return 1;
}

int lang_read_bytes(ea_lang_run *r, const bound_field *b, uint64_t place, uint32_t count, uint64_t *ret) {
    const ea_slice *slice = b->how == BOUND_TEXT ? values_slice_of(r, b) : NULL;
    uint64_t v = 0;
    if (!slice || place > slice->len_bytes || count > slice->len_bytes - place)
        return 0;
    for (uint32_t i = 0; i < count; i++)
        v = v << 8 | slice->data[place + i];
    *ret = v;
    return 1;
}

/* ---- threads and processes ---- */

static int values_thread_field(ea_lang_run *r, const bound_field *b, int64_t *ret) {
    uint64_t v;
    if (b->how == BOUND_ABSENT)
        return 0;
    if (!lang_read_quickly(r, b, &v) && !lang_read_field(r, b, &v))
        return 0;
    *ret = (int64_t)(uint32_t)v;
    return 1;
}

void lang_find_switched(ea_lang_run *r) {
    int64_t tid;
    if (r->event->record->cpu < CPUS_MAX && values_thread_field(r, &r->plan->thread, &tid))
        r->place->cpu_threads[r->event->record->cpu] = (uint32_t)tid;
}

void lang_find_thread(ea_lang_run *r) {
    if (r->is_thread_known)
        return;
    r->is_thread_known = 1;
    r->tid = -1;
    r->has_subject = r->is_thread_of_cpu = 0;
    if (!r->event)
        return;
    const ea_record *record = r->event->record;
    r->has_subject = r->bound && values_thread_field(r, &r->bound->subject, &r->tid);
    if (r->has_subject)
        return;
    if (record->tid != NO_ID)
        r->tid = record->tid;
    else if (!values_thread_field(r, &r->plan->thread, &r->tid) && record->cpu < CPUS_MAX &&
             r->place->cpu_threads[record->cpu] != NO_ID) {
        r->tid = r->place->cpu_threads[record->cpu];
        r->is_thread_of_cpu = 1;
    }
}

void lang_find_process(ea_lang_run *r) {
    if (r->is_process_known)
        return;
    r->is_process_known = 1;
    r->pid = -1;
    lang_find_thread(r);
    if (!r->event)
        return;
    if (!r->has_subject && values_thread_field(r, &r->plan->owner, &r->pid))
        return;
    if (!r->has_subject && r->event->record->pid != NO_ID) {
        r->pid = r->event->record->pid;
        return;
    }
    /* an event that a DPC logs, such as of data that arrive, is not about the thread that the DPC interrupts */
    if (r->is_thread_of_cpu && values_thread_field(r, &r->plan->process, &r->pid))
        return;
    if (r->tid == 0) {
        r->pid = 0;
        return;
    }
    const ea_thread_row *t = r->tid > 0 && r->o.machine ? ea_machine_thread(r->o.machine, (uint32_t)r->tid) : NULL;
    if (t)
        r->pid = t->pid;
    else if (!r->has_subject)
        (void)values_thread_field(r, &r->plan->process, &r->pid);
}

/* Texts of a process are kept by number, so that a value costs no look-up of text. An empty text is
 * asked for again: the machine may learn it later. */
static process_texts *values_texts_of(ea_lang_run *r, const ea_process *p) {
    uint64_t instance = p->life.instance ^ (uint64_t)r->machine << 40;
    process_texts *t = &r->processes[(p->life.instance ^ r->machine * 97) % PROCESS_CACHE];
    if (t->instance != instance)
        *t = (process_texts){.instance = instance};
    return t;
}

static uint32_t values_text_of(ea_lang_run *r, uint32_t *cached, const char *s) {
    if (*cached)
        return *cached;
    uint32_t number = lang_strings_add(&r->strings, s, strlen(s));
    if (lang_strings_keep(&r->strings, number) == number)
        *cached = number;
    return number;
}

static uint64_t process_value(ea_lang_run *r, const ea_process *p, uint32_t value) {
    if (value == VALUE_ppid)
        return p ? p->parent_pid : UINT64_MAX;
    if (!p)
        return STRING_EMPTY;
    process_texts *t = values_texts_of(r, p);
    switch (value) {
    case VALUE_execname:
        return values_text_of(r, &t->execname, p->image_name);
    case VALUE_cmdline:
        return values_text_of(r, &t->cmdline, p->command_line);
    case VALUE_user:
        return values_text_of(r, &t->user, p->sid);
    default:
        if (!t->has_path) {
            const ea_module *m = ea_machine_main_module(r->o.machine, p);
            uint32_t number = m ? values_text_of(r, &t->exepath, m->path) : STRING_EMPTY;
            t->has_path = m && number == t->exepath;
            return number;
        }
        return t->exepath;
    }
}

static const ea_process *values_process_at_hand(ea_lang_run *r) {
    lang_find_process(r);
    return r->o.machine && r->pid >= 0 ? ea_machine_process(r->o.machine, (uint32_t)r->pid) : NULL;
}

uint64_t lang_read_parent(ea_lang_run *r, uint32_t value) {
    const ea_process *p = values_process_at_hand(r);
    if (value == VALUE_pid)
        return p ? p->parent_pid : UINT64_MAX;
    return process_value(r, p ? ea_machine_process(r->o.machine, p->parent_pid) : NULL, value);
}

uint64_t lang_read_value(ea_lang_run *r, uint32_t value) {
    const ea_record *record = r->event ? r->event->record : NULL;
    switch ((enum lang_value)value) {
    case VALUE_timestamp:
        return (uint64_t)r->now_utc_ns;
    case VALUE_elapsed:
        return (uint64_t)r->now_utc_ns - (uint64_t)r->first_utc_ns;
    case VALUE_pid:
        lang_find_process(r);
        return (uint64_t)r->pid;
    case VALUE_tid:
        lang_find_thread(r);
        return (uint64_t)r->tid;
    case VALUE_execname:
    case VALUE_exepath:
    case VALUE_cmdline:
    case VALUE_ppid:
    case VALUE_user:
        return process_value(r, values_process_at_hand(r), value);
    case VALUE_threadname: {
        lang_find_thread(r);
        const ea_thread_row *t = r->o.machine && r->tid > 0 ? ea_machine_thread(r->o.machine, (uint32_t)r->tid) : NULL;
        return t ? lang_strings_add(&r->strings, t->name, strlen(t->name)) : STRING_EMPTY;
    }
    case VALUE_host:
        return r->o.host ? values_text_of(r, &r->place->host_text, r->o.host) : STRING_EMPTY;
    case VALUE_module: /* lang_read_module */
        return STRING_EMPTY;
    case VALUE_provider:
        return r->plan->provider;
    case VALUE_probe:
        return r->plan->probe;
    default:
        break;
    }
    if (!record)
        return 0;
    switch ((enum lang_value)value) {
    case VALUE_cpu:
        return record->cpu;
    case VALUE_level:
        return record->level;
    case VALUE_opcode:
        return record->opcode;
    case VALUE_version:
        return record->version;
    case VALUE_id:
        return record->id;
    case VALUE_task:
        return record->task;
    case VALUE_keyword:
        return record->keyword;
    case VALUE_payload_bytes:
        return record->payload_bytes;
    default: /* VALUE_activity: the number of a text */
        ea_text_clear(&r->scratch);
        ea_text_guid(&r->scratch, &record->activity_id);
        return values_add_scratch(r);
    }
}
