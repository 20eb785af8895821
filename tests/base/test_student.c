/* test_student.c: quantiles of Student's law against closed forms and tables, and log Gamma against libm's. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "assertions.h"
#include "base/student.h"

static void tables(void **state)
{
    static const struct {
        int dof;
        double p, printed, last; /* half a unit of the last digit */
    } row[] = {{1, 0.975, 12.7062, 5e-5},   {2, 0.975, 4.302653, 5e-7},  {3, 0.975, 3.182446, 5e-7},
               {14, 0.975, 2.144787, 5e-7}, {15, 0.975, 2.131450, 5e-7}, {30, 0.995, 2.749996, 5e-7},
               {100, 0.95, 1.660234, 5e-7}, {7, 0.9995, 5.407883, 5e-7}};
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        assert_near(sosmc_i_student_quantile(row[k].p, row[k].dof), row[k].printed, row[k].last);
        assert_near(sosmc_i_student_quantile(1 - row[k].p, row[k].dof), -row[k].printed, row[k].last);
    }
}

/* One degree of freedom: tan(pi (p - 1/2)). Two: (2 p - 1) / sqrt(2 p (1 - p)). Four: with a = 4 p (1 - p) and
 * q = cos(acos(sqrt a) / 3) / sqrt a, 2 sqrt(q - 1). */
static void closed_forms(void **state)
{
    for (int k = 0; k < 400; k++) {
        double p = k < 200 ? 1e-6 * pow(0.4999e6, k / 199.0) : 1 - 1e-6 * pow(0.4999e6, (k - 200) / 199.0);
        double a = 4 * p * (1 - p), four = 2 * sqrt(cos(acos(sqrt(a)) / 3) / sqrt(a) - 1);
        const double expect[3] = {tan(M_PI * (p - 0.5)), (2 * p - 1) / sqrt(2 * p * (1 - p)), p < 0.5 ? -four : four};
        for (int c = 0; c < 3; c++) {
            double t = sosmc_i_student_quantile(p, c == 2 ? 4 : c + 1);
            assert_near(t / expect[c], 1, 1e-8);
        }
    }
    assert_true(sosmc_i_student_quantile(0.5, 3) == 0);
}

/* Cornish and Fisher's expansion about the normal quantile z, whose next term is of order dof^-4. */
static void many_degrees_are_nearly_normal(void **state)
{
    const double z = 1.959963984540054;
    for (int dof = 2000; dof <= 20001; dof += 18001) {
        double n = dof, t = z + (pow(z, 3) + z) / (4 * n) + (5 * pow(z, 5) + 16 * pow(z, 3) + 3 * z) / (96 * n * n) +
                            (3 * pow(z, 7) + 19 * pow(z, 5) + 17 * pow(z, 3) - 15 * z) / (384 * n * n * n);
        assert_near(sosmc_i_student_quantile(0.975, dof), t, 1e-10);
    }
}

static void outside(void **state)
{
    assert_true(isnan(sosmc_i_student_quantile(0.975, 0)));
    assert_true(isnan(sosmc_i_student_quantile(0, 3)));
    assert_true(isnan(sosmc_i_student_quantile(1, 3)));
    assert_true(isnan(sosmc_i_student_quantile(NAN, 3)));
}

static void log_gamma(void **state)
{
    for (int twice = 1; twice < 3000; twice++) assert_close(sosmc_i_log_gamma_half(twice), lgamma(0.5 * twice), 1e-14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables),  cmocka_unit_test(closed_forms), cmocka_unit_test(many_degrees_are_nearly_normal),
        cmocka_unit_test(outside), cmocka_unit_test(log_gamma),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
