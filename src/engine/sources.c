/* sources.c: the laws that come with the library.
 *
 *     standard normal   x ~ N(0, I),   log q(x) = -|x|^2/2 - (dim/2) log 2 pi, summed over j ascending
 *     rows              particle p of step k is, with m = rows / batch (whole batches only), noise and clamp apart,
 *         in order      row p mod rows
 *         random        row floor(u rows) of its own uniform u
 *         epochs        row perm_e((k mod m) batch + p), where perm_e shuffles 0..rows-1 anew in every epoch e = k / m
 *         with noise    its coordinates get noise z, z the normals of the draw's own name, and are then clamped
 *
 * Invariant: what a particle gets depends on its number in the whole cloud and the name of the draw, not on the batch
 * it happens to be in. */
#include <sosmc/sosmc.h>

#include "base/philox.h"

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

/* ---------------------------------------------------------------------------- rows */

/* u in (0, 1]; the product may round up to rows. */
static int64_t random_row(double u, int64_t rows)
{
    int64_t row = (int64_t)(u * (double)rows);
    return row < rows ? row : rows - 1;
}

/* A permutation of 0..rows-1 that needs no memory: a balanced Feistel network permutes the numbers of 2 * bits bits, at
 * most four times as many as there are rows; what falls outside is permuted again until it falls inside (cycle walking). */
typedef struct {
    sosmc_rng name;
    uint64_t rows;
    int bits, rounds;
} shuffle;

static shuffle shuffle_of(sosmc_rng rng, uint64_t epoch, int64_t rows)
{
    shuffle s = {.name = {.seed = rng.seed, .step = epoch, .stream = rng.stream}, .rows = (uint64_t)rows};
    while (s.bits < 32 && (uint64_t)1 << 2 * s.bits < s.rows) s.bits++;
    /* Pairs come out uneven by some 2^(-bits rounds / 2): short halves need more rounds. */
    s.rounds = s.bits > 0 && s.bits < 6 ? 48 / s.bits : 8;
    return s;
}

static int64_t shuffled(const shuffle *s, uint64_t at)
{
    const uint32_t first_block = 0xC0000000u; /* of Philox: far from those of normals and uniforms */
    const uint64_t mask = ((uint64_t)1 << s->bits) - 1;
    do {
        uint64_t left = at >> s->bits, right = at & mask, number[2];
        for (int round = 0; round < s->rounds; round++) {
            philox_numbers(s->name, right, first_block + (uint32_t)round, number);
            uint64_t mixed = left ^ (number[0] & mask);
            left = right;
            right = mixed;
        }
        at = left << s->bits | right;
    } while (at >= s->rows);
    return (int64_t)at;
}

/* Where the rows of a batch are found. */
typedef struct {
    int64_t rows, start; /* of the batch's first particle: its place in the array or in the epoch */
    int mode;
    shuffle order; /* of the epoch */
} places;

/* Non-zero when an epoch has no room for the batch. */
static int find_places(const sosmc_rows *r, sosmc_rng rng, const sosmc_batch *b, places *out)
{
    *out = (places){.rows = r->rows, .start = b->first, .mode = r->mode};
    if (r->mode != SOSMC_ROWS_EPOCHS) return 0;
    if (r->batch < 1 || r->batch > r->rows || b->first < 0 || b->first > r->batch - b->n) return -1;
    uint64_t batches = (uint64_t)(r->rows / r->batch);
    out->start += (int64_t)(rng.step % batches) * r->batch;
    out->order = shuffle_of(rng, rng.step / batches, r->rows);
    return 0;
}

static int64_t row_at(const places *p, int i, double u)
{
    if (p->mode == SOSMC_ROWS_RANDOM) return random_row(u, p->rows);
    if (p->mode == SOSMC_ROWS_EPOCHS) return shuffled(&p->order, (uint64_t)(p->start + i));
    return (p->start + i) % p->rows;
}

enum { BLOCK = 8 }; /* one cache line of particles: a row of x is written a line at a time */

/* n rows, given by their numbers, become n neighbouring columns of x, which hold standard normals where noise is wanted. */
static void copy_rows(const sosmc_rows *r, const int64_t *row, int n, size_t dim, size_t ld, double *restrict x)
{
    double width = r->high - r->low, noise = r->noise;
    for (size_t j = 0; j < dim; j++, x += ld)
        for (int i = 0; i < n; i++) {
            size_t at = (size_t)row[i] * dim + j;
            double value = r->data ? r->data[at] : r->low + r->bytes[at] * width / 255;
            x[i] = noise > 0 ? value + noise * x[i] : value;
        }
}

static void hold(size_t rows, size_t n, size_t ld, double bound, double *restrict x)
{
    for (size_t j = 0; j < rows; j++)
        for (size_t i = j * ld; i < j * ld + n; i++) x[i] = x[i] > bound ? bound : x[i] < -bound ? -bound : x[i];
}

static int rows_draw(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    const sosmc_rows *r = self;
    size_t dim = (size_t)b->dim, ld = (size_t)b->ld;
    int random = r->mode == SOSMC_ROWS_RANDOM;
    places where;
    if (!r->data == !r->bytes || !(r->noise >= 0) || !(r->clamp >= 0)) return -1;
    if (find_places(r, rng, b, &where)) return -1;
    if (r->noise > 0) sosmc_normals(rng, b, x); /* of other blocks than the uniforms and the shuffles have */
    for (int first = 0; first < b->n; first += BLOCK) {
        int64_t row[BLOCK];
        double u[BLOCK] = {0};
        sosmc_batch few = *b;
        few.first += first;
        few.n = b->n - first < BLOCK ? b->n - first : BLOCK;
        if (random) sosmc_uniforms(rng, 0, &few, u);
        for (int i = 0; i < few.n; i++) row[i] = row_at(&where, first + i, u[i]);
        copy_rows(r, row, few.n, dim, ld, x + first);
    }
    if (r->clamp > 0) hold(dim, (size_t)b->n, ld, r->clamp, x);
    return 0;
}

/* Rows b->first, b->first + 1, ... without noise. */
static int rows_row(const void *self, const sosmc_batch *b, double *x)
{
    sosmc_rows plain = *(const sosmc_rows *)self;
    plain.mode = SOSMC_ROWS_IN_ORDER;
    plain.noise = 0;
    return b->first < 0 || b->first > plain.rows - b->n ? -1 : rows_draw(&plain, (sosmc_rng){.seed = 0}, b, x);
}

sosmc_source sosmc_rows_source(const sosmc_rows *rows)
{
    int noise = rows->noise > 0;
    return (sosmc_source){.self = rows,
                          .draw = rows_draw,
                          .rows = noise ? 0 : rows->rows,
                          .row = noise ? NULL : rows_row,
                          .fixed = !noise && rows->mode == SOSMC_ROWS_IN_ORDER};
}

/* ---------------------------------------------------------------------------- a box */

static int draw_box(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    const sosmc_box *box = self;
    if (b->dim != box->dim) return -1;
    for (int j = 0; j < b->dim; j++) {
        double *row = x + (size_t)j * (size_t)b->ld;
        sosmc_uniforms(rng, (uint32_t)j, b, row);
        for (int i = 0; i < b->n; i++) row[i] = box->low[j] + (box->high[j] - box->low[j]) * row[i];
    }
    return 0;
}

sosmc_source sosmc_box_source(const sosmc_box *box) { return (sosmc_source){.self = box, .draw = draw_box}; }
