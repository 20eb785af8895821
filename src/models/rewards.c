/* rewards.c: the rewards that come with the library, evaluated batch by batch with the library's own exp, so that their
 * bits do not depend on machine or threads. None of them needs a gradient. */
#include <math.h>
#include <sosmc/models.h>

enum { CHUNK = 256 };

/* out[i] = |x_i - center|^2 for particles from..from+n-1 */
static void squared_distance(const sosmc_batch *b, int from, int n, const double *center, double *restrict out)
{
    for (int i = 0; i < n; i++) out[i] = 0;
    for (int j = 0; j < b->dim; j++) {
        const double *restrict x = b->x + (size_t)j * (size_t)b->ld + from;
        double c = center[j];
        for (int i = 0; i < n; i++) out[i] += (x[i] - c) * (x[i] - c);
    }
}

static int gate_eval(const void *self, const sosmc_batch *b, double *s)
{
    const sosmc_gate *g = self;
    double gate[CHUNK], scale = -1 / g->tau, height = 1 / g->alpha;
    for (int from = 0; from < b->n; from += CHUNK) {
        int n = b->n - from < CHUNK ? b->n - from : CHUNK;
        const double *restrict x1 = b->x + from;
        double *restrict r = s + from;
        squared_distance(b, from, n, g->center, r);
        for (int i = 0; i < n; i++) r[i] *= scale;
        sosmc_exp(b->simd, n, r, r);
        if (g->lambda > 0) {
            for (int i = 0; i < n; i++) gate[i] = -x1[i] / g->lambda;
            sosmc_exp(b->simd, n, gate, gate);
            for (int i = 0; i < n; i++) r[i] *= height / (1 + gate[i]);
        } else {
            for (int i = 0; i < n; i++) r[i] = x1[i] >= 0 ? r[i] * height : 0;
        }
    }
    return 0;
}

sosmc_score sosmc_gate_reward(const sosmc_gate *gate) { return (sosmc_score){.self = gate, .eval = gate_eval}; }

static int peaks_eval(const void *self, const sosmc_batch *b, double *s)
{
    const sosmc_peaks *p = self;
    double nearest[CHUNK], scale = -1 / p->tau, height = 1 / p->alpha;
    for (int from = 0; from < b->n; from += CHUNK) {
        int n = b->n - from < CHUNK ? b->n - from : CHUNK;
        double *restrict r = s + from;
        squared_distance(b, from, n, p->centers, nearest);
        for (int k = 1; k < p->count; k++) {
            squared_distance(b, from, n, p->centers + (size_t)k * (size_t)p->dim, r);
            for (int i = 0; i < n; i++) nearest[i] = r[i] < nearest[i] ? r[i] : nearest[i];
        }
        for (int i = 0; i < n; i++) r[i] = nearest[i] * scale;
        sosmc_exp(b->simd, n, r, r);
        for (int i = 0; i < n; i++) r[i] *= height;
    }
    return 0;
}

sosmc_score sosmc_peaks_reward(const sosmc_peaks *peaks) { return (sosmc_score){.self = peaks, .eval = peaks_eval}; }

static int half_plane_eval(const void *self, const sosmc_batch *b, double *s)
{
    const sosmc_half_plane *h = self;
    for (int i = 0; i < b->n; i++) s[i] = 0;
    for (int j = 0; j < b->dim; j++)
        for (int i = 0; i < b->n; i++) s[i] += h->normal[j] * b->x[(size_t)j * (size_t)b->ld + (size_t)i];
    for (int i = 0; i < b->n; i++) s[i] = s[i] > h->offset ? 1 : 0;
    return 0;
}

sosmc_score sosmc_half_plane_reward(const sosmc_half_plane *half_plane)
{
    return (sosmc_score){.self = half_plane, .eval = half_plane_eval};
}

/* A weight of zero leaves its coordinate out: pixels of weight zero cannot make a reward NaN. Comparing with the bound first,
 * as here, is one vector instruction each and keeps NaN. */
static int linear_eval(const void *self, const sosmc_batch *b, double *s)
{
    const sosmc_linear *linear = self;
    double bound = linear->clamp > 0 ? linear->clamp : INFINITY;
    for (int from = 0; from < b->n; from += CHUNK) {
        int n = b->n - from < CHUNK ? b->n - from : CHUNK;
        double *restrict sum = s + from;
        for (int i = 0; i < n; i++) sum[i] = 0;
        for (int j = 0; j < b->dim; j++) {
            const double *restrict x = b->x + (size_t)j * (size_t)b->ld + from;
            double weight = linear->weight[j];
            if (weight == 0) continue;
            for (int i = 0; i < n; i++) {
                double held = -bound > x[i] ? -bound : x[i];
                held = bound < held ? bound : held;
                sum[i] += weight * held;
            }
        }
    }
    return 0;
}

sosmc_score sosmc_linear_reward(const sosmc_linear *linear)
{
    return (sosmc_score){.self = linear, .eval = linear_eval};
}
