/* judge.h: what a run is worth. Every number that a run tells gets its error here, and the run a verdict in words.
 *
 * sosmc_judge looks at an engine whenever its caller likes, usually after the last iteration:
 *
 *     theta        the mean over the observed iterations of the tail, improved by one Newton step, with its Monte Carlo error from
 *                  groups of particles that are kept apart through resampling (maths.md GROUPS) and, for marginal likelihoods, its statistical
 *                  error from the observed information;
 *     log Z, loss, KL, reward
 *                  from a pass with fresh particles that did not steer theta: they are drawn from a mixture of laws (Laplace's
 *                  approximation at the modes that are found, a normal fit of the cloud, the initial law), tempered to
 *                  pi_theta at the estimate, and their errors come from first ancestors (maths.md PASS);
 *     verdict      converged or not, and why, in sentences that name the number and what to change.
 *
 * The running log Z of the run follows the errors of the cloud that steers theta and enters none of these.
 *
 * What theta needs is gathered while the engine runs: sosmc_settings.judge is the fraction of the cost of an iteration that this
 * may take (0: nothing is gathered, and theta gets no Monte Carlo error). The iterations are the same bits either way. The section
 * is experimental: fields may be added. */
#ifndef SOSMC_JUDGE_H
#define SOSMC_JUDGE_H

#include <sosmc/sosmc.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SOSMC_GROUPS = 16, SOSMC_REASONS = 12, SOSMC_SENTENCE = 400, SOSMC_WHY = 240 };

/* A number with its standard error. error NaN: it has none, and `why` says why. value NaN: there is no number, likewise. `why` is
 * empty where both are there. */
typedef struct {
    double value, error;
    char why[SOSMC_WHY];
} sosmc_number;

typedef enum {
    SOSMC_CONVERGED = 0,
    SOSMC_NOT_CONVERGED, /* the run ended, and what it tells is not, or not yet, to be trusted */
    SOSMC_RUN_FAILED     /* there is no result: the cloud is dead, or values are not finite */
} sosmc_verdict_status;
SOSMC_API const char *sosmc_verdict_name(sosmc_verdict_status status); /* "converged", "not_converged", "failed" */

/* What was measured of a run, for sosmc_verdict. NaN, or a negative count: not measured, and then not judged. */
typedef struct {
    int dim_theta, particles, weighted, optimises;
    const char *names; /* of the parameters, `name_room` characters apart; NULL: theta_1, theta_2, ... */
    int name_room;
    int tilts;      /* particles go on from the model to the law that its reward tilts */
    int likelihood; /* the loss is minus a marginal log-likelihood: steps are judged in nats */
    int64_t iterations;
    sosmc_status failed;    /* of the last step */
    const char *failed_why; /* its message, where it failed; NULL otherwise */
    int64_t collapsed;      /* iterations in a row, at the end, with an effective sample size below 2 */
    /* theta */
    int64_t tail_from, observed; /* first iteration of the tail; observed iterations in it */
    double newton;               /* worth of the Newton step in the loss: g' H^-1 g / 2 */
    double newton_expected;      /* what the Monte Carlo error alone would give: tr(H^-1 V) / 2 */
    double newton_limit;         /* what may be left of the loss beside that error */
    double imprecise; /* more than this of the loss is a Monte Carlo error that is too large to be believed */
    int newton_worst; /* the parameter whose step is the largest in its own errors */
    double newton_worst_step, newton_worst_error;
    int64_t renewals;     /* how often the groups behind theta's error died out in the tail; -1: not measured */
    int hessian_definite; /* 1, 0, or -1: not measured */
    int unresolved; /* directions of theta along which the loss is too flat for the cloud to tell where its minimum is */
    double unresolved_hides;   /* what the worst of them may hide of the loss */
    int unresolved_where;      /* the parameter that it mostly is */
    const char *theta_unknown; /* not NULL: why nothing is known of theta's convergence */
    int at_bound;              /* a parameter that ended at a bound of the optimiser, or -1 */
    double bound;              /* that bound */
    double mobility;           /* mean squared jump over twice the squared width of the cloud, mean over the tail */
    double step, step_bound;   /* the kernel's step, and the bound of its adaptation where it stands at one; else NaN */
    /* weights and laws */
    double first_ess;  /* share of effective draws of the initial law under its first weights */
    double first_khat; /* Pareto index of those weights: above 0.7 the initial law does not cover the target */
    double
        score_spread; /* standard deviation of the reward over the cloud, of a tilted model before it is tilted; 0: it is constant there */
    double behind,
        behind_error; /* a network: so much larger is the mean log-density of simple laws at points that neither has seen */
    /* the pass with fresh particles */
    int pass_particles; /* 0: there was no pass */
    int pass_temperatures;
    double pass_arrived;            /* temperature that was reached: 1 */
    double pass_survivors;          /* share of first ancestors with descendants */
    double pass_log_z;              /* log Z of the pass: its rounding is what energies can differ by unseen */
    double pass_khat;               /* Pareto index of the weights from the starting law straight to the target */
    int fresh_worst;                /* the parameter where fresh particles contradict theta most, or -1 */
    double fresh_step, fresh_error; /* how far they would move it, and the error of that */
    double fresh_limit;             /* in errors: a larger step contradicts theta */
    double fresh_worth;             /* what that step is worth in the loss */
    double loss_unit; /* what counts as one unit of the loss: a nat of likelihoods, a thousandth of which is nothing */
    /* a reward under a reverse divergence, whose best density is known */
    double excess, excess_error; /* of the loss over that of the best of all densities */
    double to_gain;              /* what the best density gains over the reference */
    double learnt;               /* a network that is fitted to data: how far the loss fell, in nats per row */
    double unseen, unseen_error; /* a network's log Z by the last fresh particles, above what the search saw of it */
    /* differences of the energy over the derivative that a gradient claims; it is wrong where the error is less than the distance to 1 */
    double gradient_ratio, gradient_error;
    const char *gradient_which; /* "dU/dx" or "grad_theta" */
    /* a solver's own (solve.h) */
    int automatic;        /* a solver chose everything: its limits and precision are what can be changed */
    const char *ended_in; /* not NULL: a limit or the observer ended it in this phase */
    int start_arrived,
        modes; /* fresh particles reached the target from both laws; modes that were found; -1: not measured */
    double start_gap, start_gap_error; /* log Z from the two laws: their difference and its error */
    int64_t updates;                   /* of theta in the search */
    int out_of_updates;                /* these ended it while theta still moved */
    double moves_wanted;               /* until particles have half forgotten where they were */
    /* Of the curvature of the loss along a direction, relative: what half the difference changes of it, and its standard error;
     * 0: little. */
    double bent, blunt;
    int bent_where, blunt_where; /* the parameter that the direction mostly is */
    double off; /* how far the last step of a parameter is off as the loss is no quadratic; 0: little */
    int off_where;
    double reach;      /* where modes are too many to list: of a jump, as a share of an independent draw */
    int negative;      /* directions in which the loss curves downwards */
    int downhill;      /* directions without curvature in which the loss falls beyond doubt */
    int vertex;        /* no parameter changes the law of the particles any more */
    int runs_away;     /* a parameter that ran far and goes on, counted from 1, with its direction as sign; 0: none */
    int keeps_falling; /* the loss falls further in that direction, as far as the particles see */
    double runs_from, runs_to; /* where it began, where it is */
    int wall_moves;            /* a parameter, counted from 1, with which a jump of U changes; 0: none */
    int wall_where;            /* the coordinate of x that U jumps across, from 0 */
    double wall_place,
        wall_jump;     /* where, and by how much: 0: no jump where the particles are; -inf: U is -inf there */
    double wall_power; /* c where U is c log(distance) at a wall; 0: it is finite there */
    int batch;         /* 1: U or dU/dx of a particle depends on its batch; 2: dU/dtheta does; 0: neither */
} sosmc_measured;
SOSMC_API sosmc_measured sosmc_nothing_measured(void); /* start here */

