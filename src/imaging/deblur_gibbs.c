/* deblur_gibbs.c: moves of the deblurring posterior that have no step size (maths.md GIBBS).
 *
 * exp(-s |a|) for the differences a of a pixel is a mixture of centred Gaussians, so with one variance per pixel (isotropic)
 * or per edge (anisotropic) beside the picture,
 *
 *     variances | x    independent, inverse Gaussian reciprocals: drawn exactly;
 *     x | variances    Gaussian with precision Q = B'B / sigma^2 + D' diag(1/variances) D.
 *
 * The Gaussian is drawn by solving Q v = eta, eta = Q x + noise of covariance Q, with conjugate gradients that stop early,
 * and a Metropolis test with the residual corrects for the early stop (Gilavert, Moussaoui, Idier 2015): x' = v - x is
 * accepted with probability min(1, exp(-(eta - Q v) . (x - x'))).
 *
 * Invariant: v is a function of eta and the variances alone, never of x, without which the test would not be exact. */
#include <math.h>
#include <sosmc/imaging.h>
#include <string.h>

#include "imaging.h"
#include "base/table.h"

/* Vectors of scratch; the first three hold normals, later the residual, the direction and Q times the direction. */
enum { NORMAL, ANGLE, LEVEL, DOWN, RIGHT, ETA, OLD, NEW, INVERSE, SCALED, SCRATCH };
enum { RESIDUAL = NORMAL, DIRECTION = ANGLE, PRODUCT = LEVEL };
/* The error is known this many iterations later; no solve is longer than that. */
enum { DELAY = 8, MOST_ITERATIONS = 5000 };
/* Names of normals: the noise of the data and of the edges, and two sets of three for variances. */
enum { OF_DATA, OF_DOWN, OF_RIGHT, OF_VARIANCES, OF_MORE_VARIANCES = OF_VARIANCES + 3 };

/* The precision of one channel. */
typedef struct {
    const sosmc_deblur *d;
    const imaging_code *code;
    size_t pixels;
    const double *down, *right;
    const double *inverse; /* diagonal scaling; NULL: none, because every pixel was seen */
    double *scaled;        /* room for a residual times it */
    double *scratch;       /* of the blur */
} precision;

/* y = Q x; returns x . Q x. */
static double times(const precision *q, const double *x, double *y)
{
    const sosmc_blur *b = &q->d->blur;
    sosmc_blur_apply(b, x, y, q->scratch);
    sosmc_blur_adjoint(b, y, y, q->scratch);
    return q->code->stiffness(b->rows, b->columns, 1 / (q->d->sigma * q->d->sigma), q->down, q->right, x, y);
}

/* The picture as it is moved: without gaps, whatever the layout of the tile is. */
typedef struct {
    const sosmc_kernel *k;
    const sosmc_move *m;
    const sosmc_deblur *d;
    const double *x;
    size_t pixels, all;
} picture;

/* Numbers of a step beyond those of its first name: the engine counts repetitions of a move up to 8. */
static void draw(const picture *p, unsigned which, double *z)
{
    sosmc_rng rng = p->m->rng;
    sosmc_batch b = p->m->b;
    b.ld = 1;
    rng.retry += 16 * (which + 1);
    sosmc_normals(rng, &b, z);
}

/* ---------------------------------------------------------------------------- variances */

/* 1/v, v being the variance behind differences of length r: the reciprocal has the inverse Gaussian law of mean s/r and shape
 * s^2. Of the two roots (Michael, Schucany, Haas 1976), whose product is (r/s)^2, `u` chooses. */
static double one_precision(double r, double s, double z, double u)
{
    double b = 0.5 * z * z / s, larger = r + b + sqrt(b * (2 * r + b)); /* s times the larger root */
    return u * (larger + r) <= larger ? s / larger : s * larger / (r * r);
}

/* The differences of a pixel, zero where they would leave the image. */
static void differences(const sosmc_blur *b, const double *x, size_t e, double *down, double *right)
{
    size_t n = (size_t)b->columns;
    *down = e / n + 1 < (size_t)b->rows ? x[e + n] - x[e] : 0;
    *right = e % n + 1 < n ? x[e + 1] - x[e] : 0;
}

