/* scratch.c: see scratch.h. Files are written and read by libc alone, not by what is tested. */
#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

char scratch[FOLDER_ROOM];
char sentence[2048];

int scratch_make(void **state) { return folder_make(scratch, "sosmc_test"); }

int scratch_remove(void **state) { return folder_remove(scratch); }

const char *at(const char *name) { return folder_path(scratch, name); }

int is_there(const char *name)
{
    struct stat st;
    return stat(at(name), &st) == 0;
}

void write_raw(const char *name, const void *bytes, size_t n)
{
    FILE *f = fopen(at(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

void write_text(const char *name, const char *text) { write_raw(name, text, strlen(text)); }

char *slurp(const char *name, size_t *size)
{
    struct stat st = {0};
    FILE *f = fopen(at(name), "rb");
    if (!f || fstat(fileno(f), &st)) {
        fail_msg("%s: %s", name, strerror(errno));
        return NULL;
    }
    size_t n = (size_t)st.st_size;
    char *bytes = calloc(n + 1, 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    if (size) *size = n;
    return bytes;
}

void assert_same_file(const char *a, const char *b)
{
    size_t n = 0, m = 0;
    char *x = slurp(a, &n), *y = slurp(b, &m);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

void assert_fine(int status)
{
    if (status) fail_msg("%s", sentence);
}

void assert_says(const char *part)
{
    if (!strstr(sentence, part)) fail_msg("\"%s\" does not say \"%s\"", sentence, part);
}
