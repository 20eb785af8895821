/* likeness.c: principal components of training pictures, and the anomaly score made of them (likeness.h).
 *
 * The eigenvectors come from subspace iteration with Rayleigh and Ritz's step: a basis of a few vectors more than are
 * wanted is multiplied by a Chebyshev polynomial of the covariance, which is small on the unwanted end of the spectrum,
 * made orthonormal, and turned so that the covariance is diagonal on it. Matrices are stored row by row, and a basis
 * has one row per pixel, so that all loops run along rows.
 *
 * Invariant: nothing is random but the start, which has a name and so always the same numbers, and sums have a fixed
 * order: the same pictures give the same model. */
#include "likeness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "files/files.h"

enum {
    SPARE = 16, /* vectors of the basis beside the wanted ones: they decide how fast the last of those converges */
    ROUNDS =
        60, /* at most; an eigenvalue so close to its neighbours that this is not enough does not need telling apart */
    DEGREE = 8, /* of the polynomial, at most */
    LANES = 8
};

struct likeness {
    int pixels, components, padded; /* padded: length of a row of `vector` */
    double *mean;                   /* pixels */
    double *vector;                 /* pixels rows: entry k of row j is pixel j of v_k */
    double *inverse;                /* 1 / l_k */
    double residual;                /* median over the training pictures */
    double limit;
};

likeness_recipe likeness_digits(void)
{
    return (likeness_recipe){.classes = 10, .per_class = 500, .components = 64, .held_out = 2000};
}

int likeness_pixels(const likeness *model) { return model->pixels; }
double likeness_limit(const likeness *model) { return model->limit; }

void likeness_free(likeness *model)
{
    if (!model) return;
    free(model->mean);
    free(model->vector);
    free(model->inverse);
    free(model);
}

static int padded(int n) { return (n + LANES - 1) / LANES * LANES; }

static double *zeros(size_t rows, size_t columns)
{
    double *a = aligned_alloc(64, (rows * columns + LANES) / LANES * 64);
    if (a) memset(a, 0, rows * columns * sizeof *a);
    return a;
}

/* ------------------------------------------------------------------------------------------------ linear algebra */

/* y = factor * (a x) + shift * x + other * z for a basis x of `width` columns; a is symmetric, dim by dim. z NULL: none. */
typedef struct {
    int dim, width;
    const double *a;
} operand;

static void apply(const operand *o, double factor, double shift, const double *x, double other, const double *z,
                  double *y)
{
    size_t dim = (size_t)o->dim, width = (size_t)o->width;
    for (size_t i = 0; i < dim; i++) {
        double *restrict row = y + i * width;
        const double *restrict here = x + i * width, *a = o->a + i * dim;
        double keep = z ? other : 0;
        const double *restrict old = z ? z + i * width : here;
        for (size_t k = 0; k < width; k++) row[k] = shift * here[k] + keep * old[k];
        for (size_t j = 0; j < dim; j++) {
            const double *restrict from = x + j * width;
            double scale = factor * a[j];
            if (scale == 0) continue; /* pixels that are the same in all pictures */
            for (size_t k = 0; k < width; k++) row[k] += scale * from[k];
        }
    }
}

/* Gram and Schmidt, each column taken out of all later ones as soon as it is known. Columns that vanish stay zero. */
static void orthonormalise_once(int dim, size_t width, double *q, double *restrict product)
{
    for (size_t k = 0; k < width; k++) {
        double norm2 = 0;
        for (int j = 0; j < dim; j++) norm2 += q[(size_t)j * width + k] * q[(size_t)j * width + k];
        double scale = norm2 > 0 ? 1 / sqrt(norm2) : 0;
        memset(product, 0, width * sizeof *product);
        for (int j = 0; j < dim; j++) {
            double *restrict row = q + (size_t)j * width, here = row[k] *= scale;
            for (size_t b = k + 1; b < width; b++) product[b] += here * row[b];
        }
        for (int j = 0; j < dim; j++) {
            double *restrict row = q + (size_t)j * width, here = row[k];
            for (size_t b = k + 1; b < width; b++) row[b] -= here * product[b];
        }
    }
}

