/* check.c: tests a model before anyone waits for it.
 *
 *   gradients   the Taylor remainder |f(x + e v) - f(x) - e g.v| falls as e^2 until rounding stops it; a wrong gradient shows
 *               as a rate of 1
 *   weights     along a closed path of theta, E[Z_K] = E[Z_0] with fixed steps, whatever Z is: the weights are unbiased
 *   numbers     a short run of the file itself stays finite
 *   step        an unadjusted kernel's step is small enough for the curvature of U: otherwise a warning, which `run` says too */
#include "check.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "run/curvature.h"
#include "run/probe.h"
#include "runfile/problem.h"
#include "terminal/say.h"

enum { PARTICLES = PROBE_PARTICLES, SENTENCE = 1024, REPLICATES = 400, PATH = 8 };

/* ---------------------------------------------------------------------------- Taylor remainders */

typedef struct {
    double rate;  /* of the remainder in e, at the smallest steps above the rounding error */
    double slope; /* measured directional derivative over the claimed one */
    int failed;
} remainder_fit;

/* Moves `at` (length n) along v and fits the remainder's rate between steps large enough to rise above rounding. */
static remainder_fit fit_remainder(probe *p, double *at, size_t n, double derivative)
{
    enum { STEPS = 40, FITTED = 4 };
    double log_r[STEPS], e = 0.25;
    remainder_fit fit = {.rate = 2, .slope = NAN};
    int points = 0;
    double base = probe_energy(p, NULL, &fit.failed), size = 1;
    for (int i = 0; i < PARTICLES; i++) size += fabs(p->U[i]);
    /* in double there is room for caution, in float there is less */
    double rounding = fmax(64 * DBL_EPSILON, 16 * p->model->rounding) * size;
    for (int k = 0; k < STEPS; k++, e *= 0.5) {
        for (size_t i = 0; i < n; i++) at[i] += e * p->v[i];
        double moved = probe_energy(p, NULL, &fit.failed), r = fabs(moved - base - e * derivative);
        for (size_t i = 0; i < n; i++) at[i] -= e * p->v[i];
        if (!(r > 100 * rounding)) break; /* what is left is rounding */
        if (derivative != 0) fit.slope = (moved - base) / (e * derivative);
        log_r[points++] = log(r);
    }
    /* The smallest steps tell: a gradient that is slightly wrong still looks quadratic at the large ones. With one point
     * or none the function is linear, or the remainder is all rounding, and the gradient is right. */
    if (points < 2) return fit;
    int first = points > FITTED ? points - 1 - FITTED : 0;
    fit.rate = (log_r[first] - log_r[points - 1]) / ((points - 1 - first) * log(2.0));
    return fit;
}

static int report_gradient(FILE *out, const char *name, const char *callback, remainder_fit fit)
{
    if (fit.failed) {
        fprintf(out, "FAIL  %s: the callback returned an error\n", name);
        return 1;
    }
    int good = fit.rate > 1.7;
    fprintf(out, "%s  %s: Taylor remainder falls as step^%.2f (expected 2)", good ? "ok  " : "FAIL", name, fit.rate);
    if (!good)
        fprintf(out, "; %s does not match the energy (finite differences over the claimed derivative: %.6g)", callback,
                fit.slope);
    fputc('\n', out);
    return !good;
}

static int check_gradients(const job *j, FILE *out)
{
    probe p;
    int bad = 0;
    if (probe_open(&p, j)) {
        fprintf(out, "FAIL  initial law: particles could not be drawn\n");
        probe_close(&p);
        return 1;
    }
    size_t nx = (size_t)p.model->dim_x * PARTICLES, nt = (size_t)p.model->dim_theta;
    double derivative = 0;
    int failed = 0;
    sosmc_batch direction = p.b;
    (void)probe_energy(&p, p.g, &failed);
    if (j->settings.kernel.uses_gradient) {
        sosmc_normals((sosmc_rng){.seed = 1, .stream = SOSMC_STREAM_USER}, &direction, p.v);
        for (size_t i = 0; i < nx; i++) derivative += p.g[i] * p.v[i];
        bad += report_gradient(out, "gradient in x", "gx", fit_remainder(&p, p.x, nx, derivative));
    }
    if (j->problem.objective.scale == 0) { /* theta stays, or goes its own way: nobody asks for its gradient */
        fprintf(out, "skip  gradient in theta: nothing is optimised\n");
        probe_close(&p);
        return bad;
    }
    double c[PARTICLES];
    for (int i = 0; i < PARTICLES; i++) c[i] = 1;
    memset(p.g, 0, nt * sizeof(double));
    (void)probe_energy(&p, NULL, &failed);
    if (!p.model->grad_theta || p.model->grad_theta(p.model->self, p.theta, &p.b, c, p.g)) failed = 1;
    for (size_t i = 0; i < nt; i++) p.v[i] = cos(1.0 + 2.0 * (double)i); /* any direction without zeros */
    derivative = 0;
    for (size_t i = 0; i < nt; i++) derivative += p.g[i] * p.v[i];
    remainder_fit fit = fit_remainder(&p, p.theta, nt, derivative);
    fit.failed |= failed;
    bad += report_gradient(out, "gradient in theta", "grad_theta", fit);
    probe_close(&p);
    return bad;
}

/* ---------------------------------------------------------------------------- unbiased weights */

typedef struct {
    const double *start;
    double size;
} closed_path;

static void follow_path(const sosmc_optimiser *o, int64_t k, int dim, const double *g, double *theta, double *slots)
{
    const closed_path *p = o->self;
    double there = 2.0 * (double)(k + 1 <= PATH / 2 ? k + 1 : PATH - (k + 1)) / PATH; /* 0 -> 1 -> 0 */
    for (int j = 0; j < dim; j++) theta[j] = p->start[j] + p->size * there * cos(1.0 + j);
}

