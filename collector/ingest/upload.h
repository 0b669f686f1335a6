/* One request's batches on their way to the store, and the check of their framing. Called by: ingest_server.c, which
 * owns uploads; verifier.c and writer.c, which fill in the answer. Thread: the thread that processes the upload. */
#ifndef EC_INGEST_UPLOAD_H
#define EC_INGEST_UPLOAD_H

#include "collector/store/store.h"
#include "proto/base/arena.h"

typedef struct ec_upload {
    struct ec_upload *next; /* in the list that holds the upload */
    char agent[256];
    char run[33], peer[64]; /* what the agent calls its run ("": nothing), its address */
    uint64_t connection;    /* a number of its own for each */
    const uint8_t *data;    /* the body */
    size_t len_bytes;
    uint64_t turn; /* see turns.h */

    /* what ec_upload_check_next found: as far as it came, whole when it returned 0 */
    uint8_t stream[EA_STREAM_ID_BYTES];
    size_t batch_count;
    uint64_t event_count; /* that its batches claim */
    size_t offset;        /* of the next batch that is looked at, by it and then by the verifier */

    /* the verifier's: what it found about each batch; NULL: nothing */
    ec_check *checks;
    size_t check_count;
    size_t class_count; /* of all checks */
    size_t held_bytes;  /* of all this, counted in EC_QUOTA_uploads until the upload is freed */
    ea_arena texts;     /* of checks */
    int is_walked;      /* its framing is checked, and within the quotas */
    int is_slow;        /* its agent has used more than its share of the processor lately */
    unsigned pause_s;   /* for which the agent is asked to send nothing; 0: none */

    int status; /* HTTP status of the answer, 0: none yet; 200 with an Ack in answer, else a sentence */
    ea_text answer;
    unsigned retry_after_s; /* 0: no such header */
    int met_full_disk;      /* not stored, or not all of it, since the disk of the store is full */
} ec_upload;

/* Looks at one more batch of a body: its frame must hold a batch whose envelope reads, all batches of one stream.
 * 1 when the body goes on, 0 at its end (offset is 0 again then), or EA_ECORRUPT, EA_EFORMAT, EA_ELIMIT; EA_ENOMEM and
 * EA_ECRYPTO say nothing of the body. */
EA_MUST_CHECK int ec_upload_check_next(ec_upload *u, ea_err *err);
/* Gives the refusal of a whole upload as its answer. */
void ec_upload_refuse(ec_upload *u, int status, unsigned retry_after_s, const char *text);
/* Frees what the verifier added, and the answer; not the body. */
void ec_upload_deinit(ec_upload *u);

#endif
