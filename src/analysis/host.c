/* host.c: a model at one theta with its memory: energies, gradients, contractions and scores at any points.
 *
 * Invariant: tiles are cut by the model and the number of points alone, and the padding of a tile is zero or what an earlier
 * tile left, so results depend neither on threads nor on earlier calls. */
#include "base/arithmetic.h"
#include "host.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/scores.h"
#include "base/tiles.h"

enum { ALIGNMENT = 64 };

/* ---------------------------------------------------------------------------- memory */

static size_t aligned(size_t bytes) { return sosmc_i_round_up(bytes, ALIGNMENT); }

void sosmc_i_host_shape(host *h, const sosmc_model *model, int tile, int ld)
{
    *h = (host){.model = model, .tile = tile, .ld = ld, .workers = 1};
    h->vector = sosmc_i_round_up((size_t)model->dim_x * (size_t)ld, TILE_LANES);
    h->row = sosmc_i_round_up((size_t)ld, TILE_LANES);
}

sosmc_status sosmc_i_host_cut(host *h, const sosmc_model *model, int64_t points, int threads)
{
    int tile = sosmc_i_tile(model->tile, model->dim_x, points);
    int64_t tiles = (points + tile - 1) / tile;
    sosmc_i_host_shape(h, model, tile, sosmc_i_tile_row(tile, model->dim_x));
    if (tiles > INT32_MAX) return SOSMC_EINVAL;
    h->workers = threads < tiles ? threads : (int)tiles;
    if (h->workers < 1) h->workers = 1;
    return SOSMC_OK;
}

size_t sosmc_i_host_bytes(host *h, size_t vectors, size_t rows)
{
    size_t work;
    h->scratch = (vectors * h->vector + rows * h->row) * sizeof(double);
    if (__builtin_mul_overflow(h->model->work, (size_t)h->ld, &work)) return SIZE_MAX;
    if (work > SIZE_MAX / (4 * (size_t)HOST_MOST_THREADS)) return SIZE_MAX;
    h->stride = h->scratch + aligned(work);
    return aligned(h->model->prep) + aligned(sosmc_i_crew_bytes(h->workers)) + (size_t)h->workers * h->stride;
}

sosmc_status sosmc_i_host_open(host *h, const double *theta, size_t vectors, size_t rows)
{
    size_t all = sosmc_i_host_bytes(h, vectors, rows);
    if (all == SIZE_MAX) return SOSMC_ENOMEM;
    h->memory = aligned_alloc(ALIGNMENT, all ? all : ALIGNMENT);
    if (!h->memory) return SOSMC_ENOMEM;
    memset(h->memory, 0, all); /* a model may read padding */
    h->prep = h->memory;
    h->crew = h->memory + aligned(h->model->prep);
    h->room = h->crew + aligned(sosmc_i_crew_bytes(h->workers));
    sosmc_status status = theta ? sosmc_i_host_move(h, theta) : SOSMC_OK;
    if (status != SOSMC_OK) sosmc_i_host_close(h);
    return status;
}

sosmc_status sosmc_i_host_move(host *h, const double *theta)
{
    h->theta = theta;
    if (!h->model->prepare) return SOSMC_OK;
    return h->model->prepare(h->model->self, theta, h->prep) ? SOSMC_EMODEL : SOSMC_OK;
}

void sosmc_i_host_close(host *h)
{
    free(h->memory);
    h->memory = NULL;
}

sosmc_batch sosmc_i_host_batch(const host *h, int worker, int64_t first, int64_t points)
{
    double *room = host_room(h, worker);
    int64_t left = points - first;
    return (sosmc_batch){.x = room,
                         .prep = h->prep,
                         .work = (char *)room + h->scratch,
                         .simd = h->simd ? h->simd : sosmc_simd_best(),
                         .dim = h->model->dim_x,
                         .n = left < h->tile ? (int)left : h->tile,
                         .ld = h->ld,
                         .first = first};
}

sosmc_status sosmc_i_host_parallel(const host *h, crew_task task, void *ctx, int n)
{
    crew *helpers = h->workers > 1 ? sosmc_i_crew_start(h->crew, h->workers) : NULL;
    sosmc_status status = sosmc_i_parallel(helpers, task, ctx, n);
    sosmc_i_crew_stop(helpers);
    return status;
}

double *sosmc_i_host_scores_room(const sosmc_model *model, int ld, size_t tables)
{
    size_t numbers, bytes;
    if (__builtin_mul_overflow((size_t)model->dim_theta * tables, (size_t)ld, &numbers)) return NULL;
    if (__builtin_add_overflow(sosmc_i_scores_scratch(model), sosmc_i_round_up(numbers, TILE_LANES), &numbers))
        return NULL;
    if (__builtin_mul_overflow(numbers + TILE_LANES, sizeof(double), &bytes)) return NULL;
    return aligned_alloc(ALIGNMENT, bytes);
}

/* ---------------------------------------------------------------------------- rows of points */

void sosmc_i_from_rows(int dim, int ld, int n, const double *rows, double *x)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < dim; j++) x[(size_t)j * (size_t)ld + (size_t)i] = rows[(size_t)i * (size_t)dim + (size_t)j];
}

