/* imaging_vec.c: passes over images, compiled once per vector level (imaging.h says what each computes).
 *
 * Blocks of eight columns; the last block of a row has `live` lanes, and its other lanes hold zeros. A neighbour
 * outside the image is replaced by the pixel itself: the difference is zero, as the border condition wants it.
 *
 * Invariant: per pixel one sequence of operations, whatever the level; column j sums into accumulator j mod 8. */
#include "imaging.h"
#include "base/simd.h"

extern const imaging_code AT_LEVEL(sosmc_i_imaging);

VEC vd absolute(vd a) { return vd_max(a, vd_sub(vd_set(0.0), a)); }

VEC unsigned bits_of(vm m)
{
#if defined(SOSMC_LEVEL_AVX512)
    return m;
#elif defined(SOSMC_LEVEL_AVX2)
    return (unsigned)_mm256_movemask_pd(m.a) | (unsigned)_mm256_movemask_pd(m.b) << 4;
#else
    unsigned bits = 0;
    for (int l = 0; l < LANES; l++) bits |= (m.v[l] ? 1u : 0u) << l;
    return bits;
#endif
}

/* Lanes j + 1 .. of a row of n, the last pixel once more at its end. */
VEC vd right_of(const double *row, int j, int n, int live)
{
    if (j + live < n) return vd_load_n(row + j + 1, live);
    double t[LANES] = {0};
    for (int l = 0; l < live; l++) t[l] = row[j + l + 1 < n ? j + l + 1 : n - 1];
    return vd_load(t);
}

/* Lanes j - 1 .. of a row, with `first` before its beginning. */
VEC vd left_of(const double *row, int j, int live, double first)
{
    if (j > 0) return vd_load_n(row + j - 1, live);
    double t[LANES] = {first};
    for (int l = 1; l < live; l++) t[l] = row[l - 1];
    return vd_load(t);
}

/* body(j, live) for all blocks of a row of n, with a constant number of lanes in all but the last. */
#define BLOCKS(n, body)                          \
    do {                                         \
        int j_ = 0;                              \
        for (; j_ + LANES <= (n); j_ += LANES) { \
            body(j_, LANES);                     \
        }                                        \
        if (j_ < (n)) {                          \
            body(j_, (n)-j_);                    \
        }                                        \
    } while (0)

/* ------------------------------------------------------------------------------------------------ total variation */

VEC vd variation(int isotropic, const double *row, const double *below, int j, int n, int live)
{
    vd x = vd_load_n(row + j, live);
    vd a = vd_sub(vd_load_n(below + j, live), x), b = vd_sub(right_of(row, j, n, live), x);
    if (isotropic) return vd_sqrt(vd_add(vd_mul(a, a), vd_mul(b, b)));
    return vd_add(absolute(a), absolute(b));
}

static double tv(int isotropic, int rows, int columns, const double *x)
{
    vd sum = vd_set(0.0);
    for (int i = 0; i < rows; i++) {
        const double *row = x + (size_t)i * (size_t)columns, *below = i + 1 < rows ? row + columns : row;
#define BODY(j, live) sum = vd_add(sum, variation(isotropic, row, below, j, columns, live))
        BLOCKS(columns, BODY);
#undef BODY
    }
    return vd_fold(sum);
}

/* Four chains, because every maximum of a chain depends on the one before it. */
static double range(size_t n, const double *x)
{
    enum { CHAINS = 4 };
    double high[LANES], low[LANES];
    vd most[CHAINS], least[CHAINS];
    size_t e = 0;
    for (int k = 0; k < CHAINS; k++) most[k] = vd_set(-INFINITY), least[k] = vd_set(INFINITY);
    for (; e + CHAINS * LANES <= n; e += CHAINS * LANES)
        for (int k = 0; k < CHAINS; k++) {
            vd v = vd_load(x + e + k * LANES);
            most[k] = vd_max(v, most[k]);
            least[k] = vd_min(v, least[k]);
        }
    vd_store(high, vd_max(vd_max(most[0], most[1]), vd_max(most[2], most[3])));
    vd_store(low, vd_min(vd_min(least[0], least[1]), vd_min(least[2], least[3])));
    for (; e < n; e++) {
        high[0] = x[e] > high[0] ? x[e] : high[0];
        low[0] = x[e] < low[0] ? x[e] : low[0];
    }
    for (int l = 1; l < LANES; l++) {
        high[0] = high[l] > high[0] ? high[l] : high[0];
        low[0] = low[l] < low[0] ? low[l] : low[0];
    }
    return high[0] > low[0] ? high[0] - low[0] : 0;
}

