/* bench_own_model.c: is a model that a user writes with the public headers as fast as one of the library's own?
 *
 * The Gaussian mixture of the Langevin experiment, once as sosmc_mixture_model and once written here: loops along rows, sosmc_exp
 * and sosmc_log on whole rows, the weights prepared once per theta, and what the gradients share kept in the scratch. Both runs
 * take turns; every figure is the least processor time of many short stretches, because other work on the machine only ever adds
 * to it. The thetas at the end agree but for rounding. */
#include <sosmc/models.h>
#include <stdio.h>
#include <time.h>

enum { DIM = 2, MODES = 6, TILE = 256, PARTICLES = 10000, STRETCHES = 600, STEPS = 2 };
static const double means[MODES * DIM] = {4, 0, 2, 3.4641016, -2, 3.4641016, -4, 0, -2, -3.4641016, 2, -3.4641016};
static const double start[MODES] = {1.5, -1.5, 1.5, -1.5, 1.5, -1.5}, center[DIM] = {10, 3.8}, EPS = 1e-9;

/* ---------------------------------------------------------------------------- the model from outside */

/* prep: softmax(theta) */
static int prepare(const void *self, const double *theta, void *prep)
{
    double *v = prep, sum = 0;
    sosmc_exp(NULL, MODES, theta, v);
    for (int j = 0; j < MODES; j++) sum += v[j];
    for (int j = 0; j < MODES; j++) v[j] /= sum;
    return 0;
}

/* e[i] = v exp(-|x_i - mean|^2 / 2), which is added to sum. */
static void add_mode(const sosmc_batch *b, const double *mean, double v, double *restrict e, double *restrict sum)
{
    const double *restrict x = b->x, *restrict y = b->x + b->ld;
    for (int i = 0; i < b->n; i++) {
        double dx = x[i] - mean[0], dy = y[i] - mean[1];
        e[i] = -0.5 * (dx * dx + dy * dy);
    }
    sosmc_exp(b->simd, b->n, e, e);
    for (int i = 0; i < b->n; i++) {
        e[i] *= v;
        sum[i] += e[i];
    }
}

/* e becomes the probability of the mode; gx += that times (x - mean). */
static void divide(const sosmc_batch *b, const double *mean, const double *restrict inverse, double *restrict e,
                   double *gx)
{
    const double *restrict x = b->x, *restrict y = b->x + b->ld;
    double *restrict g0 = gx, *restrict g1 = gx ? gx + b->ld : NULL;
    for (int i = 0; i < b->n; i++) e[i] *= inverse[i];
    for (int i = 0; gx && i < b->n; i++) {
        g0[i] += e[i] * (x[i] - mean[0]);
        g1[i] += e[i] * (y[i] - mean[1]);
    }
}

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const double *v = b->prep;
    double *p = b->work, inverse[TILE];
    size_t ld = (size_t)b->ld;
    for (int i = 0; i < b->n; i++) U[i] = EPS;
    for (size_t j = 0; j < MODES; j++) add_mode(b, means + j * DIM, v[j], p + j * ld, U);
    for (int i = 0; i < b->n; i++) inverse[i] = 1 / U[i];
    sosmc_log(b->simd, b->n, U, U);
    for (int i = 0; i < b->n; i++) U[i] = -U[i];
    for (size_t e = 0; gx && e < DIM * ld; e++) gx[e] = 0;
    for (size_t j = 0; j < MODES; j++) divide(b, means + j * DIM, inverse, p + j * ld, gx);
    return 0;
}

/* dU/dtheta_j = v_j sum_k p_k - p_j, eps neglected where the p sum to 1 */
static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    enum { LANES = 8 };
    const double *v = b->prep, *p = b->work;
    double U[TILE], all = 0;
    if (!b->fresh) (void)energy(self, theta, b, U, NULL);
    for (int i = 0; i < b->n; i++) all += c[i];
    for (int j = 0; j < MODES; j++, p += b->ld) {
        double sum[LANES] = {0}, total = 0;
        int i = 0;
        for (; i + LANES <= b->n; i += LANES)
            for (int l = 0; l < LANES; l++) sum[l] += c[i + l] * p[i + l];
        for (; i < b->n; i++) sum[0] += c[i] * p[i];
        for (int l = 0; l < LANES; l++) total += sum[l];
        g[j] += v[j] * all - total;
    }
    return 0;
}

/* ---------------------------------------------------------------------------- both in turns */

static sosmc *open_run(sosmc_model model, const sosmc_mixture_law *law, const sosmc_gate *gate)
{
    sosmc_source reference = sosmc_mixture_source(law);
    sosmc_settings cfg = sosmc_defaults();
    sosmc *s = NULL;
    reference.exact = 1;
    sosmc_problem p = {.model = model,
                       .objective = sosmc_reward_forward(sosmc_gate_reward(gate), 0, reference, 1, start),
                       .init = reference,
                       .theta0 = start};
    cfg.scheme = sosmc_scheme_sosmc(PARTICLES);
    cfg.kernel = sosmc_ula(0.05);
    cfg.optimiser = sosmc_adam(0.001);
    if (sosmc_create(&s, &p, &cfg) != SOSMC_OK) (void)fprintf(stderr, "%s\n", sosmc_message(s));
    return s;
}

static double processor_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

int main(void)
{
    static const char *const name[] = {"of the library", "from outside"};
    sosmc_mixture mixture = {.dim = DIM, .components = MODES, .means = means, .variance = 1, .eps = EPS};
    sosmc_mixture_law law = {.mixture = &mixture, .theta = start};
    sosmc_gate gate = {.dim = DIM, .center = center, .tau = 20, .alpha = 2.5};
    sosmc_model own = {.dim_x = DIM,
                       .dim_theta = MODES,
                       .work = MODES * sizeof(double),
                       .prep = MODES * sizeof(double),
                       .tile = TILE,
                       .prepare = prepare,
                       .energy = energy,
                       .grad_theta = grad_theta};
    sosmc *run[2] = {open_run(sosmc_mixture_model(&mixture), &law, &gate), open_run(own, &law, &gate)};
    double best[2] = {1e300, 1e300};
    for (int r = 0; r < STRETCHES; r++)
        for (int o = 0; o < 2; o++) {
            double from = processor_time();
            if (sosmc_run(run[o], STEPS, NULL, NULL) != SOSMC_OK) return 1;
            double each = (processor_time() - from) / (STEPS * PARTICLES);
            best[o] = each < best[o] ? each : best[o];
        }
    printf("SOSMC-ULA, mixture of %d, N = %d, one thread; ns per particle and iteration\n", MODES, PARTICLES);
    for (int o = 0; o < 2; o++) {
        printf("  %-16s %6.2f   theta_0 at the end %.6f\n", name[o], best[o], sosmc_theta(run[o])[0]);
        sosmc_free(run[o]);
    }
    return 0;
}
