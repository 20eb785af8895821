/* deblur.c: a blurred, noisy picture and a total-variation prior of unknown strength, for sosmc_mmle (maths.md DEBLUR):
 *
 *     U_theta(x) = |y - B x|^2 / (2 sigma^2) + e^theta TV(x) - freedom * theta.
 *
 * TV has no gradient: energy returns dU/dx of the first term alone, prox that of the second, which is what sosmc_myula and
 * sosmc_mymala expect. With an envelope of width lambda the target is smooth instead: min_v e^theta TV(v) + |v - x|^2 / (2
 * lambda) takes the place of e^theta TV(x), and dU/dx is whole. Every channel is blurred and penalised by itself; they share
 * theta.
 *
 * Invariant: work holds, behind an energy call with gx, the misfit of each particle and the TV that multiplies e^theta in its
 * first numbers. Another theta at the same x (b->fresh in an energy call) then takes two multiplications, with the same bits. */
#include <math.h>
#include <sosmc/imaging.h>
#include <string.h>

#include "imaging.h"
#include "base/table.h"

/* Numbers of work in front of the images, and room that keeps the images aligned. */
enum { TV, MISFIT, HEAD = 8 };

static size_t pixels_of(const sosmc_deblur *m) { return (size_t)m->blur.rows * (size_t)m->blur.columns; }

static size_t most(size_t a, size_t b) { return a > b ? a : b; }

/* Doubles of work for one particle: its picture, a residual, a proximal map where there is an envelope, and whatever blur or
 * prox need. */
static size_t work_of(const sosmc_deblur *m)
{
    size_t pixels = pixels_of(m), images = m->envelope > 0 ? 3 : 2;
    size_t inner = most(sosmc_blur_scratch(&m->blur), sosmc_tv_prox_scratch(m->blur.rows, m->blur.columns));
    return (HEAD + images * pixels + inner + 7) / 8 * 8;
}

/* A channel of particle i as a contiguous image: where it stands, or gathered into `room`. */
static const double *channel(const sosmc_batch *b, const double *x, int i, size_t from, size_t pixels, double *room)
{
    size_t ld = (size_t)b->ld;
    if (ld == 1) return x + from;
    for (size_t j = 0; j < pixels; j++) room[j] = x[(from + j) * ld + (size_t)i];
    return room;
}

/* Where a channel of the result is to be written: in its place, or in `room`, from where `scatter` takes it. */
static double *place(const sosmc_batch *b, double *x, size_t from, double *room)
{
    return b->ld == 1 ? x + from : room;
}

static void scatter(const sosmc_batch *b, const double *image, int i, size_t from, size_t pixels, double *x)
{
    for (size_t j = 0; b->ld > 1 && j < pixels; j++) x[(from + j) * (size_t)b->ld + (size_t)i] = image[j];
}

/* The misfit of one channel, and its gradient in `residual` when asked for. */
static double misfit(const sosmc_deblur *m, const double *x, const double *y, int gradient, double *residual,
                     double *scratch)
{
    double scale = 1 / (m->sigma * m->sigma);
    sosmc_blur_apply(&m->blur, x, residual, scratch);
    double sum = sosmc_i_imaging(NULL)->residual(pixels_of(m), scale, m->blur.mask, y, residual);
    if (gradient) sosmc_blur_adjoint(&m->blur, residual, residual, scratch);
    return 0.5 * sum / scale;
}

/* The map of one channel. Returns 1 for settings that are wrong. */
static int proximal(const sosmc_deblur *m, double weight, const double *x, double *u, double *scratch)
{
    sosmc_tv_settings settings = {
        .rows = m->blur.rows, .columns = m->blur.columns, .kind = m->prox_tv, .tolerance = m->tolerance};
    if (m->published_passes > 0) {
        sosmc_tv_prox_published(m->blur.rows, m->blur.columns, m->published_passes, weight, x, u, scratch);
        return 0;
    }
    sosmc_status status = sosmc_tv_prox(&settings, weight, x, u, scratch, NULL);
    /* x is not finite, and the energy will not be finite either, which the engine notices. */
    if (status != SOSMC_OK) memcpy(u, x, pixels_of(m) * sizeof *u);
    return status == SOSMC_EINVAL;
}

/* |x - u|^2 / (2 lambda), whose gradient (x - u) / lambda is added to g unless that is NULL. */
static double envelope_term(const sosmc_deblur *m, const double *x, const double *u, double *g)
{
    double sum = 0, rate = 1 / m->envelope;
    for (size_t j = 0; j < pixels_of(m); j++) {
        double away = x[j] - u[j];
        sum += away * away;
        if (g) g[j] += rate * away;
    }
    return 0.5 * rate * sum;
}