static int check_weights(const job *j, FILE *out)
{
    /* far enough to see a wrong weight, near enough for the right ones to have a variance */
    closed_path path = {.start = j->problem.theta0, .size = 1.5 / sqrt(j->problem.model.dim_theta)};
    double shift = 0, begun = 0, sum = 0, square = 0;
    if (!j->settings.scheme.weighted || j->problem.objective.scale == 0) {
        fprintf(out, "skip  weights: %s\n",
                j->settings.scheme.weighted ? "nothing is optimised" : "the scheme has none");
        return 0;
    }
    sosmc_settings cfg = j->settings;
    cfg.scheme.particles = cfg.scheme.pool = 50;
    cfg.threads = 1;
    cfg.adapt[0].factor = cfg.adapt[1].factor = 1; /* adapted steps would bias Z at order 1/N */
    cfg.optimiser = (sosmc_optimiser){.name = "path", .self = &path, .step = follow_path};
    for (int r = 0; r < REPLICATES; r++) {
        sosmc *s = NULL;
        cfg.seed = (uint64_t)r + 1;
        sosmc_status status = sosmc_create(&s, &j->problem, &cfg);
        if (status == SOSMC_OK) status = sosmc_run(s, 1, NULL, NULL);
        double start = status == SOSMC_OK && cfg.scheme.order == SOSMC_ORDER_PAPER ? sosmc_last(s)->logz : 0;
        if (status == SOSMC_OK)
            status = sosmc_run(s, cfg.scheme.order == SOSMC_ORDER_PAPER ? PATH : PATH - 1, NULL, NULL);
        if (status != SOSMC_OK) {
            fprintf(out, "FAIL  weights: %s\n", sosmc_message(s));
            sosmc_free(s);
            return 1;
        }
        double end = sosmc_last(s)->logz;
        sosmc_free(s);
        if (isnan(end)) {
            fprintf(out, "skip  weights: the initial law has no density and is not exact, so log Z is unknown\n");
            return 0;
        }
        if (j->problem.init.logpdf && !j->problem.init.exact && cfg.scheme.order != SOSMC_ORDER_PAPER) {
            fprintf(out, "skip  weights: with the authors' order, checked for exact initial laws only\n");
            return 0;
        }
        if (r == 0) shift = start;
        double gain = exp(end - shift) -
                      exp(start - shift); /* mean zero, though the quotient of the two would not be 1 */
        begun += exp(start - shift) / REPLICATES;
        sum += gain;
        square += gain * gain;
    }
    double mean = sum / REPLICATES, se = sqrt(fmax(square / REPLICATES - mean * mean, 0) / (REPLICATES - 1)) / begun;
    mean = 1 + mean / begun;
    int good = fabs(mean - 1) < 4.5 * fmax(se, 1e-12);
    fprintf(out, "%s  weights: Z along a closed path of theta returns to %.4f +- %.4f (expected 1)%s\n",
            good ? "ok  " : "FAIL", mean, se,
            good ? "" : "; U, its gradient and the kernel do not agree, or the step is too large for weights");
    return !good;
}

/* ---------------------------------------------------------------------------- a short run */

static int check_short_run(const job *j, FILE *out)
{
    sosmc *s = NULL;
    sosmc_settings cfg = j->settings;
    int64_t iterations = j->iterations < 20 ? j->iterations : 20;
    if (cfg.scheme.particles > 1000) {
        cfg.scheme.particles = 1000;
        if (cfg.scheme.pool > cfg.scheme.particles && cfg.scheme.pool == j->settings.scheme.particles)
            cfg.scheme.pool = 1000;
    }
    sosmc_status status = sosmc_create(&s, &j->problem, &cfg);
    if (status == SOSMC_OK) status = sosmc_run(s, iterations, NULL, NULL);
    int nonfinite = status == SOSMC_OK ? sosmc_last(s)->nonfinite : 0;
    if (status != SOSMC_OK)
        fprintf(out, "FAIL  short run: %s\n", sosmc_message(s));
    else
        fprintf(out, "%s  short run: %lld iterations, all values finite%s\n", nonfinite ? "FAIL" : "ok  ",
                (long long)iterations, nonfinite ? " but for some particles of the last" : "");
    if (status == SOSMC_OK && sosmc_why_no_loss(s)) fprintf(out, "note  no loss: %s\n", sosmc_why_no_loss(s));
    sosmc_free(s);
    return status != SOSMC_OK || nonfinite;
}

/* What `run` would warn of too. */
static int check_step(const job *j, FILE *out)
{
    char sentence[SENTENCE];
    int warned = curvature_warning(j, sentence, sizeof sentence);
    if (warned) fprintf(out, "warn  step: %s\n", sentence);
    return warned;
}

int check_job(const config *c, FILE *out)
{
    char error[SENTENCE];
    int io = 0, bad, warned;
    job j;
    if (job_build(&j, c, &io, error, sizeof error)) {
        job_free(&j);
        return complain(io ? SOSMC_EXIT_IO : SOSMC_EXIT_USAGE, "%s", error);
    }
    bad = check_gradients(&j, out);
    bad += check_weights(&j, out);
    bad += check_short_run(&j, out);
    warned = check_step(&j, out);
    job_free(&j);
    if (bad)
        fprintf(out, "%d of the checks failed\n", bad);
    else
        fputs(warned ? "no check failed, but see the warning\n" : "all is well\n", out);
    return bad ? SOSMC_EXIT_NUMERIC : SOSMC_EXIT_OK;
}