/* One set of precisions for all pixels: kind 0 of whole pixels, 1 of edges down, 2 of edges to the right. */
static void draw_precisions(const picture *p, unsigned names, int kind, double *out)
{
    double *z = sosmc_move_vector(p->m, NORMAL), *u = sosmc_move_vector(p->m, ANGLE);
    double *w = sosmc_move_vector(p->m, LEVEL), s = sosmc_i_exp1(p->m->b.simd, p->m->theta[0]), down, right;
    draw(p, names, z);
    draw(p, names + 1, u);
    draw(p, names + 2, w);
    for (size_t e = 0; e < p->all; e++) u[e] = -0.5 * (u[e] * u[e] + w[e] * w[e]);
    sosmc_exp(p->m->b.simd, (int)p->all, u, u); /* uniform */
    for (size_t e = 0; e < p->all; e++) {
        differences(&p->d->blur, p->x + e / p->pixels * p->pixels, e % p->pixels, &down, &right);
        double r = kind == 0 ? sqrt(down * down + right * right) : fabs(kind == 1 ? down : right);
        out[e] = one_precision(r, s, z[e], u[e]);
    }
}

/* ---------------------------------------------------------------------------- eta */

/* eta += D' f of one channel; edges that leave the image carry nothing. */
static void gather(const sosmc_blur *b, double *down, double *right, double *eta)
{
    size_t n = (size_t)b->columns, rows = (size_t)b->rows;
    for (size_t j = 0; j < n; j++) down[(rows - 1) * n + j] = 0;
    for (size_t i = 0; i < rows; i++) right[i * n + n - 1] = 0;
    for (size_t e = 0; e < rows * n; e++) eta[e] -= down[e] + right[e];
    for (size_t e = n; e < rows * n; e++) eta[e] += down[e - n];
    for (size_t e = 1; e < rows * n; e++) eta[e] += right[e - 1];
}

/* Q (x + mean) + noise of covariance Q, all channels. */
static void draw_eta(const picture *p, const double *down, const double *right, double *scratch, double *eta)
{
    const sosmc_deblur *d = p->d;
    const double *mask = d->blur.mask;
    double *z = sosmc_move_vector(p->m, NORMAL), *fd = sosmc_move_vector(p->m, ANGLE);
    double *fr = sosmc_move_vector(p->m, LEVEL), scale = 1 / (d->sigma * d->sigma), a, b;
    draw(p, OF_DATA, z);
    draw(p, OF_DOWN, fd);
    draw(p, OF_RIGHT, fr);
    for (size_t from = 0; from < p->all; from += p->pixels) {
        double *out = eta + from;
        sosmc_blur_apply(&d->blur, p->x + from, out, scratch);
        for (size_t e = 0; e < p->pixels; e++) {
            double seen = mask ? mask[e] * d->y[from + e] : d->y[from + e];
            out[e] = (out[e] + seen) * scale + z[from + e] / d->sigma;
        }
        sosmc_blur_adjoint(&d->blur, out, out, scratch);
        for (size_t e = from; e < from + p->pixels; e++) {
            differences(&d->blur, p->x + from, e - from, &a, &b);
            fd[e] = down[e] * a + sqrt(down[e]) * fd[e];
            fr[e] = right[e] * b + sqrt(right[e]) * fr[e];
        }
        gather(&d->blur, fd + from, fr + from, out);
    }
}

/* ---------------------------------------------------------------------------- the solve */

/* What is left: r = eta - Q v. */
static void residual_of(const precision *q, const double *eta, const double *v, double *r)
{
    (void)times(q, v, r);
    for (size_t e = 0; e < q->pixels; e++) r[e] = eta[e] - r[e];
}

/* The residual as the next direction takes it. */
static const double *scale_residual(const precision *q, const double *r)
{
    if (!q->inverse) return r;
    for (size_t e = 0; e < q->pixels; e++) q->scaled[e] = q->inverse[e] * r[e];
    return q->scaled;
}

/* Diagonal scaling, for what blurs pass nearly unchanged: B'B counts as the share of a pixel's light that was seen. Pixels of which
 * little or nothing was seen would otherwise slow the solve down. */
static void invert_diagonal(const precision *q, double *out)
{
    const sosmc_blur *b = &q->d->blur;
    size_t n = (size_t)b->columns;
    sosmc_blur_adjoint(b, b->mask, out, q->scratch);
    for (size_t e = 0; e < q->pixels; e++) {
        double sum = out[e] / (q->d->sigma * q->d->sigma);
        if (e / n + 1 < (size_t)b->rows) sum += q->down[e];
        if (e % n + 1 < n) sum += q->right[e];
        if (e >= n) sum += q->down[e - n];
        if (e % n > 0) sum += q->right[e - 1];
        out[e] = 1 / sum;
    }
}

/* Conjugate gradients from v. The square of the error in the norm of Q falls by a |r|^2 with every step; what the last DELAY
 * steps gained is, but for what is still to come, the square of the error before them. */
