/* optimisers.c: theta <- OPT(theta, g), coordinate by coordinate, and the schedule of the rate.
 *
 *     SGD        theta -= lr g
 *     momentum   v = mu v + g                     theta -= lr v                (heavy ball)
 *     Nesterov   v = mu v + g                     theta -= lr (g + mu v)
 *     RMSprop    s = beta2 s + (1 - beta2) g^2    theta -= lr g / (sqrt(s) + eps)
 *     Adagrad    s = s + g^2                      theta -= lr g / (sqrt(s) + eps)
 *     Adam       m = beta1 m + (1 - beta1) g      theta -= lr mhat / (sqrt(shat) + eps)
 *                s = beta2 s + (1 - beta2) g^2    mhat = m / (1 - beta1^(k+1)), shat = s / (1 - beta2^(k+1))
 *     AdamW      theta -= lr weight_decay theta, then Adam
 *     mirror     theta *= exp(-lr g)              over its sum, where theta are probabilities (map entropy)
 *
 * Invariant: a step depends on k, g, theta and the slots alone, so a checkpoint of these continues the run bit by bit.
 * No libm but sqrt and floor: powers are repeated products, exp, log and cosine the library's own. */
#include "engine_inside.h"

#include <float.h>
#include <stdio.h>

static void sgd_step(const sosmc_optimiser *o, int64_t k, int dim, const double *restrict g, double *restrict theta,
                     double *restrict slots)
{
    double lr = o->lr;
    for (int j = 0; j < dim; j++) theta[j] -= lr * g[j];
}

static void momentum_step(const sosmc_optimiser *o, int64_t k, int dim, const double *restrict g,
                          double *restrict theta, double *restrict slots)
{
    double lr = o->lr, mu = o->momentum, *restrict v = slots;
    for (int j = 0; j < dim; j++) {
        v[j] = mu * v[j] + g[j];
        theta[j] -= lr * v[j];
    }
}

static void nesterov_step(const sosmc_optimiser *o, int64_t k, int dim, const double *restrict g,
                          double *restrict theta, double *restrict slots)
{
    double lr = o->lr, mu = o->momentum, *restrict v = slots;
    for (int j = 0; j < dim; j++) {
        v[j] = mu * v[j] + g[j];
        theta[j] -= lr * (g[j] + mu * v[j]);
    }
}

static void rmsprop_step(const sosmc_optimiser *o, int64_t k, int dim, const double *restrict g, double *restrict theta,
                         double *restrict slots)
{
    double lr = o->lr, beta2 = o->beta2, eps = o->eps, *restrict s = slots;
    for (int j = 0; j < dim; j++) {
        s[j] = beta2 * s[j] + (1.0 - beta2) * (g[j] * g[j]);
        theta[j] -= lr * g[j] / (sqrt(s[j]) + eps);
    }
}

static void adagrad_step(const sosmc_optimiser *o, int64_t k, int dim, const double *restrict g, double *restrict theta,
                         double *restrict slots)
{
    double lr = o->lr, eps = o->eps, *restrict s = slots;
    for (int j = 0; j < dim; j++) {
        s[j] += g[j] * g[j];
        theta[j] -= lr * g[j] / (sqrt(s[j]) + eps);
    }
}

/* base^k by repeated squaring. */
static double power(double base, int64_t k)
{
    double result = 1.0;
    for (; k > 0; k /= 2, base *= base)
        if (k % 2) result *= base;
    return result;
}

static void adam_step(const sosmc_optimiser *o, int64_t k, int dim, const double *restrict g, double *restrict theta,
                      double *restrict slots)
{
    double *restrict m = slots, *restrict s = slots + dim;
    double lr = o->lr, beta1 = o->beta1, beta2 = o->beta2, eps = o->eps, decay = lr * o->weight_decay;
    double correct1 = 1.0 - power(beta1, k + 1), correct2 = 1.0 - power(beta2, k + 1);
    for (int j = 0; j < dim; j++) {
        m[j] = beta1 * m[j] + (1.0 - beta1) * g[j];
        s[j] = beta2 * s[j] + (1.0 - beta2) * (g[j] * g[j]);
        double shrunk = theta[j] - decay * theta[j]; /* theta itself, exactly, when there is no decay */
        theta[j] = shrunk - lr * (m[j] / correct1) / (sqrt(s[j] / correct2) + eps);
    }
}

/* The largest factor is exp(-lr (g_j - shift)) = 1 with the map entropy. A probability that would be 0 stays the smallest number, so
 * that it can grow again. */
