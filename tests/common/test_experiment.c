/* test_experiment.c: what the experiments share: tables of pages from values, engines from run files, and digests of run files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/claims.h"
#include "common/experiment.h"
#include "files/files.h"
#include "folder.h"

static char folder[FOLDER_ROOM], error[1024];
#define ERROR error, sizeof error

static int set_up(void **state) { return folder_make(folder, "test_experiment"); }
static int tear_down(void **state) { return folder_remove(folder); }

/* ---------------------------------------------------------------------------- tables */

static void rows_from_values(void **state)
{
    const experiment_mean m = {.n = 2, .mean = 0.5, .sd = 0.1, .error = 0.25}, none = {.mean = NAN};
    experiment_page x;
    char *text = NULL;
    size_t size = 0;
    if (experiment_page_begin(&x, folder, "Title", NULL, ERROR)) fail_msg("%s", error);
    experiment_page_table(x.page, "Caption", "l method|r reward");
    experiment_cells(x.page, NULL, "s2", "first", 1.005);
    experiment_cells(x.page, NULL, "2s", NAN, "second");
    experiment_cells(x.page, NULL, "dg", 7, 0.25);
    experiment_cells(x.page, NULL, "mm", m, none);
    experiment_cells(x.page, NULL, "e0", 1.0, NAN, 1234.0);
    experiment_row(x.page, NULL, "%s|%d of %d", "third", 1, 2);
    page_table_end(x.page);
    if (experiment_page_end(&x, 0, "page.html") ||
        files_read(folder_path(folder, "page.html"), 1 << 20, &text, &size, ERROR))
        fail_msg("%s", error);
    assert_non_null(text);
    static const char *const parts[] = {"<th class=\"l\">method</th><th class=\"r\">reward</th>",
                                        "<td class=\"l\">first</td><td class=\"r\">1.00</td>",
                                        "<td class=\"l\"></td><td class=\"r\">second</td>",
                                        "<td class=\"l\">7</td><td class=\"r\">0.25</td>",
                                        "<td class=\"l\">0.5000 ± 0.2500</td><td class=\"r\"></td>",
                                        "<td class=\"l\">1.0000</td><td class=\"r\">1234</td>",
                                        "<td class=\"l\">third</td><td class=\"r\">1 of 2</td>"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!text || !strstr(text, parts[i])) fail_msg("the page has no %s", parts[i]);
    free(text);
}

/* After a failure nothing is written, and the failure is returned. */
static void a_page_that_failed(void **state)
{
    experiment_page x;
    char *text = NULL;
    size_t size;
    if (experiment_page_begin(&x, folder, "Title", NULL, ERROR)) fail_msg("%s", error);
    assert_int_equal(experiment_page_end(&x, -1, "failed.html"), -1);
    assert_int_equal(files_read(folder_path(folder, "failed.html"), 1 << 20, &text, &size, ERROR), -1);
    arena memory = {.failed = 1};
    x.plots = 1;
    assert_int_equal(experiment_figure(&x, &memory, (plot_figure){.name = "none"}, NULL, "caption"), -1);
    assert_non_null(strstr(error, "no memory to draw figure none"));
}

/* ---------------------------------------------------------------------------- run files */

static experiment_file setting_a(void)
{
    char dir[FILES_PATH];
    if (experiment_find("langevin", "A.yaml", dir, ERROR)) fail_msg("%s", error);
    return experiment_load(dir, "A.yaml");
}

static void engines_from_run_files(void **state)
{
    experiment_engine e;
    experiment_file f = setting_a();
    experiment_set(&f, "particles=%d", 100);
    if (experiment_start(&f, &e, ERROR)) fail_msg("%s", error);
    assert_int_equal(sosmc_particles(e.engine), 100);
    assert_int_equal(sosmc_step(e.engine), SOSMC_OK);
    experiment_engine_free(&e);
    f = setting_a();
    experiment_set(&f, "kernel.stride=1"); /* there is no such key */
    assert_int_equal(experiment_start(&f, &e, ERROR), -1);
    assert_non_null(strstr(error, "stride"));
    experiment_engine_free(&e);
    f = experiment_load(folder, "nowhere.yaml");
    assert_int_equal(experiment_start(&f, &e, ERROR), -1);
    assert_non_null(strstr(error, "nowhere.yaml"));
    experiment_engine_free(&e);
}

static uint64_t digest_with(const char *assignment)
{
    uint64_t digest = EXPERIMENT_DIGEST;
    experiment_file f = setting_a();
    if (assignment) experiment_set(&f, "%s", assignment);
    if (experiment_mix_file(&f, &digest, ERROR)) fail_msg("%s", error);
    config_free(f.c);
    return digest;
}

/* Equal settings have equal digests, also where one of them states a default; any other value of any key has another. */
static void digests_of_run_files(void **state)
{
    assert_true(digest_with(NULL) == digest_with("kernel.step=0.1") && digest_with(NULL) == digest_with("threads=1"));
    assert_true(digest_with(NULL) != digest_with("kernel.step=0.2"));
    assert_true(digest_with(NULL) != digest_with("adapt.factor=1.02"));
}

/* ---------------------------------------------------------------------------- claims */

static void what_was_not_measured(void **state)
{
    claim c = {.claim = "x", .verdict = CLAIM_CONFIRMED};
    assert_true(claim_measured(&c, 1, "The gain"));
    assert_int_equal(c.verdict, CLAIM_CONFIRMED);
    assert_false(claim_measured(&c, 0, "The gain"));
    assert_int_equal(c.verdict, CLAIM_NOT_SEEN);
    assert_string_equal(c.because, "The gain was not measured");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_from_values),       cmocka_unit_test(a_page_that_failed),
        cmocka_unit_test(engines_from_run_files), cmocka_unit_test(digests_of_run_files),
        cmocka_unit_test(what_was_not_measured),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
