/* Names of event classes. See class_names.h. */
#include "proto/event/class_names.h"

#include "proto/base/pattern.h"
#include "proto/event/classes/classes.h"

#include <stdio.h>
#include <string.h>

enum { NEAR_MAX = 3 };

enum { WANTED = 1, UNWANTED = 2 };

static int names_are_same(const char *text, size_t len_bytes, const char *name) {
    for (size_t i = 0; i < len_bytes; i++)
        if (!name[i] || ea_ascii_lower(text[i]) != ea_ascii_lower(name[i]))
            return 0;
    return !name[len_bytes];
}

const char *ea_provider_short_name(const char *provider_name) {
    static const char *const PREFIXES[] = {"Microsoft-Windows-", "Microsoft-"};
    for (size_t i = 0; i < sizeof PREFIXES / sizeof PREFIXES[0]; i++) {
        size_t n = strlen(PREFIXES[i]);
        if (strncmp(provider_name, PREFIXES[i], n) == 0 && provider_name[n])
            return provider_name + n;
    }
    return provider_name;
}

int ea_provider_is_named(const char *text, size_t len_bytes, const char *provider_name, const ea_guid *provider) {
    char guid[37];
    if (!len_bytes)
        return 0;
    if (names_are_same(text, len_bytes, provider_name) ||
        names_are_same(text, len_bytes, ea_provider_short_name(provider_name)))
        return 1;
    ea_guid_format(provider, guid);
    return names_are_same(text, len_bytes, guid);
}

int ea_event_has_alias(const char *text, size_t len_bytes, const ea_guid *provider, const char *provider_name,
                       int classic, uint16_t code) {
    size_t digits = 0;
    uint32_t number = 0, unit = 1;
    if (classic)
        return 0;
    for (; digits < 5 && digits < len_bytes; digits++, unit *= 10) {
        char c = text[len_bytes - 1 - digits];
        if (c < '0' || c > '9')
            break;
        number += unit * (uint32_t)(c - '0');
    }
    int is_any = !digits && len_bytes && text[len_bytes - 1] == '*';
    size_t rest = len_bytes - (is_any ? 1 : digits);
    if ((!is_any && (!digits || number != code)) || rest < 2 || text[rest - 1] != '/')
        return 0;
    return ea_provider_is_named(text, rest - 1, provider_name, provider);
}

int ea_class_name_matches(const char *pattern, const char *name) {
    for (; *pattern; pattern++, name++) {
        if (pattern[0] == '*' && !pattern[1])
            return 1;
        if (ea_ascii_lower(*pattern) != ea_ascii_lower(*name))
            return 0;
    }
    return !*name;
}

int ea_class_is_named(const char *pattern, const ea_class *c) {
    return ea_class_name_matches(pattern, c->name) ||
           ea_event_has_alias(pattern, strlen(pattern), &c->provider, c->provider_name, c->classic, c->code);
}

void ea_near_note(ea_near *n, const char *asked, const char *name) {
    char own[EA_NEAR_BYTES], other[EA_NEAR_BYTES];
    size_t distance = SIZE_MAX;
    if (strlen(asked) < EA_NEAR_BYTES && strlen(name) < EA_NEAR_BYTES) {
        snprintf(own, sizeof own, "%s", asked);
        snprintf(other, sizeof other, "%s", name);
        ea_name_to_lower(own);
        ea_name_to_lower(other);
        distance = ea_name_distance(own, other);
    }
    if (distance > NEAR_MAX || (n->name[0] && distance >= n->distance))
        return;
    n->distance = distance;
    snprintf(n->name, sizeof n->name, "%s", name);
}

/* ---- choosing ---- */

int ea_class_chooser_init(ea_class_chooser *ch, const ea_class_choice *choice, ea_err *err) {
    memset(ch, 0, sizeof *ch);
    ch->choice = choice;
    ea_u64_map_init(&ch->known, 65536);
    for (size_t i = 0; i < choice->ids.count; i++) {
        uint64_t id;
        if (ea_u64_parse(choice->ids.items[i], &id) || id > UINT16_MAX)
            return ea_fail(err, EA_EUSAGE, "--id '%.40s': expected a whole number up to %d", choice->ids.items[i],
                           UINT16_MAX);
        ch->ids[i] = (uint16_t)id;
    }
    return 0;
}

void ea_class_chooser_deinit(ea_class_chooser *ch) {
    ea_u64_map_deinit(&ch->known);
}

void ea_class_chooser_forget(ea_class_chooser *ch) {
    ea_u64_map_clear(&ch->known);
}

