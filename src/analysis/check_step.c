/* check_step.c: the largest curvature L of the potential at the first particles, by power iteration on its Hessian in x. A
 * product H v is a central difference of gradients, so one iteration costs two evaluations of a few particles. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "probe.h"

enum { ROUNDS = 30, N = PROBE_PARTICLES };
static const double SAFE = 0.5, STEADY = 0.02;

/* The scale on which particles differ: a small part of it is the step of the differences. */
static double spread_of(const probe *p)
{
    double squares = 0, size = 0;
    size_t dim = (size_t)p->b.dim;
    for (size_t j = 0; j < dim; j++) {
        const double *x = p->x + j * N;
        double mean = 0;
        for (int i = 0; i < N; i++) mean += x[i] / N;
        for (int i = 0; i < N; i++) {
            squares += (x[i] - mean) * (x[i] - mean);
            size += x[i] * x[i];
        }
    }
    double spread = sqrt(squares / (double)(dim * N)), rms = sqrt(size / (double)(dim * N));
    return spread > 1e-6 * rms && spread > 0 ? spread : rms > 0 ? rms : 1;
}

/* Every particle's part of v to length 1; the largest length there was. */
static double normalise(double *v, size_t dim)
{
    double most = 0;
    for (int i = 0; i < N; i++) {
        double squares = 0;
        for (size_t j = 0; j < dim; j++) squares += v[j * N + (size_t)i] * v[j * N + (size_t)i];
        double length = sqrt(squares);
        for (size_t j = 0; length > 0 && j < dim; j++) v[j * N + (size_t)i] /= length;
        most = fmax(most, length);
        if (!(length <= most)) return NAN;
    }
    return most;
}

/* v <- (grad U(x + e v) - grad U(x - e v)) / 2e; x comes back as it was. */
static int multiply(probe *p, const double *x, double e, double *g)
{
    size_t all = (size_t)p->b.dim * N;
    int failed = 0;
    for (size_t i = 0; i < all; i++) p->x[i] = x[i] + e * p->v[i];
    (void)sosmc_i_probe_energy(p, p->g, &failed);
    memcpy(g, p->g, all * sizeof *g);
    for (size_t i = 0; i < all; i++) p->x[i] = x[i] - e * p->v[i];
    (void)sosmc_i_probe_energy(p, p->g, &failed);
    for (size_t i = 0; i < all; i++) p->v[i] = (g[i] - p->g[i]) / (2 * e);
    memcpy(p->x, x, all * sizeof *x);
    return failed;
}

/* L of an open probe, with room for two more vectors; NaN where values are not finite or a callback fails. */
static double power_iteration(probe *p, double *room)
{
    double L = NAN, last = 0, rounding = p->model->rounding > 0 ? p->model->rounding : 1e-15;
    size_t all = (size_t)p->b.dim * N;
    double e = sqrt(sqrt(rounding)) * spread_of(p); /* balances rounding against curvature that changes */
    memcpy(room, p->x, all * sizeof *room);
    sosmc_normals((sosmc_rng){.seed = 2, .stream = SOSMC_STREAM_USER}, &p->b, p->v);
    (void)normalise(p->v, (size_t)p->b.dim);
    for (int k = 0; k < ROUNDS; k++) {
        L = multiply(p, room, e, room + all) ? NAN : normalise(p->v, (size_t)p->b.dim);
        if (!isfinite(L) || fabs(L - last) < STEADY * L) break;
        last = L;
    }
    return isfinite(L) ? L : NAN;
}

/* The step in the units of ula, h of x - h grad U + sqrt(2h) noise; 0: the kernel is none of the unadjusted ones. */
static double unadjusted_step(const sosmc_kernel *k)
{
    if (!k->uses_gradient || k->invariant || k->metropolis || k->no_weight || k->clamp > 0) return 0;
    if (strcmp(k->name, "underdamped") == 0 || strcmp(k->name, "leapfrog") == 0) return k->h * k->h / (2 * k->mass);
    return strcmp(k->name, "ula") == 0 ? k->h : 0;
}

static int is_adapted(const sosmc_settings *s)
{
    for (int i = 0; i < 2; i++)
        if (s->adapt[i].factor > 1 && s->adapt[i].target == SOSMC_ADAPT_STEP) return 1;
    return 0;
}

sosmc_status sosmc_check_step(const sosmc_problem *problem, const sosmc_settings *settings, sosmc_step_check *out)
{
    STANDARD_ARITHMETIC;
    probe p;
    const sosmc_kernel *k = &settings->kernel;
    double h = is_adapted(settings) ? 0 : unadjusted_step(k);
    *out = (sosmc_step_check){.h = h > 0 ? h : 0, .curvature = NAN, .beyond = NAN, .largest = NAN};
    if (!(h > 0)) return SOSMC_OK;
    double *room = malloc(2 * (size_t)problem->model.dim_x * N * sizeof *room);
    sosmc_status status = room ? sosmc_i_probe_open(&p, problem, settings->seed) : SOSMC_ENOMEM;
    if (status == SOSMC_OK) {
        out->curvature = power_iteration(&p, room);
        sosmc_i_probe_close(&p);
    }
    free(room);
    double beyond = h * out->curvature / SAFE;
    out->beyond = beyond;
    /* the step of kernels with momentum enters as its square */
    out->largest = k->h * (h == k->h ? SAFE / (h * out->curvature) : sqrt(SAFE / (h * out->curvature)));
    return status;
}
