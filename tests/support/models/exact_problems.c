/* exact_problems.c: see exact_problems.h. */
#include "exact_problems.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drawn_numbers.h"
#include "exact_models.h"
#include "minimise.h"

const char *const exact_names[] = {"forward",  "reverse",  "softmax",   "forward1",  "reverse1", "far",     "energy",
                                   "batches",  "hier20",   "hier50",    "logistic",  "cbpp",     "linear5", "linear20",
                                   "linear50", "linear60", "linear150", "linear200", NULL};

/* Everything that a problem borrows. */
enum { COMPONENTS = 4, DATA = 400, LOGISTIC_DIM = 9 };
typedef struct {
    anchored_mixture mixture;
    double means[COMPONENTS * 2], theta_ref[COMPONENTS];
    sosmc_mixture_law law, lost_law;
    double lost_theta[COMPONENTS];
    uint64_t lost_seed;
    sosmc_half_plane half_plane;
    sosmc_gate gate;
    double normal[2], centre[2];
    bumps bumps;
    double data[DATA];
    sosmc_rows rows;
    sosmc_hierarchical hierarchical;
    sosmc_hierarchical_law hierarchical_law;
    herd_data herds;
    linear_data linear;
    sosmc_logistic logistic;
    sosmc_gaussian gaussian;
    double *numbers; /* whatever else the problem needs room for */
    double theta0[EXACT_PARAMETERS];
    /* quadrature */
    int64_t nodes;
    double cell, *x, *R, *U, *U_ref, *p, *p_ref;
} store;

/* ---------------------------------------------------------------------------- numbers */

static int room(store *s, size_t count) { return (s->numbers = calloc(count, sizeof(double))) == NULL; }

/* N(mean, widen^2 / precision), independent coordinates; a fiftieth comes from N(0, variance I). factor: dim x dim zeros. */
static sosmc_source diagonal_law(store *s, int dim, const double *mean, const double *precision, double *factor,
                                 double widen, double variance)
{
    for (int j = 0; j < dim; j++) factor[(size_t)j * (size_t)(dim + 1)] = sqrt(precision[j]);
    s->gaussian = (sosmc_gaussian){.dim = dim,
                                   .mean = mean,
                                   .factor = factor,
                                   .widen = widen,
                                   .share = variance > 0 ? 0.02 : 0,
                                   .variance = variance};
    return sosmc_gaussian_source(&s->gaussian);
}

/* ---------------------------------------------------------------------------- quadrature on a line or in the plane */

/* Midpoints, so that a reward that jumps at 0 lies between two of them. */
static int lay_nodes(exact_problem *e, double limit, int per_axis)
{
    store *s = e->memory;
    int dim = e->problem.model.dim_x;
    double h = 2 * limit / per_axis;
    s->nodes = dim == 1 ? per_axis : (int64_t)per_axis * per_axis;
    s->cell = dim == 1 ? h : h * h;
    size_t n = (size_t)s->nodes;
    if (room(s, n * ((size_t)dim + 5))) return 1;
    s->x = s->numbers;
    s->R = s->x + n * (size_t)dim;
    s->U = s->R + n;
    s->U_ref = s->U + n;
    s->p = s->U_ref + n;
    s->p_ref = s->p + n;
    for (size_t i = 0; i < n; i++) {
        size_t column = i % (size_t)per_axis, row = i / (size_t)per_axis;
        s->x[i * (size_t)dim] = -limit + h * ((double)column + 0.5);
        if (dim == 2) s->x[2 * i + 1] = -limit + h * ((double)row + 0.5);
    }
    if (e->problem.objective.score.eval)
        return sosmc_scores(&e->problem.objective.score, dim, s->nodes, s->x, s->R) != SOSMC_OK;
    return 0;
}

/* U and the probability of every node; returns log Z. */
static double integrate(const exact_problem *e, const double *theta, double *U, double *p)
{
    const store *s = e->memory;
    double top = -INFINITY, sum = 0;
    (void)sosmc_energies(&e->problem.model, theta, s->nodes, s->x, 1, U);
    for (int64_t i = 0; i < s->nodes; i++) top = fmax(top, -U[i]);
    for (int64_t i = 0; i < s->nodes; i++) sum += p[i] = exp(-U[i] - top);
    for (int64_t i = 0; i < s->nodes; i++) p[i] /= sum;
    return top + log(sum * s->cell);
}