/* ------------------------------------------------------------------------------------------------ anisotropic map */

VEC vd sign_of(vd a)
{
    const vd zero = vd_set(0.0);
    return vd_sel(vd_lt(zero, a), vd_set(1.0), vd_sel(vd_lt(a, zero), vd_set(-1.0), zero));
}

VEC vd closed_block(double w, const double *above, const double *row, const double *below, int j, int n, int live)
{
    vd z = vd_load_n(row + j, live);
    vd across = vd_sub(sign_of(vd_sub(z, left_of(row, j, live, row[0]))),
                       sign_of(vd_sub(right_of(row, j, n, live), z)));
    vd down = vd_sub(sign_of(vd_sub(z, vd_load_n(above + j, live))), sign_of(vd_sub(vd_load_n(below + j, live), z)));
    return vd_sub(z, vd_mul(vd_set(w), vd_add(across, down)));
}

/* Lanes in which the differences of z and u are not both positive or both negative. A product that underflows is
 * suspected too; the caller looks at each suspect closely. */
VEC unsigned unlike(vd dz, vd du, int live)
{
    return ~bits_of(vd_lt(vd_set(0.0), vd_mul(dz, du))) & ((1u << live) - 1u);
}

VEC int note(unsigned bits, int first, int32_t *suspect, int count)
{
    for (; bits; bits &= bits - 1) suspect[count++] = (int32_t)(first + 2 * __builtin_ctz(bits));
    return count;
}

static int suspects_across(int columns, int pixel, const double *z, const double *u, int32_t *suspect, int count)
{
#define BODY(j, live)                                                                          \
    count = note(unlike(vd_sub(vd_load_n(z + (j) + 1, live), vd_load_n(z + (j), live)),        \
                        vd_sub(vd_load_n(u + (j) + 1, live), vd_load_n(u + (j), live)), live), \
                 2 * (pixel + (j)), suspect, count)
    BLOCKS(columns - 1, BODY);
#undef BODY
    return count;
}

static int suspects_down(int columns, int pixel, const double *z, const double *u, int32_t *suspect, int count)
{
    const double *z1 = z + columns, *u1 = u + columns;
#define BODY(j, live)                                                                       \
    count = note(unlike(vd_sub(vd_load_n(z1 + (j), live), vd_load_n(z + (j), live)),        \
                        vd_sub(vd_load_n(u1 + (j), live), vd_load_n(u + (j), live)), live), \
                 2 * (pixel + (j)) + 1, suspect, count)
    BLOCKS(columns, BODY);
#undef BODY
    return count;
}

static int closed_form(int rows, int columns, double w, const double *z, double *u, int32_t *suspect, double *square)
{
    vd sum = vd_set(0.0);
    int count = 0;
    for (int i = 0; i < rows; i++) {
        int pixel = i * columns;
        const double *row = z + pixel, *above = i > 0 ? row - columns : row,
                     *below = i + 1 < rows ? row + columns : row;
        double *to = u + pixel;
#define BODY(j, live)                                            \
    vd v = closed_block(w, above, row, below, j, columns, live); \
    vd_store_n(to + (j), live, v);                               \
    sum = vd_add(sum, vd_mul(v, v))
        BLOCKS(columns, BODY);
#undef BODY
        count = suspects_across(columns, pixel, row, to, suspect, count);
        if (i > 0) count = suspects_down(columns, pixel - columns, above, to - columns, suspect, count);
    }
    *square = vd_fold(sum);
    return count;
}

static double moved(size_t n, double centre, const double *z, const double *u)
{
    const vd c = vd_set(centre);
    vd sum = vd_set(0.0);
    for (size_t e = 0; e < n; e += LANES) {
        int live = n - e < LANES ? (int)(n - e) : LANES;
        vd b = vd_load_n(u + e, live);
        sum = vd_add(sum, vd_mul(vd_sub(vd_load_n(z + e, live), b), vd_sub(b, c)));
    }
    return vd_fold(sum);
}

