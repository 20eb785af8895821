/* mixtures.c: mixtures with softmax weights v = softmax(theta) and rewards. Both divergences to the weights v0 of theta0 and the
 * reward are sums over components of expectations under one component,
 *
 *     E R = sum_i v_i r_i,  r_i = E_i R
 *     KL(pi || ref) = sum_i v_i E_i log(pi / ref),   KL(ref || pi) = sum_i v0_i E_i log(ref / pi)
 *
 * E_i is a trapezoidal rule in the component's standard coordinates, in one or two dimensions. Where all components are more than
 * ten standard deviations apart the ratio is v_i / v0_i under component i, up to 1e-6. */
#include <math.h>
#include <string.h>

#include <sosmc/models.h>

#include "../models/drawn_numbers.h"
#include "untuned_inside.h"

enum { MOST = 20, DIMENSIONS = 10, STEPS = 2, REFERENCE_BATCH = 1024 };

/* A reward that is a sum of steps, height 1{x[axis] > offset}, or 1 within a circle around the first mean. */
typedef struct {
    int axis;
    double offset, height;
} reward_step;

typedef struct {
    const char *name;
    int dim, components, forward;
    double variance, beta;
    double means[3 * 2], theta0[3];
    reward_step step[STEPS];
    double width; /* of a step of the quadrature, in standard deviations; 0: components do not overlap */
} mixture_row;

static const mixture_row rows[] = {
    {"dual2", 2, 2, 1, 0.5, 0.1, {-3, 0, 3, 0}, {0}, {{0}}, 0.15},
    {"far3", 2, 3, 0, 0.3, 0.3, {-5, 0, 5, 0, 0, 6}, {0.4, 0, -0.3}, {{0, 2.5, 0.9}, {1, 3, 0.4}}, 0},
    {"ring8", 2, 8, 0, 0.05, 0.1, {0}, {0}, {{0}}, 0},
    {"mix10", 10, 5, 0, 20, 0.5, {0}, {0}, {{0}}, 0},
    {"mix20", 2, 20, 0, 0.3, 0.3, {0}, {0}, {{0, 0, 0.8}, {1, 1, 0.5}}, 0.3},
    {"tiny1", 1, 3, 1, 1, 0.01, {-1, 0, 1}, {0}, {{0, 1.5, 0.02}}, 0.05},
    {"rare1", 1, 3, 0, 1, 0.1, {-6, 0, 8}, {0, 0, -9}, {{0, 5, 1}}, 0.05},
    {"far100_fwd", 1, 2, 1, 1, 0.1, {0, 100}, {0.5, 0}, {{0, 50, 1}}, 0},
    {"far100_rev", 1, 2, 0, 1, 0.5, {0, 100}, {0.5, 0}, {{0, 50, 1}}, 0},
};

typedef struct {
    sosmc_mixture mixture;
    sosmc_mixture_law law;
    double means[MOST * DIMENSIONS], theta0[MOST], weight0[MOST], reward[MOST];
    double beta;
    int forward;
    reward_step step[STEPS];
    sosmc_gate gate;
    double centre[DIMENSIONS], direction[DIMENSIONS];
    sosmc_linear linear;
    double radius2;
    int nodes;           /* per component; 0: components do not overlap */
    double *probability; /* of the nodes, which are the same for all components */
    double *density;     /* [component i][node][component j]: that of j where the node of i is, up to a factor */
    double *reference;   /* [component i][node]: of the mixture with weight0, up to the same factor */
} mixture_data;

/* ---------------------------------------------------------------------------- rewards */

static int steps_reward(const void *self, const sosmc_batch *b, double *s)
{
    const mixture_data *m = self;
    for (int i = 0; i < b->n; i++) s[i] = 0;
    for (int k = 0; k < STEPS; k++) {
        const double *x = b->x + (size_t)m->step[k].axis * (size_t)b->ld;
        for (int i = 0; i < b->n; i++) s[i] += x[i] > m->step[k].offset ? m->step[k].height : 0;
    }
    return 0;
}

static int circle_reward(const void *self, const sosmc_batch *b, double *s)
{
    const mixture_data *m = self;
    for (int i = 0; i < b->n; i++) {
        double across = b->x[i] - m->means[0], up = b->x[b->ld + i] - m->means[1];
        s[i] = across * across + up * up < m->radius2;
    }
    return 0;
}

static double normal_above(double z) { return 0.5 * erfc(z / sqrt(2)); }

/* r_i of a sum of steps. */
static void steps_means(mixture_data *m)
{
    const sosmc_mixture *g = &m->mixture;
    for (int i = 0; i < g->components; i++)
        for (int k = 0; k < STEPS; k++) {
            double mean = m->means[i * g->dim + m->step[k].axis];
            m->reward[i] += m->step[k].height * normal_above((m->step[k].offset - mean) / sqrt(g->variance));
        }
}

