/* formulas_by_hand.c: see formulas_by_hand.h. Nothing here is shared with the library but the names of random numbers. */
#include "formulas_by_hand.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "assertions.h"

static double stiffness(const double *theta) { return 1 + theta[2] * theta[2]; }

double by_hand_U(const double *theta, const double *x)
{
    double U = 0;
    for (int j = 0; j < DIM; j++)
        U += 0.5 * stiffness(theta) * (x[j] - theta[j]) * (x[j] - theta[j]) + 0.05 * x[j] * x[j] * x[j] * x[j];
    return U;
}

void by_hand_gx(const double *theta, const double *x, double *g)
{
    for (int j = 0; j < DIM; j++) g[j] = stiffness(theta) * (x[j] - theta[j]) + 0.2 * x[j] * x[j] * x[j];
}

void by_hand_gtheta(const double *theta, const double *x, double c, double *g)
{
    for (int j = 0; j < DIM; j++) {
        g[j] -= c * stiffness(theta) * (x[j] - theta[j]);
        g[2] += c * theta[2] * (x[j] - theta[j]) * (x[j] - theta[j]);
    }
}

double by_hand_R(const double *x) { return (x[0] > 0 ? 1 : 0) - 0.5 * x[1] * x[1]; }

double by_hand_log_kernel(const sosmc_kernel *k, const double *theta, const double *from, const double *to)
{
    double g[DIM], sum = 0;
    by_hand_gx(theta, from, g);
    for (int j = 0; j < DIM; j++) {
        double d = to[j] - from[j] + k->h * g[j];
        sum -= d * d / (4 * k->h * k->noise * k->noise);
    }
    return sum;
}

estimate by_hand_estimate(const sosmc_objective *o, int updates, const double *theta, double (*x)[DIM],
                          const double *logw)
{
    estimate e = {.g = {0}};
    double w2 = 0, come_in = updates + 1 < o->ramp ? (updates + 1.0) / (double)o->ramp : 1;
    for (int i = 0; i < N; i++) {
        double w = exp(logw[i]), U = by_hand_U(theta, x[i]);
        w2 += w * w;
        e.mean_energy += w * U;
        if (o->score.eval) e.mean_score += w * by_hand_R(x[i]);
        if (o->theta_ref) e.difference += w * (U - by_hand_U(o->theta_ref, x[i]));
    }
    e.ess = 1 / w2;
    double sbar = come_in * e.mean_score + o->kl * e.difference;
    for (int i = 0; i < N; i++) {
        double U = by_hand_U(theta, x[i]), s = o->score.eval ? come_in * by_hand_R(x[i]) : 0;
        if (o->kl != 0) s += o->kl * (U - by_hand_U(o->theta_ref, x[i]));
        by_hand_gtheta(theta, x[i], o->scale * exp(logw[i]) * (s - sbar + o->a), e.g);
    }
    for (int j = 0; o->b != 0 && j < BATCH; j++) {
        by_hand_gtheta(theta, quartic_row(j), o->scale * o->b / BATCH, e.g);
        e.data_U += by_hand_U(theta, quartic_row(j)) / BATCH;
        if (o->theta_ref) e.data_ref += by_hand_U(o->theta_ref, quartic_row(j)) / BATCH;
    }
    return e;
}

void by_hand_check_step(const sosmc_settings *cfg, const double *from, const double *g, const double *to,
                        const sosmc_info *info)
{
    double norm2 = 0;
    for (int j = 0; j < THETA; j++) {
        norm2 += g[j] * g[j];
        assert_close(to[j], from[j] - cfg->optimiser.lr * g[j], 1e-12);
    }
    assert_close(info->grad_norm, sqrt(norm2), 1e-12);
}

void by_hand_normals(const sosmc_settings *cfg, int stream, int64_t at, int i, double *z)
{
    double row[8 * DIM];
    sosmc_batch one = {.dim = DIM, .n = 1, .ld = 8, .first = i};
    sosmc_normals((sosmc_rng){.seed = cfg->seed, .step = (uint64_t)at, .stream = (uint32_t)stream}, &one, row);
    for (int j = 0; j < DIM; j++) z[j] = row[8 * j];
}

/* ---------------------------------------------------------------------------- hooks */

int by_hand_H(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    for (int i = 0; i < b->n; i++) {
        g[0] += c[i] * b->x[i];
        g[1] += c[i] * theta[0];
        g[2] += c[i];
    }
    return self ? 0 : 1; /* the model's self */
}

int by_hand_penalty(const void *self, const double *theta, const sosmc_batch *y, double weight, double *g,
                    double *value)
{
    for (int i = 0; i < y->n; i++) {
        double r = theta[0] * y->x[i] + theta[2];
        g[0] += weight * r * y->x[i];
        g[2] += weight * r;
        *value += weight * 0.5 * r * r;
    }
    return 0;
}