static double mean_of(const store *s, const double *p, const double *f)
{
    double sum = 0;
    for (int64_t i = 0; i < s->nodes; i++) sum += p[i] * f[i];
    return sum;
}

/* grad loss = sum over nodes of c dU/dtheta; p is overwritten with c. */
static void contract(const exact_problem *e, const double *theta, int64_t n, const double *x, const double *c,
                     double *g)
{
    sosmc_host *host = NULL;
    if (sosmc_host_create(&host, &e->problem.model, theta, 0) == SOSMC_OK) (void)sosmc_host_contract(host, n, x, c, g);
    sosmc_host_free(host);
}

static exact_values quadrature_values(const exact_problem *e, const double *theta, double *gradient)
{
    store *s = e->memory;
    const sosmc_objective *o = &e->problem.objective;
    int forward = o->loss == SOSMC_LOSS_FORWARD_KL, p = e->problem.model.dim_theta;
    double beta = forward ? o->b : o->kl, log_z = integrate(e, theta, s->U, s->p);
    double ref = integrate(e, o->theta_ref, s->U_ref, s->p_ref), reward = mean_of(s, s->p, s->R);
    const double *under = forward ? s->p_ref : s->p;
    double difference = mean_of(s, under, s->U) - mean_of(s, under, s->U_ref);
    double kl = forward ? difference + log_z - ref : -difference - log_z + ref;
    exact_values v = {.log_z = log_z, .loss = -reward + beta * kl, .kl = kl, .reward = reward};
    if (!gradient) return v;
    double mean = reward + (forward ? 0 : beta * difference);
    for (int64_t i = 0; i < s->nodes; i++) {
        double value = s->R[i] + (forward ? 0 : beta * (s->U[i] - s->U_ref[i]));
        s->p[i] *= value - mean - (forward ? beta : 0);
        if (forward) s->p[i] += beta * s->p_ref[i];
    }
    memset(gradient, 0, (size_t)p * sizeof *gradient);
    contract(e, theta, s->nodes, s->x, s->p, gradient);
    return v;
}

static exact_values likelihood_values(const exact_problem *e, const double *theta, double *gradient)
{
    store *s = e->memory;
    double U[DATA], c[DATA], log_z = integrate(e, theta, s->U, s->p), mean = 0;
    (void)sosmc_energies(&e->problem.model, theta, DATA, s->data, 1, U);
    for (int i = 0; i < DATA; i++) {
        mean += U[i] / DATA;
        c[i] = 1.0 / DATA;
    }
    exact_values v = {.log_z = log_z, .loss = mean + log_z, .kl = NAN, .reward = NAN};
    if (!gradient) return v;
    for (int64_t i = 0; i < s->nodes; i++) s->p[i] = -s->p[i];
    memset(gradient, 0, (size_t)e->problem.model.dim_theta * sizeof *gradient);
    contract(e, theta, DATA, s->data, c, gradient);
    contract(e, theta, s->nodes, s->x, s->p, gradient);
    return v;
}

/* ---------------------------------------------------------------------------- mixtures */

typedef struct {
    const char *name;
    int dim, components, forward, anchored;
    double beta, limit;
    int per_axis;
    double means[COMPONENTS * 2], theta_ref[COMPONENTS];
} mixture_row;

static const mixture_row mixtures[] = {
    {"forward", 2, 4, 1, 1, 0.2, 9, 200, {-3, 0, 3, 0, 0, 3, 0, -3}, {0.5, 0.3, -0.4, 0}},
    {"softmax", 2, 4, 1, 0, 0.2, 9, 200, {-3, 0, 3, 0, 0, 3, 0, -3}, {0.5, 0.3, -0.4, 0}},
    {"reverse", 2, 3, 0, 1, 0.3, 9, 200, {-2.2, -1, 2.2, -1, 0, 2.6}, {0.6, -0.3, 0}},
    {"forward1", 1, 3, 1, 1, 0.2, 12, 2000, {-3, 0, 3}, {0.5, 0.3, 0}},
    {"reverse1", 1, 3, 0, 1, 0.3, 12, 2000, {-2.5, 0, 2.5}, {0.6, -0.3, 0}},
    {"far", 2, 2, 1, 1, 0.2, 11, 240, {-5, 0, 5, 0}, {0.5, 0}},
};