/* ------------------------------------------------------------------------------------------------ isotropic map */

typedef struct {
    int rows, columns;
    double w, step, momentum;
    const double *z;
    double *q, *r;
} dual_field;

/* Row i of z - D' q; the parts of q that would leave the image are zero, by construction. */
VEC vd primal_block(const dual_field *f, const double *q, int i, int j, int live)
{
    size_t d = (size_t)f->rows * (size_t)f->columns, at = (size_t)i * (size_t)f->columns;
    const double *h = q + at, *v = q + d + at;
    vd across = vd_sub(left_of(h, j, live, 0.0), vd_load_n(h + j, live));
    vd above = i > 0 ? vd_load_n(v - f->columns + j, live) : vd_set(0.0);
    return vd_sub(vd_load_n(f->z + at + j, live), vd_add(across, vd_sub(above, vd_load_n(v + j, live))));
}

static void primal_row(const dual_field *f, const double *q, int i, double *u)
{
#define BODY(j, live) vd_store_n(u + (j), live, primal_block(f, q, i, j, live))
    BLOCKS(f->columns, BODY);
#undef BODY
}

VEC void advance_block(const dual_field *f, int i, const double *u, const double *below, int j, int live)
{
    size_t d = (size_t)f->rows * (size_t)f->columns, at = (size_t)i * (size_t)f->columns + (size_t)j;
    double *rh = f->r + at, *rv = rh + d, *qh = f->q + at, *qv = qh + d;
    const vd w = vd_set(f->w), step = vd_set(f->step), momentum = vd_set(f->momentum);
    vd x = vd_load_n(u + j, live);
    vd h = vd_add(vd_load_n(rh, live), vd_mul(step, vd_sub(right_of(u, j, f->columns, live), x)));
    vd v = vd_add(vd_load_n(rv, live), vd_mul(step, vd_sub(vd_load_n(below + j, live), x)));
    vd length = vd_max(vd_sqrt(vd_add(vd_mul(h, h), vd_mul(v, v))), w), shrink = vd_div(w, length);
    h = vd_mul(h, shrink);
    v = vd_mul(v, shrink);
    vd_store_n(rh, live, vd_add(h, vd_mul(momentum, vd_sub(h, vd_load_n(qh, live)))));
    vd_store_n(rv, live, vd_add(v, vd_mul(momentum, vd_sub(v, vd_load_n(qv, live)))));
    vd_store_n(qh, live, h);
    vd_store_n(qv, live, v);
}

/* Row i + 1 of u needs row i of r, so it is computed before that row is replaced. */
static void dual_step(int rows, int columns, double w, double step, double momentum, const double *z, double *q,
                      double *r, double *lines)
{
    dual_field f = {rows, columns, w, step, momentum, z, q, r};
    double *line[2] = {lines, lines + columns};
    primal_row(&f, r, 0, line[0]);
    for (int i = 0; i < rows; i++) {
        const double *u = line[i & 1], *below = i + 1 < rows ? line[(i + 1) & 1] : u;
        if (i + 1 < rows) primal_row(&f, r, i + 1, line[(i + 1) & 1]);
#define BODY(j, live) advance_block(&f, i, u, below, j, live)
        BLOCKS(columns, BODY);
#undef BODY
    }
}

VEC vd gap_block(const dual_field *f, const double *u, const double *below, const double *h, const double *v, int j,
                 int live)
{
    vd x = vd_load_n(u + j, live);
    vd b = vd_sub(right_of(u, j, f->columns, live), x), a = vd_sub(vd_load_n(below + j, live), x);
    vd paired = vd_add(vd_mul(vd_load_n(h + j, live), b), vd_mul(vd_load_n(v + j, live), a));
    return vd_sub(vd_mul(vd_set(f->w), vd_sqrt(vd_add(vd_mul(a, a), vd_mul(b, b)))), paired);
}

