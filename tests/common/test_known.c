/* test_known.c: numbers from elsewhere: every experiment's known.csv can be read, every row has its source and no other row its
 * place; what is not there is NaN, and a broken file is refused with a sentence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "folder.h"
#include "common/known.h"

static char folder[FOLDER_ROOM], error[512];
#define ERROR error, sizeof error

static void every_row_has_a_source(void **state)
{
    static const char *const names[] = {"langevin", "ebm2d", "mnist", "deblurring"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        known k;
        if (known_open(&k, names[i], ERROR)) fail_msg("%s", error);
        const csv_column *source = csv_find(&k.table, "source");
        assert_true(source && source->text && k.table.columns == 5 && k.table.rows > 0);
        for (int64_t r = 0; r < k.table.rows; r++) {
            assert_true(strlen(source->text[r]) > 20 && isfinite(k.value[r]));
            for (int64_t q = 0; q < r; q++)
                if (strcmp(k.setting[q], k.setting[r]) == 0 && strcmp(k.method[q], k.method[r]) == 0 &&
                    strcmp(k.quantity[q], k.quantity[r]) == 0)
                    fail_msg("%s: rows %d and %d are of the same number", names[i], (int)q + 2, (int)r + 2);
        }
        known_close(&k);
    }
}

static void values(void **state)
{
    known k;
    if (known_open(&k, "langevin", ERROR)) fail_msg("%s", error);
    assert_true(known_value(&k, "D Adam selected beta", "SOSMC-ULA", "half_width") == 0.0854);
    assert_true(isnan(known_value(&k, "E Adam selected beta", "SOSMC-ULA", "half_width")));
    assert_true(isnan(known_value(&k, "D Adam selected beta", "SOSMC-ULA", "width")));
    known_close(&k);
    known_close(&k);
}

static void broken_files(void **state)
{
    static const char text[] = "setting,method,value\nA,ULA,1\n";
    known k;
    assert_int_equal(mkdir(folder_path(folder, "langevin"), 0700), 0);
    assert_int_equal(files_write(folder_path(folder, "langevin/known.csv"), text, strlen(text), ERROR), 0);
    char share[FILES_PATH];
    (void)snprintf(share, sizeof share, "%s", getenv("SOSMC_SHARE") ? getenv("SOSMC_SHARE") : "");
    assert_int_equal(setenv("SOSMC_SHARE", folder, 1), 0);
    assert_int_equal(known_open(&k, "langevin", ERROR), -1);
    assert_non_null(strstr(error, "known.csv: expected the columns setting, method, quantity (text) and value"));
    assert_int_equal(setenv("SOSMC_SHARE", share, 1), 0);
    assert_int_equal(known_open(&k, "no such experiment", ERROR), -1);
    assert_non_null(strstr(error, "no such experiment"));
}

static int set_up(void **state) { return folder_make(folder, "test_known"); }
static int tear_down(void **state) { return folder_remove(folder); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_has_a_source),
        cmocka_unit_test(values),
        cmocka_unit_test(broken_files),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