static int lost_draw(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    const store *s = self;
    int lost = rng.stream == SOSMC_STREAM_INIT && rng.seed == s->lost_seed;
    sosmc_source from = sosmc_mixture_source(lost ? &s->lost_law : &s->law);
    return from.draw(from.self, rng, b, x);
}

static int lost_logpdf(const void *self, const sosmc_batch *b, double *lq)
{
    const store *s = self;
    sosmc_source from = sosmc_mixture_source(&s->law);
    return from.logpdf(from.self, b, lq);
}

/* The engine with this seed draws the first mode alone; the law has all of them. */
static void lose_modes(exact_problem *e, uint64_t seed)
{
    store *s = e->memory;
    s->lost_seed = seed;
    s->lost_law = (sosmc_mixture_law){.mixture = &s->mixture.mixture, .theta = s->lost_theta};
    for (int j = 1; j < COMPONENTS; j++) s->lost_theta[j] = -60;
    e->problem.init = (sosmc_source){.self = s, .draw = lost_draw, .logpdf = lost_logpdf};
}

static int open_mixture(exact_problem *e, const mixture_row *row)
{
    store *s = e->memory;
    memcpy(s->means, row->means, sizeof s->means);
    memcpy(s->theta_ref, row->theta_ref, sizeof s->theta_ref);
    memcpy(s->theta0, row->theta_ref, sizeof row->theta_ref);
    s->mixture.mixture = (sosmc_mixture){
        .dim = row->dim, .components = row->components, .means = s->means, .variance = 1};
    s->law = (sosmc_mixture_law){.mixture = &s->mixture.mixture, .theta = s->theta_ref};
    s->normal[0] = -1;
    s->half_plane = (sosmc_half_plane){.dim = row->dim, .normal = s->normal};
    s->gate = (sosmc_gate){.dim = row->dim, .center = s->centre, .tau = 1e30, .lambda = 0.5, .alpha = 1};
    sosmc_source law = sosmc_mixture_source(&s->law);
    sosmc_model whole = sosmc_mixture_model(&s->mixture.mixture);
    e->problem = (sosmc_problem){.model = row->anchored ? anchored_model(&s->mixture) : whole, .init = law};
    e->problem.objective = row->forward ? sosmc_reward_forward(sosmc_half_plane_reward(&s->half_plane), row->beta, law,
                                                               400, s->theta_ref)
                                        : sosmc_reward_reverse(sosmc_gate_reward(&s->gate), row->beta, s->theta_ref);
    e->identified = row->anchored;
    e->step = 0.3;
    e->curvature = 1;
    e->values = quadrature_values;
    return lay_nodes(e, row->limit, row->per_axis);
}

/* ---------------------------------------------------------------------------- the others */

static int open_energy(exact_problem *e, int batch)
{
    store *s = e->memory;
    double u[DATA];
    s->bumps = (bumps){.count = 5, .centre = {-2.8, -1.4, 0, 1.4, 2.8}, .width = 0.5, .variance = 2.25};
    drawn_normals(1, DATA, s->data);
    drawn_uniforms(2, DATA, u);
    for (int i = 0; i < DATA; i++) s->data[i] = u[i] < 0.4 ? -1.5 + 0.6 * s->data[i] : 1.2 + 0.8 * s->data[i];
    s->rows = (sosmc_rows){
        .data = s->data, .rows = DATA, .mode = batch == DATA ? SOSMC_ROWS_IN_ORDER : SOSMC_ROWS_RANDOM};
    e->problem.model = bumps_model(&s->bumps);
    e->problem.objective = sosmc_likelihood(sosmc_rows_source(&s->rows), batch);
    e->step = 0.3;
    e->curvature = 3;
    e->values = likelihood_values;
    if (lay_nodes(e, 12, 2000)) return 1;
    static const double zero = 0, precision = 1 / 2.25;
    e->problem.init = diagonal_law(s, 1, &zero, &precision, s->centre, 1, 0);
    return 0;
}

