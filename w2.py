from sub import sub
sub('service/etw/enable.c',('''static void capture(const ea_session *s, const GUID *guid, const ea_provider_config *p) {
    ULONG error =
        s->api->EnableTraceEx2(s->handle, guid, EVENT_CONTROL_CODE_CAPTURE_STATE, TRACE_LEVEL_VERBOSE, 0, 0, 0, NULL);
    if (error)
        ea_session_refused(s, p->provider, error);
}
''','''/* Level and keywords reach the provider's callback, and providers choose by them what they log of their state: it gets
 * those that it was enabled with. */
static void capture(const ea_session *s, const ea_session_provider *known, const ea_provider_config *p) {
    uint8_t level = TRACE_LEVEL_VERBOSE;
    GUID id;
    memcpy(&id, known->guid.bytes, sizeof id);
    if (ea_level_parse(p->level, &level))
        level = TRACE_LEVEL_VERBOSE;
    ULONG error = s->api->EnableTraceEx2(s->handle, &id, EVENT_CONTROL_CODE_CAPTURE_STATE, level,
                                         known->any ? known->any : UINT64_MAX, known->all, 0, NULL);
    if (error)
        ea_session_refused(s, p->provider, error);
}
'''),('''    if (p->capture_state || p->capture_every_ns)
        capture(s, &id, p);
''',''),('''void ea_session_capture(const ea_session *s, int64_t now_ns, int64_t *last_ns) {
''','''void ea_session_capture_first(const ea_session *s) {
    const ea_provider_config *providers = s->c->providers.items;
    for (size_t i = 0; i < s->c->providers.count; i++)
        if ((providers[i].capture_state || providers[i].capture_every_ns) && s->providers[i].is_enabled)
            capture(s, &s->providers[i], &providers[i]);
}

void ea_session_capture(const ea_session *s, int64_t now_ns, int64_t *last_ns) {
'''),('''        GUID id;
        if (!p->capture_every_ns ||''','''        if (!p->capture_every_ns ||'''),('''            continue;
        memcpy(&id, s->providers[i].guid.bytes, sizeof id);
        capture(s, &id, p);
''','''            continue;
        capture(s, &s->providers[i], p);
'''))
sub('service/etw/session.h',('''/* Asks providers with capture-every for their state again;''','''/* Asks providers with capture-state or capture-every for their state, once. Called when the consumer runs: what they
 * log before would have to wait in Windows' buffers. */
void ea_session_capture_first(const ea_session *s);
/* Asks providers with capture-every for their state again;'''))
sub('service/etw/live.c',('''    int64_t began_ns, pause_ns; /*''','''    int is_first_capture_due;
    uint64_t delivered_before;  /* events at the last start */
    int64_t began_ns, pause_ns; /*'''),
('''    l->began_ns = ea_monotonic_ns();
    begin_rundown(l);
''','''    l->began_ns = ea_monotonic_ns();
    l->is_first_capture_due = 1;
    if (!realtime)
        first_capture(l);
    begin_rundown(l);
'''),('''/* Starts the session, and the thread that ProcessTrace needs. */
''','''static void first_capture(live *l) {
    l->is_first_capture_due = 0;
    ea_session_capture_first(&l->session);
}

/* The first request for providers' state follows the first event, which shows that ProcessTrace runs, or CONSUMER_NS.
 */
static void look_at_first_capture(live *l) {
    uint64_t delivered = atomic_load_explicit(&l->delivered, memory_order_relaxed);
    if (l->is_first_capture_due && l->session.handle &&
        (delivered != l->delivered_before || ea_monotonic_ns() - l->began_ns >= CONSUMER_NS))
        first_capture(l);
}

/* Starts the session, and the thread that ProcessTrace needs. */
'''),('''    if (realtime)
        rc = open_trace(l, err);
''','''    l->delivered_before = atomic_load_explicit(&l->delivered, memory_order_relaxed);
    if (realtime)
        rc = open_trace(l, err);
'''),('''        end_patience(l);
        if (flush_ns''','''        end_patience(l);
        look_at_first_capture(l);
        if (flush_ns'''),('''                     PATIENCE_NS = (int64_t)10 * 1000000000;''','''                     PATIENCE_NS = (int64_t)10 * 1000000000, CONSUMER_NS = (int64_t)2 * 1000000000;'''))
