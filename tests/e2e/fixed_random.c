/* A preload library that gives a program the same "random" bytes in each run, so that the seeds of its hash tables, and
 * the number of instructions that a lookup takes, are the same in each run (test_instructions.py).
 *
 * Called by: programs that the tests start with LD_PRELOAD. Calls: nothing. Thread: any; it has no state. */
#include <stddef.h>
#include <string.h>
#include <sys/random.h>
#include <sys/types.h>

ssize_t getrandom(void *out, size_t len_bytes, unsigned flags) {
    (void)flags;
    memset(out, 0x5A, len_bytes);
    return (ssize_t)len_bytes;
}