static exact_values marginal(double loglik) { return (exact_values){loglik, -loglik, NAN, NAN}; }

static void negate(int p, double *g)
{
    for (int j = 0; g && j < p; j++) g[j] = -g[j];
}

static exact_values hierarchy_values(const exact_problem *e, const double *theta, double *gradient)
{
    const store *s = e->memory;
    const sosmc_hierarchical *h = &s->hierarchical;
    if (gradient) gradient[0] = 0.5 * h->dim * (theta[0] - sosmc_hierarchical_best(h));
    return marginal(sosmc_hierarchical_loglik(h, theta[0]));
}

static int open_hierarchy(exact_problem *e, int dim)
{
    store *s = e->memory;
    if (room(s, (size_t)dim)) return 1;
    drawn_normals(3, dim, s->numbers);
    for (int j = 0; j < dim; j++) s->numbers[j] = 3 + sqrt(2) * s->numbers[j];
    s->hierarchical = (sosmc_hierarchical){.dim = dim, .y = s->numbers};
    s->hierarchical_law = (sosmc_hierarchical_law){.data = &s->hierarchical};
    e->problem = (sosmc_problem){.model = sosmc_hierarchical_model(&s->hierarchical),
                                 .init = sosmc_hierarchical_source(&s->hierarchical_law)};
    e->rows = dim;
    e->step = 0.3;
    e->curvature = 2;
    e->values = hierarchy_values;
    return 0;
}

static exact_values herds_values(const exact_problem *e, const double *theta, double *gradient)
{
    const store *s = e->memory;
    double loglik = herds_loglik(&s->herds, theta, gradient);
    negate(HERDS_THETA, gradient);
    return marginal(loglik);
}

static int open_herds(exact_problem *e, const char *data)
{
    static const double start[HERDS_THETA] = {-1, -0.5, -0.5, -0.5, 0};
    store *s = e->memory;
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/mmle/cbpp.csv", data ? data : "");
    if (!data || herds_read(&s->herds, path) || room(s, HERDS_MOST * (HERDS_MOST + 2))) return 1;
    double *mode = s->numbers, *curvature = mode + HERDS_MOST;
    memcpy(s->theta0, start, sizeof start);
    herds_laplace(&s->herds, start, mode, curvature);
    e->problem.model = herds_model(&s->herds);
    e->problem.init = diagonal_law(s, s->herds.herds, mode, curvature, curvature + HERDS_MOST, 1.1, 1);
    e->rows = s->herds.rows;
    e->step = 0.1;
    e->curvature = 20;
    e->values = herds_values;
    return 0;
}

static exact_values linear_values(const exact_problem *e, const double *theta, double *gradient)
{
    const store *s = e->memory;
    double loglik = linear_loglik(&s->linear, theta, gradient);
    negate(s->linear.parameters, gradient);
    return marginal(loglik);
}

/* y ~ N(A truth, I + noise), A of normal entries of variance 9 / dim. */
static int open_linear(exact_problem *e, int p)
{
    store *s = e->memory;
    int dim = 2 * p;
    size_t d = (size_t)dim, entries = d * (size_t)p;
    if (room(s, entries + d * d + 4 * d)) return 1;
    double *A = s->numbers, *y = A + entries, *noise = y + d, *mean = noise + d, *precision = mean + d;
    double truth[EXACT_PARAMETERS];
    for (int j = 0; j < p; j++) drawn_normals(10 + (uint32_t)j, dim, A + (size_t)j * d);
    for (size_t k = 0; k < entries; k++) A[k] *= 3 / sqrt((double)dim);
    drawn_normals(4, p, truth);
    drawn_normals(5, dim, y);
    for (int k = 0; k < dim; k++) {
        noise[k] = 0.5 + (double)(k % 4) / 2;
        y[k] *= sqrt(1 + noise[k]);
        for (int j = 0; j < p; j++) y[k] += A[(size_t)k * (size_t)p + (size_t)j] * truth[j];
    }
    s->linear = (linear_data){.dim = dim, .parameters = p, .A = A, .y = y, .noise = noise};
    e->problem.model = linear_model(&s->linear);
    linear_posterior(&s->linear, s->theta0, mean, precision);
    e->problem.init = diagonal_law(s, dim, mean, precision, precision + d, 1, 0);
    e->rows = dim;
    e->step = 0.3;
    e->curvature = 3;
    e->values = linear_values;
    return 0;
}

