/* State-space models with no setting at all: the states of all times are latent variables of one particle. x is stationary,
 * x_1 ~ N(mu, sigma^2 / (1 - phi^2)), x_t ~ N(mu + phi (x_(t-1) - mu), sigma^2), and theta = (atanh phi, mu, log sigma).
 *
 *     06_state_space [linear | volatility] [times] [seconds, at most]
 *
 * linear: y_t ~ N(x_t, 1), where the Kalman filter is exact. volatility: y_t ~ N(0, e^(x_t)), where a filter on a grid of 161 nodes
 * is. The answer is right where the loss is that of the filter and the filter's maximum is no more than 0.05 away. */
#include <math.h>
#include <sosmc/solve.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1000, P = 3, GRID = 161 };
typedef struct {
    int times, volatility;
    double y[MOST];
} series;

static const double log_2pi = 1.83787706640934548356;

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const series *s = self;
    double phi = tanh(theta[0]), mu = theta[1], precision = exp(-2 * theta[2]), first = 1 - phi * phi;
    for (int i = 0; i < b->n; i++) {
        double before = mu;
        U[i] = s->times * (log_2pi + theta[2]) - 0.5 * log(first);
        for (int t = 0; t < s->times; t++) {
            double x = b->x[t * b->ld + i], weight = precision * (t ? 1 : first), y = s->y[t];
            double step = x - mu - (t ? phi * (before - mu) : 0), e = s->volatility ? y * y * exp(-x) : 0;
            U[i] += 0.5 * (weight * step * step + (s->volatility ? x + e : (y - x) * (y - x)));
            if (gx) gx[t * b->ld + i] = weight * step + (s->volatility ? 0.5 * (1 - e) : x - y);
            if (gx && t) gx[(t - 1) * b->ld + i] -= weight * phi * step;
            before = x;
        }
    }
    return 0;
}

static int scores(const void *self, const double *theta, const sosmc_batch *b, double *D)
{
    const series *s = self;
    double phi = tanh(theta[0]), mu = theta[1], precision = exp(-2 * theta[2]), first = 1 - phi * phi;
    for (int i = 0; i < b->n; i++) {
        double off = b->x[i] - mu, by_phi = phi * (1 - first * precision * off * off), by_mu = -first * precision * off,
               by_sigma = s->times - first * precision * off * off;
        for (int t = 1; t < s->times; t++) {
            double before = b->x[(t - 1) * b->ld + i] - mu, step = b->x[t * b->ld + i] - mu - phi * before;
            by_phi -= first * precision * step * before;
            by_mu -= (1 - phi) * precision * step;
            by_sigma -= precision * step * step;
        }
        D[i] = by_phi;
        D[b->ld + i] = by_mu;
        D[2 * b->ld + i] = by_sigma;
    }
    return 0;
}

static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    double *D = malloc(sizeof *D * P * (size_t)b->ld);
    if (!D || scores(self, theta, b, D)) return 1;
    for (int k = 0; k < P; k++)
        for (int i = 0; i < b->n; i++) g[k] += c[i] * D[k * b->ld + i];
    free(D);
    return 0;
}

/* ---------------------------------------------------------------------------- exact: minus the log-likelihood */

static double kalman(const series *s, const double *theta)
{
    double phi = tanh(theta[0]), mu = theta[1], q = exp(2 * theta[2]), mean = mu, variance = q / (1 - phi * phi),
           loss = 0;
    for (int t = 0; t < s->times; t++) {
        double off = s->y[t] - mean, gain = variance / (variance + 1);
        loss += 0.5 * (log_2pi + log1p(variance) + off * off / (variance + 1));
        mean = mu + phi * (mean + gain * off - mu);
        variance = phi * phi * (1 - gain) * variance + q;
    }
    return loss;
}