static void solve(const precision *q, const double *eta, double tolerance, double *v, double *r, double *p,
                  double *product)
{
    double gain[DELAY] = {0}, square;
    residual_of(q, eta, v, r);
    memcpy(p, scale_residual(q, r), q->pixels * sizeof *p);
    square = q->code->dot(q->pixels, r, p);
    for (int i = 0; i < MOST_ITERATIONS && square > 0; i++) {
        double step = square / times(q, p, product), before = square;
        /* The numbers are not finite, and the energy will not be finite either, which the engine notices. */
        if (!(step > 0)) return;
        square = q->code->descend(q->pixels, step, p, product, v, r);
        const double *next = scale_residual(q, r);
        if (q->inverse) square = q->code->dot(q->pixels, r, next);
        gain[i % DELAY] = step * before;
        double sum = 0;
        for (int j = 0; j < DELAY; j++) sum += gain[j];
        if (i + 1 >= DELAY && sum <= tolerance) return;
        double keep = square / before;
        for (size_t e = 0; e < q->pixels; e++) p[e] = next[e] + keep * p[e];
    }
}

/* x_new of one channel; returns the logarithm of its acceptance probability. */
static double propose(const precision *q, const double *eta, double tolerance, const double *x, const double *y,
                      double *r, double *p, double *product, double *x_new)
{
    for (size_t e = 0; e < q->pixels; e++) x_new[e] = 2 * y[e]; /* any start that does not depend on x */
    solve(q, eta, tolerance, x_new, r, p, product);
    residual_of(q, eta, x_new, r);
    for (size_t e = 0; e < q->pixels; e++) {
        x_new[e] -= x[e];
        p[e] = x_new[e] - x[e];
    }
    return q->code->dot(q->pixels, r, p);
}

/* The picture of a tile that has only this one, without gaps. */
static const double *without_gaps(const sosmc_move *m, double *room)
{
    if (m->b.ld == 1) return m->x;
    for (size_t e = 0; e < (size_t)m->b.dim; e++) room[e] = m->x[e * (size_t)m->b.ld];
    return room;
}

static int gibbs_step(const sosmc_kernel *k, sosmc_move *m)
{
    const sosmc_deblur *d = k->self;
    double *down = sosmc_move_vector(m, DOWN), *right = sosmc_move_vector(m, RIGHT), *eta = sosmc_move_vector(m, ETA);
    double *scratch = m->b.work, *log_ratio = sosmc_move_row(k, m, 0), *to = sosmc_move_vector(m, NEW);
    if (m->b.n != 1 || m->model->self != d) return 1; /* a tile of this model is one picture */
    picture p = {.k = k,
                 .m = m,
                 .d = d,
                 .x = without_gaps(m, sosmc_move_vector(m, OLD)),
                 .pixels = (size_t)d->blur.rows * (size_t)d->blur.columns,
                 .all = (size_t)m->b.dim};
    if (d->tv == SOSMC_TV_ISOTROPIC) {
        draw_precisions(&p, OF_VARIANCES, 0, down);
        right = down;
    } else {
        draw_precisions(&p, OF_VARIANCES, 1, down);
        draw_precisions(&p, OF_MORE_VARIANCES, 2, right);
    }
    draw_eta(&p, down, right, scratch, eta); /* work has room for the blur's scratch */
    log_ratio[0] = 0;
    for (size_t from = 0; from < p.all; from += p.pixels) {
        precision q = {.d = d,
                       .code = sosmc_i_imaging(m->b.simd),
                       .pixels = p.pixels,
                       .down = down + from,
                       .right = right + from,
                       .scaled = sosmc_move_vector(m, SCALED),
                       .scratch = scratch};
        if (d->blur.mask) {
            invert_diagonal(&q, sosmc_move_vector(m, INVERSE));
            q.inverse = sosmc_move_vector(m, INVERSE);
        }
        log_ratio[0] += propose(&q, eta + from, m->h, p.x + from, d->y + from, sosmc_move_vector(m, RESIDUAL),
                                sosmc_move_vector(m, DIRECTION), sosmc_move_vector(m, PRODUCT), to + from);
    }
    for (size_t e = 0; e < p.all; e++) m->x_new[e * (size_t)m->b.ld] = to[e];
    int rc = sosmc_evaluate(m, SOSMC_AT_CURRENT, m->x_new, m->U_new, m->gx_new);
    if (rc) return rc;
    sosmc_metropolis(k, m, log_ratio);
    return 0;
}

sosmc_kernel sosmc_deblur_gibbs(const sosmc_deblur *d, double tolerance)
{
    return (sosmc_kernel){.name = "gibbs",
                          .step = d->envelope > 0 ? NULL : gibbs_step, /* which sosmc_create refuses */
                          .h = tolerance,
                          .self = d,
                          .invariant = 1,
                          .metropolis = 1,
                          .scratch = SCRATCH,
                          .forward_at = SOSMC_AT_CURRENT,
                          .backward_at = SOSMC_AT_CURRENT};
}