/* Twice is enough for columns that were far from orthogonal. */
static void orthonormalise(int dim, size_t width, double *q, double *product)
{
    orthonormalise_once(dim, width, q, product);
    orthonormalise_once(dim, width, q, product);
}

/* One rotation of Jacobi's: h[p][q] becomes 0; the rows of v turn along. */
static void rotate(size_t n, double *h, double *v, size_t p, size_t q)
{
    double off = h[p * n + q];
    if (off == 0) return;
    double ratio = (h[q * n + q] - h[p * n + p]) / (2 * off);
    double t = (ratio < 0 ? -1 : 1) / (fabs(ratio) + sqrt(1 + ratio * ratio)), c = 1 / sqrt(1 + t * t), s = t * c;
    for (size_t k = 0; k < n; k++) {
        double a = h[k * n + p], b = h[k * n + q];
        h[k * n + p] = c * a - s * b, h[k * n + q] = s * a + c * b;
    }
    for (size_t k = 0; k < n; k++) {
        double a = h[p * n + k], b = h[q * n + k], x = v[p * n + k], y = v[q * n + k];
        h[p * n + k] = c * a - s * b, h[q * n + k] = s * a + c * b;
        v[p * n + k] = c * x - s * y, v[q * n + k] = s * x + c * y;
    }
}

static double off_diagonal(size_t n, const double *h, double *diagonal)
{
    double off = 0;
    *diagonal = 0;
    for (size_t p = 0; p < n; p++) {
        *diagonal += h[p * n + p] * h[p * n + p];
        for (size_t q = p + 1; q < n; q++) off += h[p * n + q] * h[p * n + q];
    }
    return off;
}

static void swap_rows(size_t n, double *v, size_t p, size_t q)
{
    for (size_t k = 0; k < n; k++) {
        double first = v[p * n + k];
        v[p * n + k] = v[q * n + k], v[q * n + k] = first;
    }
}

/* Eigenvalues of the symmetric h, the largest first, and eigenvectors as rows of v. h is used up. */
static void eigen(size_t n, double *h, double *value, double *v)
{
    double diagonal;
    memset(v, 0, n * n * sizeof *v);
    for (size_t k = 0; k < n; k++) v[k * n + k] = 1;
    for (int sweep = 0; sweep < 40 && off_diagonal(n, h, &diagonal) > 1e-30 * diagonal; sweep++)
        for (size_t p = 0; p < n; p++)
            for (size_t q = p + 1; q < n; q++) rotate(n, h, v, p, q);
    for (size_t k = 0; k < n; k++) value[k] = h[k * n + k];
    for (size_t k = 0; k < n; k++) {
        size_t most = k;
        for (size_t l = k + 1; l < n; l++)
            if (value[l] > value[most]) most = l;
        double first = value[k];
        value[k] = value[most], value[most] = first;
        if (most != k) swap_rows(n, v, k, most);
    }
}

/* What the iteration works with: three bases of dim rows, and square matrices of the basis. */
typedef struct {
    operand o;
    int count;                /* columns there are; those up to the width stay zero */
    double *q, *y, *z;        /* dim x width */
    double *h, *turn;         /* width x width */
    double *value, *previous; /* width */
} subspace;

/* Rayleigh and Ritz: turns the orthonormal q so that a is diagonal on it, the largest value first. */
static void ritz(subspace *s)
{
    size_t dim = (size_t)s->o.dim, width = (size_t)s->o.width;
    apply(&s->o, 1, 0, s->q, 0, NULL, s->y);
    memset(s->h, 0, width * width * sizeof *s->h);
    for (size_t j = 0; j < dim; j++)
        for (size_t k = 0; k < width; k++) {
            double *restrict h = s->h + k * width, here = s->q[j * width + k];
            const double *restrict y = s->y + j * width;
            for (size_t l = 0; l < width; l++) h[l] += here * y[l];
        }
    for (size_t k = 0; k < width; k++)
        for (size_t l = k + 1; l < width; l++)
            s->h[k * width + l] = s->h[l * width + k] = (s->h[k * width + l] + s->h[l * width + k]) / 2;
    eigen(width, s->h, s->value, s->turn);
    for (size_t k = 0; k < width; k++) /* by columns, so that the loop below runs along rows */
        for (size_t l = 0; l < width; l++) s->h[l * width + k] = s->turn[k * width + l];
    memset(s->y, 0, dim * width * sizeof *s->y);
    for (size_t j = 0; j < dim; j++)
        for (size_t l = 0; l < width; l++) {
            double *restrict y = s->y + j * width, here = s->q[j * width + l];
            const double *restrict turn = s->h + l * width;
            for (size_t k = 0; k < width; k++) y[k] += here * turn[k];
        }
    double *q = s->q;
    s->q = s->y, s->y = q;
}

