/* Images: drivers, DLLs and programs, and where they lie: each at one address in all processes, as Windows places them
 * once a boot; plugins all at the same one. See subsystems.h. */
#include "subsystems.h"

#include <string.h>

enum { PLUGIN_COUNT = 4, ALLOCATION = 0x10000 };

static const char *last_part(const char *path) {
    const char *p = strrchr(path, '\\');
    return p ? p + 1 : path;
}

static tg_image *make_image(tg_machine *m, const char *path, uint32_t size_bytes, uint64_t base, uint64_t sets) {
    tg_image *i = tg_new(m, sizeof *i);
    if (!i)
        return NULL;
    ea_text t;
    ea_text_init(&t);
    ea_text_printf(&t, "\\Device\\HarddiskVolume3%s%s", *path == '\\' ? "" : "\\Windows\\", path);
    i->path = tg_keep_text(m, &t);
    if (!i->path)
        return NULL;
    i->file = last_part(i->path);
    ea_text_init(&t);
    ea_text_printf(&t, "%.*s.pdb", (int)strcspn(i->file, "."), i->file);
    i->pdb_name = tg_keep_text(m, &t);
    i->base = base;
    i->size_bytes = size_bytes;
    i->sets = sets;
    i->checksum = (uint32_t)tg_below(&m->dice, 0x1000000);
    i->timestamp = (uint32_t)tg_roll(&m->dice);
    i->pdb_age = 1 + (uint32_t)tg_below(&m->dice, 3);
    ea_store64(i->pdb_guid.bytes, tg_roll(&m->dice));
    ea_store64(i->pdb_guid.bytes + 8, tg_roll(&m->dice));
    tg_push(m, &m->images, i);
    return i;
}

tg_image *tg_find_image(tg_machine *m, const char *path) {
    const char *file = last_part(path);
    for (size_t i = 0; i < m->images.count; i++) {
        tg_image *image = m->images.items[i];
        if (strcmp(image->file, file) == 0)
            return image;
    }
    /* a DLL that no list names, of a script */
    uint64_t base = m->user_low;
    m->user_low += 0x40000;
    return make_image(m, path, 0x2A000, base, 0);
}

void tg_make_images(tg_machine *m) {
    const tg_scenario *s = m->scenario;
    int is_32_bit = s->pointer_bytes == 4;
    uint64_t kernel = m->kernel_low;
    for (size_t i = 0; i < s->dll_count; i++) {
        const tg_dll *d = &s->dlls[i];
        uint64_t *at = d->sets & TG_DLLS_DRIVER ? &kernel : &m->user_low;
        make_image(m, d->file, d->size_bytes, *at, d->sets);
        *at += ((uint64_t)d->size_bytes + 2 * ALLOCATION - 1) & ~(uint64_t)(ALLOCATION - 1);
    }
    for (int i = 0; i < PLUGIN_COUNT; i++) { /* one address for all: an address alone says nothing */
        char path[64];
        snprintf(path, sizeof path, "\\Program Files\\Plugins\\plugin%d.dll", i + 1);
        tg_push(m, &m->plugins, make_image(m, path, (uint32_t)(0x20000 + 0x8000 * i), m->user_low, 0));
    }
    m->user_low += 0x100000;
    m->roles = ea_arena_zalloc(&m->arena, s->program_count + 1, sizeof *m->roles);
    if (!m->roles) {
        m->failed = 1;
        return;
    }
    uint64_t program = is_32_bit ? 0x400000 : 0x7FF600000000 + (tg_below(&m->dice, 0x8000) << 16);
    for (size_t i = 0; i < s->program_count; i++) {
        tg_role *role = &m->roles[i];
        role->program = &s->programs[i];
        for (size_t k = 0; k < i && s->programs[i].path; k++) /* variants of one program share its image */
            if (m->roles[k].image && strcmp(m->roles[k].image->file, last_part(s->programs[i].path)) == 0)
                role->image = m->roles[k].image;
        if (s->programs[i].path && !role->image) {
            role->image = make_image(m, s->programs[i].path, s->programs[i].size_bytes, program, 0);
            program += ((uint64_t)s->programs[i].size_bytes + 2 * ALLOCATION - 1) & ~(uint64_t)(ALLOCATION - 1);
        }
    }
}
