/* Copies a trace event by event and gives the events of one provider another provider, as programs do with
 * Windows' ITraceRelogger. Build:  cc relog_copy.c $(pkg-config --cflags --libs ea_relog) -o relog_copy
 * usage: relog_copy IN.etl OUT.etl FROM TO      FROM, TO: GUIDs as 32 hex digits, in the order of their bytes */
#include <etwagent/relog.h>

#include <stdio.h>
#include <string.h>

static ea_relog_guid from, to;

static int on_event(ea_relog *relog, const ea_relog_input *input, const ea_relog_event *event, void *arg) {
    (void)input;
    (void)arg;
    if (memcmp(&event->provider, &from, sizeof from) != 0)
        return EA_RELOG_KEEP;
    ea_relog_event changed = *event;
    changed.provider = to;
    int rc = ea_relog_emit(relog, 0, &changed);
    return rc ? rc : EA_RELOG_DROP;
}

static int read_guid(const char *text, ea_relog_guid *ret) {
    for (int i = 0; i < 16; i++)
        if (sscanf(text + 2 * i, "%2hhx", &ret->bytes[i]) != 1)
            return -1;
    return strlen(text) == 32 ? 0 : -1;
}

int main(int argc, char **argv) {
    const ea_relog_callbacks callbacks = {.on_event = on_event};
    ea_relog *relog;
    if (argc != 5 || read_guid(argv[3], &from) || read_guid(argv[4], &to) || ea_relog_create(&relog))
        return 2;
    int rc = ea_relog_add_input(relog, argv[1], NULL, NULL);
    if (!rc)
        rc = ea_relog_add_output(relog, argv[2], NULL, NULL);
    if (!rc)
        rc = ea_relog_run(relog, &callbacks, NULL);
    printf("%llu events changed %s\n", (unsigned long long)ea_relog_count(relog)->added, ea_relog_error(relog));
    ea_relog_destroy(relog);
    return rc ? 1 : 0;
}
