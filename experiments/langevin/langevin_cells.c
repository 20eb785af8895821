/* langevin_cells.c: settings of the published programs, turned into values of the library (the constants are those of the
 * experiment: rate 0.1, step 0.1, multinomial resampling below 0.9 N, step adapted by 1.01 around an ESS of 0.95 N between
 * 0.001 and 0.99 for ULA, MALA and RWM; HMC with one fixed leapfrog step). */
#include "langevin_cells.h"

#include <math.h>
#include <stdio.h>

#include "common/experiment.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"

const char *const langevin_method_names[LANGEVIN_METHODS] = {"ImpDiff",    "SOUL",      "SOSMC-ULA",
                                                             "SOSMC-MALA", "SOSMC-RWM", "SOSMC-HMC"};

sosmc_scheme langevin_scheme(int particles)
{
    sosmc_scheme s = sosmc_scheme_sosmc(particles);
    s.order = SOSMC_ORDER_AUTHORS;
    s.ess_min = 0.9;
    s.resampling = SOSMC_MULTINOMIAL;
    return s;
}

static sosmc_scheme scheme_of(const langevin_run *r)
{
    if (r->method == IMPDIFF) return sosmc_scheme_moved_first(r->particles);
    if (r->method == SOUL) return sosmc_scheme_soul(r->particles);
    return langevin_scheme(r->particles);
}

static sosmc_kernel kernel_of(const langevin_run *r)
{
    double h = r->step > 0 ? r->step : 0.1;
    switch (r->method) {
    case SOSMC_MALA: return sosmc_mala(h);
    case SOSMC_RWM: return sosmc_rwm(h);
    case SOSMC_HMC: return sosmc_hmc(h, 1, 1);
    default: return sosmc_ula(h);
    }
}

double langevin_acceptance(langevin_method method) { return method == SOSMC_RWM ? 0.35 : 0.57; }

void langevin_adapt(langevin_method method, int feedback, sosmc_adapt adapt[2])
{
    if (method != SOSMC_ULA && method != SOSMC_MALA && method != SOSMC_RWM) return;
    adapt[0] = (sosmc_adapt){.threshold = 0.95, .factor = 1.01, .min = 0.001, .max = 0.99};
    if (!feedback) return;
    adapt[0] = (sosmc_adapt){.threshold = 0.95, .factor = 1.01, .min = 1e-3, .max = 1, .target = SOSMC_ADAPT_RATE};
    adapt[1] = (sosmc_adapt){.threshold = langevin_acceptance(method),
                             .factor = 1.01,
                             .min = 1e-5,
                             .max = 10,
                             .signal = SOSMC_SIGNAL_ACCEPT};
}

/* What sosmc_create takes; `law` must outlive the engine. */
static void describe(const langevin_run *r, sosmc_mixture_law *law, sosmc_problem *p, sosmc_settings *cfg)
{
    const langevin_setting *s = r->setting;
    *law = (sosmc_mixture_law){.mixture = &s->mixture, .theta = s->theta_ref};
    sosmc_source reference = sosmc_mixture_source(law);
    reference.exact = 1;
    *p = (sosmc_problem){.model = sosmc_mixture_model(&s->mixture),
                         .objective = sosmc_reward_forward(sosmc_gate_reward(&s->reward), r->beta, reference,
                                                           r->reference, s->theta_ref),
                         .init = reference,
                         .theta0 = s->theta_ref};
    *cfg = experiment_defaults();
    cfg->scheme = scheme_of(r);
    cfg->kernel = kernel_of(r);
    langevin_adapt(r->method, r->feedback, cfg->adapt);
    cfg->optimiser = r->adam ? sosmc_adam(0.1) : sosmc_sgd(0.1);
    cfg->seed = r->seed;
    cfg->threads = r->threads;
}

static void note(langevin_result *out, const sosmc_info *info, double seconds, int stride)
{
    if (info->iteration % stride || out->points == LANGEVIN_POINTS) return;
    int i = out->points++;
    out->at[i] = (double)info->iteration + 1;
    out->curve_reward[i] = info->mean_score;
    out->curve_density[i] = -info->mean_energy; /* what the paper's figures call NLL */
    out->curve_seconds[i] = seconds;
}

int langevin_execute(const langevin_run *run, double optimum, langevin_result *out, char *error, size_t room)
{
    sosmc_mixture_law law;
    sosmc_problem p;
    sosmc_settings cfg;
    sosmc *s = NULL;
    int stride = run->iterations > LANGEVIN_POINTS ? (run->iterations + LANGEVIN_POINTS - 1) / LANGEVIN_POINTS : 1;
    *out = (langevin_result){.reward = NAN, .reached = -1, .reached_seconds = NAN};
    describe(run, &law, &p, &cfg);
    sosmc_status status = sosmc_create(&s, &p, &cfg);
    double begin = monotonic_seconds();
    for (int k = 0; status == SOSMC_OK && k < run->iterations && !interrupt_requested(); k++) {
        status = sosmc_step(s);
        double seconds = monotonic_seconds() - begin;
        if (status != SOSMC_OK || (run->budget_seconds > 0 && seconds >= run->budget_seconds))
            break; /* never peek ahead */
        const sosmc_info *info = sosmc_last(s);
        out->reward = info->mean_score;
        out->seconds = seconds;
        out->iterations = k + 1;
        note(out, info, seconds, stride);
        if (out->reached < 0 && info->mean_score >= 0.99 * optimum) {
            out->reached = k + 1;
            out->reached_seconds = seconds;
        }
    }
    if (status != SOSMC_OK) (void)snprintf(error, room, "%s", sosmc_message(s));
    sosmc_free(s);
    return status == SOSMC_OK ? 0 : -1;
}

double langevin_safe_step(const langevin_run *run)
{
    double low = 1e-6, high = 0.99;
    langevin_run trial = *run;
    for (int k = 0; k < 20; k++) {
        sosmc_mixture_law law;
        sosmc_problem p;
        sosmc_settings cfg;
        sosmc *s = NULL;
        trial.step = sqrt(low * high);
        describe(&trial, &law, &p, &cfg);
        cfg.optimiser = sosmc_sgd(0); /* theta stays: the weight of the move alone */
        double ess = 0;
        if (sosmc_create(&s, &p, &cfg) == SOSMC_OK && sosmc_step(s) == SOSMC_OK) ess = sosmc_last(s)->ess;
        sosmc_free(s);
        if (ess < 0.95 * run->particles)
            high = trial.step;
        else
            low = trial.step;
    }
    return low;
}