sub('tests/windows/emulator.h',('''    uint32_t property, captures;
    uint64_t any, all;
''','''    uint32_t property, captures;
    uint8_t state_level; /* of the last request for its state */
    uint64_t state_any, state_all;
    uint64_t any, all;
'''))
sub('tests/windows/emulator_enable.c',('''static void capture_or_disable(emul_session *s, const ea_guid *provider, ULONG code) {
    size_t i = 0;
    while (i < s->provider_count && !ea_guid_equal(&s->providers[i].guid, provider))
        i++;
    s->captures += code == EVENT_CONTROL_CODE_CAPTURE_STATE;
    if (i == s->provider_count)
        return;
    if (code == EVENT_CONTROL_CODE_CAPTURE_STATE)
        s->providers[i].captures++;
    else
        s->providers[i] = s->providers[--s->provider_count];
}''','''static void capture_or_disable(emul_session *s, const emul_provider *asked, ULONG code) {
    size_t i = 0;
    while (i < s->provider_count && !ea_guid_equal(&s->providers[i].guid, &asked->guid))
        i++;
    s->captures += code == EVENT_CONTROL_CODE_CAPTURE_STATE;
    if (i == s->provider_count)
        return;
    if (code != EVENT_CONTROL_CODE_CAPTURE_STATE) {
        s->providers[i] = s->providers[--s->provider_count];
        return;
    }
    /* what is logged before the consumer of a session without a file is there, is lost */
    s->providers[i].captures += s->readers || s->file[0];
    s->providers[i].state_level = asked->level;
    s->providers[i].state_any = asked->any;
    s->providers[i].state_all = asked->all;
}'''),('capture_or_disable(s, &p.guid, code);','capture_or_disable(s, &p, code);'),
('''    emul_provider p = {.level = level, .any = any, .all = all};
''','''    emul_provider p = {.level = level, .any = any, .all = all, .state_level = level, .state_any = any, .state_all = all};
'''))
sub('tests/windows/emulator_stream.c',('''/* A provider was asked for its state: its events that the script names as such, as the trace has them, are logged now.
 */
static void log_state(emul_stream *st, const ea_guid *provider) {
''','''/* The provider chooses by the request's level and keywords, in which 0 is no keyword, what it logs of its state. */
static int is_asked_for(const emul_provider *p, const ea_record *r) {
    return r->level <= p->state_level &&
           (!r->keyword || ((r->keyword & p->state_any) && (r->keyword & p->state_all) == p->state_all));
}

/* A provider was asked for its state: its events that the script names as such, as the trace has them, are logged now.
 */
static void log_state(emul_stream *st, const emul_provider *p) {
    const ea_guid *provider = &p->guid;
'''),('''        if (is_state && emul_wants''','''        if (is_state && is_asked_for(p, r) && emul_wants'''),('log_state(st, &now->providers[i].guid);','log_state(st, &now->providers[i]);'))
sub('tests/windows/EMULATOR.md',('''| A provider that is asked for its state logs the events that the script names as such, each time | D EnableTraceEx2, EVENT_CONTROL_CODE_CAPTURE_STATE | `test_faults.py` at_start, `test_knobs.py` again |''',
'''| A provider that is asked for its state logs the events that the script names as such, each time | D EnableTraceEx2, EVENT_CONTROL_CODE_CAPTURE_STATE | `test_faults.py` at_start, `test_knobs.py` again |
| ... those of the request's level and keywords, in which 0 is no keyword | F (PerfView's CaptureState asks with all bits: "this can influence what is sent back") | `test_knobs.py` state |
| ... and nothing of it arrives when the session has neither a consumer nor a file yet | F (krabsetw: "must be called very shortly before ProcessTrace"); I that all of it is lost | `test_faults.py` state |'''))
