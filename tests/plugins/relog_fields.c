/* Copies a trace and gives a field of all events of one name another text; prints what the field was. Build:
 *   cc relog_fields.c $(pkg-config --cflags --libs ea_relog) -o relog_fields
 * usage: relog_fields IN.etl OUT.etl EVENT FIELD TEXT       EVENT: as in Process/Start */
#include <etwagent/relog.h>

#include <stdio.h>
#include <string.h>

static ea_relog_fields *fields;
static char **words;

static int on_event(ea_relog *relog, const ea_relog_input *input, const ea_relog_event *event, void *arg) {
    (void)input;
    (void)arg;
    ea_relog_fields_learn(fields, event);
    if (strcmp(ea_relog_event_name(fields, event), words[3]) != 0)
        return EA_RELOG_KEEP;
    const char *before = ea_relog_get_text(fields, event, words[4]);
    printf("%s\n", before ? before : "");
    ea_relog_event changed = *event;
    int rc = ea_relog_set_text(fields, &changed, words[4], words[5]);
    if (!rc)
        rc = ea_relog_replace(relog, &changed);
    return rc ? rc : EA_RELOG_KEEP;
}

int main(int argc, char **argv) {
    const ea_relog_callbacks callbacks = {.on_event = on_event};
    ea_relog *relog;
    words = argv;
    if (argc != 6 || ea_relog_create(&relog))
        return 2;
    int rc = ea_relog_fields_create(&fields);
    if (!rc)
        rc = ea_relog_add_input(relog, argv[1], NULL, NULL);
    if (!rc)
        rc = ea_relog_add_output(relog, argv[2], NULL, NULL);
    if (!rc)
        rc = ea_relog_run(relog, &callbacks, NULL);
    fprintf(stderr, "%s", ea_relog_error(relog));
    ea_relog_destroy(relog);
    ea_relog_fields_destroy(fields);
    return rc ? 1 : 0;
}
