/* langevin_exact.c: exact rewards, optima and noise-free recursions of the Langevin experiment.
 *
 * Integrals over a Gaussian component use the trapezoidal rule on +-8 standard deviations, which converges faster than any
 * power of the spacing for smooth integrands; the jump of the hard gate is integrated in closed form. Under softmax
 * weights p: grad E[R]_j = p_j (r_j - sum_i p_i r_i), and grad KL(pi_ref || pi_theta)_j = p_j - E_ref[p_j N_j / pi_p]. */
#include "langevin_exact.h"

#include <math.h>
#include <string.h>

enum { D = 2, NODES = 97 };
static const double SPAN = 8.0;

static double node(int i) { return SPAN * (2.0 * i / (NODES - 1) - 1); }
static double weight(int i) { return 2 * SPAN / (NODES - 1) * exp(-0.5 * node(i) * node(i)) / sqrt(2 * M_PI); }

/* E[gate(x) exp(-(x - c)^2/tau)] for x ~ N(mu, variance) */
static double gated_moment(const sosmc_gate *g, double mu, double variance)
{
    double tau = g->tau, spread = tau + 2 * variance, gap = mu - g->center[0];
    if (g->lambda == 0) {
        double v = variance * (tau / 2) / (variance + tau / 2), mean = v * (mu / variance + 2 * g->center[0] / tau);
        return sqrt(tau / spread) * exp(-gap * gap / spread) * 0.5 * erfc(-mean / sqrt(2 * v));
    }
    double sum = 0;
    for (int i = 0; i < NODES; i++) {
        double x = mu + sqrt(variance) * node(i), d = x - g->center[0];
        sum += weight(i) * exp(-d * d / tau) / (1 + exp(-x / g->lambda));
    }
    return sum;
}

void langevin_component_rewards(const langevin_setting *s, double *r)
{
    const sosmc_mixture *m = &s->mixture;
    const sosmc_gate *g = &s->reward;
    double spread = g->tau + 2 * m->variance;
    for (int i = 0; i < m->components; i++) {
        double gap = m->means[i * D + 1] - g->center[1];
        double other = sqrt(g->tau / spread) * exp(-gap * gap / spread);
        r[i] = other * gated_moment(g, m->means[i * D], m->variance) / g->alpha;
    }
}

void langevin_softmax(int m, const double *theta, double *p)
{
    double max = theta[0], sum = 0;
    for (int i = 1; i < m; i++) max = fmax(max, theta[i]);
    for (int i = 0; i < m; i++) sum += p[i] = exp(theta[i] - max);
    for (int i = 0; i < m; i++) p[i] /= sum;
}

/* Averages over the reference mixture of log(pi_ref / pi_p) and of N_j / pi_p, j < m (either may be NULL). */
static void reference_averages(const langevin_setting *s, const double *p, double *kl, double *ratio)
{
    const sosmc_mixture *mix = &s->mixture;
    int m = mix->components;
    double q[LANGEVIN_MAX], e[LANGEVIN_MAX], sd = sqrt(mix->variance);
    langevin_softmax(m, s->theta_ref, q);
    if (kl) *kl = 0;
    if (ratio) memset(ratio, 0, (size_t)m * sizeof *ratio);
    for (int c = 0; c < m; c++)
        for (int a = 0; a < NODES; a++)
            for (int b = 0; b < NODES; b++) {
                double w = q[c] * weight(a) * weight(b);
                if (w < 1e-18) continue;
                double x = mix->means[c * D] + sd * node(a), y = mix->means[c * D + 1] + sd * node(b), near = INFINITY;
                double ref = 0, now = 0;
                for (int i = 0; i < m; i++) {
                    double u = x - mix->means[i * D], v = y - mix->means[i * D + 1];
                    e[i] = (u * u + v * v) / (2 * mix->variance);
                    near = fmin(near, e[i]);
                }
                for (int i = 0; i < m; i++) {
                    e[i] = exp(near - e[i]);
                    ref += q[i] * e[i];
                    now += p[i] * e[i];
                }
                if (kl) *kl += w * log(ref / now);
                for (int i = 0; ratio && i < m; i++) ratio[i] += w * e[i] / now;
            }
}

double langevin_kl(const langevin_setting *s, const double *p)
{
    double kl;
    reference_averages(s, p, &kl, NULL);
    return kl;
}

/* Multiplicative fixed point p_j <- p_j g_j / sum_i p_i g_i, g_j = r_j + beta E_ref[N_j / pi_p]: each sweep increases the
 * concave objective. */
void langevin_optimum(const langevin_setting *s, double beta, double *p)
{
    int m = s->mixture.components;
    double r[LANGEVIN_MAX], ratio[LANGEVIN_MAX];
    langevin_component_rewards(s, r);
    langevin_softmax(m, s->theta_ref, p);
    for (int sweep = 0; sweep < 2000; sweep++) {
        double sum = 0, change = 0;
        reference_averages(s, p, NULL, ratio);
        for (int j = 0; j < m; j++) sum += ratio[j] = p[j] * (r[j] + beta * ratio[j]);
        for (int j = 0; j < m; j++) {
            change = fmax(change, fabs(ratio[j] / sum - p[j]));
            p[j] = ratio[j] / sum;
        }
        if (change < 1e-9) return;
    }
}

double langevin_recursion(const langevin_setting *s, const double *r, sosmc_optimiser optimiser, double beta, int K,
                          double *rewards)
{
    int m = s->mixture.components;
    double theta[LANGEVIN_MAX], p[LANGEVIN_MAX], g[LANGEVIN_MAX], ratio[LANGEVIN_MAX] = {0};
    double slots[2 * LANGEVIN_MAX] = {0};
    memcpy(theta, s->theta_ref, (size_t)m * sizeof *theta);
    for (int k = 0;; k++) {
        double mean = 0;
        langevin_softmax(m, theta, p);
        for (int j = 0; j < m; j++) mean += p[j] * r[j];
        if (rewards) rewards[k] = mean;
        if (k == K) return mean;
        if (beta > 0) reference_averages(s, p, NULL, ratio);
        for (int j = 0; j < m; j++) g[j] = -p[j] * (r[j] - mean) + (beta > 0 ? beta * p[j] * (1 - ratio[j]) : 0);
        optimiser.step(&optimiser, k, m, g, theta, slots);
    }
}

void langevin_maps(const langevin_setting *s, double *density, double *reward)
{
    double q[LANGEVIN_MAX], shown = fmax(s->mixture.variance, 0.05), lambda = s->reward.lambda;
    langevin_softmax(s->mixture.components, s->theta_ref, q);
    for (int r = 0; r < LANGEVIN_SIDE; r++)
        for (int c = 0; c < LANGEVIN_SIDE; c++) {
            double x = -LANGEVIN_BOX + 2 * LANGEVIN_BOX * c / (LANGEVIN_SIDE - 1), sum = 0;
            double y = -LANGEVIN_BOX + 2 * LANGEVIN_BOX * r / (LANGEVIN_SIDE - 1);
            for (int i = 0; i < s->mixture.components; i++) {
                double u = x - s->mixture.means[D * i], v = y - s->mixture.means[D * i + 1];
                sum += q[i] * exp(-(u * u + v * v) / (2 * shown));
            }
            double u = x - s->reward.center[0], v = y - s->reward.center[1];
            double gate = lambda > 0 ? 1 / (1 + exp(-x / lambda)) : x >= 0;
            density[r * LANGEVIN_SIDE + c] = sum;
            reward[r * LANGEVIN_SIDE + c] = gate * exp(-(u * u + v * v) / s->reward.tau) / s->reward.alpha;
        }
}