void sosmc_i_to_rows(int dim, int ld, int n, const double *x, double *rows)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < dim; j++) rows[(size_t)i * (size_t)dim + (size_t)j] = x[(size_t)j * (size_t)ld + (size_t)i];
}

/* ---------------------------------------------------------------------------- the public object */

/* The room: points, their gradients, and a row of numbers. */
enum { POINTS, GRADIENTS, VECTORS };
/* A host does not know how many points it will be asked about. A model that wants all of them in one batch (tile 2^30) gets so many. */
enum { MOST_POINTS = 4096 };

struct sosmc_host {
    host h;
    sosmc_model model;
    double theta[]; /* dim_theta */
};

sosmc_status sosmc_host_create(sosmc_host **out, const sosmc_model *model, const double *theta, int tile)
{
    STANDARD_ARITHMETIC;
    *out = NULL;
    if (model->dim_x < 1 || model->dim_theta < 0 || tile < 0 || !model->energy) return SOSMC_EINVAL;
    sosmc_host *h = calloc(1, sizeof *h + (size_t)model->dim_theta * sizeof(double));
    if (!h) return SOSMC_ENOMEM;
    h->model = *model;
    memcpy(h->theta, theta, (size_t)model->dim_theta * sizeof *theta);
    if (tile == 0) tile = sosmc_i_tile(model->tile, model->dim_x, MOST_POINTS);
    sosmc_i_host_shape(&h->h, &h->model, tile, sosmc_i_tile_row(tile, model->dim_x));
    sosmc_status status = sosmc_i_host_open(&h->h, h->theta, VECTORS, 1);
    if (status == SOSMC_OK)
        *out = h;
    else
        free(h);
    return status;
}

void sosmc_host_free(sosmc_host *h)
{
    if (!h) return;
    sosmc_i_host_close(&h->h);
    free(h);
}

sosmc_status sosmc_host_move(sosmc_host *h, const double *theta)
{
    STANDARD_ARITHMETIC;
    memmove(h->theta, theta, (size_t)h->model.dim_theta * sizeof *theta);
    return sosmc_i_host_move(&h->h, h->theta);
}

/* The tile of points first, first + 1, ...: its batch, filled. */
static sosmc_batch filled(const host *h, int64_t first, int64_t n, const double *x)
{
    sosmc_batch b = sosmc_i_host_batch(h, 0, first, n);
    sosmc_i_from_rows(b.dim, b.ld, b.n, x + (size_t)first * (size_t)b.dim, host_room(h, 0));
    return b;
}

sosmc_status sosmc_host_gradients(sosmc_host *h, int64_t n, const double *x, double *U, double *gx)
{
    STANDARD_ARITHMETIC;
    const sosmc_model *m = &h->model;
    double *g = host_room(&h->h, 0) + GRADIENTS * h->h.vector, *value = g + h->h.vector;
    for (int64_t first = 0; first < n; first += h->h.tile) {
        sosmc_batch b = filled(&h->h, first, n, x);
        if (m->energy(m->self, h->theta, &b, value, gx ? g : NULL)) return SOSMC_EMODEL;
        if (U) memcpy(U + first, value, (size_t)b.n * sizeof *U);
        if (gx) sosmc_i_to_rows(b.dim, b.ld, b.n, g, gx + (size_t)first * (size_t)b.dim);
    }
    return SOSMC_OK;
}

sosmc_status sosmc_host_energies(sosmc_host *h, int64_t n, const double *x, double *U)
{
    STANDARD_ARITHMETIC;
    return sosmc_host_gradients(h, n, x, U, NULL);
}

sosmc_status sosmc_host_contract(sosmc_host *h, int64_t n, const double *x, const double *c, double *g)
{
    STANDARD_ARITHMETIC;
    const sosmc_model *m = &h->model;
    double *value = host_room(&h->h, 0) + VECTORS * h->h.vector;
    if (!m->grad_theta) return SOSMC_EINVAL;
    for (int64_t first = 0; first < n; first += h->h.tile) {
        sosmc_batch b = filled(&h->h, first, n, x);
        memcpy(value, c + first, (size_t)b.n * sizeof *value); /* rows of ours are aligned and padded */
        if (m->grad_theta(m->self, h->theta, &b, value, g)) return SOSMC_EMODEL;
    }
    return SOSMC_OK;
}

sosmc_status sosmc_host_scores(sosmc_host *h, int64_t n, const double *x, double *D)
{
    STANDARD_ARITHMETIC;
    const sosmc_model *m = &h->model;
    if (!m->grad_theta && !m->scores) return SOSMC_EINVAL;
    size_t row = (size_t)m->dim_theta;
    double *scratch = sosmc_i_host_scores_room(m, h->h.ld, 1);
    if (!scratch) return SOSMC_ENOMEM;
    double *tile = scratch + sosmc_i_scores_scratch(m);
    sosmc_status status = SOSMC_OK;
    for (int64_t first = 0; first < n && status == SOSMC_OK; first += h->h.tile) {
        sosmc_batch b = filled(&h->h, first, n, x);
        if (sosmc_i_scores(m, h->theta, &b, scratch, tile)) status = SOSMC_EMODEL;
        if (status == SOSMC_OK) sosmc_i_to_rows(m->dim_theta, b.ld, b.n, tile, D + (size_t)first * row);
    }
    free(scratch);
    return status;
}
