/* runtext.c: see runtext.h. Every error message goes to runtext_error, which is empty when there was none. */
#include "runtext.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

char runtext_error[RUNTEXT_ROOM];

config *runtext_parse(const char *text)
{
    config *c = config_parse(text, "run.yaml", runtext_error, sizeof runtext_error);
    if (!c) fail_msg("%s", runtext_error);
    return c;
}

void runtext_resolve(config *c)
{
    if (config_resolve(c, runtext_error, sizeof runtext_error)) fail_msg("%s", runtext_error);
    assert_string_equal(runtext_error, "");
}

config *runtext_resolved(const char *text)
{
    config *c = runtext_parse(text);
    runtext_resolve(c);
    return c;
}

char *runtext_written(const config *c)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    assert_int_equal(config_write(c, out), 0);
    fclose(out);
    return text;
}

const char *runtext_complaint(const char *text)
{
    config *c = config_parse(text, "run.yaml", runtext_error, sizeof runtext_error);
    if (!c) return runtext_error;
    if (config_resolve(c, runtext_error, sizeof runtext_error) == 0)
        snprintf(runtext_error, sizeof runtext_error, "nothing is wrong");
    config_free(c);
    return runtext_error;
}

void runtext_assert_replays(const config *c)
{
    char *text = runtext_written(c);
    config *again = runtext_resolved(text);
    char *text_again = runtext_written(again);
    assert_string_equal(text, text_again);
    config_free(again);
    free(text);
    free(text_again);
}

/* ---------------------------------------------------------------------------- files */

const char *runtext_source(const char *rest, char out[RUNTEXT_PATH])
{
    const char *tests = getenv("SOSMC_TEST_SOURCE");
    if (!tests) return NULL;
    snprintf(out, RUNTEXT_PATH, "%s/../%s", tests, rest);
    return out;
}

const char *runtext_beside_examples(const char *text, char out[4 * RUNTEXT_PATH])
{
    const size_t room = (size_t)4 * RUNTEXT_PATH;
    char folder[RUNTEXT_PATH];
    size_t n = 0;
    if (!runtext_source("examples", folder)) return NULL;
    for (const char *p = text; *p && n < room; p++)
        n += (size_t)snprintf(out + n, room - n, *p == '$' ? "%s" : "%.1s", *p == '$' ? folder : p);
    assert_true(n < room);
    return out;
}

char *runtext_read(const char *path)
{
    FILE *in = fopen(path, "rb");
    if (!in) return NULL;
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, in) < (1 << 20) - 1);
    fclose(in);
    return text;
}

void runtext_save(const char *path, const char *text)
{
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

int runtext_examples(runtext_files *f)
{
    char pattern[RUNTEXT_PATH];
    if (!runtext_source("examples/*.yaml", pattern)) return -1;
    return glob(pattern, 0, NULL, &f->found) || f->found.gl_pathc == 0 ? -1 : 0;
}
