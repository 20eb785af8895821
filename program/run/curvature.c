/* curvature.c: the largest curvature L of the potential at the first particles, by power iteration on its Hessian in x. A
 * product H v is a central difference of gradients, so one iteration costs two evaluations of a few particles.
 *
 * x - h grad U(x) diverges for h > 2 / L; unadjusted Langevin moves lose their accuracy, and their weights an effective
 * sample size, well before that: 0.5 / L is where this program begins to warn. */
#include "curvature.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    (void)probe_energy(p, p->g, &failed);
    memcpy(g, p->g, all * sizeof *g);
    for (size_t i = 0; i < all; i++) p->x[i] = x[i] - e * p->v[i];
    (void)probe_energy(p, p->g, &failed);
    for (size_t i = 0; i < all; i++) p->v[i] = (g[i] - p->g[i]) / (2 * e);
    memcpy(p->x, x, all * sizeof *x);
    return failed;
}

/* NaN where it cannot be measured: no memory, a failing callback, values that are not finite. */
static double largest_curvature(const job *j)
{
    probe p;
    double L = NAN, last = 0;
    size_t all = (size_t)j->problem.model.dim_x * N;
    double *x = malloc(2 * all * sizeof *x);
    if (x && probe_open(&p, j) == 0) {
        double rounding = p.model->rounding > 0 ? p.model->rounding : 1e-15;
        double e = sqrt(sqrt(rounding)) * spread_of(&p); /* balances rounding against curvature that changes */
        memcpy(x, p.x, all * sizeof *x);
        sosmc_normals((sosmc_rng){.seed = 2, .stream = SOSMC_STREAM_USER}, &p.b, p.v);
        (void)normalise(p.v, (size_t)p.b.dim);
        for (int k = 0; k < ROUNDS; k++) {
            L = multiply(&p, x, e, x + all) ? NAN : normalise(p.v, (size_t)p.b.dim);
            if (!isfinite(L) || fabs(L - last) < STEADY * L) break;
            last = L;
        }
    }
    if (x) probe_close(&p);
    free(x);
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

int curvature_warning(const job *j, char *out, size_t room)
{
    const sosmc_kernel *k = &j->settings.kernel;
    double h = unadjusted_step(k);
    if (!(h > 0) || is_adapted(&j->settings)) return 0;
    double L = largest_curvature(j);
    if (!(h * L > SAFE)) return 0;
    (void)snprintf(out, room,
                   "kernel.step is %.4g, %.3g times the largest that is safe for unadjusted moves: the potential has a "
                   "curvature of %.4g at the first particles; take a kernel.step of at most %.2g, or kernel.type: mala",
                   k->h, h * L / SAFE, L, k->h * (h == k->h ? SAFE / (h * L) : sqrt(SAFE / (h * L))));
    return 1;
}
