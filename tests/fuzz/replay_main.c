/* Runs a fuzz target's entry point on every file of the folders that are given: the corpus as a plain test.
 * With --measure, what each file that is given takes: a line with its bytes, the processor time in nanoseconds (the
 * least of several runs, of all threads) and the most bytes of memory at one time (test_bounds.py). */
#include "proto/base/platform.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#if defined __GLIBC__ && !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__ && !defined __clang__
/* The allocator of the whole process, its shared libraries included, with a count of what is allocated. */
enum { COUNTS_MEMORY = 1 };

static _Atomic size_t live_bytes, most_bytes;

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t count, size_t n);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);
void __libc_free(void *p);

static void *counted(void *p) {
    if (p) {
        size_t n = malloc_usable_size(p), now = atomic_fetch_add(&live_bytes, n) + n, most = atomic_load(&most_bytes);
        while (now > most && !atomic_compare_exchange_weak(&most_bytes, &most, now)) {
        }
    }
    return p;
}

static void uncount(void *p) {
    if (p)
        atomic_fetch_sub(&live_bytes, malloc_usable_size(p));
}

void *malloc(size_t n) {
    return counted(__libc_malloc(n));
}

void *calloc(size_t count, size_t n) {
    return counted(__libc_calloc(count, n));
}

void *realloc(void *p, size_t n) {
    size_t before = p ? malloc_usable_size(p) : 0;
    void *now = __libc_realloc(p, n);
    if (now || !n)
        atomic_fetch_sub(&live_bytes, before);
    return counted(now);
}

void *memalign(size_t alignment, size_t n) {
    return counted(__libc_memalign(alignment, n));
}

void *aligned_alloc(size_t alignment, size_t n) {
    return memalign(alignment, n);
}

int posix_memalign(void **ret, size_t alignment, size_t n) {
    *ret = memalign(alignment, n);
    return *ret ? 0 : ENOMEM;
}

void free(void *p) {
    uncount(p);
    __libc_free(p);
}
#else
enum { COUNTS_MEMORY = 0 };

static _Atomic size_t live_bytes, most_bytes;
#endif

typedef struct {
    const char *folder;
    unsigned long count;
} run;

/* Reads a file into an allocation of exactly its size, so that a sanitizer sees a read past the end. */
static int read_exact(const char *path, uint8_t **ret, size_t *ret_size) {
    ea_err err;
    char *data;
    size_t size;
    int rc = ea_path_read_all(path, 64 << 20, &data, &size, &err);
    if (rc) {
        ea_err_print(stderr, "replay", &err);
        return rc;
    }
    uint8_t *copy = malloc(size ? size : 1);
    if (copy)
        memcpy(copy, data, size);
    free(data);
    if (!copy)
        return EA_ENOMEM;
    *ret = copy;
    *ret_size = size;
    return 0;
}

static int one(const char *name, int is_dir, void *arg) {
    run *r = arg;
    char path[4096];
    uint8_t *copy;
    size_t size;
    if (is_dir)
        return 0;
    snprintf(path, sizeof path, "%s/%s", r->folder, name);
    int rc = read_exact(path, &copy, &size);
    if (rc)
        return rc;
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
    r->count++;
    return 0;
}

static int64_t processor_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int measure(const char *path) {
    enum { RUNS_LEAST = 3, RUNS_MOST = 15, ENOUGH_NS = 20000000 };

    uint8_t *data;
    size_t size;
    int rc = read_exact(path, &data, &size);
    if (rc)
        return rc;
    int64_t least = INT64_MAX, total = 0;
    size_t most = 0;
    LLVMFuzzerTestOneInput(data, size); /* what is made once is not measured */
    for (int i = 0; i < RUNS_LEAST || (i < RUNS_MOST && total < ENOUGH_NS); i++) {
        size_t before = atomic_load(&live_bytes);
        atomic_store(&most_bytes, before);
        int64_t ns = -processor_ns();
        LLVMFuzzerTestOneInput(data, size);
        ns += processor_ns();
        total += ns;
        least = ns < least ? ns : least;
        most = atomic_load(&most_bytes) - before;
    }
    free(data);
    printf("%zu %lld %lld\n", size, (long long)least, COUNTS_MEMORY ? (long long)most : -1LL);
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--measure") == 0) {
        if (setenv("EA_FUZZ_MEASURED", "1", 1)) /* the reader alone: fuzz_batch.c */
            return 1;
#ifdef __GLIBC__
        /* what is free stays with the process: faults of fresh pages are none of the parser's work */
        mallopt(M_MMAP_THRESHOLD, 1 << 30);
        mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
        for (int i = 2; i < argc; i++)
            if (measure(argv[i]))
                return 1;
        return 0;
    }
    ea_err err;
    unsigned long total = 0;
    for (int i = 1; i < argc; i++) {
        run r = {.folder = argv[i]};
        int rc = ea_path_list(argv[i], one, &r, &err);
        if (rc) {
            ea_err_print(stderr, "replay", &err);
            return 1;
        }
        total += r.count;
    }
    printf("%lu inputs replayed\n", total);
    return total ? 0 : 1;
}
