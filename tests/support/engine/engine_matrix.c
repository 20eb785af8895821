/* engine_matrix.c: see engine_matrix.h. What the model parks is a difference that a stale one would not give. */
#include "engine_matrix.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

/* ---------------------------------------------------------------------------- a model that parks and prepares */

static const double Y[DT] = {1.0, -2.0, 0.5};
const double engine_case_reference[DT] = {0.1, 0.2, 0.3};
atomic_int engine_case_energy_breaks, engine_case_energy_is_nan;

static int prepare(const void *self, const double *theta, void *prep)
{
    memcpy(prep, theta, DT * sizeof(double));
    return 0;
}

/* Beyond the wall, which moves with theta, both U and dU/dtheta are NaN. */
static int behind_wall(const double *wall, const double *theta, double x) { return wall && x > *wall + theta[0]; }

/* U = sum_j p^2/2 + q^2/2 + p^4/100 with p = x - theta, q = x - y. `work` keeps p, so that values computed from an outdated
 * `work` differ. */
static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const double *t = b->prep, *wall = self;
    double *work = b->work;
    for (int i = 0; i < b->n; i++) U[i] = 0.0;
    for (int j = 0; j < b->dim; j++)
        for (int i = 0; i < b->n; i++) {
            double x = b->x[j * b->ld + i], p = x - t[j % DT], q = x - Y[j % DT];
            U[i] += 0.5 * (p * p + q * q) + 0.01 * p * p * p * p;
            if (gx) gx[j * b->ld + i] = p + q + 0.04 * p * p * p;
            if (gx) work[j * b->ld + i] = p;
        }
    for (int i = 0; i < b->n; i++)
        if (behind_wall(wall, t, b->x[i]) || atomic_load(&engine_case_energy_is_nan)) U[i] = NAN;
    return atomic_load(&engine_case_energy_breaks) > 0 && atomic_fetch_sub(&engine_case_energy_breaks, 1) == 1 ? 7 : 0;
}

static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    const double *t = b->prep, *work = b->work;
    for (int j = 0; j < b->dim; j++)
        for (int i = 0; i < b->n; i++) {
            double p = b->fresh ? work[j * b->ld + i] : b->x[j * b->ld + i] - t[j % DT];
            if (behind_wall(self, t, b->x[i])) p = NAN;
            g[j % DT] -= c[i] * (p + 0.04 * p * p * p);
        }
    return 0;
}

int engine_case_reward(const void *self, const sosmc_batch *b, double *s)
{
    for (int i = 0; i < b->n; i++) s[i] = b->x[i] > 0.0;
    return 0;
}

int engine_case_aux_step(const sosmc_kernel *k, sosmc_move *m)
{
    sosmc_kernel ula = sosmc_ula(k->h);
    int rc = ula.step(&ula, m);
    for (int e = 0; e < m->b.dim * m->b.ld; e++) m->aux_new[e] = 0.5 * m->aux[e] + m->x_new[e];
    for (int i = 0; m->logG && i < m->b.n; i++) m->logG[i] += 1e-3 * m->aux[i];
    return rc;
}

/* ---------------------------------------------------------------------------- settings worth stopping */

static engine_case base_case(const char *name, sosmc_kernel kernel, sosmc_scheme scheme)
{
    engine_case w = {.name = name,
                     .p = {.model = {.dim_x = DT,
                                     .dim_theta = DT,
                                     .work = DT * sizeof(double),
                                     .prep = DT * sizeof(double),
                                     .tile = 64,
                                     .prepare = prepare,
                                     .energy = energy,
                                     .grad_theta = grad_theta},
                           .objective = sosmc_mmle(),
                           .init = sosmc_standard_normal()},
                     .cfg = sosmc_defaults()};
    w.cfg.kernel = kernel;
    w.cfg.scheme = scheme;
    w.cfg.optimiser = sosmc_adam(0.05);
    w.cfg.seed = 99;
    return w;
}