/* Known near the maximum alone, from 2 million importance draws: theta* to 0.00013, the maximum to 0.0008. */
static exact_values logistic_values(const exact_problem *e, const double *theta, double *gradient)
{
    const double best = 0.96772, most = -61.3242, information = 1.7613;
    double off = theta[0] - best;
    if (gradient) gradient[0] = information * off;
    return marginal(most - 0.5 * information * off * off);
}

enum { LOGISTIC_ROWS = 700 };
/* Features scaled by their means and deviations over all rows; the training rows come first. */
static int read_logistic(store *s, const char *path, double *features, double *labels)
{
    char line[400];
    FILE *f = fopen(path, "r");
    int all = 0, train = 0;
    double raw[LOGISTIC_ROWS][LOGISTIC_DIM + 1], mean[LOGISTIC_DIM] = {0}, square[LOGISTIC_DIM] = {0};
    int is_train[LOGISTIC_ROWS];
    if (!f) return 1;
    while (all < LOGISTIC_ROWS && fgets(line, sizeof line, f)) {
        char *at = line, *end = line;
        int j = 0;
        for (; j <= LOGISTIC_DIM; j++, at = end + (*end == ',')) {
            raw[all][j] = strtod(at, &end);
            if (end == at) break;
        }
        if (j <= LOGISTIC_DIM) continue; /* the names of the columns */
        is_train[all] = strncmp(at, "train", 5) == 0;
        for (j = 0; j < LOGISTIC_DIM; j++) {
            mean[j] += raw[all][j];
            square[j] += raw[all][j] * raw[all][j];
        }
        all++;
    }
    (void)fclose(f);
    for (int i = 0; i < all; i++) {
        if (!is_train[i]) continue;
        for (int j = 0; j < LOGISTIC_DIM; j++) {
            double m = mean[j] / all;
            features[train * LOGISTIC_DIM + j] = (raw[i][j] - m) / sqrt(square[j] / all - m * m);
        }
        labels[train++] = raw[i][LOGISTIC_DIM];
    }
    s->logistic = (sosmc_logistic){
        .rows = train, .dim = LOGISTIC_DIM, .features = features, .labels = labels, .variance = 5};
    return train == 0;
}

static int open_logistic(exact_problem *e, const char *data)
{
    store *s = e->memory;
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/mmle/wisconsin_split.csv", data ? data : "");
    if (!data || room(s, LOGISTIC_ROWS * (LOGISTIC_DIM + 1) + LOGISTIC_DIM * (LOGISTIC_DIM + 1))) return 1;
    double *labels = s->numbers + LOGISTIC_ROWS * LOGISTIC_DIM, *mode = labels + LOGISTIC_ROWS,
           *factor = mode + LOGISTIC_DIM;
    if (read_logistic(s, path, s->numbers, labels)) return 1;
    if (sosmc_logistic_laplace(&s->logistic, 0, mode, factor) != SOSMC_OK) return 1;
    s->gaussian = (sosmc_gaussian){
        .dim = LOGISTIC_DIM, .mean = mode, .factor = factor, .widen = 1.2, .share = 0.02, .centre = 0, .variance = 5};
    e->problem.model = sosmc_logistic_model(&s->logistic);
    e->problem.init = sosmc_gaussian_source(&s->gaussian);
    e->rows = s->logistic.rows;
    e->step = 0.03;
    e->curvature = 50;
    e->values = logistic_values;
    return 0;
}

/* ---------------------------------------------------------------------------- the best theta */

static double loss_of(const void *self, const double *theta, double *gradient)
{
    const exact_problem *e = self;
    return e->values(e, theta, gradient).loss;
}

void exact_hessian(const exact_problem *e, const double *theta, double *H)
{
    difference_hessian(loss_of, e, e->problem.model.dim_theta, theta, H);
}

/* ---------------------------------------------------------------------------- opening */

