/* test_examples.c: every run file of examples/ runs from a fresh clone: whatever it reads is in the tree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "folder.h"
#include "program.h"
#include "runtext.h"

static char folder[FOLDER_ROOM];

/* An automatic run has no iterations to be cut short. */
static int is_automatic(const char *path)
{
    config *c = config_load(path, runtext_error, sizeof runtext_error);
    if (!c || config_resolve(c, runtext_error, sizeof runtext_error)) fail_msg("%s", runtext_error);
    int automatic = strcmp(config_text(c, "settings"), "automatic") == 0;
    config_free(c);
    return automatic;
}

static void every_example_runs(void **state)
{
    runtext_files f;
    char arguments[RUNTEXT_PATH + 128], said[PROGRAM_WORDS];
    program_setting here = {.folder = folder};
    int failed = 0, solved = 0;
    if (runtext_examples(&f)) skip();
    for (size_t i = 0; i < f.found.gl_pathc; i++) {
        int automatic = is_automatic(f.found.gl_pathv[i]);
        (void)snprintf(arguments, sizeof arguments, "run %s %s --set output.report=false --overwrite --out run",
                       f.found.gl_pathv[i], automatic ? "--strict" : "--iterations 2");
        solved += automatic;
        int code = program_run(&here, arguments, said);
        if (code != 0) print_error("%s: exit %d, %s\n", f.found.gl_pathv[i], code, said);
        failed += code != 0;
    }
    assert_true(f.found.gl_pathc > 40 && solved >= 3);
    globfree(&f.found);
    assert_int_equal(failed, 0);
}

static int make_folder(void **state) { return folder_make(folder, "sosmc_examples"); }
static int remove_folder(void **state) { return folder_remove(folder); }

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_example_runs)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
