/* Mends plain LZ77 data. One wrong byte makes the rest of a compressed buffer unreadable. With the right byte, the rest
 * is a chain of records that ends exactly where the buffer's header says. So the bytes around the place where records
 * stop being readable are tried, value by value, and the value with which the chain of records is longest is taken.
 * Called by: decode.c, when a decompressed buffer is not readable as records; decode.c then decompresses again. Thread:
 * the source's. A mended byte is a guess, and it is reported as damage. */
#include "proto/base/array.h"
#include "proto/etl/layout.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_MENDED = 24,       /* bytes of one buffer */
    GLIMPSE_BYTES = 64,     /* a trial decodes this far after the trouble, to see whether it is worth more */
    LEAST_GAIN_BYTES = 128, /* how much further it must lead, unless it leads to the end */
    HEADER_BYTES = 48,      /* of a record hold size and time */
    WORDS_BEFORE = 2,       /* flag words before the last good record that may be to blame */
    LAST_STEP_BYTES = 96,   /* of input that the last step before the end or an error may have read */
    TAIL_BYTES = 4,         /* of a stream that may be left when all of the output came */
    TRIAL_BYTES = 64,       /* what a trial costs beside the bytes that it decodes */
    MOST_IN_BYTES = 4 << 20,
};

typedef struct mender {
    uint8_t *in;
    size_t in_bytes;
    uint8_t *out; /* the caller's buffer, after the buffer header */
    size_t want;  /* bytes that should come out */
    int64_t near_raw, window_raw;
    int ordered;
    ea_xpress_state *steps; /* states before each flag word, run of literals and match */
    size_t step_count, step_capacity;
    uint32_t *starts; /* of records up to the trouble */
    int64_t *times;   /* the latest time before each */
    size_t start_count, start_capacity;
    size_t last_good; /* start of the last record before the trouble */
    uint64_t work;    /* bytes decoded */
} mender;

static int believable(const mender *m, int64_t t, int64_t previous) {
    int64_t low = m->ordered && previous != INT64_MIN ? previous : m->near_raw;
    uint64_t distance = t > low ? (uint64_t)t - (uint64_t)low : (uint64_t)low - (uint64_t)t;
    if (distance > (uint64_t)m->window_raw)
        return 0;
    return !m->ordered || previous == INT64_MIN || t >= previous;
}

/* Follows the records from `at`, of which made bytes are decoded: the first place that is no record, or where what is
 * decoded ends, or want. */
static size_t repair_follow(const mender *m, size_t at, int64_t previous, size_t made) {
    while (at < m->want && m->want - at >= 8) {
        if (made - at < HEADER_BYTES && made < m->want)
            return at;
        uint32_t size = ea_etl_record_bytes(m->out + at, (uint32_t)(m->want - at));
        if (!size)
            return at;
        int64_t t = ea_etl_record_time(m->out + at, previous);
        if (!believable(m, t, previous))
            return at;
        previous = t;
        size_t next = at + ((size + 7) & ~7u);
        if (next > made)
            return made;
        at = next;
    }
    return m->want;
}

/* Decodes all of it, noting the state before each step; then the start of each record before the trouble. *ret: where
 * the trouble is, or want when there is none. */
static int survey(mender *m, size_t *ret) {
    ea_xpress_state state = {0};
    m->step_count = 0;
    m->work += m->want;
    while (state.out < m->want) {
        if (EA_GROW(m->steps, m->step_capacity, m->step_count + 1, SIZE_MAX))
            return EA_ENOMEM;
        m->steps[m->step_count++] = state;
        size_t before = state.in;
        if (ea_xpress_run(&state, m->in, m->in_bytes, m->out, state.out + 1, m->want) || state.in == before)
            break;
    }
    m->start_count = 0;
    size_t at = 0;
    int64_t previous = INT64_MIN;
    for (;;) {
        size_t capacity = m->start_capacity;
        if (EA_GROW(m->starts, capacity, m->start_count + 1, SIZE_MAX) ||
            EA_GROW(m->times, m->start_capacity, m->start_count + 1, SIZE_MAX))
            return EA_ENOMEM;
        m->starts[m->start_count] = (uint32_t)at;
        m->times[m->start_count++] = previous;
        if (at >= m->want || m->want - at < 8 || (state.out - at < HEADER_BYTES && state.out < m->want))
            break;
        uint32_t size = ea_etl_record_bytes(m->out + at, (uint32_t)(m->want - at));
        if (!size)
            break;
        int64_t t = ea_etl_record_time(m->out + at, previous);
        if (!believable(m, t, previous))
            break;
        size_t next = at + ((size + 7) & ~7u);
        if (next > state.out && state.out < m->want) {
            *ret = state.out;
            m->last_good = at;
            return 0;
        }
        previous = t;
        at = next;
    }
    *ret = at >= m->want || m->want - at < 8 ? m->want : at;
    m->last_good = m->start_count >= 2 ? m->starts[m->start_count - 2] : 0;
    return 0;
}