static double dual_gap(int rows, int columns, double w, const double *z, const double *q, double *u, double *square)
{
    dual_field f = {.rows = rows, .columns = columns, .w = w, .z = z};
    size_t n = (size_t)columns, d = (size_t)rows * n;
    vd gap = vd_set(0.0), sum = vd_set(0.0);
    primal_row(&f, q, 0, u);
    for (int i = 0; i < rows; i++) {
        const double *row = u + (size_t)i * n, *below = i + 1 < rows ? row + n : row;
        if (i + 1 < rows) primal_row(&f, q, i + 1, u + (size_t)(i + 1) * n);
#define BODY(j, live)                                                                                \
    vd x = vd_load_n(row + (j), live);                                                               \
    gap = vd_add(gap, gap_block(&f, row, below, q + (size_t)i * n, q + d + (size_t)i * n, j, live)); \
    sum = vd_add(sum, vd_mul(x, x))
        BLOCKS(columns, BODY);
#undef BODY
    }
    *square = vd_fold(sum);
    return vd_fold(gap);
}

/* ------------------------------------------------------------------------------------------------ rows */

static void slide(int n, const double *restrict enters, const double *restrict leaves, double *restrict sum)
{
    for (int j = 0; j < n; j++) sum[j] += enters[j] - leaves[j];
}

static void add(int n, double factor, const double *restrict x, double *restrict sum)
{
    for (int j = 0; j < n; j++) sum[j] += factor * x[j];
}

static void multiply(int n, const double *x, const double *by, double *y)
{
    for (int j = 0; j < n; j++) y[j] = x[j] * by[j];
}

/* ------------------------------------------------------------------------------------------------ quadratic forms */

static double dot(size_t n, const double *x, const double *y)
{
    vd sum = vd_set(0.0);
    size_t e = 0;
    for (; e + LANES <= n; e += LANES) sum = vd_fma(vd_load(x + e), vd_load(y + e), sum);
    if (e < n) sum = vd_fma(vd_load_n(x + e, (int)(n - e)), vd_load_n(y + e, (int)(n - e)), sum);
    return vd_fold(sum);
}

VEC vd residual_block(double scale, const double *mask, const double *y, double *r, int live)
{
    vd seen = vd_load_n(y, live);
    if (mask) seen = vd_mul(vd_load_n(mask, live), seen);
    vd miss = vd_mul(vd_sub(vd_load_n(r, live), seen), vd_set(scale));
    vd_store_n(r, live, miss);
    return miss;
}

static double residual(size_t n, double scale, const double *mask, const double *y, double *r)
{
    vd sum = vd_set(0.0);
    for (size_t e = 0; e < n; e += LANES) {
        int live = n - e < LANES ? (int)(n - e) : LANES;
        vd miss = residual_block(scale, mask ? mask + e : NULL, y + e, r + e, live);
        sum = vd_fma(miss, miss, sum);
    }
    return vd_fold(sum);
}

/* The rows around a block, and their factors; outside the image the row itself. */
typedef struct {
    const double *above, *row, *below, *down_above, *down, *right;
    double factor;
    int n;
} stiff_row;

VEC vd stiff_block(const stiff_row *s, int j, int live, double *y, vd sum)
{
    vd x = vd_load_n(s->row + j, live);
    vd left = vd_mul(left_of(s->right, j, live, 0), vd_sub(x, left_of(s->row, j, live, s->row[0])));
    vd right = vd_mul(vd_load_n(s->right + j, live), vd_sub(right_of(s->row, j, s->n, live), x));
    vd up = vd_mul(vd_load_n(s->down_above + j, live), vd_sub(x, vd_load_n(s->above + j, live)));
    vd low = vd_mul(vd_load_n(s->down + j, live), vd_sub(vd_load_n(s->below + j, live), x));
    vd pulls = vd_add(vd_sub(left, right), vd_sub(up, low));
    vd out = vd_fma(vd_set(s->factor), vd_load_n(y + j, live), pulls);
    vd_store_n(y + j, live, out);
    return vd_fma(x, out, sum);
}

static double stiffness(int rows, int columns, double factor, const double *down, const double *right, const double *x,
                        double *y)
{
    vd sum = vd_set(0.0);
    for (int i = 0; i < rows; i++) {
        size_t m = (size_t)columns, at = (size_t)i * m;
        stiff_row s = {.above = i > 0 ? x + at - m : x + at,
                       .row = x + at,
                       .below = i + 1 < rows ? x + at + m : x + at,
                       .down_above = i > 0 ? down + at - m : down + at,
                       .down = down + at,
                       .right = right + at,
                       .factor = factor,
                       .n = columns};
#define BODY(j, live) sum = stiff_block(&s, j, live, y + at, sum)
        BLOCKS(columns, BODY);
#undef BODY
    }
    return vd_fold(sum);
}

