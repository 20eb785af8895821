/* learn_data.c: the points of the search for networks, and the laws that fresh particles and jumps come from, which are fitted to these.
 *
 * The points are the rows of data. Where there is a reward instead, one half is drawn from the reference and the other from the best of
 * all densities, both by tempering from the initial law. A law of the search is a mixture of normal laws fitted to the data, a wide normal law around them and the initial law, for a network
 * with a base the base. It does not depend on theta or on the cloud, and it has a density, so that whatever is drawn from it is weighed rightly. */
#include <math.h>
#include <stdlib.h>

#include "solve_inside.h"

enum { DATA_PARTS = 10, CLOUD_PARTS = 8, INITIAL_DRAWS = 1024, CHECKED = 10 }; /* of so many rows one is checked */
enum { PASS_OF_POINTS = 910 };
static const double LAW_OF_DATA = 0.6, LAW_WIDE = 0.2, LAW_INITIAL = 0.2, WIDE = 9, INFLATE = 1.2;

/* ---------------------------------------------------------------------------- rows */

typedef struct {
    double key;
    int64_t row;
} keyed;

static int by_key(const void *a, const void *b)
{
    const keyed *x = a, *y = b;
    return x->key != y->key ? (x->key > y->key) - (x->key < y->key) : (x->row > y->row) - (x->row < y->row);
}

static int tiles_of(const sosmc_solver *s, int64_t rows) { return (int)((rows + s->data.tile - 1) / s->data.tile); }

/* A network knows its rows by heart in the end, and then their loss still falls: so others tell when to end. */
static void cut_rows(sosmc_solver *s)
{
    s->check_rows = tunes(s) ? 0 : s->data_points / CHECKED;
    s->fit_rows = s->data_points - s->check_rows;
    s->fit_tiles = tiles_of(s, s->fit_rows);
    s->check_tiles = tiles_of(s, s->check_rows);
}

sosmc_batch sosmc_i_learn_batch(const sosmc_solver *s, int worker, int64_t tile)
{
    int64_t first = tile < s->fit_tiles ? tile * s->data.tile : s->fit_rows + (tile - s->fit_tiles) * s->data.tile;
    sosmc_batch b = sosmc_i_host_batch(&s->data, worker, first, tile < s->fit_tiles ? s->fit_rows : s->data_points);
    b.x = s->data_x + (size_t)tile * s->data.vector;
    return b;
}

typedef struct {
    sosmc_solver *s;
    const double *theta;
    int64_t first, among; /* tiles; behind `among` of them comes the first again */
} energies;

static sosmc_status energies_tile(void *ctx, int task, int worker)
{
    const energies *v = ctx;
    sosmc_solver *s = v->s;
    const sosmc_model *m = &s->problem.model;
    sosmc_batch b = sosmc_i_learn_batch(s, worker, v->among ? (v->first + task) % v->among : v->first + task);
    double *row = host_room(&s->data, worker);
    if (m->energy(m->self, v->theta, &b, row, NULL)) return SOSMC_EMODEL;
    memcpy(s->data_U + b.first, row, (size_t)b.n * sizeof(double));
    return SOSMC_OK;
}

sosmc_status sosmc_i_learn_energies(sosmc_solver *s, const double *theta, int64_t first, int tiles)
{
    energies v = {.s = s, .theta = theta, .first = first, .among = s->fit_tiles};
    s->v.evaluations += (int64_t)tiles * s->data.tile;
    return sosmc_i_parallel(s->helpers, energies_tile, &v, tiles);
}

sosmc_status sosmc_i_learn_check(sosmc_solver *s, const double *theta, double *mean)
{
    int apart = s->check_rows > 0;
    energies v = {.s = s, .theta = theta, .first = apart ? s->fit_tiles : 0};
    int64_t first = apart ? s->fit_rows : 0;
    double sum = 0;
    sosmc_status status = sosmc_i_host_move(&s->data, theta);
    if (status == SOSMC_OK)
        status = sosmc_i_parallel(s->helpers, energies_tile, &v, apart ? s->check_tiles : s->fit_tiles);
    if (status != SOSMC_OK) return status;
    for (int64_t i = first; i < s->data_points; i++) sum += s->data_U[i];
    *mean = sum / (double)(s->data_points - first);
    s->v.evaluations += s->data_points - first;
    return SOSMC_OK;
}