static int class_names_has_class(ea_class_chooser *ch, const ea_class *c) {
    const ea_strings *classes = &ch->choice->classes;
    int has = !classes->count;
    for (size_t i = 0; i < classes->count; i++) {
        if (ea_class_is_named(classes->items[i], c))
            has = ch->has_class[i] = 1;
        else if (!ch->has_class[i])
            ea_near_note(&ch->near_class[i], classes->items[i], c->name);
    }
    return has;
}

static int has_id(ea_class_chooser *ch, const ea_class *c) {
    int has = !ch->choice->ids.count;
    for (size_t i = 0; !c->classic && i < ch->choice->ids.count; i++)
        if (ch->ids[i] == c->code)
            has = ch->has_id[i] = 1;
    return has;
}

static int has_provider(ea_class_chooser *ch, const ea_class *c) {
    const ea_strings *providers = &ch->choice->providers;
    int has = !providers->count;
    for (size_t i = 0; i < providers->count; i++) {
        if (ea_provider_is_named(providers->items[i], strlen(providers->items[i]), c->provider_name, &c->provider)) {
            has = ch->has_provider[i] = 1;
        } else if (!ch->has_provider[i]) {
            ea_near_note(&ch->near_provider[i], providers->items[i], c->provider_name);
            ea_near_note(&ch->near_provider[i], providers->items[i], ea_provider_short_name(c->provider_name));
        }
    }
    return has;
}

int ea_class_chooser_wants(ea_class_chooser *ch, const ea_class *c) {
    if (!ch->choice->classes.count && !ch->choice->ids.count && !ch->choice->providers.count)
        return 1;
    const uint64_t *known = ea_u64_map_get(&ch->known, (uintptr_t)c);
    if (known)
        return *known == WANTED;
    int by_class = class_names_has_class(ch, c), by_id = has_id(ch, c),
        by_provider = has_provider(ch, c); /* each is noted */
    int wants = by_class && by_id && by_provider;
    /* without memory the question is asked again for each event, with the same answer */
    EA_IGNORE(ea_u64_map_put(&ch->known, (uintptr_t)c, wants ? WANTED : UNWANTED));
    return wants;
}

/* What this program has rows for, whether an event of it came by or not. */
static void class_names_know(ea_class_chooser *ch, const ea_provider_row *p, const ea_class_row *row) {
    const ea_class_choice *o = ch->choice;
    for (size_t i = 0; i < o->classes.count; i++) {
        const char *pattern = o->classes.items[i];
        if (ea_class_name_matches(pattern, row->name) ||
            ea_event_has_alias(pattern, strlen(pattern), &p->guid, p->name, p->classic, row->code))
            ch->has_class[i] = 1;
        else
            ea_near_note(&ch->near_class[i], pattern, row->name);
    }
    for (size_t i = 0; i < o->providers.count; i++) {
        const char *name = o->providers.items[i];
        if (ea_provider_is_named(name, strlen(name), p->name, &p->guid))
            ch->has_provider[i] = 1;
        else
            ea_near_note(&ch->near_provider[i], name, ea_provider_short_name(p->name));
    }
}

int ea_class_chooser_check(ea_class_chooser *ch, ea_err *err) {
    const ea_class_choice *o = ch->choice;
    if (o->classes.count || o->providers.count)
        for (size_t i = 0; i < ea_family_count; i++)
            for (size_t k = 0; k < ea_families[i]->row_count; k++)
                class_names_know(ch, ea_families[i]->provider, &ea_families[i]->rows[k]);
    for (size_t i = 0; i < o->classes.count; i++) {
        const ea_near *n = &ch->near_class[i];
        if (!ch->has_class[i])
            return ea_fail(err, EA_ENOTFOUND, "--class '%.80s': no event is of such a class%s%s%s", o->classes.items[i],
                           n->name[0] ? "; did you mean '" : "", n->name, n->name[0] ? "'?" : "");
    }
    for (size_t i = 0; i < o->providers.count; i++) {
        const ea_near *n = &ch->near_provider[i];
        if (!ch->has_provider[i])
            return ea_fail(err, EA_ENOTFOUND, "--provider '%.80s': no event is of such a provider%s%s%s",
                           o->providers.items[i], n->name[0] ? "; did you mean '" : "", n->name,
                           n->name[0] ? "'?" : "");
    }
    for (size_t i = 0; i < o->ids.count; i++)
        if (!ch->has_id[i])
            return ea_fail(err, EA_ENOTFOUND, "--id %.40s: no event has this id", o->ids.items[i]);
    return 0;
}