static double descend(size_t n, double a, const double *p, const double *q, double *v, double *r)
{
    vd sum = vd_set(0.0), step = vd_set(a);
    for (size_t e = 0; e < n; e += LANES) {
        int live = n - e < LANES ? (int)(n - e) : LANES;
        vd left = vd_fnma(step, vd_load_n(q + e, live), vd_load_n(r + e, live));
        vd_store_n(v + e, live, vd_fma(step, vd_load_n(p + e, live), vd_load_n(v + e, live)));
        vd_store_n(r + e, live, left);
        sum = vd_fma(left, left, sum);
    }
    return vd_fold(sum);
}

/* ------------------------------------------------------------------------------------------------ similarity */

static void window_row(int n, int ld, const double *x, const double *y, const double *old_x, const double *old_y,
                       double *sums)
{
    double *restrict sx = sums, *restrict sy = sums + ld, *restrict sxx = sums + 2 * ld, *restrict syy = sums + 3 * ld,
                     *restrict sxy = sums + 4 * ld;
    for (int j = 0; j < n; j++) sx[j] += x[j], sy[j] += y[j];
    for (int j = 0; j < n; j++) sxx[j] += x[j] * x[j], syy[j] += y[j] * y[j], sxy[j] += x[j] * y[j];
    if (!old_x) return;
    for (int j = 0; j < n; j++) sx[j] -= old_x[j], sy[j] -= old_y[j];
    for (int j = 0; j < n; j++)
        sxx[j] -= old_x[j] * old_x[j], syy[j] -= old_y[j] * old_y[j], sxy[j] -= old_x[j] * old_y[j];
}

/* Seven neighbouring column sums, then the mean. */
VEC vd window_mean(const double *s, int live)
{
    vd sum = vd_load_n(s, live);
    for (int k = 1; k < SSIM_WINDOW; k++) sum = vd_add(sum, vd_load_n(s + k, live));
    return vd_mul(sum, vd_set(1.0 / (SSIM_WINDOW * SSIM_WINDOW)));
}

VEC vd similarity_block(const double *sums, int ld, double c1, double c2, int live)
{
    const vd unbiased = vd_set(49.0 / 48.0), two = vd_set(2.0), C1 = vd_set(c1), C2 = vd_set(c2);
    vd x = window_mean(sums, live), y = window_mean(sums + ld, live);
    vd xx = vd_mul(x, x), yy = vd_mul(y, y), xy = vd_mul(x, y);
    vd vx = vd_mul(unbiased, vd_sub(window_mean(sums + 2 * ld, live), xx));
    vd vy = vd_mul(unbiased, vd_sub(window_mean(sums + 3 * ld, live), yy));
    vd cov = vd_mul(unbiased, vd_sub(window_mean(sums + 4 * ld, live), xy));
    vd over = vd_mul(vd_add(vd_mul(two, xy), C1), vd_add(vd_mul(two, cov), C2));
    return vd_div(over, vd_mul(vd_add(vd_add(xx, yy), C1), vd_add(vd_add(vx, vy), C2)));
}

static double similarity(int n, int ld, const double *sums, double c1, double c2)
{
    vd total = vd_set(0.0);
    int j = 0;
    for (; j + LANES <= n; j += LANES) total = vd_add(total, similarity_block(sums + j, ld, c1, c2, LANES));
    double sum = vd_fold(total);
    if (j < n) { /* the lanes beyond the row hold (C1 C2) / (C1 C2) and are left out */
        double last[LANES];
        vd_store(last, similarity_block(sums + j, ld, c1, c2, n - j));
        for (int l = 0; l < n - j; l++) sum += last[l];
    }
    return sum;
}

const imaging_code AT_LEVEL(sosmc_i_imaging) = {.tv = tv,
                                                .range = range,
                                                .closed_form = closed_form,
                                                .moved = moved,
                                                .dual_step = dual_step,
                                                .dual_gap = dual_gap,
                                                .dot = dot,
                                                .residual = residual,
                                                .stiffness = stiffness,
                                                .descend = descend,
                                                .slide = slide,
                                                .add = add,
                                                .multiply = multiply,
                                                .similarity = similarity,
                                                .window_row = window_row};
