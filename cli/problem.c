/* problem.c: from a resolved run file to what sosmc_create takes. Every section of the file has a function; what the plain
 * values of the library point to is kept in `parts` until job_free. */
#include "problem.h"

#include <stdarg.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/models.h>

#include "files.h"
#include "formula.h"

struct parts {
    sosmc_mixture mixture;
    sosmc_mixture_law init_mixture, reference_mixture;
    sosmc_hierarchical hierarchical;
    sosmc_hierarchical_law init_hierarchical;
    sosmc_logistic logistic;
    sosmc_gaussian gaussian;
    sosmc_gate gate;
    sosmc_peaks peaks;
    sosmc_half_plane half_plane;
    sosmc_rows rows;
    formula *formula;
    npy_array array;
    double *features, *labels, *mean, *factor, *points;
    const double *theta, *theta_ref;
};

/* What the functions below share. */
typedef struct {
    job *job;
    const config *c;
    struct parts *p;
    int *io;
    char *error;
    size_t room;
} builder;

static int is(const builder *b, const char *path, const char *word)
{
    const char *text = config_text(b->c, path);
    return text && strcmp(text, word) == 0;
}

static int wrong(const builder *b, const char *path, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int wrong(const builder *b, const char *path, const char *format, ...)
{
    char where[512], what[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    (void)files_fail(b->error, b->room, "%s: %s %s", config_where(b->c, path, where, sizeof where), path, what);
    return -1;
}

static int out_of_memory(const builder *b)
{
    (void)files_fail(b->error, b->room, "out of memory");
    return -1;
}

/* A vector of the file that must have `n` numbers. */
static const double *vector_of(const builder *b, const char *path, int n)
{
    int length = 0;
    const double *v = config_vector(b->c, path, &length);
    if (v && length == n) return v;
    (void)wrong(b, path, "has %d numbers; expected %d", length, n);
    return NULL;
}

/* ---------------------------------------------------------------------------- model */

static int mixture_model(builder *b)
{
    int rows = 0, cols = 0;
    const double *means = config_matrix(b->c, "model.means", &rows, &cols);
    b->p->mixture = (sosmc_mixture){.dim = cols,
                                    .components = rows,
                                    .means = means,
                                    .variance = config_number(b->c, "model.variance"),
                                    .eps = config_number(b->c, "model.eps")};
    b->job->problem.model = sosmc_mixture_model(&b->p->mixture);
    return 0;
}

static int column_of(builder *b, const csv_table *t, const char *path)
{
    int number = config_column(b->c, path);
    if (number > 0) {
        if (number <= t->columns) return number - 1;
        (void)wrong(b, path, "is %d; %s has %d columns", number, t->path, t->columns);
        return -1;
    }
    const csv_column *found = csv_find(t, config_text(b->c, path));
    if (found) return (int)(found - t->column);
    (void)wrong(b, path, "is '%s'; %s has no such column", config_text(b->c, path), t->path);
    return -1;
}

static int read_table(builder *b, const char *path, csv_table *t)
{
    if (csv_read(config_text(b->c, path), NULL, t, b->error, b->room) == 0) return 0;
    *b->io = 1;
    return -1;
}

static int hierarchical_data(builder *b, const csv_table *t)
{
    const double *y = NULL;
    int column = column_of(b, t, "model.column");
    if (column < 0 || csv_numbers(t, column, &y, b->error, b->room)) return -1;
    b->p->labels = malloc((size_t)t->rows * sizeof(double) + 1);
    if (!b->p->labels) return out_of_memory(b);
    memcpy(b->p->labels, y, (size_t)t->rows * sizeof(double));
    b->p->hierarchical = (sosmc_hierarchical){.dim = (int)t->rows, .y = b->p->labels};
    return 0;
}

static int hierarchical_model(builder *b)
{
    int n = 0;
    if (config_has(b->c, "model.y")) {
        const double *y = config_vector(b->c, "model.y", &n);
        b->p->hierarchical = (sosmc_hierarchical){.dim = n, .y = y};
    } else {
        csv_table t = {0};
        if (!config_has(b->c, "model.data")) return wrong(b, "model", "has neither y nor data; expected one of them");
        if (read_table(b, "model.data", &t)) return -1;
        int rc = hierarchical_data(b, &t);
        csv_free(&t);
        if (rc) return -1;
    }
    b->job->problem.model = sosmc_hierarchical_model(&b->p->hierarchical);
    return 0;
}

/* Which columns are features: those named, or all numeric ones but the label and the split. */
static int choose_features(builder *b, const csv_table *t, int label, int split, int *column)
{
    int count = 0, named = config_count(b->c, "model.features");
    for (int i = 0; i < named; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "model.features.%d", i);
        column[count] = column_of(b, t, path);
        if (column[count++] < 0) return -1;
    }
    for (int i = 0; named == 0 && i < t->columns; i++)
        if (i != label && i != split) column[count++] = i;
    return count > 0 ? count : wrong(b, "model.features", "leaves no column of %s; expected at least one", t->path);
}

/* Features are standardised over all rows, with the population's standard deviation, before rows are split off. */
static int standardise(builder *b, const csv_table *t, int column, double *mean, double *scale)
{
    const double *v = NULL;
    if (csv_numbers(t, column, &v, b->error, b->room)) return -1;
    double sum = 0, square = 0;
    for (int64_t r = 0; r < t->rows; r++) sum += v[r];
    *mean = sum / (double)t->rows;
    for (int64_t r = 0; r < t->rows; r++) square += (v[r] - *mean) * (v[r] - *mean);
    *scale = sqrt(square / (double)t->rows);
    if (!config_flag(b->c, "model.standardise")) {
        *mean = 0;
        *scale = 1;
    }
    if (*scale > 0) return 0;
    return files_fail(b->error, b->room, "%s: column '%s' is constant, so it cannot be standardised", t->path,
                      t->column[column].name);
}

static int in_training(const builder *b, const csv_table *t, int split, int64_t row)
{
    if (split < 0) return 1;
    const char *wanted = config_text(b->c, "model.train.value");
    if (t->column[split].text) return strcmp(t->column[split].text[row], wanted) == 0;
    char *end;
    double value = strtod(wanted, &end);
    return *wanted && !*end && t->column[split].number[row] == value;
}

static int logistic_data(builder *b, const csv_table *t)
{
    int label = column_of(b, t, "model.label"), split = -1;
    const double *y = NULL;
    if (label < 0 || csv_numbers(t, label, &y, b->error, b->room)) return -1;
    if (config_has(b->c, "model.train.column") && (split = column_of(b, t, "model.train.column")) < 0) return -1;
    int *column = calloc((size_t)t->columns + (size_t)config_count(b->c, "model.features") + 1, sizeof *column);
    if (!column) return out_of_memory(b);
    int dim = choose_features(b, t, label, split, column), rows = 0;
    size_t cells = (size_t)t->rows * (size_t)(dim > 0 ? dim : 1);
    b->p->features = malloc(cells * sizeof(double) + 1);
    b->p->labels = malloc((size_t)t->rows * sizeof(double) + 1);
    int rc = dim < 0 ? -1 : !b->p->features || !b->p->labels ? out_of_memory(b) : 0;
    for (int64_t r = 0; rc == 0 && r < t->rows; r++) {
        if (y[r] != 0 && y[r] != 1)
            rc = wrong(b, "model.label", "names a column with %g in data row %lld of %s; expected 0 or 1", y[r],
                       (long long)r + 1, t->path);
        if (in_training(b, t, split, r)) b->p->labels[rows++] = y[r];
    }
    for (int j = 0; rc == 0 && j < dim; j++) {
        double mean = 0, scale = 1;
        rc = standardise(b, t, column[j], &mean, &scale);
        for (int64_t r = 0, kept = 0; rc == 0 && r < t->rows; r++)
            if (in_training(b, t, split, r))
                b->p->features[kept++ * dim + j] = (t->column[column[j]].number[r] - mean) / scale;
    }
    if (rc == 0 && rows == 0)
        rc = wrong(b, "model.train.value", "is '%s'; no row of %s has it", config_text(b->c, "model.train.value"),
                   t->path);
    b->p->logistic = (sosmc_logistic){.rows = rows,
                                      .dim = dim,
                                      .features = b->p->features,
                                      .labels = b->p->labels,
                                      .variance = config_number(b->c, "model.prior_variance")};
    free(column);
    return rc;
}

static int logistic_model(builder *b)
{
    csv_table t = {0};
    if (read_table(b, "model.data", &t)) return -1;
    int rc = logistic_data(b, &t);
    csv_free(&t);
    if (rc == 0) b->job->problem.model = sosmc_logistic_model(&b->p->logistic);
    return rc;
}

static int build_model(builder *b)
{
    int rc = is(b, "model.type", "gaussian_mixture")        ? mixture_model(b)
             : is(b, "model.type", "hierarchical_gaussian") ? hierarchical_model(b)
                                                            : logistic_model(b);
    if (rc) return -1;
    b->p->theta = vector_of(b, "model.theta", b->job->problem.model.dim_theta);
    b->job->problem.theta0 = b->p->theta;
    return b->p->theta ? 0 : -1;
}

/* ---------------------------------------------------------------------------- objective */

static int build_reward(builder *b, sosmc_score *out)
{
    int dim = b->job->problem.model.dim_x, rows = 0, cols = 0;
    double tau = config_number(b->c, "objective.reward.tau"), alpha = config_number(b->c, "objective.reward.alpha");
    if (is(b, "objective.reward.type", "formula")) {
        char words[256];
        b->p->formula = formula_compile(config_text(b->c, "objective.reward.formula"), dim, words, sizeof words);
        if (!b->p->formula) return wrong(b, "objective.reward.formula", "is not a formula: %s", words);
        *out = formula_score(b->p->formula);
    } else if (is(b, "objective.reward.type", "half_plane")) {
        b->p->half_plane = (sosmc_half_plane){.dim = dim,
                                              .normal = vector_of(b, "objective.reward.normal", dim),
                                              .offset = config_number(b->c, "objective.reward.offset")};
        if (!b->p->half_plane.normal) return -1;
        *out = sosmc_half_plane_reward(&b->p->half_plane);
    } else if (is(b, "objective.reward.type", "multi_modal")) {
        const double *centers = config_matrix(b->c, "objective.reward.centers", &rows, &cols);
        if (cols != dim) return wrong(b, "objective.reward.centers", "have %d numbers each; expected %d", cols, dim);
        b->p->peaks = (sosmc_peaks){.dim = dim, .count = rows, .centers = centers, .tau = tau, .alpha = alpha};
        *out = sosmc_peaks_reward(&b->p->peaks);
    } else {
        int smooth = is(b, "objective.reward.type", "smooth_gate");
        b->p->gate = (sosmc_gate){.dim = dim,
                                  .center = vector_of(b, "objective.reward.center", dim),
                                  .tau = tau,
                                  .lambda = smooth ? config_number(b->c, "objective.reward.lambda") : 0,
                                  .alpha = alpha};
        if (!b->p->gate.center) return -1;
        *out = sosmc_gate_reward(&b->p->gate);
    }
    return 0;
}

static int forward_objective(builder *b, sosmc_score reward)
{
    if (!is(b, "model.type", "gaussian_mixture"))
        return wrong(b, "objective.type",
                     "is reward_forward, which needs exact draws of the reference; model %s has none",
                     config_text(b->c, "model.type"));
    b->p->reference_mixture = (sosmc_mixture_law){.mixture = &b->p->mixture, .theta = b->p->theta_ref};
    b->job->problem.objective = sosmc_reward_forward(
        reward, config_number(b->c, "objective.beta"), sosmc_mixture_source(&b->p->reference_mixture),
        (int)config_integer(b->c, "objective.reference.batch"), b->p->theta_ref);
    return 0;
}

/* Points from a CSV table or an NPY array, one per row. */
static int load_points(builder *b, int64_t *rows)
{
    const char *path = config_text(b->c, "objective.data"), *dot = strrchr(path, '.');
    int dim = b->job->problem.model.dim_x;
    if (dot && strcmp(dot, ".npy") == 0) {
        *b->io = 1;
        if (npy_read(path, &b->p->array, b->error, b->room)) return -1;
        if (b->p->array.dims != 2 || b->p->array.shape[1] != dim)
            return files_fail(b->error, b->room, "%s: expected an array of two dimensions with %d columns", path, dim);
        *b->io = 0;
        *rows = b->p->array.shape[0];
        b->p->points = malloc((size_t)npy_count(&b->p->array) * sizeof(double) + 1);
        if (!b->p->points) return out_of_memory(b);
        npy_doubles(&b->p->array, b->p->points);
        return 0;
    }
    csv_table t = {0};
    if (read_table(b, "objective.data", &t)) return -1;
    int rc = 0;
    *rows = t.rows;
    if (t.columns != dim) rc = wrong(b, "objective.data", "has %d columns; expected %d", t.columns, dim);
    b->p->points = malloc((size_t)t.rows * (size_t)t.columns * sizeof(double) + 1);
    if (!b->p->points) rc = out_of_memory(b);
    for (int j = 0; rc == 0 && j < dim; j++) {
        const double *v = NULL;
        rc = csv_numbers(&t, j, &v, b->error, b->room);
        for (int64_t r = 0; rc == 0 && v && r < t.rows; r++) b->p->points[r * dim + j] = v[r];
    }
    csv_free(&t);
    return rc;
}

static int likelihood_objective(builder *b)
{
    int64_t rows = 0, batch = config_integer(b->c, "objective.batch");
    if (load_points(b, &rows)) return -1;
    if (rows < 1 || rows > INT32_MAX)
        return wrong(b, "objective.data", "holds %lld points; expected 1 to 2^31", (long long)rows);
    b->p->rows = (sosmc_rows){
        .data = b->p->points, .rows = rows, .mode = batch ? SOSMC_ROWS_RANDOM : SOSMC_ROWS_IN_ORDER};
    b->job->problem.objective = sosmc_likelihood(sosmc_rows_source(&b->p->rows), (int)(batch ? batch : rows));
    return 0;
}

static int build_objective(builder *b)
{
    sosmc_score reward = {0};
    if (is(b, "objective.type", "mmle")) {
        b->job->problem.objective = sosmc_mmle();
        return 0;
    }
    if (is(b, "objective.type", "ebm_likelihood")) return likelihood_objective(b);
    if (build_reward(b, &reward)) return -1;
    b->p->theta_ref = vector_of(b, "objective.reference.theta", b->job->problem.model.dim_theta);
    if (!b->p->theta_ref) return -1;
    if (is(b, "objective.type", "reward_forward")) return forward_objective(b, reward);
    b->job->problem.objective = sosmc_reward_reverse(reward, config_number(b->c, "objective.beta"), b->p->theta_ref);
    return 0;
}

/* ---------------------------------------------------------------------------- initial law */

static int normal_init(builder *b)
{
    int dim = b->job->problem.model.dim_x, means = 0, sds = 0;
    const double *mean = config_vector(b->c, "init.mean", &means), *sd = config_vector(b->c, "init.sd", &sds);
    if (means != 1 && means != dim) return wrong(b, "init.mean", "has %d numbers; expected 1 or %d", means, dim);
    if (sds != 1 && sds != dim) return wrong(b, "init.sd", "has %d numbers; expected 1 or %d", sds, dim);
    b->p->mean = malloc((size_t)dim * sizeof(double));
    b->p->factor = calloc((size_t)dim * (size_t)dim, sizeof(double));
    if (!b->p->mean || !b->p->factor) return out_of_memory(b);
    for (int j = 0; j < dim; j++) {
        b->p->mean[j] = mean[means == 1 ? 0 : j];
        b->p->factor[(size_t)j * (size_t)dim + (size_t)j] = 1 / sd[sds == 1 ? 0 : j];
    }
    b->p->gaussian = (sosmc_gaussian){.dim = dim, .mean = b->p->mean, .factor = b->p->factor, .variance = 1};
    b->job->problem.init = sosmc_gaussian_source(&b->p->gaussian);
    return 0;
}

static int laplace_init(builder *b)
{
    int dim = b->p->logistic.dim;
    const double *theta = vector_of(b, "init.theta", 1);
    b->p->mean = malloc((size_t)dim * sizeof(double));
    b->p->factor = calloc((size_t)dim * (size_t)dim, sizeof(double));
    if (!theta) return -1;
    if (!b->p->mean || !b->p->factor) return out_of_memory(b);
    if (sosmc_logistic_laplace(&b->p->logistic, *theta, b->p->mean, b->p->factor) != SOSMC_OK)
        return wrong(b, "model.data", "has no posterior mode that could be found; are the features finite?");
    b->p->gaussian = (sosmc_gaussian){.dim = dim,
                                      .mean = b->p->mean,
                                      .factor = b->p->factor,
                                      .widen = 1.2, /* a bare Laplace law has weights of infinite variance */
                                      .share = config_number(b->c, "init.share"),
                                      .centre = *theta,
                                      .variance = b->p->logistic.variance};
    b->job->problem.init = sosmc_gaussian_source(&b->p->gaussian);
    return 0;
}

static int build_init(builder *b)
{
    if (is(b, "init.type", "normal")) return normal_init(b);
    if (is(b, "init.type", "laplace")) return laplace_init(b);
    int dim_theta = b->job->problem.model.dim_theta;
    const double *theta = vector_of(b, "init.theta", dim_theta);
    if (!theta) return -1;
    if (is(b, "model.type", "gaussian_mixture")) {
        b->p->init_mixture = (sosmc_mixture_law){.mixture = &b->p->mixture, .theta = theta};
        b->job->problem.init = sosmc_mixture_source(&b->p->init_mixture);
        /* drawn where theta starts, the weights are 1 (eps neglected, as the experiment does) */
        b->job->problem.init.exact = memcmp(theta, b->p->theta, (size_t)dim_theta * sizeof(double)) == 0;
    } else {
        b->p->init_hierarchical = (sosmc_hierarchical_law){.data = &b->p->hierarchical, .theta = *theta};
        b->job->problem.init = sosmc_hierarchical_source(&b->p->init_hierarchical);
    }
    return 0;
}

/* ---------------------------------------------------------------------------- settings */

static int choice(const builder *b, const char *path, const char *const *words, int n)
{
    for (int i = 0; i < n; i++)
        if (is(b, path, words[i])) return i;
    return 0;
}
#define CHOICE(b, path, ...)                            \
    choice(b, path, (const char *const[]){__VA_ARGS__}, \
           (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

static sosmc_scheme build_scheme(const builder *b)
{
    int n = (int)config_integer(b->c, "particles"), sweeps = (int)config_integer(b->c, "scheme.sweeps");
    sosmc_scheme s;
    if (is(b, "scheme.type", "sosmc"))
        s = sosmc_scheme_sosmc(n);
    else if (is(b, "scheme.type", "impdiff"))
        s = sosmc_scheme_moved_first(n);
    else if (is(b, "scheme.type", "soul"))
        s = sosmc_scheme_soul(sweeps);
    else if (is(b, "scheme.type", "pcd"))
        s = sosmc_scheme_pcd(n, n, sweeps);
    else
        s = sosmc_scheme_unweighted(n);
    if (config_has(b->c, "scheme.order")) s.order = CHOICE(b, "scheme.order", "paper", "authors");
    if (config_has(b->c, "scheme.drift_at")) s.drift_at = CHOICE(b, "scheme.drift_at", "previous", "current");
    if (config_has(b->c, "scheme.sweeps")) s.sweeps = sweeps;
    if (config_has(b->c, "scheme.keep")) s.keep = (int)config_integer(b->c, "scheme.keep");
    if (config_has(b->c, "scheme.pool")) s.pool = (int)config_integer(b->c, "scheme.pool");
    if (config_has(b->c, "scheme.refresh")) s.refresh = config_number(b->c, "scheme.refresh");
    s.ess_min = config_number(b->c, "resampling.threshold");
    s.resampling = CHOICE(b, "resampling.scheme", "multinomial", "stratified", "systematic", "residual", "ssp");
    return s;
}

static sosmc_kernel build_kernel(const builder *b)
{
    double h = config_number(b->c, "kernel.step");
    if (is(b, "kernel.type", "hmc"))
        return sosmc_hmc(h, (int)config_integer(b->c, "kernel.leapfrog"), config_number(b->c, "kernel.mass"));
    sosmc_kernel k = is(b, "kernel.type", "mala")  ? sosmc_mala(h)
                     : is(b, "kernel.type", "rwm") ? sosmc_rwm(h)
                                                   : sosmc_ula(h);
    k.noise = config_number(b->c, "kernel.noise");
    return k;
}

static sosmc_optimiser build_optimiser(const builder *b)
{
    double lr = config_number(b->c, "optimiser.rate"), momentum = config_number(b->c, "optimiser.momentum");
    sosmc_optimiser o;
    switch (CHOICE(b, "optimiser.type", "sgd", "momentum", "nesterov", "rmsprop", "adagrad", "adam", "adamw")) {
    case 0: o = sosmc_sgd(lr); break;
    case 1: o = sosmc_momentum(lr, momentum); break;
    case 2: o = sosmc_nesterov(lr, momentum); break;
    case 3: o = sosmc_rmsprop(lr, config_number(b->c, "optimiser.decay")); break;
    case 4: o = sosmc_adagrad(lr); break;
    case 5: o = sosmc_adam(lr); break;
    default: o = sosmc_adamw(lr, config_number(b->c, "optimiser.weight_decay")); break;
    }
    if (config_has(b->c, "optimiser.beta1")) o.beta1 = config_number(b->c, "optimiser.beta1");
    if (config_has(b->c, "optimiser.beta2")) o.beta2 = config_number(b->c, "optimiser.beta2");
    if (config_has(b->c, "optimiser.eps")) o.eps = config_number(b->c, "optimiser.eps");
    o.clip = config_number(b->c, "optimiser.clip");
    return o;
}

static sosmc_adapt build_rule(const builder *b, int i)
{
    char path[64];
    sosmc_adapt a = {0};
#define RULE(name) (snprintf(path, sizeof path, "adapt.%d." name, i), path)
    a.signal = CHOICE(b, RULE("signal"), "ess", "accept");
    a.target = CHOICE(b, RULE("target"), "step", "rate");
    a.threshold = config_number(b->c, RULE("threshold"));
    a.factor = config_number(b->c, RULE("factor"));
    a.min = config_number(b->c, RULE("min"));
    a.max = config_number(b->c, RULE("max"));
    a.before_move = config_flag(b->c, RULE("before_move"));
#undef RULE
    return a;
}

static void build_settings(builder *b)
{
    sosmc_settings *s = &b->job->settings;
    *s = sosmc_defaults();
    s->scheme = build_scheme(b);
    s->kernel = build_kernel(b);
    s->optimiser = build_optimiser(b);
    s->schedule.kind = CHOICE(b, "optimiser.schedule.type", "constant", "robbins_monro", "exponential", "cosine");
    if (config_has(b->c, "optimiser.schedule.a")) s->schedule.a = config_number(b->c, "optimiser.schedule.a");
    if (config_has(b->c, "optimiser.schedule.b")) s->schedule.b = config_number(b->c, "optimiser.schedule.b");
    for (int i = 0; i < 2 && i < config_count(b->c, "adapt"); i++) s->adapt[i] = build_rule(b, i);
    s->average = config_number(b->c, "optimiser.average");
    s->average_from = config_integer(b->c, "optimiser.average_from");
    s->seed = config_unsigned(b->c, "seed");
    s->threads = (int)config_integer(b->c, "threads");
    s->on_nonfinite = CHOICE(b, "on_nonfinite", "default", "fail", "drop", "retry", "restart");
    b->job->iterations = config_integer(b->c, "iterations");
}

int job_build(job *out, const config *c, int *io, char *error, size_t room)
{
    *io = 0;
    *out = (job){.parts = calloc(1, sizeof *out->parts)};
    builder b = {.job = out, .c = c, .p = out->parts, .io = io, .error = error, .room = room};
    if (!out->parts) return out_of_memory(&b);
    if (build_model(&b) || build_objective(&b) || build_init(&b)) return -1;
    build_settings(&b);
    return 0;
}

void job_free(job *j)
{
    struct parts *p = j->parts;
    if (!p) return;
    formula_free(p->formula);
    npy_free(&p->array);
    free(p->features);
    free(p->labels);
    free(p->mean);
    free(p->factor);
    free(p->points);
    free(p);
    j->parts = NULL;
}

int job_evidence(const job *j, const sosmc *s, sosmc_evidence *out)
{
    enum { DRAWS = 100000 };
    struct parts *p = j->parts;
    double theta = sosmc_theta(s)[0];
    int rc = -1;
    if (p->hierarchical.dim > 0) {
        sosmc_hierarchical_law law = {.data = &p->hierarchical, .theta = theta};
        rc = sosmc_importance(&j->problem.model, &theta, sosmc_hierarchical_source(&law), DRAWS, j->settings.seed, out);
    }
    if (p->logistic.dim > 0) {
        size_t dim = (size_t)p->logistic.dim;
        double *mode = malloc(dim * sizeof *mode), *factor = calloc(dim * dim, sizeof *factor);
        sosmc_gaussian law = {.dim = p->logistic.dim,
                              .mean = mode,
                              .factor = factor,
                              .widen = 1.2,
                              .share = 0.02,
                              .centre = theta,
                              .variance = p->logistic.variance};
        if (mode && factor && sosmc_logistic_laplace(&p->logistic, theta, mode, factor) == SOSMC_OK)
            rc = sosmc_importance(&j->problem.model, &theta, sosmc_gaussian_source(&law), DRAWS, j->settings.seed, out);
        free(mode);
        free(factor);
    }
    return rc == 0 ? 0 : -1;
}

double job_information(const job *j, const sosmc *s)
{
    double information = NAN;
    int64_t n = sosmc_particles(s);
    if (j->problem.model.dim_theta != 1) return NAN;
    double *x = malloc((size_t)n * (size_t)j->problem.model.dim_x * sizeof *x),
           *logw = malloc((size_t)n * sizeof *logw);
    if (!x || !logw || sosmc_cloud(s, x, logw) != SOSMC_OK ||
        sosmc_louis(&j->problem.model, sosmc_theta(s), n, x, logw, &information) != SOSMC_OK)
        information = NAN;
    free(x);
    free(logw);
    return information;
}
