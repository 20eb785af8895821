/* learn_far.c: where a network may have mass that no particle of the search has seen (docs/trust.md).
 *
 * A network that is fitted to points gains by digging a hole in its energy at a point far from all others. Neither the mixture that is
 * fitted to the points nor the cloud has draws there, so that nothing says what the hole holds, and log Z is too small. Such points are those at
 * which the network's density is largest beside that of the law: from there the energy descends to its minimum, and Laplace's approximation at it
 * becomes a part of the law, by which the last pass sees what is there. */
#include <math.h>
#include <stdlib.h>

#include "judge/modes.h"
#include "solve_inside.h"

enum { FAR = 8 };
static const double WEIGHT = 0.1, WIDER = 1.1;

typedef struct {
    double how[FAR];
    double *x; /* FAR rows of dim */
    int count;
} farthest;

/* Keeps the points with the largest values, in falling order. */
static void take_point(farthest *f, size_t dim, double how, const double *x, size_t ld)
{
    if (f->count == FAR && f->how[FAR - 1] >= how) return;
    int at = f->count < FAR ? f->count++ : FAR - 1;
    while (at > 0 && f->how[at - 1] < how) {
        f->how[at] = f->how[at - 1];
        memcpy(f->x + (size_t)at * dim, f->x + (size_t)(at - 1) * dim, dim * sizeof(double));
        at--;
    }
    f->how[at] = how;
    for (size_t j = 0; j < dim; j++) f->x[(size_t)at * dim + j] = x[j * ld];
}

/* log of the model's density over the law's, up to a constant, at all points. */
static sosmc_status find_points(sosmc_solver *s, const laws *q, const double *theta, farthest *f)
{
    double ignored, *work = aligned_alloc(64, sosmc_i_round_up(LAW_WORK * (size_t)s->dim, TILE_LANES) * sizeof *work);
    sosmc_status status = work ? sosmc_i_host_move(&s->data, theta) : SOSMC_ENOMEM;
    if (status == SOSMC_OK) status = sosmc_i_learn_energies(s, theta, 0, s->fit_tiles);
    if (status == SOSMC_OK && s->check_rows > 0) status = sosmc_i_learn_check(s, theta, &ignored);
    for (int tile = 0; tile < s->fit_tiles + s->check_tiles && status == SOSMC_OK; tile++) {
        sosmc_batch b = sosmc_i_learn_batch(s, 0, tile);
        double *L = host_room(&s->data, 0);
        s->code->energies(q, b.n, b.ld, b.x, L, NULL, work);
        for (int i = 0; i < b.n; i++) {
            double how = L[i] - s->data_U[b.first + i];
            if (isfinite(how)) take_point(f, (size_t)s->dim, how, b.x + i, (size_t)b.ld);
        }
    }
    free(work);
    return status;
}

static sosmc_status add_modes(laws *q, const modes *m)
{
    size_t dim = (size_t)q->dim;
    for (int k = 0; k < m->count && q->count < LAW_MOST; k++) {
        for (size_t j = 0; j < dim * dim; j++) m->L[k][j] *= WIDER;
        if (sosmc_i_laws_add(q, WEIGHT / m->count, 5 + q->dim / 2, m->x[k], m->L[k])) return SOSMC_ENOMEM;
    }
    return SOSMC_OK;
}

sosmc_status sosmc_i_learn_far(sosmc_solver *s, laws *q, const double *theta)
{
    size_t dim = (size_t)s->dim;
    if (s->dim > MODES_DIM) return SOSMC_OK;
    double *memory = calloc(dim * (FAR + dim), sizeof *memory);
    if (!memory) return SOSMC_ENOMEM;
    farthest f = {.x = memory};
    preconditioner c = {.dim = s->dim, .gradient = 1, .C = memory + FAR * dim};
    modes m = {.count = 0};
    for (int j = 0; j < s->dim; j++) c.C[(size_t)j * dim + (size_t)j] = 1 / sosmc_i_learn_width(s, j);
    sosmc_status status = find_points(s, q, theta, &f);
    if (status == SOSMC_OK) status = sosmc_i_modes_find(&m, &s->problem.model, theta, &c, f.count, f.x);
    if (status == SOSMC_OK) status = add_modes(q, &m);
    sosmc_i_laws_close(q);
    sosmc_i_modes_free(&m);
    free(memory);
    return status;
}
