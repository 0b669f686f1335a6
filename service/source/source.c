/* Sources of any kind. See source.h. */
#include "service/source/source.h"

int ea_source_next(ea_source *s, const ea_record **ret, ea_err *err) {
    return s->ops->next(s, ret, err);
}

void ea_source_stop(ea_source *s) {
    s->ops->stop(s);
}

void ea_source_close(ea_source *s) {
    if (s)
        s->ops->close(s);
}

size_t ea_source_count(const ea_source *s) {
    return s->ops->count(s);
}

const ea_wire_source *ea_source_row(const ea_source *s, size_t source) {
    return s->ops->row(s, source);
}

double ea_source_progress(const ea_source *s) {
    return s->ops->progress(s);
}

int ea_source_dropped(ea_source *s, ea_dropped *ret) {
    return s->ops->dropped ? s->ops->dropped(s, ret) : 0;
}

int ea_source_clock(ea_source *s, size_t *ret_source, ea_clock *ret) {
    return s->ops->clock ? s->ops->clock(s, ret_source, ret) : 0;
}

int ea_source_is_ahead(ea_source *s, int at_end) {
    return s->ops->is_ahead ? s->ops->is_ahead(s, at_end) : 0;
}

int ea_source_stored(ea_source *s, ea_err *err) {
    return s->ops->stored ? s->ops->stored(s, err) : 0;
}
