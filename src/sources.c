/* sources.c: the laws that come with the library.
 *
 *     standard normal   x ~ N(0, I),   log q(x) = -|x|^2/2 - (dim/2) log 2 pi, summed over j ascending
 *     rows              particle i is row (first + i) mod rows, or row floor(u_i rows) of its own uniform
 *
 * Invariant: what a particle gets depends on its number in the whole cloud and the name of the draw, not on the batch
 * it happens to be in. */
#include <sosmc/sosmc.h>

static int normal_draw(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    sosmc_normals(rng, b, x);
    return 0;
}

static int normal_logpdf(const void *self, const sosmc_batch *b, double *lq)
{
    const double half_log_2pi = 0.91893853320467274178;
    for (int i = 0; i < b->n; i++) lq[i] = 0.0;
    for (int j = 0; j < b->dim; j++) {
        const double *x = b->x + (size_t)j * (size_t)b->ld;
        for (int i = 0; i < b->n; i++) lq[i] += x[i] * x[i];
    }
    for (int i = 0; i < b->n; i++) lq[i] = -0.5 * lq[i] - b->dim * half_log_2pi;
    return 0;
}

sosmc_source sosmc_standard_normal(void) { return (sosmc_source){.draw = normal_draw, .logpdf = normal_logpdf}; }

/* u in (0, 1]; the product may round up to rows. */
static int64_t random_row(double u, int64_t rows)
{
    int64_t row = (int64_t)(u * (double)rows);
    return row < rows ? row : rows - 1;
}

static int rows_draw(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    enum { BLOCK = 8 }; /* one cache line of particles: a row of x is written a line at a time */
    const sosmc_rows *r = self;
    size_t dim = (size_t)b->dim, ld = (size_t)b->ld;
    int random = r->mode == SOSMC_ROWS_RANDOM;
    if (random) sosmc_uniforms(rng, 0, b, x); /* into x_i[0], which particle i reads before it is overwritten */
    for (int first = 0; first < b->n; first += BLOCK) {
        const double *row[BLOCK];
        int n = b->n - first < BLOCK ? b->n - first : BLOCK;
        for (int i = 0; i < n; i++) {
            int64_t k = random ? random_row(x[first + i], r->rows) : (b->first + first + i) % r->rows;
            row[i] = r->data + (size_t)k * dim;
        }
        for (size_t j = 0; j < dim; j++)
            for (int i = 0; i < n; i++) x[j * ld + (size_t)(first + i)] = row[i][j];
    }
    return 0;
}

sosmc_source sosmc_rows_source(const sosmc_rows *rows) { return (sosmc_source){.self = rows, .draw = rows_draw}; }
