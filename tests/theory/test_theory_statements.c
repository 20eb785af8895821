/* test_theory_statements.c: the statements of `sosmc reproduce theory` that need runs or integrals of their own, at their quick
 * size: their verdicts, and what their tables say against closed forms that are written out here a second time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "theory/theory.h"

/* Makes the statement, which must have this verdict, no fault of its own, and `controls` wrong variants, all noticed. The caller
 * frees it. */
static void state_it(theory_statement *s, theory_check check, claim_verdict verdict, int controls)
{
    theory_options o = {.quick = 1, .threads = 1, .seed = 7};
    *s = (theory_statement){.id = "statement"};
    assert_int_equal(check(&o, s), 0);
    if (s->faults || s->unnoticed) print_error("%s; %s\n", s->fault, s->control);
    assert_int_equal(s->faults, 0);
    assert_int_equal(s->unnoticed, 0);
    assert_int_equal(s->controls, controls);
    assert_int_equal(s->claim.verdict, verdict);
    assert_false(s->table.failed || s->second.failed || s->memory.failed);
    assert_true(s->figure.panels > 0 && s->figure_caption);
    assert_true(s->title && s->says && s->how);
}

static const char *cell(const theory_table *t, int row, int column)
{
    assert_true(row < t->rows && column < t->columns);
    return t->cell[row * t->columns + column];
}

static double number(const theory_table *t, int row, int column) { return strtod(cell(t, row, column), NULL); }

/* "mean ± error" */
static void estimate(const theory_table *t, int row, int column, double *mean, double *error)
{
    const char *text = cell(t, row, column), *sign = strstr(text, "± ");
    assert_non_null(sign);
    *mean = strtod(text, NULL);
    *error = strtod(sign + strlen("± "), NULL);
}

/* Gradient descent on a quadratic multiplies the error of an eigenvector by 1 - gamma times its eigenvalue, and the loss by the
 * square of that; Proposition 1 promises 1 - gamma mu. */
static void convergence_rate(void **state)
{
    theory_statement s;
    int promised = 0, broken = 0, diverged = 0;
    state_it(&s, theory_rate, CLAIM_CONFIRMED, 2);
    for (int r = 0; r < s.table.rows; r++) {
        const char *loss = cell(&s.table, r, 0), *bound = cell(&s.table, r, 6);
        int round = strcmp(loss, "quadratic, μ = L = 10") == 0;
        if (!round && strcmp(loss, "quadratic, μ = 1, L = 10") != 0) continue;
        double gamma = number(&s.table, r, 1) / 10, mu = round ? 10 : 1;
        double worst = fmax(pow(1 - gamma * mu, 2), pow(1 - gamma * 10, 2)), rate = 1 - gamma * mu;
        assert_true(fabs(number(&s.table, r, 4) - worst) < 1e-4);
        assert_true(fabs(number(&s.table, r, 5) - rate) < 1e-4);
        if (round && worst > 0) assert_true(fabs(number(&s.table, r, 2) / pow(worst, 60) - 1) < 0.01);
        if (strcmp(bound, "holds") == 0) assert_true(worst <= rate);
        if (strcmp(bound, "fails") == 0) assert_true(worst > rate && worst < 1);
        if (strcmp(bound, "diverges") == 0) assert_true(worst > 1);
        promised += strcmp(bound, "holds") == 0;
        broken += strcmp(bound, "fails") == 0;
        diverged += strcmp(bound, "diverges") == 0;
    }
    assert_true(promised >= 6 && broken >= 1 && diverged >= 1);
    theory_statement_free(&s);
}

/* ESS / N = exp(-(gamma |g|)^2), with gamma |g| = 0.2, 0.4, 0.6, 0.8 in five dimensions. */
static void gaussian_ess(void **state)
{
    theory_statement s;
    state_it(&s, theory_gaussian_ess, CLAIM_CONFIRMED, 1);
    assert_int_equal(s.table.rows, 20);
    for (int r = 0; r < s.table.rows; r++) {
        double size = 0.2 * (1 + r % 4), exact = exp(-size * size), mean, error;
        assert_true(fabs(number(&s.table, r, 2) - exact) < 1e-5);
        estimate(&s.table, r, 4, &mean, &error);
        assert_true(error > 0 && error < 0.01);
        assert_true(fabs(mean - exact) < 5 * error + 0.002); /* the latter for the bias of a ratio of means at this N */
        if (r >= 4) assert_true(fabs(number(&s.table, r, 6) - exact) > 1e-3); /* the plain norm is another number */
    }
    theory_statement_free(&s);
}

static void constant_of_total_variation(void **state)
{
    theory_statement s;
    double mean, error;
    state_it(&s, theory_tv_constant, CLAIM_CORRECTED, 1);
    assert_int_equal(s.table.rows, 4);
    for (int r = 0; r < 4; r++) assert_true(fabs(number(&s.table, r, 2) - (number(&s.table, r, 1) - 1)) < 0.01);
    /* either constant has an optimum of its own, and the engine finds it */
    assert_int_equal(s.second.rows, 2);
    for (int r = 0; r < 2; r++) {
        estimate(&s.second, r, 2, &mean, &error);
        assert_true(error > 0 && error < 0.01 && fabs(mean - number(&s.second, r, 1)) < 5 * error);
        /* the derivative of -log p(y) is 0 where the optimum is one, and one pixel off with the printed constant */
        assert_true(fabs(number(&s.second, r, 4) - r) < 1e-3);
    }
    assert_true(number(&s.second, 0, 5) > number(&s.second, 1, 5)); /* the evidence of the right one is higher */
    theory_statement_free(&s);
}

/* Bias and mean squared error fall as 1/N. The slope is fitted again, to the mean squared errors of the table. */
static void finite_n(void **state)
{
    theory_statement s;
    enum { SIZES = 6 };
    int fitted = 0;
    state_it(&s, theory_finite_n, CLAIM_CONFIRMED, 1);
    for (int r = 0; r < s.table.rows; r++) {
        double x[SIZES], y[SIZES], error;
        if (strncmp(cell(&s.table, r, 0), "MSE", 3) != 0) continue;
        for (int k = 0; k < SIZES; k++) {
            x[k] = 32 << k;
            estimate(&s.table, r, 1 + k, &y[k], &error);
        }
        assert_true(fabs(theory_slope(x, y, SIZES, NULL) + 1) < 0.15);
        fitted++;
    }
    assert_int_equal(fitted, 3);
    theory_statement_free(&s);
}

/* "1.0025(67)": the mean of Z_hat / Z and its error in the last digits. It is 1 for every kernel and resampling scheme. */
static void normalising_constant(void **state)
{
    theory_statement s;
    int cells = 0;
    double squares = 0;
    state_it(&s, theory_normalising_constant, CLAIM_CONFIRMED, 2);
    for (int r = 0; r < s.table.rows; r++)
        for (int c = 2; c < 7; c++, cells++) {
            const char *text = cell(&s.table, r, c), *open = strchr(text, '(');
            assert_non_null(open);
            double z = (strtod(text, NULL) - 1) / (1e-4 * strtod(open + 1, NULL));
            assert_true(fabs(z) < 5.5);
            squares += z * z;
        }
    assert_int_equal(cells, 105);
    assert_true(squares > 40 &&
                squares < 200); /* 105 of them on average: the errors are neither too large nor too small */
    theory_statement_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convergence_rate),
        cmocka_unit_test(gaussian_ess),
        cmocka_unit_test(constant_of_total_variation),
        cmocka_unit_test(finite_n),
        cmocka_unit_test(normalising_constant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
