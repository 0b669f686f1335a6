/* Images: drivers, DLLs and programs, and where they lie: each at one address in all processes, as Windows places them
 * once a boot; plugins all at the same one. See subsystems.h. */
#include "tests/tracegen/subsystems.h"

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

/* One address for all: an address alone says nothing. */
static void make_plugins(tg_machine *m, tg_list *to, const char *stem, uint64_t base) {
    for (int i = 0; i < PLUGIN_COUNT; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s%d.dll", stem, i + 1);
        tg_image *image = make_image(m, path, (uint32_t)(TG_PLUGIN_BYTES + 0x8000 * i), base, 0);
        if (image)
            image->is_announced = m->scenario->announced != 0;
        tg_push(m, to, image);
    }
}

int tg_loads(const tg_program *program, const tg_image *image) {
    if (image->sets & TG_DLLS_DRIVER)
        return 0;
    if (program->wow64 && (image->sets & TG_DLLS_WOW64))
        return 1;
    return image->is_narrow == program->wow64 && (image->sets & program->dlls);
}

int tg_is_narrow(const tg_machine *m, const tg_program *program) {
    return m->scenario->pointer_bytes == 4 || program->wow64;
}

void tg_make_images(tg_machine *m) {
    const tg_scenario *s = m->scenario;
    int is_32_bit = s->pointer_bytes == 4;
    uint64_t kernel = m->kernel_low;
    for (size_t i = 0; i < s->dll_count; i++) {
        const tg_dll *d = &s->dlls[i];
        uint64_t *at = d->sets & TG_DLLS_DRIVER ? &kernel : d->wow64 ? &m->narrow_low : &m->user_low;
        tg_image *image = make_image(m, d->file, d->size_bytes, *at, d->sets);
        if (image)
            image->is_narrow = (uint8_t)d->wow64;
        *at += ((uint64_t)d->size_bytes + 2 * ALLOCATION - 1) & ~(uint64_t)(ALLOCATION - 1);
    }
    make_plugins(m, &m->plugins, "\\Program Files\\Plugins\\plugin", m->user_low);
    m->user_low += 0x100000;
    int is_wow64 = 0;
    for (size_t i = 0; i < s->program_count; i++)
        is_wow64 |= s->programs[i].wow64 && s->programs[i].plugins;
    if (is_wow64)
        make_plugins(m, &m->narrow_plugins, "\\Program Files (x86)\\Plugins\\narrow", m->narrow_low);
    m->roles = ea_arena_zalloc(&m->arena, s->program_count + 1, sizeof *m->roles);
    if (!m->roles) {
        m->failed = 1;
        return;
    }
    uint64_t narrow = 0x400000, program = is_32_bit ? 0x400000 : 0x7FF600000000 + (tg_below(&m->dice, 0x8000) << 16);
    for (size_t i = 0; i < s->program_count; i++) {
        tg_role *role = &m->roles[i];
        role->program = &s->programs[i];
        for (size_t k = 0; k < i && s->programs[i].path; k++) /* variants of one program share its image */
            if (m->roles[k].image && m->roles[k].image->is_narrow == s->programs[i].wow64 &&
                strcmp(m->roles[k].image->file, last_part(s->programs[i].path)) == 0)
                role->image = m->roles[k].image;
        if (s->programs[i].path && !role->image) {
            uint64_t *at = s->programs[i].wow64 ? &narrow : &program;
            tg_image *image = make_image(m, s->programs[i].path, s->programs[i].size_bytes, *at, 0);
            if (image)
                image->is_narrow = (uint8_t)s->programs[i].wow64;
            role->image = image;
            *at += ((uint64_t)s->programs[i].size_bytes + 2 * ALLOCATION - 1) & ~(uint64_t)(ALLOCATION - 1);
        }
    }
}
