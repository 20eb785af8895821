/* tiles.h: how particles are cut into batches, for the engine and for everything else that calls a model. */
#ifndef SOSMC_BASE_TILES_H
#define SOSMC_BASE_TILES_H

#include <stddef.h>
#include <stdint.h>

enum { TILE_LANES = 8 };

static inline size_t sosmc_i_round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* Particles in a tile: the number that the model asks for; where it asks for none (0), one for large dim (a contiguous image,
 * with vectors along it) and rows of many for small dim. */
static inline int sosmc_i_tile(int wish, int dim, int64_t particles)
{
    int tile = wish ? wish : dim >= 4096 ? 1 : dim >= 256 ? 16 : 64;
    return particles < tile ? (int)particles : tile;
}

/* ld: aligned rows need a multiple of 8; the one-particle tile of a large model is contiguous instead. */
static inline int sosmc_i_tile_row(int tile, int dim)
{
    return tile == 1 && dim >= TILE_LANES ? 1 : (int)sosmc_i_round_up((size_t)tile, TILE_LANES);
}

#endif
