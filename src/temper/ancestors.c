/* ancestors.c: means and errors of a pass by first ancestors (maths.md PASS), and the Pareto index of its first weights. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "pass.h"

double sosmc_i_pass_mean(const pass_cloud *p, const double *f)
{
    double sum = 0;
    for (int i = 0; i < p->n; i++)
        if (p->w[i] > 0) sum += p->w[i] * f[i];
    return sum;
}

/* Squares of the class sums about the mean of their own component of the starting law. `alone`: what a class has on average, for a
 * component of one ancestor, which has no scatter of its own. */
static double scatter(const pass_cloud *p, double alone)
{
    double sum = 0;
    for (int k = 0, first = 0; k < p->parts; first = p->part_end[k++]) {
        double n = p->part_end[k] - first, centre = 0, squares = 0;
        for (int i = first; i < p->part_end[k]; i++) centre += p->class_sum[i] / n;
        if (n < 2) centre = alone;
        for (int i = first; i < p->part_end[k]; i++) squares += (p->class_sum[i] - centre) * (p->class_sum[i] - centre);
        sum += n < 2 ? squares : squares * n / (n - 1);
    }
    return sqrt(sum);
}

static void add_classes(const pass_cloud *p, const double *f, double c)
{
    double mean = f ? sosmc_i_pass_mean(p, f) : 0;
    memset(p->class_sum, 0, (size_t)p->n * sizeof(double));
    for (int i = 0; i < p->n; i++)
        if (p->w[i] > 0) p->class_sum[p->eve[i]] += p->w[i] * ((f ? f[i] - mean : 0) + c);
}

double sosmc_i_pass_error(const pass_cloud *p, const double *f, double c)
{
    add_classes(p, f, c);
    return scatter(p, c / p->n);
}

double sosmc_i_pass_ratio_error(const pass_cloud *p, const double *f, double c)
{
    add_classes(p, f, c);
    for (int i = 0; i < p->n; i++) p->class_sum[i] -= c * p->halfway[i];
    return scatter(p, 0);
}

void sosmc_i_pass_survivors(pass_cloud *p)
{
    int alive = 0;
    memset(p->class_sum, 0, (size_t)p->n * sizeof(double));
    for (int i = 0; i < p->n; i++) p->class_sum[p->eve[i]] += p->w[i];
    for (int i = 0; i < p->n; i++) alive += p->class_sum[i] > 0;
    p->survivors = (double)alive / p->n;
}

const double *sosmc_i_pass_odd_reward(const pass_cloud *p)
{
    for (int i = 0; p->R && i < p->n; i++)
        if (p->w[i] > 0 && !isfinite(p->R[i])) return &p->R[i];
    return NULL;
}

double sosmc_i_pass_reward_spread(const pass_cloud *p)
{
    double first = NAN, mean = 0, square = 0;
    for (int i = 0; i < p->n; i++) {
        if (!(p->w[i] > 0)) continue;
        if (isnan(first)) first = p->R[i];
        mean += p->w[i] * (p->R[i] - first);
        square += p->w[i] * (p->R[i] - first) * (p->R[i] - first);
    }
    return sqrt(fmax(0, square - mean * mean));
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Puts the m largest of n numbers last, in any order (Hoare's selection). */
static void largest_last(int n, int m, double *x)
{
    int low = 0, high = n - 1, first = n - m;
    while (low < high) {
        double pivot = x[low + (high - low) / 2];
        int i = low, j = high;
        while (i <= j) {
            while (x[i] < pivot) i++;
            while (x[j] > pivot) j--;
            if (i > j) break;
            double kept = x[i];
            x[i++] = x[j];
            x[j--] = kept;
        }
        if (first > j && first < i) return;
        if (first <= j)
            high = j;
        else
            low = i;
    }
}

static double log1(double x) { return sosmc_i_log1(NULL, x); }

/* Mean of log(1 - b y) over m values. work: m doubles. */
static double mean_log(double b, int m, const double *y, double *work)
{
    double sum = 0;
    for (int i = 0; i < m; i++) work[i] = 1 - b * y[i];
    sosmc_log(NULL, m, work, work);
    for (int i = 0; i < m; i++) sum += work[i];
    return sum / m;
}

double sosmc_i_khat(int n, const double *logw, double *work)
{
    enum { CANDIDATES = 200 };
    int m = (int)fmin(n / 5.0, 3 * sqrt((double)n)), q = 30 + (int)sqrt((double)m);
    if (m < 5 || q > CANDIDATES) return NAN;
    double *sorted = work, *y = work + n, likelihood[CANDIDATES], b[CANDIDATES], best = -INFINITY, total = 0, mean = 0;
    for (int i = 0; i < n; i++) sorted[i] = isnan(logw[i]) ? -INFINITY : logw[i];
    largest_last(n, m + 1, sorted);
    qsort(sorted + n - m - 1, (size_t)m + 1, sizeof *sorted, ascending);
    double most = sorted[n - 1], cut = sosmc_i_exp1(NULL, fmax(sorted[n - m - 1] - most, -700));
    for (int i = 0; i < m; i++) y[i] = fmax(sosmc_i_exp1(NULL, fmax(sorted[n - m + i] - most, -700)) - cut, 0);
    if (!isfinite(most) || !(y[m - 1] > 1e-300)) return NAN;
    double quartile = fmax(y[(int)floor(m / 4.0 + 0.5) - 1], 1e-300);
    for (int j = 0; j < q; j++) {
        b[j] = 1 / y[m - 1] + (1 - sqrt(q / (j + 0.5))) / (3 * quartile);
        double k = mean_log(b[j], m, y, y + m);
        likelihood[j] = m * (log1(-b[j] / k) - k - 1);
        if (likelihood[j] > best) best = likelihood[j];
    }
    if (!isfinite(best)) return NAN;
    for (int j = 0; j < q; j++) {
        double w = isfinite(likelihood[j]) ? sosmc_i_exp1(NULL, likelihood[j] - best) : 0;
        total += w;
        mean += w * b[j];
    }
    return mean_log(mean / total, m, y, y + m) * m / (m + 10.0) + 0.5 * 10 / (m + 10.0);
}