/* Decodes from a step on until stop and says how far the records lead. start: a record's before that step.
 * *ret_in: how much of the input is used then. */
static size_t try_from(mender *m, const ea_xpress_state *step, size_t start, size_t stop, size_t *ret_in) {
    ea_xpress_state state = *step;
    int rc = ea_xpress_run(&state, m->in, m->in_bytes, m->out, stop, stop);
    (void)rc; /* where it ends is what counts */
    m->work += TRIAL_BYTES + state.out - step->out;
    *ret_in = state.in;
    return repair_follow(m, m->starts[start], m->times[start], state.out);
}

/* How good the patched input is, 0 to in_bytes: how much of the input makes sense. A long match made up out of the
 * damage can fill the rest of the output with anything; that uses little input. */
static size_t repair_judge(mender *m, const ea_xpress_state *step, size_t start, size_t *ret_reach) {
    size_t used, reach = try_from(m, step, start, m->want, &used);
    *ret_reach = reach;
    if (reach == m->want)
        return m->in_bytes - used <= TAIL_BYTES ? m->in_bytes : 0;
    ea_xpress_state state = *step;
    m->work += reach - step->out;
    int rc = ea_xpress_run(&state, m->in, m->in_bytes, m->out, reach, m->want);
    return rc ? 0 : state.in;
}

typedef struct candidate {
    size_t score, reach, place;
    uint8_t value;
} candidate;

/* Tries every other value of one byte. last: a step after it. */
static void try_place(mender *m, size_t place, size_t last, size_t trouble, candidate *best) {
    size_t stop = trouble + GLIMPSE_BYTES < m->want ? trouble + GLIMPSE_BYTES : m->want;
    size_t step = last, start = m->start_count - 1;
    while (step > 0 && m->steps[step].in > place)
        step--;
    while (start > 0 && m->starts[start] > m->steps[step].out)
        start--;
    uint8_t was = m->in[place];
    for (unsigned flip = 1; flip < 256 && m->work < EA_ETL_MEND_WORK; flip++) {
        size_t used, reach;
        m->in[place] = was ^ (uint8_t)flip;
        if (try_from(m, &m->steps[step], start, stop, &used) <= trouble)
            continue;
        size_t score = repair_judge(m, &m->steps[step], start, &reach);
        if (score > best->score)
            *best = (candidate){.score = score, .reach = reach, .place = place, .value = m->in[place]};
    }
    m->in[place] = was;
}

/* Tries the input bytes that produced the output around the trouble, the last bytes first. 1 when a byte was
 * corrected. */
static int mend_one(mender *m, size_t trouble) {
    /* from the steps of the record before the trouble, and some flag words before, to those of the trouble's own header
     */
    size_t first = m->step_count - 1, words = 0;
    while (first > 0 && (m->steps[first].out > m->last_good || words <= WORDS_BEFORE)) {
        first--;
        words += m->steps[first].out <= m->last_good && m->steps[first].flag_count == 0;
    }
    size_t last = first;
    while (last + 1 < m->step_count && m->steps[last].out < trouble + HEADER_BYTES)
        last++;
    size_t end = m->steps[last].in + (last + 1 < m->step_count ? 0 : LAST_STEP_BYTES), from = m->steps[first].in;
    if (end > m->in_bytes)
        end = m->in_bytes;

    candidate best = {0};
    for (size_t place = end; place-- > from && best.score < m->in_bytes;)
        try_place(m, place, last, trouble, &best);
    /* a half byte that a length uses may be far before its match */
    for (size_t i = last + 1, tried = SIZE_MAX; i-- > first && best.score < m->in_bytes;) {
        size_t half = m->steps[i].nibble; /* 1 + its place */
        if (half && half - 1 < from && half != tried)
            try_place(m, half - 1, i, trouble, &best);
        tried = half;
    }
    if (best.score == 0 || (best.reach < m->want && best.reach < trouble + LEAST_GAIN_BYTES))
        return 0;
    m->in[best.place] = best.value;
    return 1;
}

int ea_etl_repair(uint8_t *in, size_t in_bytes, uint8_t *out, uint32_t claimed, int64_t near_raw, int64_t window_raw,
                  int ordered, uint64_t *ret_work) {
    mender m = {.in = in,
                .in_bytes = in_bytes,
                .out = out + EA_ETL_HEADER_BYTES,
                .want = claimed - EA_ETL_HEADER_BYTES,
                .near_raw = near_raw,
                .window_raw = window_raw,
                .ordered = ordered};
    int mended = 0, rc = 0;
    size_t trouble;
    *ret_work = 0;
    if (in_bytes > MOST_IN_BYTES)
        return 0;
    while (mended < MOST_MENDED && (rc = survey(&m, &trouble)) == 0 && trouble < m.want && m.step_count > 0 &&
           mend_one(&m, trouble))
        mended++;
    *ret_work = m.work;
    free(m.steps);
    free(m.starts);
    free(m.times);
    return rc ? rc : mended;
}
