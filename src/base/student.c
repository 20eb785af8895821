/* student.c: quantiles of Student's law, and the logarithm of Gamma at whole and half numbers, which its density needs. */
#include "student.h"

#include <math.h>
#include <stddef.h>

#include "table.h"

static const double PI = 3.141592653589793;

/* atan x for x >= 0. Three times atan x = 2 atan(x / (1 + sqrt(1 + x^2))), which leaves x <= tan(pi/16) < 0.2, then the series. */
static double arc_tangent(double x)
{
    enum { TERMS = 13 };
    for (int half = 0; half < 3; half++) x = x / (1 + sqrt(1 + x * x));
    double sum = 0;
    for (int k = TERMS - 1; k >= 0; k--) sum = 1.0 / (2 * k + 1) - x * x * sum;
    return 8 * x * sum;
}

/* P(|T| <= t), t >= 0: the finite sums in the cosine of angle = arctan(t / sqrt(dof)). */
static double between(double t, int dof)
{
    double square = 1 / (1 + t * t / dof), sine = t / sqrt(dof + t * t), term = dof % 2 ? sqrt(square) : 1, sum = 0;
    for (int k = dof % 2 ? 3 : 2; k <= dof; k += 2) {
        sum += term;
        term *= square * (k - 1) / k;
    }
    return dof % 2 ? (arc_tangent(t / sqrt(dof)) + sine * sum) * 2 / PI : sine * sum;
}

double sosmc_i_student_quantile(double p, int dof)
{
    if (!(p >= 1e-6 && p <= 1 - 1e-6) || dof < 1) return NAN;
    double level = fabs(2 * p - 1), low = 0, high = 1;
    while (between(high, dof) < level) high *= 2;
    for (int k = 0; k < 60; k++) {
        double middle = (low + high) / 2;
        if (between(middle, dof) < level)
            low = middle;
        else
            high = middle;
    }
    return p < 0.5 ? -high : p > 0.5 ? high : 0;
}

/* Gamma(x + 1) = x Gamma(x), from Gamma(1) = 1 or Gamma(1/2) = sqrt(pi). The logarithm is taken of products that are about to
 * overflow, and at the end. */
double sosmc_i_log_gamma_half(int twice)
{
    double product = twice % 2 ? sqrt(PI) : 1, sum = 0;
    for (int k = twice % 2 ? 1 : 2; k < twice; k += 2) {
        product *= 0.5 * k;
        if (product < 1e290) continue;
        sum += sosmc_i_log1(NULL, product);
        product = 1;
    }
    return sum + sosmc_i_log1(NULL, product);
}
