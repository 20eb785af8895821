/* test_ties.c: points on which a density has no bound are named, and others are not: cases on either side of every limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "assertions.h"
#include "job/ties.h"

enum { ROWS = 400, DIM = 2 };
static double x[ROWS * DIM];
static char words[512];

/* All numbers of a column differ. */
static void fill(void)
{
    for (int i = 0; i < ROWS; i++) {
        x[DIM * i] = sqrt(i + 1.0);
        x[DIM * i + 1] = cbrt(i - 7.5);
    }
}

static void columns_with_few_values(void **state)
{
    static const struct {
        int rows, values;
        const char *says;
    } tests[] = {{201, 19, "column 2 has only 19 different values in 201 points"},
                 {201, 20, NULL},
                 {200, 19, NULL},
                 {3, 1, "column 2 has the same value in all 3 points"},
                 {2, 2, NULL},
                 {1, 1, NULL}};
    for (size_t k = 0; k < sizeof tests / sizeof *tests; k++) {
        fill();
        for (int i = 0; i < ROWS; i++) x[DIM * i + 1] = 0.5 * (i % tests[k].values);
        assert_int_equal(ties_words(x, tests[k].rows, DIM, words, sizeof words), tests[k].says != NULL);
        if (tests[k].says)
            assert_contains(words, tests[k].says);
        else
            assert_string_equal(words, "");
    }
}

/* Twenty of 400 rows are five per cent, twenty-one are more. Both of a pair are counted. */
static void rows_that_are_equal(void **state)
{
    fill();
    for (int i = 0; i < 10; i++) memcpy(x + (200 + i) * DIM, x + i * DIM, DIM * sizeof *x);
    assert_int_equal(ties_words(x, ROWS, DIM, words, sizeof words), 0);
    memcpy(x + 300 * DIM, x, DIM * sizeof *x);
    assert_int_equal(ties_words(x, ROWS, DIM, words, sizeof words), 1);
    assert_contains(words, "5 % of the 400 points are equal to another one");
    assert_contains(words, "a density can be made as large as one likes there");
    fill();
    for (int i = 0; i < 200; i++) x[DIM * i] = x[DIM * (i + 200)]; /* equal in one coordinate only */
    assert_int_equal(ties_words(x, ROWS, DIM, words, sizeof words), 0);
}

static void points_that_are_all_the_same(void **state)
{
    static const double same[] = {1, 2, 1, 2, 1, 2}, other[] = {1, 2, 1, 2, 1, 3};
    assert_true(ties_all_same(same, 3, 2));
    assert_false(ties_all_same(other, 3, 2));
    assert_false(ties_all_same(same, 1, 2));
    assert_false(ties_all_same(same, 3, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(columns_with_few_values), cmocka_unit_test(rows_that_are_equal),
                                       cmocka_unit_test(points_that_are_all_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
