/* learn_data.c: what the search for networks takes from the data: their rows, and the laws that fresh particles and jumps come from.
 *
 * A law of the search is a mixture of normal laws fitted to the data, a wide normal law around them and the initial law, for a network
 * with a base the base. It does not depend on theta or on the cloud, and it has a density, so that whatever is drawn from it is weighed rightly. */
#include <math.h>
#include <stdlib.h>

#include "solve_inside.h"

enum { DATA_PARTS = 10, CLOUD_PARTS = 8, INITIAL_DRAWS = 1024 };
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
        double *x = s->data_x + (size_t)(i / s->data.tile) * s->data.vector + (size_t)(i % s->data.tile);
        for (size_t j = 0; j < dim; j++) x[j * ld] = rows[(size_t)order[i].row * dim + j];
    }
    free(order);
    return SOSMC_OK;
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

sosmc_status sosmc_i_learn_data(sosmc_solver *s)
{
    double *rows = NULL;
    sosmc_status status = read_rows(s, &s->problem.objective.data, &rows);
    if (status == SOSMC_OK) status = shuffled(s, rows);
    if (status == SOSMC_EMODEL) (void)sosmc_i_solver_fail(s, status, "the source of data failed");
    free(rows);
    return status;
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

sosmc_status sosmc_i_learn_laws(sosmc_solver *s, laws *q, int with_cloud)
{
    size_t dim = (size_t)s->dim;
    int64_t n = s->data_points;
    double *x = malloc((size_t)n * dim * sizeof *x);
    if (!x) return SOSMC_ENOMEM;
    for (int64_t first = 0; first < n; first += s->data.tile) {
        int64_t left = n - first;
        sosmc_i_to_rows(s->dim, s->data.ld, (int)(left < s->data.tile ? left : s->data.tile),
                        s->data_x + (size_t)(first / s->data.tile) * s->data.vector, x + (size_t)first * dim);
    }
    double weight = with_cloud ? LAW_OF_DATA / 2 : LAW_OF_DATA;
    sosmc_status status = sosmc_i_fit_mixture(q, DATA_PARTS, weight, INFLATE, n, x, NULL) ? SOSMC_ENOMEM : SOSMC_OK;
    if (status == SOSMC_OK) status = add_normal(q, LAW_WIDE, WIDE, n, x);
    if (status == SOSMC_OK) status = add_initial(s, q);
    if (status == SOSMC_OK && with_cloud) status = add_cloud(s, q);
    sosmc_i_laws_close(q);
    free(x);
    return status;
}

/* ---------------------------------------------------------------------------- widths */

double sosmc_i_learn_width(const sosmc_solver *s, int j)
{
    double mean = 0, square = 0, n = (double)s->data_points;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < s->data_points; i++) {
            double x = s->data_x[(size_t)(i / s->data.tile) * s->data.vector + (size_t)j * (size_t)s->data.ld +
                                 (size_t)(i % s->data.tile)];
            if (pass == 0)
                mean += x / n;
            else
                square += (x - mean) * (x - mean) / n;
        }
    return square > 0 ? sqrt(square) : 1;
}
