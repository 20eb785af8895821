/* theory_families.c: families and their divergences on a grid, by the trapezoidal rule, which is very accurate here because
 * every integrand has vanished at both ends. Invariant: r - 1 is computed as expm1 of a difference, so that divergences keep
 * their digits however small the step is. */
#include "theory_families.h"

#include <math.h>

/* ---------------------------------------------------------------------------- families */

static double location_U(const double *t, double x) { return 0.5 * (x - t[0]) * (x - t[0]); }
static void location_d(const double *t, double x, double *d) { d[0] = t[0] - x; }

/* Half N(theta_1, 1), half N(theta_2, 1): the paper's own potentials are of this kind. */
static double mixture_U(const double *t, double x)
{
    double a = 0.5 * (x - t[0]) * (x - t[0]), b = 0.5 * (x - t[1]) * (x - t[1]);
    return fmin(a, b) - log1p(exp(-fabs(a - b)));
}
static void mixture_d(const double *t, double x, double *d)
{
    double a = 0.5 * (x - t[0]) * (x - t[0]), b = 0.5 * (x - t[1]) * (x - t[1]), share = 1 / (1 + exp(a - b));
    d[0] = share * (t[0] - x);
    d[1] = (1 - share) * (t[1] - x);
}

static double exponential_U(const double *t, double x) { return t[0] * x; }
static void exponential_d(const double *t, double x, double *d) { d[0] = x; }

static double scale_U(const double *t, double x) { return 0.5 * exp(t[0]) * x * x; }
static void scale_d(const double *t, double x, double *d) { d[0] = 0.5 * exp(t[0]) * x * x; }

static double quartic_U(const double *t, double x) { return 0.25 * x * x * x * x + 0.5 * t[0] * x * x + t[1] * x; }
static void quartic_d(const double *t, double x, double *d)
{
    d[0] = 0.5 * x * x;
    d[1] = x;
}

static double tanh_U(const double *t, double x) { return 0.5 * x * x + t[0] * tanh(x); }
static void tanh_d(const double *t, double x, double *d) { d[0] = tanh(x); }

static double waves_U(const double *t, double x) { return 0.5 * x * x + t[0] * tanh(x) + t[1] * cos(x); }
static void waves_d(const double *t, double x, double *d)
{
    d[0] = tanh(x);
    d[1] = cos(x);
}

const theory_family theory_general[THEORY_GENERAL] = {
    {"N(θ, 1)", 0, 1, {0.3}, {1}, location_U, location_d},
    {"½N(θ₁, 1) + ½N(θ₂, 1)", 0, 2, {-1, 1.5}, {1, -0.5}, mixture_U, mixture_d},
    {"U = θx, x > 0", 1, 1, {1}, {1}, exponential_U, exponential_d},
    {"U = exp(θ)x²/2", 0, 1, {0.2}, {-1}, scale_U, scale_d},
    {"U = x⁴/4 + θ₁x²/2 + θ₂x", 0, 2, {-1, 0.5}, {1, -0.5}, quartic_U, quartic_d}};

const theory_family theory_bounded[THEORY_BOUNDED] = {
    {"U = x²/2 + θ tanh x, θ = 0.7", 0, 1, {0.7}, {1}, tanh_U, tanh_d},
    {"U = x²/2 + θ₁ tanh x + θ₂ cos x", 0, 2, {0.7, 0.4}, {1, -0.5}, waves_U, waves_d},
    {"U = x²/2 + θ tanh x, θ = 0", 0, 1, {0}, {1}, tanh_U, tanh_d}};

/* ---------------------------------------------------------------------------- grids */

enum { HALF_WIDTH = 14 };

void theory_integrate(const theory_family *f, const double *theta, theory_grid *g)
{
    const double low = f->half_line ? -38 : -HALF_WIDTH, high = f->half_line ? 6 : HALF_WIDTH;
    const double width = (high - low) / (THEORY_POINTS - 1);
    double least = INFINITY, sum = 0;
    for (int i = 0; i < THEORY_POINTS; i++) {
        double u = low + width * i;
        g->x[i] = f->half_line ? exp(u) : u;
        g->p[i] = f->U(theta, g->x[i]) - (f->half_line ? u : 0); /* dx = x du */
        least = fmin(least, g->p[i]);
    }
    for (int i = 0; i < THEORY_POINTS; i++) {
        g->p[i] = exp(least - g->p[i]);
        sum += g->p[i];
    }
    for (int i = 0; i < THEORY_POINTS; i++) g->p[i] /= sum;
    g->logz = log(sum * width) - least;
}

static double along(const theory_family *f, const double *d)
{
    return f->gradient[0] * d[0] + (f->parameters > 1 ? f->gradient[1] * d[1] : 0);
}

theory_constants theory_constants_of(const theory_family *f, const theory_grid *g)
{
    double mean = 0, square = 0, d[THEORY_PARAMETERS];
    for (int i = 0; i < THEORY_POINTS; i++) {
        f->dU(f->theta, g->x[i], d);
        double s = along(f, d);
        mean += g->p[i] * s;
        square += g->p[i] * s * s;
    }
    return (theory_constants){.covariance = square - mean * mean, .uncentred = square};
}

/* ---------------------------------------------------------------------------- one step */

theory_step theory_step_of(const theory_family *f, const theory_grid *g, double gamma)
{
    double moved[THEORY_PARAMETERS] = {f->theta[0] - gamma * f->gradient[0], f->theta[1] - gamma * f->gradient[1]};
    double d[THEORY_PARAMETERS], change = 0, mean = 0;
    theory_step s = {0};
    for (int i = 0; i < THEORY_POINTS; i++) {
        change += g->p[i] * expm1(f->U(f->theta, g->x[i]) - f->U(moved, g->x[i]));
        f->dU(moved, g->x[i], d);
        mean += g->p[i] * along(f, d);
    }
    const double dlogz = log1p(change); /* log Z_k / Z_{k-1} */
    for (int i = 0; i < THEORY_POINTS; i++) {
        double r = expm1(f->U(f->theta, g->x[i]) - f->U(moved, g->x[i]) - dlogz);
        f->dU(moved, g->x[i], d);
        double linear = -gamma * along(f, d), first = r + linear, centred = r + linear + gamma * mean;
        s.chi2 += g->p[i] * r * r;
        s.absolute += g->p[i] * fabs(r);
        s.printed += g->p[i] * first * first;
        s.centred += g->p[i] * centred * centred;
    }
    return s;
}