static int open_named(exact_problem *e, const char *data)
{
    const char *name = e->name;
    for (size_t k = 0; k < sizeof mixtures / sizeof *mixtures; k++)
        if (strcmp(name, mixtures[k].name) == 0) return open_mixture(e, &mixtures[k]);
    if (strcmp(name, "energy") == 0) return open_energy(e, DATA);
    if (strcmp(name, "batches") == 0) return open_energy(e, DATA / 4);
    if (strcmp(name, "cbpp") == 0) return open_herds(e, data);
    if (strcmp(name, "logistic") == 0) return open_logistic(e, data);
    if (strncmp(name, "hier", 4) == 0) return open_hierarchy(e, (int)strtol(name + 4, NULL, 10));
    return open_linear(e, (int)strtol(name + 6, NULL, 10));
}

int exact_open(exact_problem *e, const char *name, const char *data)
{
    memset(e, 0, sizeof *e);
    for (int k = 0; exact_names[k]; k++)
        if (strcmp(exact_names[k], name) == 0) e->name = exact_names[k];
    store *s = e->name ? calloc(1, sizeof *s) : NULL;
    if (!s) return 1;
    e->memory = s;
    e->identified = 1;
    if (open_named(e, data)) return 1;
    e->problem.theta0 = s->theta0;
    if (e->rows) e->problem.objective = sosmc_mmle();
    memcpy(e->best, s->theta0, sizeof e->best);
    return minimise(loss_of, e, e->problem.model.dim_theta, e->best);
}

void exact_close(exact_problem *e)
{
    store *s = e->memory;
    if (s) free(s->numbers);
    free(s);
    memset(e, 0, sizeof *e);
}

/* ---------------------------------------------------------------------------- settings */

sosmc_settings exact_settings(const exact_problem *e, int particles, int64_t iterations, char schedule)
{
    sosmc_settings cfg = sosmc_defaults();
    cfg.scheme = sosmc_scheme_sosmc(particles);
    cfg.kernel = sosmc_mala(e->step);
    cfg.adapt[0] = (sosmc_adapt){.threshold = 0.574,
                                 .factor = 1.1,
                                 .min = 1e-6,
                                 .max = 10,
                                 .signal = SOSMC_SIGNAL_ACCEPT,
                                 .target = SOSMC_ADAPT_STEP};
    cfg.optimiser = sosmc_adam(0.05);
    cfg.judge = 0.05;
    if (schedule == 'o')
        cfg.schedule = (sosmc_schedule){.kind = SOSMC_SCHEDULE_COSINE, .a = (double)iterations, .b = 0.01};
    if (schedule == 'd') {
        double H[EXACT_PARAMETERS * EXACT_PARAMETERS], most = 0;
        int p = e->problem.model.dim_theta;
        exact_hessian(e, e->best, H);
        for (int j = 0; j < p; j++) most = fmax(most, H[j * p + j]);
        cfg.optimiser = sosmc_sgd(1 / most);
        cfg.schedule = (sosmc_schedule){.kind = SOSMC_SCHEDULE_ROBBINS_MONRO, .a = 50, .b = 0.6};
    }
    return cfg;
}

const char *const exact_spoils[] = {"good", "ula2", "ula07", "frozen", "zero", "lost", "few", "fast", "short", NULL};

int exact_spoil(exact_problem *e, int how, sosmc_settings *cfg, int64_t *iterations)
{
    const store *s = e->memory;
    switch (how) {
    case EXACT_ULA2:
    case EXACT_ULA07:
        cfg->kernel = sosmc_ula((how == EXACT_ULA2 ? 2 : 0.7) / e->curvature);
        cfg->adapt[0].factor = 0;
        break;
    case EXACT_FROZEN:
        cfg->kernel.h = 1e-6;
        cfg->adapt[0].factor = 0;
        break;
    case EXACT_ZERO: e->problem.init = sosmc_standard_normal(); break;
    case EXACT_LOST:
        if (!s->law.mixture) return 0;
        lose_modes(e, cfg->seed);
        break;
    case EXACT_FEW: cfg->scheme.particles = cfg->scheme.pool = 40; break;
    case EXACT_FAST: cfg->optimiser.lr = 1; break;
    case EXACT_SHORT:
        *iterations = 50;
        cfg->optimiser.lr = 0.01;
        break;
    default: break;
    }
    return 1;
}
