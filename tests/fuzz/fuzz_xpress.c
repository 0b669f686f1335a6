/* The three decompressors on any input. The first byte chooses one and how much room there is; memory is just as large
 * as said, so that a sanitizer sees a byte too far. Plain LZ77 is also taken up again after every stop. */
#include "proto/etl/layout.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    size_t room = (size_t)(data[0] >> 2) * 1117, made = SIZE_MAX;
    unsigned which = data[0] & 3;
    data++;
    size--;
    uint8_t *out = malloc(room ? room : 1);
    if (!out)
        abort();
    int rc = which == 0   ? ea_lznt1_decompress(data, size, out, room, &made)
             : which == 1 ? ea_xpress_huff_decompress(data, size, out, room, &made)
                          : ea_xpress_decompress(data, size, out, room, &made);
    if ((rc != 0 && rc != EA_ECORRUPT) || made > room)
        abort();
    static volatile uint8_t sink;
    for (size_t i = 0; i < made; i++) /* all of it was written: valgrind and msan see it if not */
        sink = out[i];
    (void)sink;
    if (which >= 2) {
        uint8_t *again = malloc(room ? room : 1);
        ea_xpress_state state = {0};
        size_t step = 1 + which * 31 + size % 97;
        int again_rc = 0;
        if (!again)
            abort();
        while (state.out < room && !again_rc) {
            size_t before = state.in, stop = state.out + step < room ? state.out + step : room;
            again_rc = ea_xpress_run(&state, data, size, again, stop, room);
            if (state.in == before)
                break;
        }
        if (state.out != made || again_rc != rc || (made && memcmp(out, again, made) != 0))
            abort();
        free(again);
    }
    free(out);
    return 0;
}
