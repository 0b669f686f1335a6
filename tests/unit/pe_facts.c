/* Prints "imphash TAB description TAB path" of image files; "-": there is none. What test_imphash.py compares. */
#include "proto/image/pe.h"

#include <stdio.h>

int main(int argc, char **argv) {
    int failed = 0;
    for (int i = 1; i < argc; i++) {
        ea_pe_facts facts;
        ea_file *f = NULL;
        ea_err err = {0};
        int rc = ea_file_open(&f, argv[i], EA_OPEN_READ, &err);
        if (!rc)
            rc = ea_pe_read_file(f, argv[i], &facts, &err);
        if (rc)
            fprintf(stderr, "%s\n", err.message);
        else
            printf("%s\t%s\t%s\n", facts.imphash[0] ? facts.imphash : "-",
                   facts.description[0] ? facts.description : "-", argv[i]);
        failed |= rc != 0;
        ea_file_close(f);
    }
    return failed;
}