engine_case engine_case_of(int which)
{
    static const double rows[7 * DT] = {1, 2, 3, -1, 0.5, 0, 2, 2, -2, 0.1, 0.2, 0.3, 4, -3, 1, 0, 0, 1, -2, 1, 0.7};
    static const sosmc_rows minibatch = {.data = rows, .rows = 7, .mode = SOSMC_ROWS_RANDOM};
    static const double wall = 0.4;
    const sosmc_scheme sosmc = sosmc_scheme_sosmc(N), unweighted = sosmc_scheme_unweighted(N);
    const sosmc_score score = {.eval = engine_case_reward};
    const sosmc_adapt on_ess = {.threshold = 0.9, .factor = 1.1, .min = 1e-4, .max = 1.0};
    engine_case w;
    switch (which) {
    case ULA_PAPER:
        w = base_case("ula, paper, adam", sosmc_ula(0.05), sosmc);
        w.cfg.adapt[0] = on_ess;
        break;
    case ULA_AUTHORS:
        w = base_case("ula, authors, momentum, average", sosmc_ula(0.05), sosmc);
        w.cfg.optimiser = sosmc_momentum(0.05, 0.9);
        w.cfg.average = 0.8;
        w.cfg.adapt[0] = on_ess;
        w.cfg.adapt[0].before_move = 1;
        break;
    case MALA_PAPER:
        w = base_case("mala, paper, data", sosmc_mala(0.1), sosmc);
        w.p.objective = sosmc_likelihood(sosmc_rows_source(&minibatch), 20);
        w.cfg.adapt[1] = on_ess;
        w.cfg.adapt[1].signal = SOSMC_SIGNAL_ACCEPT;
        break;
    case MALA_AUTHORS:
        w = base_case("mala, authors, sgd, both adapt", sosmc_mala(0.1), sosmc);
        w.cfg.optimiser = sosmc_sgd(0.3);
        w.cfg.adapt[0] = w.cfg.adapt[1] = on_ess;
        w.cfg.adapt[0].before_move = 1;
        w.cfg.adapt[1].target = SOSMC_ADAPT_RATE;
        w.cfg.average = 1.0;
        w.cfg.average_from = 3;
        break;
    case RWM_PAPER:
        w = base_case("rwm, paper, forward KL, adagrad", sosmc_rwm(0.1), sosmc);
        w.cfg.optimiser = sosmc_adagrad(0.3);
        w.p.objective = sosmc_reward_forward(score, 0.5, sosmc_standard_normal(), 90, engine_case_reference);
        w.cfg.scheme.resampling = SOSMC_STRATIFIED;
        break;
    case RWM_AUTHORS:
        w = base_case("rwm of many scales, authors, reverse KL, ramp, nesterov", sosmc_rwm(0.1), sosmc);
        w.cfg.kernel.spread = 4;
        w.cfg.optimiser = sosmc_nesterov(0.1, 0.9);
        w.p.objective = sosmc_reward_reverse(score, 0.5, engine_case_reference);
        w.p.objective.ramp = 5;
        w.p.theta0 = engine_case_reference;
        w.p.init.exact = 1;
        w.cfg.scheme.resampling = SOSMC_RESIDUAL;
        break;
    case HMC_PAPER:
        w = base_case("hmc, paper, rmsprop, schedule", sosmc_hmc(0.2, 3, 1.5), sosmc);
        w.cfg.optimiser = sosmc_rmsprop(0.1, 0.9);
        w.cfg.optimiser.clip = 1.0;
        w.cfg.schedule = (sosmc_schedule){.kind = SOSMC_SCHEDULE_ROBBINS_MONRO, .a = 3.0, .b = 0.6};
        break;
    case HMC_AUTHORS:
        w = base_case("hmc, authors, adamw, cosine", sosmc_hmc(0.2, 3, 1.0), sosmc);
        w.cfg.optimiser = sosmc_adamw(0.1, 0.01);
        w.cfg.schedule = (sosmc_schedule){.kind = SOSMC_SCHEDULE_COSINE, .a = 6.0, .b = 0.1};
        w.cfg.scheme.ess_min = 2.0;
        break;
    case UNWEIGHTED: w = base_case("unweighted ula", sosmc_ula(0.05), unweighted); break;
    case UNWEIGHTED_AUTHORS:
        w = base_case("unweighted ula, authors", sosmc_ula(0.05), unweighted);
        w.cfg.scheme.order = SOSMC_ORDER_AUTHORS;
        w.p.objective.score = score;
        break;
    case MOVED_FIRST:
        w = base_case("moved first, mala, average", sosmc_mala(0.1), sosmc_scheme_moved_first(N));
        w.cfg.average = 0.9;
        break;
    case SOUL:
        w = base_case("soul, momentum, minibatch", sosmc_ula(0.05), sosmc_scheme_soul(7));
        w.cfg.scheme.particles = w.cfg.scheme.pool = 70;
        w.cfg.optimiser = sosmc_momentum(0.05, 0.5);
        w.p.objective = sosmc_likelihood(sosmc_rows_source(&minibatch), 20);
        break;
    case SOUL_CHAIN:
        w = base_case("soul, one chain, reward", sosmc_mala(0.05), sosmc_scheme_soul(100));
        w.p.objective = sosmc_reward_reverse(score, 0.5, engine_case_reference);
        w.cfg.average = 1.0;
        break;
    case PCD:
        w = base_case("pcd, adam", sosmc_ula(0.05), sosmc_scheme_pcd(N, 2 * N, 2));
        w.p.objective = sosmc_likelihood(sosmc_rows_source(&minibatch), 20);
        break;
    case PCD_AUTHORS:
        w = base_case("pcd, authors, momentum, average", sosmc_ula(0.05), sosmc_scheme_pcd(N, 3 * N, 3));
        w.cfg.scheme.order = SOSMC_ORDER_AUTHORS;
        w.cfg.optimiser = sosmc_momentum(0.05, 0.9);
        w.cfg.average = 0.9;
        break;
    case AUX:
        w = base_case("a kernel with memory", sosmc_ula(0.05), sosmc);
        w.cfg.kernel.name = "remembering";
        w.cfg.kernel.step = engine_case_aux_step;
        w.cfg.kernel.aux = 1;
        break;
    case NOTHING_PARKED:
        w = base_case("nothing parked, ssp", sosmc_ula(0.05), sosmc);
        w.cfg.work_limit = 0;
        w.cfg.scheme.resampling = SOSMC_SSP;
        w.cfg.scheme.order = SOSMC_ORDER_AUTHORS;
        break;
    case UNUSUAL_LANGEVIN:
        w = base_case("ula at other thetas, multinomial", sosmc_ula(0.05), sosmc);
        w.cfg.kernel.forward_at = SOSMC_AT_CURRENT;
        w.cfg.kernel.backward_at = SOSMC_AT_PREVIOUS;
        w.cfg.scheme.resampling = SOSMC_MULTINOMIAL;
        break;
    case SWEEPS:
        w = base_case("weighted, two sweeps", sosmc_hmc(0.2, 2, 1.0), sosmc);
        w.cfg.scheme.sweeps = 2;
        break;
    case DROPPED: /* some weights are zero soon */
    case DROPPED_MALA:
        w = base_case("dropped particles", which == DROPPED ? sosmc_ula(0.05) : sosmc_mala(0.1), sosmc);
        w.p.model.self = &wall;
        w.p.init.draw = NULL;
        w.cfg.scheme.ess_min = 0.0;
        w.cfg.scheme.order = which == DROPPED ? SOSMC_ORDER_PAPER : SOSMC_ORDER_AUTHORS;
        break;
    case NOISY:
        w = base_case("unweighted ula, sgd with noise, average", sosmc_ula(0.05), unweighted);
        w.cfg.optimiser = sosmc_sgd(0.05);
        w.cfg.optimiser.noise = 1;
        w.cfg.average = 0.8;
        break;
    case UNDERDAMPED:
        w = base_case("underdamped, adapt", sosmc_underdamped(0.3, 1.0, 1.5), sosmc);
        w.cfg.adapt[0] = on_ess;
        w.cfg.scheme.ess_min = 0.9;
        break;
    case UNDERDAMPED_AUTHORS:
        w = base_case("underdamped, authors, two sweeps", sosmc_underdamped(0.3, 1.0, 1.5), sosmc);
        w.cfg.scheme.order = SOSMC_ORDER_AUTHORS;
        w.cfg.scheme.sweeps = 2;
        w.cfg.scheme.ess_min = 2.0;
        break;
    case UNDERDAMPED_POOL:
        w = base_case("underdamped, pool and restarts", sosmc_underdamped(0.3, 1.0, 1.0),
                      sosmc_scheme_pcd(N, 2 * N, 2));
        w.p.objective = sosmc_likelihood(sosmc_rows_source(&minibatch), 20);
        break;
    case UNDERDAMPED_TALL:
        w = base_case("underdamped, tiles of 16", sosmc_underdamped(0.1, 1.0, 1.0), sosmc_scheme_sosmc(40));
        w.p.model.dim_x = 300;
        w.p.model.tile = 0;
        w.p.model.work = 300 * sizeof(double);
        break;
    case LEAPFROG: w = base_case("leapfrog", sosmc_leapfrog(0.2, 3, 1.5), sosmc); break;
    case TALL:
        w = base_case("tiles of 16", sosmc_ula(0.01), sosmc_scheme_sosmc(40));
        w.p.model.dim_x = 300;
        w.p.model.tile = 0;
        w.p.model.work = 300 * sizeof(double);
        w.cfg.scheme.order = SOSMC_ORDER_AUTHORS;
        break;
    default:
        w = base_case("one particle per tile", sosmc_mala(0.001), sosmc_scheme_sosmc(5));
        w.p.model.dim_x = 4100;
        w.p.model.tile = 0;
        w.p.model.work = 4100 * sizeof(double);
        break;
    }
    if (which % 2 == 1 && which < UNWEIGHTED) w.cfg.scheme.order = SOSMC_ORDER_AUTHORS;
    return w;
}

/* Starts on this side of the wall. */
static int draw_low(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    sosmc_normals(rng, b, x);
    for (int i = 0; i < b->n; i++) x[i] = x[i] > 0.0 ? -x[i] : x[i];
    return 0;
}

sosmc *engine_case_open(engine_case w)
{
    sosmc *s = NULL;
    if (!w.p.init.draw) w.p.init = (sosmc_source){.draw = draw_low};
    if (sosmc_create(&s, &w.p, &w.cfg) != SOSMC_OK) fail_msg("%s: %s", w.name, sosmc_message(s));
    return s;
}