typedef struct {
    int status; /* sosmc_verdict_status */
    int reasons;
    char reason[SOSMC_REASONS][SOSMC_SENTENCE]; /* a sentence each: the number, and what to change */
} sosmc_verdict_words;
/* Turns what was measured into a status and sentences; the one place where runs are judged. */
SOSMC_API void sosmc_verdict(const sosmc_measured *m, sosmc_verdict_words *out);

typedef struct {
    int64_t rows;       /* of the data behind a marginal likelihood, for BIC; 0: not known */
    int pass_particles; /* 0: chosen by the cost of the run */
    double cost;        /* of the run's evaluations that the pass may take; 0: 0.025 */
    int threads;        /* 0: the engine's own */
    const char
        *why_no_log_z; /* not NULL: pi_theta has no normalising constant (a network without a base law): the reason */
    int (*stop)(
        void *ctx); /* asked between temperatures; non-zero ends the judgement with SOSMC_STOPPED; may be NULL */
    void *stop_ctx;
} sosmc_judge_options;

typedef struct {
    sosmc_verdict_words verdict;
    sosmc_number loss, log_z, kl, reward; /* those that the objective does not have are NaN with an empty `why` */
    /* Of a reward under a reverse divergence: the best of all densities, exp(-U_ref + R/beta), by fresh particles that follow it, and how
     * far the loss is above its own. */
    sosmc_number best_loss, best_kl, best_reward, excess;
    int dim_theta;
    double *theta;                  /* dim_theta numbers: the estimate */
    double *theta_mc_error;         /* its Monte Carlo standard errors, or NULL, and why_no_mc_error says why */
    double *theta_mc_covariance;    /* dim_theta rows of dim_theta, of a solver alone; else NULL */
    double *theta_standard_error;   /* statistical ones, of likelihoods, or NULL, and why_no_standard_error says why */
    double *theta_low, *theta_high; /* 95 % interval from both errors; NULL where there is no statistical one */
    double t_quantile;              /* of the Monte Carlo errors: 2.131 with 16 groups */
    char why_no_mc_error[SOSMC_WHY], why_no_standard_error[SOSMC_WHY];
    double aic, bic; /* NaN where there is no log-likelihood, or the rows are not known */
    int64_t rows;
    sosmc_measured measured;
    void *memory;
} sosmc_judgement;

/* Judges an engine as it is now: a failed one too. The engine does not change. options may be NULL. Free the judgement in any case.
 * SOSMC_OK whatever the verdict is; SOSMC_ENOMEM, SOSMC_STOPPED, or SOSMC_EMODEL with the callback's name in `message` (may be
 * NULL; `room` bytes). */
SOSMC_API sosmc_status sosmc_judge(const sosmc *s, const sosmc_judge_options *options, sosmc_judgement *out,
                                   char *message, size_t room);
/* The bytes that it would take, beside the engine, after so many iterations of a run of this problem; a pass that has to be repeated
 * because too few of its particles survive takes twice as many each time. SIZE_MAX: more than can be counted. */
SOSMC_API size_t sosmc_judge_memory(const sosmc_problem *problem, const sosmc_settings *settings,
                                    const sosmc_judge_options *options, int64_t iterations);
SOSMC_API void sosmc_judgement_free(sosmc_judgement *j); /* the arrays; zeros are fine */

#ifdef __cplusplus
}
#endif
#endif