/* q = T(2 a / bound - 1) q with a Chebyshev polynomial T: at most 1 on [0, bound], growing fast above. The wider the
 * spectrum, the lower the degree, so that the largest eigenvector does not drown the others' digits. */
static void filter(subspace *s)
{
    double most = s->value[0], least = s->value[s->count - 1], bound = least > 1e-9 * most ? least : 1e-9 * most;
    int degree = (int)(log(1e11) / log(4 * most / bound));
    degree = degree < 1 ? 1 : degree > DEGREE ? DEGREE : degree;
    apply(&s->o, 2 / bound, -1, s->q, 0, NULL, s->y);
    for (int k = 1; k < degree; k++) {
        apply(&s->o, 4 / bound, -2, s->y, -1, s->q, s->z);
        double *oldest = s->q;
        s->q = s->y, s->y = s->z, s->z = oldest;
    }
    double *q = s->q;
    s->q = s->y, s->y = q;
}

static int settled(const subspace *s, int components)
{
    for (int k = 0; k < components; k++)
        if (fabs(s->value[k] - s->previous[k]) > 1e-10 * fabs(s->value[k])) return 0;
    return 1;
}

/* The basis starts as normals. When the eigenvalues change by 1e-10 from one round to the next, the vectors are right to
 * better than 1e-5, and a score sees the square of that. */
static void iterate(subspace *s, int components)
{
    sosmc_batch b = {.dim = s->o.dim, .n = s->o.width, .ld = s->o.width};
    sosmc_normals((sosmc_rng){.seed = 1, .stream = SOSMC_STREAM_USER}, &b, s->q);
    for (int j = 0; j < s->o.dim; j++)
        for (int k = s->count; k < s->o.width; k++) s->q[(size_t)j * (size_t)s->o.width + (size_t)k] = 0;
    for (int round = 0; round < ROUNDS; round++) {
        if (round) filter(s);
        orthonormalise(s->o.dim, (size_t)s->o.width, s->q, s->h);
        memcpy(s->previous, s->value, (size_t)s->o.width * sizeof *s->value);
        ritz(s);
        if (s->value[0] <= 0 || (round && settled(s, components))) break;
    }
}

static void free_subspace(subspace *s)
{
    free(s->q);
    free(s->y);
    free(s->z);
    free(s->h);
    free(s->turn);
    free(s->value);
    free(s->previous);
}

/* `components` leading eigenvectors of the dim x dim covariance into the model. */
static int decompose(likeness *m, const double *covariance, char *error, size_t room)
{
    int dim = m->pixels, count = m->components + SPARE < dim ? m->components + SPARE : dim, width = padded(count);
    int failed = -1;
    size_t d = (size_t)dim, w = (size_t)width;
    subspace s = {.o = {.dim = dim, .width = width, .a = covariance},
                  .count = count,
                  .q = zeros(d, w),
                  .y = zeros(d, w),
                  .z = zeros(d, w),
                  .h = zeros(w, w),
                  .turn = zeros(w, w),
                  .value = zeros(1, w),
                  .previous = zeros(1, w)};
    if (!s.q || !s.y || !s.z || !s.h || !s.turn || !s.value || !s.previous) {
        files_say(error, room, "out of memory");
        goto done;
    }
    iterate(&s, m->components);
    double last = s.value[m->components - 1];
    if (!(last > 1e-9 * s.value[0])) {
        files_say(error, room, "the training pictures do not vary in %d directions, as many as there are components",
                  m->components);
        goto done;
    }
    for (int j = 0; j < dim; j++)
        memcpy(m->vector + (size_t)j * (size_t)m->padded, s.q + (size_t)j * w, (size_t)m->components * sizeof *s.q);
    for (int k = 0; k < m->components; k++) m->inverse[k] = 1 / s.value[k];
    failed = 0;
done:
    free_subspace(&s);
    return failed;
}

