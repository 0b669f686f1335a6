/* Uploads. See upload.h. */
#include "collector/ingest/upload.h"

#include <stdlib.h>
#include <string.h>

static int end_of_body(ec_upload *u, ea_err *err) {
    if (!u->batch_count)
        return ea_fail(err, EA_EFORMAT, "the upload is empty");
    u->offset = 0;
    return 0;
}

int ec_upload_check_next(ec_upload *u, ea_err *err) {
    const uint8_t *batch;
    size_t n = 0;
    ea_batch_head head;
    int rc = ea_upload_next(u->data, u->len_bytes, &u->offset, &batch, &n, err);
    if (rc == 0)
        return end_of_body(u, err);
    if (rc < 0 || (rc = ea_batch_read_head(batch, n, &head, err)) != 0)
        return rc;
    if (u->batch_count == 0)
        memcpy(u->stream, head.stream, sizeof u->stream);
    else if (memcmp(u->stream, head.stream, sizeof u->stream) != 0)
        return ea_fail(err, EA_EFORMAT, "an upload holds batches of one stream");
    if (++u->batch_count > EA_UPLOAD_MAX_BATCHES)
        return ea_fail(err, EA_ELIMIT, "an upload holds at most %d batches", EA_UPLOAD_MAX_BATCHES);
    if ((u->event_count += head.event_count) > EA_UPLOAD_MAX_EVENTS) /* at most 2048 times 2^18 */
        return ea_fail(err, EA_ELIMIT, "an upload holds at most %d events", EA_UPLOAD_MAX_EVENTS);
    return 1;
}

void ec_upload_refuse(ec_upload *u, int status, unsigned retry_after_s, const char *text) {
    ea_text_clear(&u->answer);
    ea_text_printf(&u->answer, "%s\n", text);
    u->status = status;
    u->retry_after_s = retry_after_s;
}

void ec_upload_deinit(ec_upload *u) {
    free(u->checks);
    u->checks = NULL;
    ea_arena_deinit(&u->texts);
    ea_text_deinit(&u->answer);
}