/* ---------------------------------------------------------------------------- the loss */

static void softmax(int n, const double *theta, double *v)
{
    double top = -INFINITY, sum = 0;
    for (int j = 0; j < n; j++) top = fmax(top, theta[j]);
    for (int j = 0; j < n; j++) sum += v[j] = exp(theta[j] - top);
    for (int j = 0; j < n; j++) v[j] /= sum;
}

/* E_i log(mixture / reference) of every component, and where that is asked for the sum over i of weight0_i E_i of
 * density_k / mixture. */
static void log_ratios(const mixture_data *m, const double *v, double *ratio, double *share)
{
    int n = m->mixture.components;
    for (int k = 0; share && k < n; k++) share[k] = m->nodes ? 0 : m->weight0[k] / v[k];
    for (int i = 0; i < n; i++) {
        ratio[i] = m->nodes ? 0 : log(v[i] / m->weight0[i]);
        for (int z = 0; z < m->nodes; z++) {
            size_t at = (size_t)i * (size_t)m->nodes + (size_t)z;
            const double *density = m->density + at * (size_t)n;
            double sum = 0;
            for (int k = 0; k < n; k++) sum += v[k] * density[k];
            ratio[i] += m->probability[z] * log(sum / m->reference[at]);
            for (int k = 0; share && k < n; k++) share[k] += m->weight0[i] * m->probability[z] * density[k] / sum;
        }
    }
}

static double mixture_loss(const untuned_problem *u, const double *theta, double *gradient)
{
    const mixture_data *m = u->self;
    int n = m->mixture.components;
    double v[MOST], ratio[MOST], slope[MOST], kl = 0, reward = 0, mean = 0;
    softmax(n, theta, v);
    log_ratios(m, v, ratio, m->forward && gradient ? slope : NULL);
    for (int i = 0; i < n; i++) { /* a weight that underflows has no part in pi */
        kl += m->forward ? -m->weight0[i] * ratio[i] : v[i] > 0 ? v[i] * ratio[i] : 0;
        reward += v[i] * m->reward[i];
    }
    for (int k = 0; gradient && k < n; k++) { /* in v_k; what is the same for all k does not matter */
        slope[k] = m->forward ? -slope[k] : ratio[k];
        slope[k] = v[k] > 0 ? m->beta * slope[k] - m->reward[k] : 0;
        mean += v[k] * slope[k];
    }
    for (int k = 0; gradient && k < n; k++) gradient[k] = v[k] * (slope[k] - mean);
    return -reward + m->beta * kl;
}

/* ---------------------------------------------------------------------------- quadrature */

/* The nodes of all components, rows of dim. */
static double *lay_nodes(untuned_problem *u, mixture_data *m, double width)
{
    const sosmc_mixture *g = &m->mixture;
    const double limit = 8;
    int half = (int)(limit / width), per_axis = 2 * half + 1, dim = g->dim;
    m->nodes = dim == 1 ? per_axis : per_axis * per_axis;
    size_t nodes = (size_t)m->nodes, n = (size_t)g->components;
    m->probability = untuned_room(u, nodes, sizeof(double));
    m->density = untuned_room(u, n * n * nodes, sizeof(double));
    m->reference = untuned_room(u, n * nodes, sizeof(double));
    double *x = untuned_room(u, n * nodes * (size_t)dim, sizeof *x), sum = 0;
    if (!m->probability || !m->density || !m->reference || !x) return NULL;
    for (int z = 0; z < m->nodes; z++) {
        int column = z % per_axis - half, row = z / per_axis - half;
        const double at[2] = {width * column, width * row};
        sum += m->probability[z] = exp(-0.5 * (at[0] * at[0] + (dim == 2 ? at[1] * at[1] : 0)));
        for (size_t i = 0; i < n; i++)
            for (int j = 0; j < dim; j++)
                x[(i * nodes + (size_t)z) * (size_t)dim + (size_t)j] = m->means[i * (size_t)dim + (size_t)j] +
                                                                       sqrt(g->variance) * at[j];
    }
    for (int z = 0; z < m->nodes; z++) m->probability[z] /= sum;
    return x;
}

/* Densities up to the factor that the component of the node itself has. */
static void fill_densities(mixture_data *m, const double *x)
{
    size_t n = (size_t)m->mixture.components, nodes = (size_t)m->nodes, dim = (size_t)m->mixture.dim;
    for (size_t at = 0; at < n * nodes; at++) {
        double distance[MOST] = {0};
        for (size_t k = 0; k < n; k++)
            for (size_t j = 0; j < dim; j++) {
                double d = x[at * dim + j] - m->means[k * dim + j];
                distance[k] += 0.5 * d * d / m->mixture.variance;
            }
        for (size_t k = 0; k < n; k++) {
            m->density[at * n + k] = exp(distance[at / nodes] - distance[k]);
            m->reference[at] += m->weight0[k] * m->density[at * n + k];
        }
    }
}

