/* jump.c: proposals that take a particle from one mode to another, from differences between other particles.
 *
 *     y = x but for one coordinate j, drawn at random:  y_j = x_j + a_j - b_j,  a and b two particles of the pool
 *
 * The pool is particles that do not move at the same time, so that the proposal is symmetric given them. Where coordinates depend
 * little on each other, as latent variables of separate observations do, modes differ coordinate by coordinate, and there are far more of
 * them than any list can hold. */
#include "tile.h"

static int chosen(sosmc_rng rng, uint32_t draw, const sosmc_batch *one, int of)
{
    double u;
    sosmc_uniforms(rng, draw, one, &u);
    int k = (int)(u * of);
    return k < of ? k : of - 1;
}

void sosmc_i_jump(const pool *from, sosmc_rng rng, const sosmc_batch *b, double *y)
{
    for (int i = 0; i < b->n; i++) {
        const sosmc_batch one = {.simd = b->simd, .dim = 1, .n = 1, .ld = 1, .first = b->first + i};
        size_t j = (size_t)chosen(rng, 0, &one, b->dim);
        double apart = 0;
        for (uint32_t k = 0; k < 2; k++) {
            int at = chosen(rng, k + 1, &one, from->tiles * from->lanes);
            const double *tile = from->x + (size_t)(from->first + at / from->lanes) * from->vector;
            double value = tile[j * (size_t)from->ld + (size_t)(at % from->lanes)];
            apart += k == 0 ? value : -value;
        }
        y[j * (size_t)b->ld + (size_t)i] += apart;
    }
}
