/* drawn_numbers.c: see drawn_numbers.h. */
#include "drawn_numbers.h"

#include <string.h>

#include <sosmc/sosmc.h>

/* The library fills aligned rows, padding included. */
static void draw(uint32_t name, int normal, int n, double *z)
{
    enum { BLOCK = 64 };
    _Alignas(64) double block[BLOCK];
    sosmc_rng rng = {.seed = 77, .stream = SOSMC_STREAM_USER, .step = name};
    for (int i = 0; i < n; i += BLOCK) {
        int count = n - i < BLOCK ? n - i : BLOCK;
        sosmc_batch b = {.dim = 1, .n = count, .ld = BLOCK, .first = i};
        if (normal)
            sosmc_normals(rng, &b, block);
        else
            sosmc_uniforms(rng, 0, &b, block);
        memcpy(z + i, block, (size_t)count * sizeof *z);
    }
}

void drawn_normals(uint32_t name, int n, double *z) { draw(name, 1, n, z); }
void drawn_uniforms(uint32_t name, int n, double *u) { draw(name, 0, n, u); }