/* The rows in an order that is drawn once; a batch is the next tiles of it. */
static sosmc_status shuffled(sosmc_solver *s, const double *rows)
{
    int64_t n = s->data_points;
    size_t dim = (size_t)s->dim, ld = (size_t)s->data.ld;
    keyed *order = malloc((size_t)n * sizeof *order);
    if (!order) return SOSMC_ENOMEM;
    for (int64_t i = 0; i < n; i++) {
        sosmc_batch one = {.simd = s->simd, .dim = 1, .n = 1, .ld = 1, .first = i};
        order[i].row = i;
        sosmc_uniforms((sosmc_rng){.seed = s->o.seed, .stream = STREAM_DATA}, 0, &one, &order[i].key);
    }
    qsort(order, (size_t)n, sizeof *order, by_key);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i < s->fit_rows ? i : i - s->fit_rows, tile = at / s->data.tile;
        if (i >= s->fit_rows) tile += s->fit_tiles;
        double *x = s->data_x + (size_t)tile * s->data.vector + (size_t)(at % s->data.tile);
        for (size_t j = 0; j < dim; j++) x[j * ld] = rows[(size_t)order[i].row * dim + j];
    }
    free(order);
    return SOSMC_OK;
}

/* The rows as they come, and their order with the copy that sorting makes. */
size_t sosmc_i_learn_bytes(const sosmc_solver *s)
{
    return (size_t)s->data_points * ((size_t)s->dim * sizeof(double) + 2 * sizeof(keyed));
}