static void mirror_step(const sosmc_optimiser *o, int64_t k, int dim, const double *restrict g, double *restrict theta,
                        double *restrict slots)
{
    double shift = g[0], sum = 0;
    if (o->lr == 0) return;
    for (int j = 1; j < dim; j++) shift = g[j] < shift ? g[j] : shift;
    if (o->map == SOSMC_MIRROR_LOG) shift = 0;
    for (int j = 0; j < dim; j++) {
        theta[j] *= sosmc_i_exp1(NULL, -o->lr * (g[j] - shift));
        sum += theta[j];
    }
    for (int j = 0; o->map == SOSMC_MIRROR_ENTROPY && j < dim; j++) {
        theta[j] /= sum;
        if (theta[j] < DBL_MIN) theta[j] = DBL_MIN;
    }
}

const char *sosmc_i_outside_mirror(const sosmc_optimiser *o, int dim, const double *theta, char *text, size_t room)
{
    static const char *const name[] = {[SOSMC_MIRROR_ENTROPY] = "entropy", [SOSMC_MIRROR_LOG] = "log"};
    double sum = 0;
    for (int j = 0; o->map && j < dim; j++) {
        sum += theta[j];
        if (theta[j] > 0) continue;
        (void)snprintf(text, room, "theta[%d] is %g; the mirror optimiser with the map %s takes numbers above 0", j,
                       theta[j], name[o->map]);
        return text;
    }
    /* Probabilities that were rounded to single precision are taken. */
    if (o->map != SOSMC_MIRROR_ENTROPY || fabs(sum - 1) <= 1e-6) return NULL;
    (void)snprintf(text, room,
                   "the sum of theta is %.9g; the mirror optimiser with the map entropy takes numbers whose sum is 1",
                   sum);
    return text;
}

sosmc_optimiser sosmc_sgd(double lr) { return (sosmc_optimiser){.name = "sgd", .lr = lr, .step = sgd_step}; }

sosmc_optimiser sosmc_momentum(double lr, double momentum)
{
    return (sosmc_optimiser){.name = "momentum", .lr = lr, .momentum = momentum, .slots = 1, .step = momentum_step};
}

sosmc_optimiser sosmc_nesterov(double lr, double momentum)
{
    return (sosmc_optimiser){.name = "nesterov", .lr = lr, .momentum = momentum, .slots = 1, .step = nesterov_step};
}

sosmc_optimiser sosmc_rmsprop(double lr, double decay)
{
    return (sosmc_optimiser){
        .name = "rmsprop", .lr = lr, .beta2 = decay, .eps = 1e-8, .slots = 1, .step = rmsprop_step};
}

sosmc_optimiser sosmc_adagrad(double lr)
{
    return (sosmc_optimiser){.name = "adagrad", .lr = lr, .eps = 1e-8, .slots = 1, .step = adagrad_step};
}

sosmc_optimiser sosmc_adam(double lr)
{
    return (sosmc_optimiser){
        .name = "adam", .lr = lr, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .slots = 2, .step = adam_step};
}

sosmc_optimiser sosmc_adamw(double lr, double weight_decay)
{
    sosmc_optimiser o = sosmc_adam(lr);
    o.name = "adamw";
    o.weight_decay = weight_decay;
    return o;
}

sosmc_optimiser sosmc_mirror(double lr, sosmc_mirror_map map)
{
    return (sosmc_optimiser){.name = map == SOSMC_MIRROR_LOG ? "mirror (log)" : "mirror (entropy)",
                             .lr = lr,
                             .map = map,
                             .step = mirror_step};
}

double sosmc_schedule_rate(sosmc_schedule schedule, double lr, int64_t k)
{
    const sosmc_simd *simd = sosmc_i_simd(NULL);
    if (k + 1 < schedule.warmup) lr *= (double)(k + 1) / (double)schedule.warmup;
    double t = (double)k / schedule.a, low = schedule.b * lr; /* unused, whatever a is, when the rate is constant */
    switch (schedule.kind) {
    case SOSMC_SCHEDULE_ROBBINS_MONRO: return lr * sosmc_i_exp1(simd, -schedule.b * sosmc_i_log1(simd, 1.0 + t));
    case SOSMC_SCHEDULE_EXPONENTIAL: return lr * sosmc_i_exp1(simd, -t);
    case SOSMC_SCHEDULE_COSINE: {
        if ((double)k >= schedule.a) return low;
        double turn = 0.5 * t, sine, cosine;
        simd->sincos2pi(1, &turn, &sine, &cosine);
        return low + 0.5 * (lr - low) * (1.0 + cosine);
    }
    case SOSMC_SCHEDULE_STEPS: return lr * power(schedule.b, (int64_t)floor(t));
    default: return lr;
    }
}