/* ------------------------------------------------------------------------------------------------ the fit */

static double held(double x) { return x < -1 ? -1 : x > 1 ? 1 : x; }

/* Both parts of one picture's score: the mean standardised squared coefficient, returned, and the residual mean square,
 * which by Pythagoras needs no picture put together again. */
static double parts(const likeness *m, const double *x, double *coefficient, double *residual)
{
    double square = 0, inside = 0, standardised = 0;
    size_t width = (size_t)m->padded;
    memset(coefficient, 0, width * sizeof *coefficient);
    for (int j = 0; j < m->pixels; j++) {
        const double *restrict vector = m->vector + (size_t)j * width;
        double *restrict sum = coefficient, off = held(x[j]) - m->mean[j];
        square += off * off;
        for (size_t k = 0; k < width; k++) sum[k] += off * vector[k];
    }
    for (int k = 0; k < m->components; k++) {
        inside += coefficient[k] * coefficient[k];
        standardised += coefficient[k] * coefficient[k] * m->inverse[k];
    }
    *residual = (inside > square ? 0 : square - inside) / m->pixels;
    return standardised / m->components;
}

enum { MOST_COMPONENTS = 1024 };

void likeness_score(const likeness *model, int64_t n, const double *x, double *score)
{
    double coefficient[MOST_COMPONENTS], residual;
    for (int64_t i = 0; i < n; i++) {
        double inside = parts(model, x + i * model->pixels, coefficient, &residual);
        score[i] = inside + residual / model->residual;
    }
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Between the order statistics, straight: share 0 is the smallest value, 1 the largest. Sorts. */
static double quantile(double *value, int n, double share)
{
    qsort(value, (size_t)n, sizeof *value, ascending);
    double place = share * (n - 1);
    int below = (int)place < n - 1 ? (int)place : n - 1, above = below + 1 < n ? below + 1 : below;
    return value[below] + (place - below) * (value[above] - value[below]);
}

/* Which pictures are fitted and which are held out, in the order of the set; where[i] is a picture's number. */
typedef struct {
    int64_t *fitted, *held_out;
    int fits, holds;
} choice;

static int choose(const image_set *set, const unsigned char *label, const likeness_recipe *r, choice *c, char *error,
                  size_t room)
{
    int count[256] = {0};
    c->fits = c->holds = 0;
    for (int64_t i = 0; i < set->count; i++) {
        if (label[i] >= r->classes) continue;
        if (count[label[i]] < r->per_class)
            count[label[i]]++, c->fitted[c->fits++] = i;
        else if (c->holds < r->held_out)
            c->held_out[c->holds++] = i;
    }
    for (int k = 0; k < r->classes; k++)
        if (count[k] < r->per_class)
            return files_fail(error, room, "there are %d training pictures with label %d; expected at least %d",
                              count[k], k, r->per_class);
    if (c->holds < r->held_out)
        return files_fail(error, room, "%d training pictures are left for the limit; expected at least %d", c->holds,
                          r->held_out);
    return 0;
}

/* Adds to `sum` and, for pixel numbers j <= k, to `product` what one picture has above black. Most of a digit is black:
 * going through the others alone is an order of magnitude faster. */
static void add_moments(int pixels, const double *x, int *there, double *above, double *sum, double *product)
{
    int count = 0;
    for (int j = 0; j < pixels; j++)
        if (x[j] > -1) there[count] = j, above[count++] = x[j] + 1;
    for (int a = 0; a < count; a++) {
        double *row = product + (size_t)there[a] * (size_t)pixels, here = above[a];
        sum[there[a]] += here;
        for (int b = a; b < count; b++) row[there[b]] += here * above[b];
    }
}

/* Mean and covariance of the fitted pictures; scratch holds two pictures. */
static void moments(likeness *m, const image_set *set, const choice *c, int *there, double *scratch, double *covariance)
{
    size_t dim = (size_t)m->pixels;
    for (int i = 0; i < c->fits; i++) {
        images_copy(set, c->fitted[i], scratch);
        add_moments(m->pixels, scratch, there, scratch + dim, m->mean, covariance);
    }
    for (size_t j = 0; j < dim; j++) m->mean[j] /= c->fits;
    for (size_t j = 0; j < dim; j++)
        for (size_t k = j; k < dim; k++)
            covariance[j * dim + k] = covariance[k * dim + j] = covariance[j * dim + k] / c->fits -
                                                                m->mean[j] * m->mean[k];
    for (size_t j = 0; j < dim; j++) m->mean[j] -= 1;
}

/* The two numbers that put a score on its scale: the median residual, then the limit. */
static int calibrate(likeness *m, const image_set *set, const choice *c, double *picture, double *value, char *error,
                     size_t room)
{
    double coefficient[MOST_COMPONENTS], largest = 0;
    for (int i = 0; i < c->fits; i++) {
        images_copy(set, c->fitted[i], picture);
        (void)parts(m, picture, coefficient, &value[i]);
    }
    for (int k = 0; k < m->components; k++) largest = fmax(largest, 1 / m->inverse[k]);
    m->residual = quantile(value, c->fits, 0.5);
    if (!(m->residual * m->pixels > 1e-12 * largest))
        return files_fail(error, room, "%d components describe the training pictures without a remainder; take fewer",
                          m->components);
    for (int i = 0; i < c->holds; i++) {
        images_copy(set, c->held_out[i], picture);
        likeness_score(m, 1, picture, &value[i]);
    }
    m->limit = quantile(value, c->holds, 0.99);
    return 0;
}

static likeness *room_for(int pixels, int components)
{
    likeness *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    m->pixels = pixels;
    m->components = components;
    m->padded = padded(components);
    m->mean = zeros(1, (size_t)pixels);
    m->vector = zeros((size_t)pixels, (size_t)m->padded);
    m->inverse = zeros(1, (size_t)m->padded);
    if (m->mean && m->vector && m->inverse) return m;
    likeness_free(m);
    return NULL;
}

static int check(const image_set *set, const likeness_recipe *r, char *error, size_t room)
{
    int64_t pixels = (int64_t)set->channels * set->rows * set->columns;
    if (pixels > 16384) /* the covariance is pixels x pixels */
        return files_fail(error, room, "pictures of %lld pixels are too large to judge; expected at most 16384",
                          (long long)pixels);
    if (r->components < 1 || r->components >= pixels || r->components > MOST_COMPONENTS)
        return files_fail(error, room, "%d components of pictures with %lld pixels; expected 1 to %lld", r->components,
                          (long long)pixels, (long long)(pixels - 1 < MOST_COMPONENTS ? pixels - 1 : MOST_COMPONENTS));
    if (r->classes < 1 || r->classes > 256 || r->per_class < 1 || r->held_out < 1)
        return files_fail(error, room,
                          "%d pictures of %d classes and %d held out; expected at least 1 of each, and at "
                          "most 256 classes",
                          r->per_class, r->classes, r->held_out);
    return 0;
}

likeness *likeness_fit(const image_set *set, const unsigned char *label, const likeness_recipe *recipe, char *error,
                       size_t room)
{
    if (check(set, recipe, error, room)) return NULL;
    size_t dim = (size_t)set->channels * (size_t)set->rows * (size_t)set->columns, count = (size_t)set->count + 1;
    likeness *m = room_for((int)dim, recipe->components);
    choice c = {.fitted = malloc(count * sizeof *c.fitted), .held_out = malloc(count * sizeof *c.held_out)};
    double *covariance = zeros(dim, dim), *scratch = zeros(2, dim), *value = malloc(count * sizeof *value);
    int *there = malloc(dim * sizeof *there), failed = -1;
    if (!m || !c.fitted || !c.held_out || !covariance || !scratch || !value || !there)
        files_say(error, room, "out of memory");
    else if (!choose(set, label, recipe, &c, error, room)) {
        moments(m, set, &c, there, scratch, covariance);
        failed = decompose(m, covariance, error, room) || calibrate(m, set, &c, scratch, value, error, room);
    }
    free(there);
    free(value);
    free(scratch);
    free(covariance);
    free(c.held_out);
    free(c.fitted);
    if (!failed) return m;
    likeness_free(m);
    return NULL;
}