/* All rows of a source, dim numbers each, as one array that the caller frees. */
static sosmc_status read_rows(const sosmc_solver *s, const sosmc_source *data, double **out)
{
    int tile = s->data.tile;
    double *x = s->data_x, *rows = malloc((size_t)data->rows * (size_t)s->dim * sizeof *rows);
    *out = rows;
    if (!rows) return SOSMC_ENOMEM;
    for (int64_t first = 0; first < data->rows; first += tile) {
        sosmc_batch b = sosmc_i_host_batch(&s->data, 0, first, data->rows);
        b.x = x;
        if (data->row(data->self, &b, x)) return SOSMC_EMODEL;
        sosmc_i_to_rows(s->dim, b.ld, b.n, x, rows + (size_t)first * (size_t)s->dim);
    }
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- what fresh particles start from */

static sosmc_status add_normal(laws *q, double weight, double inflate, int64_t n, const double *x)
{
    size_t dim = (size_t)q->dim;
    double *w = malloc(((size_t)n + dim + sosmc_i_law_doubles(q)) * sizeof *w);
    if (!w) return SOSMC_ENOMEM;
    double *mean = w + n, *L = mean + dim;
    for (int64_t i = 0; i < n; i++) w[i] = 1 / (double)n;
    int bad = sosmc_i_fit_normal(q, n, x, w, inflate, mean, L); /* not finite: left out */
    sosmc_status status = !bad && sosmc_i_laws_add(q, weight, 0, mean, L) ? SOSMC_ENOMEM : SOSMC_OK;
    free(w);
    return status;
}

static sosmc_status close_laws(sosmc_solver *s, laws *q)
{
    if (q->count == 0)
        return sosmc_i_solver_fail(s, SOSMC_ENUMERIC,
                                   "neither the points nor draws of the initial law have a finite mean and spread");
    sosmc_i_laws_close(q);
    return SOSMC_OK;
}

/* A normal fit of draws of the initial law: for a network with a base, the base. */
static sosmc_status add_initial(sosmc_solver *s, laws *q)
{
    const sosmc_source *init = &s->problem.init;
    size_t dim = (size_t)s->dim;
    if (!init->draw) return SOSMC_OK;
    double *x = malloc((size_t)INITIAL_DRAWS * dim * sizeof *x), *tile = aligned_alloc(64, s->vector * sizeof *tile);
    sosmc_status status = x && tile ? SOSMC_OK : SOSMC_ENOMEM;
    for (int64_t first = 0; first < INITIAL_DRAWS && status == SOSMC_OK; first += s->tile) {
        sosmc_batch b = sosmc_i_host_batch(&s->at, 0, first, INITIAL_DRAWS);
        b.x = tile;
        memset(tile, 0, s->vector * sizeof *tile);
        if (init->draw(init->self, (sosmc_rng){.seed = s->o.seed, .stream = SOSMC_STREAM_INIT}, &b, tile))
            status = SOSMC_EMODEL;
        else
            sosmc_i_to_rows(s->dim, b.ld, b.n, tile, x + (size_t)first * dim);
    }
    if (status == SOSMC_OK) status = add_normal(q, LAW_INITIAL, 1, INITIAL_DRAWS, x);
    free(x);
    free(tile);
    return status;
}

/* ---------------------------------------------------------------------------- all points */

/* Draws of the reference, or of the best of all densities, each with the same weight, as n rows; and log Z of the latter. */
static sosmc_status draw_law(sosmc_solver *s, const laws *q, int best, int n, double *rows)
{
    const sosmc_objective *o = &s->problem.objective;
    pass_task task = {.model = &s->problem.model,
                      .theta = o->theta_ref,
                      .score = best ? &o->score : NULL,
                      .beta = best ? o->kl : 0,
                      .q = q,
                      .simd = s->simd,
                      .particles = n,
                      .threads = s->at.workers,
                      .moves = 2,
                      .seed = s->o.seed,
                      .number = PASS_OF_POINTS + (uint64_t)best};
    pass_cloud p = {.n = 0};
    double *scratch = malloc((2 * (size_t)n + 1) * sizeof *scratch);
    int *ancestor = malloc((size_t)n * sizeof *ancestor);
    sosmc_status status = scratch && ancestor ? sosmc_i_pass(&task, &p) : SOSMC_ENOMEM;
    if (status == SOSMC_ENUMERIC) {
        const double *odd = sosmc_i_pass_odd_reward(&p);
        status = sosmc_i_learn_no_reward(s, odd ? *odd : NAN);
    }
    if (status == SOSMC_OK && p.arrived < 1)
        status = sosmc_i_solver_fail(
            s, SOSMC_ENUMERIC, "no particles of the initial law reach the %s",
            best ? "reference tilted by the reward; a reward that grows too fast, or is huge at single points, has "
                   "no best density"
                 : "reference");
    if (status == SOSMC_OK)
        status = sosmc_resample(SOSMC_SYSTEMATIC, (sosmc_rng){.seed = s->o.seed, .stream = STREAM_DATA, .step = 1}, n,
                                p.w, scratch, ancestor);
    for (int i = 0; i < n && status == SOSMC_OK; i++) {
        const double *x = p.x + (size_t)(ancestor[i] / p.tile) * p.vector + (size_t)(ancestor[i] % p.tile);
        for (size_t j = 0; j < (size_t)p.dim; j++) rows[(size_t)i * (size_t)p.dim + j] = x[j * (size_t)p.ld];
    }
    if (best && status == SOSMC_OK) {
        s->best_log_z = p.log_z;
        s->best_log_z_error = sosmc_i_pass_error(&p, NULL, 1);
    }
    free(scratch);
    free(ancestor);
    sosmc_i_pass_free(&p);
    return status;
}

static sosmc_status draw_rows(sosmc_solver *s, double **out)
{
    laws q = {.dim = s->dim};
    int half = LEARN_DRAWN / 2;
    double *rows = *out = malloc((size_t)LEARN_DRAWN * (size_t)s->dim * sizeof *rows);
    if (!rows) return SOSMC_ENOMEM;
    sosmc_status status = add_initial(s, &q);
    if (status == SOSMC_OK) status = close_laws(s, &q);
    if (status == SOSMC_OK) status = draw_law(s, &q, 0, half, rows);
    if (status == SOSMC_OK) status = draw_law(s, &q, 1, LEARN_DRAWN - half, rows + (size_t)half * (size_t)s->dim);
    sosmc_i_laws_free(&q);
    return status;
}

sosmc_status sosmc_i_learn_no_reward(sosmc_solver *s, double reward)
{
    return sosmc_i_solver_fail(
        s, SOSMC_ENUMERIC,
        "the reward is %g at a point where the reference or the model has mass; it must be a finite number there",
        reward);
}

/* R - beta U_ref of every point, which no theta changes. */
static sosmc_status score_rows(sosmc_solver *s)
{
    const sosmc_objective *o = &s->problem.objective;
    sosmc_status status = sosmc_i_host_move(&s->data, o->theta_ref);
    if (status == SOSMC_OK) status = sosmc_i_learn_energies(s, o->theta_ref, 0, s->fit_tiles);
    for (int tile = 0; tile < s->fit_tiles && status == SOSMC_OK; tile++) {
        sosmc_batch b = sosmc_i_learn_batch(s, 0, tile);
        double *row = host_room(&s->data, 0);
        if (o->score.eval(o->score.self, &b, row)) return SOSMC_EMODEL;
        for (int i = 0; i < b.n && status == SOSMC_OK; i++) {
            if (!isfinite(row[i])) status = sosmc_i_learn_no_reward(s, row[i]);
            s->data_s[b.first + i] = row[i] - o->kl * s->data_U[b.first + i];
        }
    }
    return status;
}

sosmc_status sosmc_i_learn_data(sosmc_solver *s)
{
    double *rows = NULL;
    cut_rows(s);
    sosmc_status status = tunes(s) ? draw_rows(s, &rows) : read_rows(s, &s->problem.objective.data, &rows);
    if (status == SOSMC_OK) status = shuffled(s, rows);
    if (status == SOSMC_OK && tunes(s)) status = score_rows(s);
    if (status == SOSMC_EMODEL)
        (void)sosmc_i_solver_fail(
            s, status, tunes(s) ? "the model, its initial law or the reward failed" : "the source of data failed");
    free(rows);
    return status;
}

/* ---------------------------------------------------------------------------- laws */

static sosmc_status add_cloud(sosmc_solver *s, laws *q)
{
    cloud *c = &s->c[SEARCHED];
    double *x = malloc((size_t)s->n * (size_t)s->dim * sizeof *x);
    if (!x) return SOSMC_ENOMEM;
    (void)sosmc_i_solver_weights(s, c, ALL);
    (void)sosmc_solver_cloud(s, x, NULL);
    int rc = sosmc_i_fit_mixture(q, CLOUD_PARTS, LAW_OF_DATA / 2, INFLATE, s->n, x, c->w);
    free(x);
    return rc ? SOSMC_ENOMEM : SOSMC_OK;
}

sosmc_status sosmc_i_learn_points(const sosmc_solver *s, double **out)
{
    size_t dim = (size_t)s->dim;
    double *x = *out = malloc((size_t)s->fit_rows * dim * sizeof *x);
    if (!x) return SOSMC_ENOMEM;
    for (int tile = 0; tile < s->fit_tiles; tile++) {
        sosmc_batch b = sosmc_i_learn_batch(s, 0, tile);
        sosmc_i_to_rows(s->dim, b.ld, b.n, b.x, x + (size_t)b.first * dim);
    }
    return SOSMC_OK;
}

sosmc_status sosmc_i_learn_laws(sosmc_solver *s, laws *q, int with_cloud)
{
    int64_t n = s->fit_rows;
    double *x;
    if (sosmc_i_learn_points(s, &x) != SOSMC_OK) return SOSMC_ENOMEM;
    double weight = with_cloud ? LAW_OF_DATA / 2 : LAW_OF_DATA;
    sosmc_status status = sosmc_i_fit_mixture(q, DATA_PARTS, weight, INFLATE, n, x, NULL) ? SOSMC_ENOMEM : SOSMC_OK;
    if (status == SOSMC_OK) status = add_normal(q, LAW_WIDE, WIDE, n, x);
    if (status == SOSMC_OK) status = add_initial(s, q);
    if (status == SOSMC_OK && with_cloud) status = add_cloud(s, q);
    if (status == SOSMC_OK) status = close_laws(s, q);
    free(x);
    return status;
}

/* ---------------------------------------------------------------------------- widths */

double sosmc_i_learn_width(const sosmc_solver *s, int j)
{
    double mean = 0, square = 0, n = (double)s->fit_rows;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < s->fit_rows; i++) {
            double x = s->data_x[(size_t)(i / s->data.tile) * s->data.vector + (size_t)j * (size_t)s->data.ld +
                                 (size_t)(i % s->data.tile)];
            if (pass == 0)
                mean += x / n;
            else
                square += (x - mean) * (x - mean) / n;
        }
    return square > 0 ? sqrt(square) : 1;
}
