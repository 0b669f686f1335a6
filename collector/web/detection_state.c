/* States of detections. See detection_state.h. */
#include "collector/web/detection_state.h"

#include "collector/state/detections.h"
#include "collector/web/body.h"

#include <inttypes.h>
#include <string.h>

enum { COMMENT_MAX_BYTES = 4096 };

static int detection_state_read_state(const char *text, enum ec_detection_state *ret, ea_err *err) {
    for (int i = 0; text && i < EC_DETECTION_STATES; i++)
        if (strcmp(text, ec_detection_state_name((enum ec_detection_state)i)) == 0) {
            *ret = (enum ec_detection_state)i;
            return 0;
        }
    return ea_fail(err, EA_EUSAGE, "\"state\": expected open, acknowledged or closed");
}

static int set_state(ec_call *c, uint64_t number, enum ec_detection_state state, const char *comment, ea_err *err) {
    ec_detections *d = NULL;
    char host[256];
    ea_text note;
    int rc = ec_detections_open(&d, c->options->store, err);
    if (!rc)
        rc = ec_detections_host(d, number, host, sizeof host, err);
    if (!rc && !ec_token_sees(c->token, host))
        rc = ea_fail(err, EA_ENOTFOUND, "there is no detection %" PRIu64, number);
    if (!rc)
        rc = ec_detections_set(d, number, state, c->token->name, comment, ea_utc_ns(), err);
    ec_detections_close(d);
    if (rc)
        return rc;
    ea_text_init(&note);
    ea_text_printf(&note, "detection %" PRIu64 " of %s: %s%s%s", number, host, ec_detection_state_name(state),
                   *comment ? ": " : "", comment);
    c->note = note.failed ? NULL : strdup(note.data);
    ea_text_deinit(&note);
    ea_text_printf(&c->out, "{\"number\":%" PRIu64 ",\"state\":\"%s\",\"who\":", number,
                   ec_detection_state_name(state));
    ea_text_json_str(&c->out, c->token->name);
    ea_text_str(&c->out, ",\"comment\":");
    ea_text_json_str(&c->out, comment);
    ea_text_str(&c->out, "}\n");
    return 0;
}

int ec_detection_set(ec_call *c, ea_err *err) {
    static const char *const NAMES[] = {"state", "comment", NULL};
    ec_body body;
    uint64_t number;
    enum ec_detection_state state = EC_DETECTION_OPEN;
    if (!c->token)
        return ea_fail(err, EA_EREFUSED,
                       "a state is set by a token of scope respond (run --web-tokens), or by the command detections "
                       "set");
    if (ea_u64_parse(c->parts[0], &number) || number > INT64_MAX)
        return ea_fail(err, EA_EUSAGE, "number: a number is expected");
    int rc = ec_body_read(&body, c->body, c->body_bytes, NAMES, err);
    if (rc)
        return rc;
    const char *comment = ec_body_get(&body, "comment");
    rc = detection_state_read_state(ec_body_get(&body, "state"), &state, err);
    if (!rc && comment && strlen(comment) > COMMENT_MAX_BYTES)
        rc = ea_fail(err, EA_EUSAGE, "\"comment\": at most %d bytes", COMMENT_MAX_BYTES);
    if (!rc)
        rc = set_state(c, number, state, comment ? comment : "", err);
    ec_body_deinit(&body);
    return rc;
}
