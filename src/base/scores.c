/* scores.c: dU/dtheta of every particle, from the model's own callback or from contractions over one particle each.
 *
 *     scratch   | x: dim rows of ld | c: a row | g: dim_theta numbers | the model's work for ld particles |
 *
 * where ld is that of a tile of one particle. Each part begins at a multiple of 64 bytes. */
#include "scores.h"

#include <string.h>

#include "tiles.h"

typedef struct {
    size_t ld, x, c, g, work; /* doubles of each part */
} parts;

static parts parts_of(const sosmc_model *m)
{
    size_t ld = (size_t)sosmc_i_tile_row(1, m->dim_x), bytes = sosmc_i_round_up(m->work * ld, sizeof(double));
    return (parts){.ld = ld,
                   .x = sosmc_i_round_up((size_t)m->dim_x * ld, TILE_LANES),
                   .c = TILE_LANES,
                   .g = sosmc_i_round_up((size_t)m->dim_theta, TILE_LANES),
                   .work = sosmc_i_round_up(bytes / sizeof(double), TILE_LANES)};
}

size_t sosmc_i_scores_scratch(const sosmc_model *model)
{
    parts p = parts_of(model);
    return model->scores ? 0 : p.x + p.c + p.g + p.work;
}

int sosmc_i_scores(const sosmc_model *model, const double *theta, const sosmc_batch *b, double *scratch, double *D)
{
    if (model->scores) return model->scores(model->self, theta, b, D);
    const parts p = parts_of(model);
    const size_t ld = (size_t)b->ld;
    double *x = scratch, *c = x + p.x, *g = c + p.c;
    sosmc_batch one = *b; /* prep, simd and dim are those of b */
    one.x = x;
    one.work = g + p.g;
    one.next_work = NULL;
    one.fresh = 0;
    one.n = 1;
    one.ld = (int)p.ld;
    memset(x, 0, (p.x + p.c) * sizeof *x); /* a model may read padding */
    c[0] = 1;
    for (size_t i = 0; i < (size_t)b->n; i++) {
        one.first = b->first + (int64_t)i;
        for (size_t j = 0; j < (size_t)b->dim; j++) x[j * p.ld] = b->x[j * ld + i];
        memset(g, 0, p.g * sizeof *g);
        int rc = model->grad_theta(model->self, theta, &one, c, g);
        if (rc) return rc;
        for (size_t j = 0; j < (size_t)model->dim_theta; j++) D[j * ld + i] = g[j];
    }
    return 0;
}