/* On nodes of z = (x - mu) / sd, sd that of x_1: z_1 ~ N(0, 1), z_t ~ N(phi z_(t-1), 1 - phi^2). */
static double grid_filter(const series *s, const double *theta)
{
    static double move[GRID][GRID];
    double phi = tanh(theta[0]), noise = sqrt(1 - phi * phi), sd = exp(theta[2]) / noise, width = 20.0 / (GRID - 1),
           loss = 0, chance[GRID], next[GRID];
    for (int k = 0; k < GRID; k++) {
        double z = width * k - 10;
        chance[k] = exp(-0.5 * (z * z + log_2pi));
        for (int m = 0; m < GRID; m++) {
            double r = (width * m - 10 - phi * z) / noise;
            move[k][m] = width * exp(-0.5 * (r * r + log_2pi)) / noise;
        }
    }
    for (int t = 0; t < s->times; t++) {
        double sum = 0;
        for (int k = 0; k < GRID; k++) {
            double x = theta[1] + sd * (width * k - 10);
            chance[k] *= exp(-0.5 * (log_2pi + x + s->y[t] * s->y[t] * exp(-x)));
            sum += width * chance[k];
        }
        loss -= log(sum);
        memset(next, 0, sizeof next);
        for (int k = 0; k < GRID; k++)
            for (int m = 0; m < GRID; m++) next[m] += chance[k] / sum * move[k][m];
        memcpy(chance, next, sizeof chance);
    }
    return loss;
}

static double exact(const series *s, const double *theta)
{
    return s->volatility ? grid_filter(s, theta) : kalman(s, theta);
}

/* The maximum of the exact log-likelihood above that at theta: descent along coordinates, whose steps shrink. */
static double still_to_gain(const series *s, const double *theta)
{
    double at[P], best = exact(s, theta), start = best;
    memcpy(at, theta, sizeof at);
    double step = 0.2;
    for (int halving = 0; halving < 8; halving++, step *= 0.5)
        for (int moved = 1, round = 0; moved && round < 20; round++) {
            moved = 0;
            for (int k = 0; k < 2 * P; k++) {
                double old = at[k / 2], loss;
                at[k / 2] += k % 2 ? -step : step;
                loss = exact(s, at);
                if (loss < best - 1e-9) {
                    best = loss;
                    moved = 1;
                } else
                    at[k / 2] = old;
            }
        }
    return start - best;
}

int main(int count, char **word)
{
    static series s;
    s.volatility = count > 1 && !strcmp(word[1], "volatility");
    s.times = count > 2 ? (int)strtol(word[2], NULL, 10) : 100;
    if (s.times < 2 || s.times > MOST) return 2;
    const double phi = s.volatility ? 0.9 : 0.8, mu = s.volatility ? -0.5 : 1, sigma = s.volatility ? 0.5 : 0.7;
    double z[2 * MOST], x = 0;
    sosmc_batch one = {.dim = 2 * MOST, .n = 1, .ld = 1};
    sosmc_normals((sosmc_rng){.seed = 1931}, &one, z);
    for (int t = 0; t < s.times; t++) {
        x = t ? mu + phi * (x - mu) + sigma * z[2 * t] : mu + sigma / sqrt(1 - phi * phi) * z[0];
        s.y[t] = s.volatility ? exp(0.5 * x) * z[2 * t + 1] : x + z[2 * t + 1];
    }
    sosmc_problem problem = {.model = {.self = &s,
                                       .dim_x = s.times,
                                       .dim_theta = P,
                                       .energy = energy,
                                       .grad_theta = grad_theta,
                                       .scores = scores},
                             .objective = sosmc_mmle()};
    sosmc_solve_options options = {.seconds = count > 3 ? strtod(word[3], NULL) : 0};
    sosmc_solution r;
    sosmc_status status = sosmc_solve(&r, &problem, &options);
    const sosmc_judgement *j = &r.judgement;
    double loss = j->theta ? exact(&s, j->theta) : NAN, gain = j->theta ? still_to_gain(&s, j->theta) : NAN;
    if (j->theta)
        printf(
            "phi %.4f, mu %.4f, sigma %.4f; log-likelihood %.3f +- %.3f, by the filter %.3f and %.3f at its maximum; %s\n",
            tanh(j->theta[0]), j->theta[1], exp(j->theta[2]), -j->loss.value, j->loss.error, -loss, gain - loss,
            sosmc_verdict_name((sosmc_verdict_status)j->verdict.status));
    for (int k = 0; k < j->verdict.reasons; k++) puts(j->verdict.reason[k]);
    int right = fabs(j->loss.value - loss) < 0.05 + 5 * j->loss.error && gain < 0.05;
    int solved = status == SOSMC_OK && j->verdict.status == SOSMC_CONVERGED;
    if (!right) puts(solved ? "wrong, and converged" : "wrong, and flagged");
    sosmc_solution_free(&r);
    return solved && right ? 0 : 1;
}
