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
    const char *folder = getenv("SOSMC_TEST_DATA"), *path = folder ? folder_path(folder, name) : NULL;
    if (path && access(path, R_OK) == 0) return path;
    print_message("skipped: %s\n", path ? path : "SOSMC_TEST_DATA names no folder of reference data");
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
