/* reference.c: see reference.h. */
#include "reference.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "folder.h"

const char *reference_find(const char *name)
{
    const char *source = getenv("SOSMC_TEST_SOURCE");
    char shipped[512], path[1024];
    (void)snprintf(shipped, sizeof shipped, "%s/../experiments", source ? source : "tests");
    const char *const folder[2] = {getenv("SOSMC_TEST_DATA"), shipped};
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder[i] ? folder[i] : "", name);
        if (folder[i] && access(path, R_OK) == 0) return folder_path(folder[i], name);
    }
    if (folder[0])
        print_message("skipped: neither %s nor experiments/ holds %s\n", folder[0], name);
    else
        print_message("skipped: SOSMC_TEST_DATA names no folder of reference data\n");
    return NULL;
}

const char *reference_file(const char *name)
{
    const char *path = reference_find(name);
    if (!path) skip();
    return path;
}

void reference_doubles(const char *name, size_t n, double *x)
{
    FILE *f = fopen(reference_file(name), "rb");
    assert_non_null(f);
    size_t got = fread(x, sizeof *x, n, f);
    int more = fgetc(f) != EOF;
    assert_int_equal(fclose(f), 0);
    if (got != n || more) fail_msg("%s does not hold %zu numbers", name, n);
}