/* r_i of any reward by the same nodes. */
static int quadrature_means(mixture_data *m, const sosmc_score *reward, const double *x, double *value)
{
    int64_t all = (int64_t)m->nodes * m->mixture.components;
    if (sosmc_scores(reward, m->mixture.dim, all, x, value) != SOSMC_OK) return 1;
    for (int64_t at = 0; at < all; at++) m->reward[at / m->nodes] += m->probability[at % m->nodes] * value[at];
    return 0;
}

/* ---------------------------------------------------------------------------- opening */

static void place_means(mixture_data *m, const mixture_row *row)
{
    const double pi = 3.14159265358979323846;
    if (strcmp(row->name, "ring8") == 0)
        for (int i = 0; i < 8; i++) {
            m->means[2 * i] = 3 * cos(pi * i / 4);
            m->means[2 * i + 1] = 3 * sin(pi * i / 4);
        }
    else if (strcmp(row->name, "mix10") == 0) {
        drawn_normals(1001, row->dim * row->components, m->means);
        for (int k = 0; k < row->dim * row->components; k++) m->means[k] *= 12;
    } else if (strcmp(row->name, "mix20") == 0) { /* a lattice of 5 x 4 with spacing 2, disturbed */
        drawn_normals(1002, 2 * row->components, m->means);
        for (int i = 0; i < row->components; i++) {
            int column = i % 5, row_of_five = i / 5;
            m->means[2 * i] = 0.3 * m->means[2 * i] + 2 * column - 4;
            m->means[2 * i + 1] = 0.3 * m->means[2 * i + 1] + 2 * row_of_five - 3;
        }
    } else
        memcpy(m->means, row->means, sizeof row->means);
}

/* The reward, and its mean under every component where that is known in closed form. */
static sosmc_score make_reward(mixture_data *m, const mixture_row *row)
{
    if (strcmp(row->name, "dual2") == 0) {
        m->centre[0] = 4;
        m->centre[1] = 3.8;
        m->gate = (sosmc_gate){.dim = 2, .center = m->centre, .tau = 20, .lambda = 0.5, .alpha = 0.7};
        return sosmc_gate_reward(&m->gate);
    }
    if (strcmp(row->name, "ring8") == 0) { /* the neighbours are seven standard deviations from the circle */
        m->radius2 = 0.5;
        m->reward[0] = 1 - exp(-0.5 * m->radius2 / row->variance);
        return (sosmc_score){.self = m, .eval = circle_reward};
    }
    if (strcmp(row->name, "mix10") == 0) {
        m->direction[0] = 0.1;
        m->linear = (sosmc_linear){.dim = row->dim, .weight = m->direction};
        for (int i = 0; i < row->components; i++) m->reward[i] = 0.1 * m->means[i * row->dim];
        return sosmc_linear_reward(&m->linear);
    }
    memcpy(m->step, row->step, sizeof m->step);
    steps_means(m);
    return (sosmc_score){.self = m, .eval = steps_reward};
}

static int integrate(untuned_problem *u, mixture_data *m, const mixture_row *row, const sosmc_score *reward)
{
    double *x = lay_nodes(u, m, row->width);
    if (!x) return 1;
    fill_densities(m, x);
    if (strcmp(row->name, "dual2") != 0) return 0;
    double *value = untuned_room(u, (size_t)m->nodes * (size_t)row->components, sizeof *value);
    return !value || quadrature_means(m, reward, x, value);
}

int untuned_open_mixture(untuned_problem *u, const char *data)
{
    const mixture_row *row = rows;
    while (strcmp(row->name, u->name) != 0) row++;
    mixture_data *m = untuned_room(u, 1, sizeof *m);
    if (!m) return 1;
    memcpy(m->theta0, row->theta0, sizeof row->theta0);
    place_means(m, row);
    m->mixture = (sosmc_mixture){
        .dim = row->dim, .components = row->components, .means = m->means, .variance = row->variance};
    m->law = (sosmc_mixture_law){.mixture = &m->mixture, .theta = m->theta0};
    m->beta = row->beta;
    m->forward = row->forward;
    softmax(row->components, m->theta0, m->weight0);
    sosmc_score reward = make_reward(m, row);
    u->problem.model = sosmc_mixture_model(&m->mixture);
    u->problem.objective = row->forward ? sosmc_reward_forward(reward, row->beta, sosmc_mixture_source(&m->law),
                                                               REFERENCE_BATCH, m->theta0)
                                        : sosmc_reward_reverse(reward, row->beta, m->theta0);
    u->self = m;
    u->loss = mixture_loss;
    if (untuned_start(u, row->components, m->theta0) || (row->width > 0 && integrate(u, m, row, &reward))) return 1;
    for (int i = 0; i < row->components; i++) u->best[i] += m->reward[i] / row->beta; /* the best where none overlap */
    return 0;
}