/* The numbers of one particle in its work, and its gradient. */
static int evaluate(const sosmc_deblur *m, double strength, const sosmc_batch *b, int i, double *gx)
{
    size_t pixels = pixels_of(m);
    double *own = (double *)b->work + (size_t)i * work_of(m), *room = own + HEAD, *residual = room + pixels;
    double *map = residual + pixels, *scratch = m->envelope > 0 ? map + pixels : map, tv = 0, sum = 0;
    for (int c = 0; c < m->channels; c++) {
        size_t from = (size_t)c * pixels;
        const double *x = channel(b, b->x, i, from, pixels, room), *penalised = x;
        double *g = gx ? place(b, gx, from, residual) : residual;
        sum += misfit(m, x, m->y + from, gx != NULL, g, scratch);
        if (m->envelope > 0) {
            if (proximal(m, m->envelope * strength, x, map, scratch)) return 1;
            sum += envelope_term(m, x, map, gx ? g : NULL);
            penalised = map;
        }
        tv += sosmc_tv(m->tv, m->blur.rows, m->blur.columns, penalised);
        if (gx) scatter(b, g, i, from, pixels, gx);
    }
    own[TV] = tv;
    own[MISFIT] = sum;
    return 0;
}

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const sosmc_deblur *m = self;
    int kept = b->fresh && gx && !(m->envelope > 0); /* the envelope's gradient changes with theta */
    double strength = sosmc_i_exp1(b->simd, theta[0]);
    for (int i = 0; i < b->n; i++) {
        const double *own = (const double *)b->work + (size_t)i * work_of(m);
        if (!kept && evaluate(m, strength, b, i, gx)) return 1;
        U[i] = own[MISFIT] + strength * own[TV] - m->freedom * theta[0];
    }
    return 0;
}

/* dU/dtheta of particle i. */
static int slope(const sosmc_deblur *m, double strength, const sosmc_batch *b, int i, double *out)
{
    size_t pixels = pixels_of(m);
    double *own = (double *)b->work + (size_t)i * work_of(m), tv = 0;
    if (!b->fresh && m->envelope > 0 && evaluate(m, strength, b, i, NULL)) return 1;
    int known = b->fresh || m->envelope > 0;
    for (int k = 0; !known && k < m->channels; k++)
        tv += sosmc_tv(m->tv, m->blur.rows, m->blur.columns,
                       channel(b, b->x, i, (size_t)k * pixels, pixels, own + HEAD));
    *out = strength * (known ? own[TV] : tv) - m->freedom;
    return 0;
}

static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    double strength = sosmc_i_exp1(b->simd, theta[0]), one;
    for (int i = 0; i < b->n; i++) {
        if (slope(self, strength, b, i, &one)) return 1;
        g[0] += c[i] * one;
    }
    return 0;
}

static int scores(const void *self, const double *theta, const sosmc_batch *b, double *D)
{
    double strength = sosmc_i_exp1(b->simd, theta[0]);
    for (int i = 0; i < b->n; i++)
        if (slope(self, strength, b, i, D + i)) return 1;
    return 0;
}

static int prox(const void *self, const double *theta, double lambda, const sosmc_batch *b, double *p)
{
    const sosmc_deblur *m = self;
    size_t pixels = pixels_of(m), work = work_of(m);
    double weight = lambda * sosmc_i_exp1(b->simd, theta[0]);
    for (int i = 0; i < b->n; i++) {
        double *own = (double *)b->work + (size_t)i * work, *room = own + HEAD, *out = room + pixels;
        double *scratch = out + pixels;
        for (int c = 0; c < m->channels; c++) {
            size_t from = (size_t)c * pixels;
            double *u = place(b, p, from, out);
            if (proximal(m, weight, channel(b, b->x, i, from, pixels, room), u, scratch)) return 1;
            scatter(b, u, i, from, pixels, p);
        }
    }
    return 0;
}

sosmc_model sosmc_deblur_model(const sosmc_deblur *m)
{
    sosmc_model model = {.self = m,
                         .dim_theta = 1,
                         .tile = 1,
                         .energy = energy,
                         .grad_theta = grad_theta,
                         .prox = m->envelope > 0 ? NULL : prox,
                         .scores = scores};
    int sound = m->y && m->sigma > 0 && m->channels >= 1 && m->channels <= 4 && !sosmc_blur_fault(&m->blur) &&
                m->tolerance >= 0 && m->published_passes >= 0 && m->envelope >= 0 && isfinite(m->envelope) &&
                (m->envelope == 0 || m->tv == m->prox_tv);
    if (!sound) return model; /* dim_x 0: sosmc_create says that it must be positive */
    model.dim_x = (int)pixels_of(m) * m->channels;
    model.work = work_of(m) * sizeof(double);
    return model;
}
