/* The damage map. See damage_map.h. */
#include "service/core/damage_map.h"
#include "proto/base/array.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_MARK_BYTES = 4096, TEXT_PLACES = 20 };

static ea_damage_file *damage_map_file_of(ea_damage_map *m, const char *path) {
    for (size_t i = m->file_count; i-- > 0;) /* the last one most often */
        if (strcmp(m->files[i].path, path) == 0)
            return &m->files[i];
    if (EA_GROW(m->files, m->file_capacity, m->file_count + 1, SIZE_MAX))
        return NULL;
    size_t path_bytes = strlen(path) + 1;
    char *copy = malloc(path_bytes);
    if (!copy)
        return NULL;
    memcpy(copy, path, path_bytes);
    ea_damage_file *f = &m->files[m->file_count++];
    *f = (ea_damage_file){.path = copy, .mark_bytes = FIRST_MARK_BYTES};
    return f;
}

static void damage_map_mark(ea_damage_file *f, uint64_t offset) {
    while (offset / f->mark_bytes >= EA_DAMAGE_MARKS) {
        for (size_t i = 0; i < EA_DAMAGE_MARKS; i++)
            f->marks[i] = 2 * i + 1 < EA_DAMAGE_MARKS ? f->marks[2 * i] + f->marks[2 * i + 1] : 0;
        f->mark_bytes *= 2;
    }
    f->marks[offset / f->mark_bytes]++;
}

static void count_reason(ea_damage_map *m, const ea_etl_damage *d) {
    size_t i = 0;
    while (i < m->reason_count && strcmp(m->reasons[i].reason, d->reason) != 0)
        i++;
    if (i == m->reason_count) {
        if (i == EA_DAMAGE_REASONS) {
            m->incomplete = 1;
            return;
        }
        m->reasons[m->reason_count++] = (ea_damage_reason){.reason = d->reason};
    }
    m->reasons[i].places++;
    m->reasons[i].bytes += d->bytes;
}

void ea_damage_map_add(ea_damage_map *m, const ea_etl_damage *d) {
    m->places++;
    m->bytes += d->bytes;
    count_reason(m, d);
    ea_damage_file *f = damage_map_file_of(m, d->path);
    if (!m->first)
        m->first = malloc(EA_DAMAGE_PLACES * sizeof *m->first);
    if (!f || !m->first) {
        m->incomplete = 1;
        return;
    }
    f->places++;
    f->bytes += d->bytes;
    damage_map_mark(f, d->offset);
    if (m->first_count < EA_DAMAGE_PLACES)
        m->first[m->first_count++] = (ea_damage_place){.file = (size_t)(f - m->files),
                                                       .offset = d->offset,
                                                       .inside = d->inside,
                                                       .bytes = d->bytes,
                                                       .reason = d->reason};
}

void ea_damage_map_deinit(ea_damage_map *m) {
    for (size_t i = 0; i < m->file_count; i++)
        free(m->files[i].path);
    free(m->files);
    free(m->first);
    *m = (ea_damage_map){0};
}

/* Stretches up to the last one that has a place. */
static size_t marks_used(const ea_damage_file *f) {
    size_t n = EA_DAMAGE_MARKS;
    while (n && !f->marks[n - 1])
        n--;
    return n;
}

void ea_damage_map_text(const ea_damage_map *m, ea_text *out) {
    if (!m->places)
        return;
    ea_text_printf(out, "damaged: %" PRIu64 " places, %" PRIu64 " bytes skipped\n", m->places, m->bytes);
    for (size_t i = 0; i < m->reason_count; i++) {
        ea_text_printf(out, "%12" PRIu64 " places %12" PRIu64 " bytes  ", m->reasons[i].places, m->reasons[i].bytes);
        ea_text_str(out, m->reasons[i].reason);
        ea_text_char(out, '\n');
    }
    for (size_t i = 0; i < m->file_count; i++) {
        const ea_damage_file *f = &m->files[i];
        ea_text_str(out, "  ");
        ea_text_safe(out, f->path, strlen(f->path));
        ea_text_printf(out, ": %" PRIu64 " places; each sign below stands for %" PRIu64 " bytes\n  [", f->places,
                       f->mark_bytes);
        for (size_t k = 0; k < marks_used(f); k++)
            ea_text_char(out, f->marks[k] == 0 ? '.' : f->marks[k] < 10 ? (char)('0' + f->marks[k]) : '#');
        ea_text_str(out, "]\n");
    }
    for (size_t i = 0; i < m->first_count && i < TEXT_PLACES; i++) {
        const ea_damage_place *p = &m->first[i];
        ea_text_str(out, "  ");
        ea_text_safe(out, m->files[p->file].path, strlen(m->files[p->file].path));
        ea_text_printf(out, ": buffer at offset %" PRIu64, p->offset);
        if (p->inside)
            ea_text_printf(out, ", byte %" PRIu32 " inside", p->inside);
        ea_text_printf(out, ": %s (%" PRIu64 " bytes skipped)\n", p->reason, p->bytes);
    }
    if (m->places > TEXT_PLACES)
        ea_text_printf(out, "  and %" PRIu64 " more\n", m->places - TEXT_PLACES);
}

void ea_damage_map_json(const ea_damage_map *m, ea_text *out) {
    ea_text_printf(out, "{\"places\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"incomplete\":%s,\"reasons\":[", m->places,
                   m->bytes, m->incomplete ? "true" : "false");
    for (size_t i = 0; i < m->reason_count; i++) {
        ea_text_str(out, i ? ",{\"reason\":" : "{\"reason\":");
        ea_text_json_str(out, m->reasons[i].reason);
        ea_text_printf(out, ",\"places\":%" PRIu64 ",\"bytes\":%" PRIu64 "}", m->reasons[i].places,
                       m->reasons[i].bytes);
    }
    ea_text_str(out, "],\"files\":[");
    for (size_t i = 0; i < m->file_count; i++) {
        const ea_damage_file *f = &m->files[i];
        ea_text_str(out, i ? ",{\"path\":" : "{\"path\":");
        ea_text_json_str(out, f->path);
        ea_text_printf(out, ",\"places\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"mark_bytes\":%" PRIu64 ",\"marks\":[",
                       f->places, f->bytes, f->mark_bytes);
        for (size_t k = 0; k < marks_used(f); k++)
            ea_text_printf(out, "%s%" PRIu64, k ? "," : "", f->marks[k]);
        ea_text_str(out, "]}");
    }
    ea_text_str(out, "],\"first\":[");
    for (size_t i = 0; i < m->first_count; i++) {
        const ea_damage_place *p = &m->first[i];
        ea_text_str(out, i ? ",{\"path\":" : "{\"path\":");
        ea_text_json_str(out, m->files[p->file].path);
        ea_text_printf(out,
                       ",\"offset\":%" PRIu64 ",\"inside\":%" PRIu32 ",\"bytes\":%" PRIu64 ",\"reason\":", p->offset,
                       p->inside, p->bytes);
        ea_text_json_str(out, p->reason);
        ea_text_char(out, '}');
    }
    ea_text_str(out, "]}");
}
