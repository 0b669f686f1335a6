/* The issuance log of a CA, as it may lie on a disk: read, and when that succeeds, appended to and read again with the
 * same rows. */
#include "collector/ca/issuance.h"
#include "proto/base/platform.h"
#include "tests/fuzz/folder.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int good) {
    if (!good)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char path[160];
    static int is_made;
    ec_issuance *l = NULL, *again = NULL;
    ec_ca_row row = {.serial = "0123", .name = "one-more", .not_after_utc_ns = INT64_C(4102444800000000000)};
    if (!is_made) {
        folder_make("issuance");
        snprintf(path, sizeof path, "%s/issued.tsv", folder);
        is_made = 1;
    }
    must(ea_path_write_all(path, data, size, 0, NULL) == 0);
    if (ec_issuance_open(&l, folder, 1, NULL))
        return 0;
    size_t count = ec_issuance_count(l);
    for (size_t i = 0; i < count; i++) {
        const ec_ca_row *r = ec_issuance_row(l, i);
        must(ec_issuance_find(l, r->serial) == r && ec_issuance_next_of_name(l, r->name, NULL) != NULL);
    }
    int is_known = ec_issuance_find(l, row.serial) != NULL;
    must(ec_issuance_catch_up(l, NULL) == 0 && ec_issuance_add(l, &row, 1, NULL) == 0);
    must(ec_issuance_open(&again, folder, 0, NULL) == 0);
    must(ec_issuance_count(again) == count + (is_known ? 0 : 1));
    must(ec_issuance_find(again, row.serial) != NULL);
    ec_issuance_close(l);
    ec_issuance_close(again);
    return 0;
}
