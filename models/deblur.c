/* deblur.c: a blurred, noisy picture and a total-variation prior of unknown strength, for sosmc_mmle (maths.md DEBLUR):
 *
 *     U_theta(x) = |y - B x|^2 / (2 sigma^2) + e^theta TV(x) - freedom * theta.
 *
 * TV has no gradient: energy returns dU/dx of the first term alone, prox that of the second, which is what sosmc_myula and
 * its kin take. Every channel is blurred and penalised by itself; they share theta.
 *
 * Invariant: work holds, behind an energy call with gx, the TV of each particle in its first number. */
#include <math.h>
#include <sosmc/imaging.h>
#include <string.h>

enum { HEAD = 8 }; /* numbers of work in front of the images: TV, and room that keeps the images aligned */

static size_t pixels_of(const sosmc_deblur *m) { return (size_t)m->blur.rows * (size_t)m->blur.columns; }

static size_t most(size_t a, size_t b) { return a > b ? a : b; }

/* Doubles of work for one particle: its picture, a residual, and whatever blur or prox need. */
static size_t work_of(const sosmc_deblur *m)
{
    size_t pixels = pixels_of(m);
    size_t inner = most(sosmc_blur_scratch(&m->blur), sosmc_tv_prox_scratch(m->blur.rows, m->blur.columns));
    return (HEAD + 2 * pixels + inner + 7) / 8 * 8;
}

/* A channel of particle i as a contiguous image: where it stands, or gathered into `room`. */
static const double *channel(const sosmc_batch *b, const double *x, int i, size_t from, size_t pixels, double *room)
{
    size_t ld = (size_t)b->ld;
    if (ld == 1) return x + from;
    for (size_t j = 0; j < pixels; j++) room[j] = x[(from + j) * ld + (size_t)i];
    return room;
}

static void scatter(const sosmc_batch *b, const double *image, int i, size_t from, size_t pixels, double *x)
{
    for (size_t j = 0; j < pixels; j++) x[(from + j) * (size_t)b->ld + (size_t)i] = image[j];
}

/* The misfit of one channel, and its gradient in `residual` when asked for. */
static double misfit(const sosmc_deblur *m, const double *x, const double *y, int gradient, double *residual,
                     double *scratch)
{
    size_t pixels = pixels_of(m);
    double scale = 1 / (m->sigma * m->sigma), sum = 0;
    sosmc_blur_apply(&m->blur, x, residual, scratch);
    for (size_t j = 0; j < pixels; j++) {
        double miss = m->blur.mask ? m->blur.mask[j] * y[j] : y[j];
        residual[j] = (residual[j] - miss) * scale;
        sum += residual[j] * residual[j];
    }
    if (gradient) sosmc_blur_adjoint(&m->blur, residual, residual, scratch);
    return 0.5 * sum / scale;
}

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const sosmc_deblur *m = self;
    size_t pixels = pixels_of(m), work = work_of(m);
    double strength = exp(theta[0]);
    for (int i = 0; i < b->n; i++) {
        double *own = (double *)b->work + (size_t)i * work, *room = own + HEAD, *residual = room + pixels;
        double *scratch = residual + pixels, tv = 0, sum = 0;
        for (int c = 0; c < m->channels; c++) {
            size_t from = (size_t)c * pixels;
            const double *x = channel(b, b->x, i, from, pixels, room);
            tv += sosmc_tv(m->tv, m->blur.rows, m->blur.columns, x);
            sum += misfit(m, x, m->y + from, gx != NULL, residual, scratch);
            if (gx) scatter(b, residual, i, from, pixels, gx);
        }
        own[0] = tv;
        U[i] = sum + strength * tv - m->freedom * theta[0];
    }
    return 0;
}

static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    const sosmc_deblur *m = self;
    size_t pixels = pixels_of(m), work = work_of(m);
    double strength = exp(theta[0]);
    for (int i = 0; i < b->n; i++) {
        double *own = (double *)b->work + (size_t)i * work, tv = 0;
        for (int k = 0; !b->fresh && k < m->channels; k++)
            tv += sosmc_tv(m->tv, m->blur.rows, m->blur.columns,
                           channel(b, b->x, i, (size_t)k * pixels, pixels, own + HEAD));
        g[0] += c[i] * (strength * (b->fresh ? own[0] : tv) - m->freedom);
    }
    return 0;
}

static int prox(const void *self, const double *theta, double lambda, const sosmc_batch *b, double *p)
{
    const sosmc_deblur *m = self;
    size_t pixels = pixels_of(m), work = work_of(m);
    double weight = lambda * exp(theta[0]);
    sosmc_tv_settings settings = {
        .rows = m->blur.rows, .columns = m->blur.columns, .kind = m->prox_tv, .tolerance = m->tolerance};
    for (int i = 0; i < b->n; i++) {
        double *own = (double *)b->work + (size_t)i * work, *room = own + HEAD, *out = room + pixels;
        double *scratch = out + pixels;
        for (int c = 0; c < m->channels; c++) {
            size_t from = (size_t)c * pixels;
            const double *x = channel(b, b->x, i, from, pixels, room);
            if (m->published_passes > 0) {
                sosmc_tv_prox_published(m->blur.rows, m->blur.columns, m->published_passes, weight, x, out, scratch);
            } else {
                sosmc_status status = sosmc_tv_prox(&settings, weight, x, out, scratch, NULL);
                if (status == SOSMC_EINVAL) return 1;
                if (status != SOSMC_OK) memcpy(out, x, pixels * sizeof *out); /* not finite: the energy tells */
            }
            scatter(b, out, i, from, pixels, p);
        }
    }
    return 0;
}

sosmc_model sosmc_deblur_model(const sosmc_deblur *m)
{
    sosmc_model model = {
        .self = m, .dim_theta = 1, .tile = 1, .energy = energy, .grad_theta = grad_theta, .prox = prox};
    int sound = m->y && m->sigma > 0 && m->channels >= 1 && m->channels <= 4 && !sosmc_blur_fault(&m->blur) &&
                m->tolerance >= 0 && m->published_passes >= 0;
    if (!sound) return model; /* dim_x 0: sosmc_create says that it must be positive */
    model.dim_x = (int)pixels_of(m) * m->channels;
    model.work = work_of(m) * sizeof(double);
    return model;
}
