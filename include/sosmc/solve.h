/* solve.h: the right answer from a model and an objective alone.
 *
 * sosmc_solve minimises l(theta) without a single setting: it finds where the particles start, how they move, how far theta may go
 * in every update and when to end, and it says whether it succeeded.
 *
 *     sosmc_solution r;
 *     sosmc_solve(&r, &problem, NULL);           theta, its errors, the loss with its error, and a verdict, in r.judgement
 *     sosmc_solution_free(&r);
 *
 * It has four phases (docs/trust.md, maths.md SOLVE):
 *
 *     start     modes of pi_theta0 and a cloud of weighted particles around them, tempered from two laws that must agree;
 *     search    theta moves to the minimum of the loss as the cloud sees it, as far as the cloud can see; then the cloud follows;
 *     measure   at the theta that was found, fresh particles that did not steer theta are measured beside those that did; Newton steps
 *               until the error that is left is small enough;
 *     judge     the loss, log Z, KL and reward of other fresh particles, and the verdict (judge.h).
 *
 * The particles live in groups, whose scatter is the error of what they tell, and nothing that is fitted on a group is applied to it. Everything is
 * the same bits on any number of threads, with any vector code, and across a stop and a later start.
 *
 * A model with more than SOSMC_SOLVE_PARAMETERS parameters is a network, for which there is no Hessian, and is searched in another way
 * (maths.md LEARN): the likelihood of data that are rows, or a reward under a reverse divergence, in at most 200 coordinates. Theta then follows
 * Adam, and the answer is an average of it. Of data the search ends where the loss of rows that do not steer theta, measured with fresh
 * particles, no longer falls. Of a reward the best of all densities is known, and the search ends where the loss is near that one's or no
 * longer comes nearer; info.left says how far it is. There is no phase `measure`, and theta has no error; log Z and loss have theirs. The
 * model's law has to be normalisable, as a network over a base law is.
 *
 * Needed: energy, with gx (or with model.no_gx and at most 20 coordinates), and grad_theta (scores where there is one). The initial law may be missing (init.draw NULL); where there is
 * one it helps to find modes, and the reward of a network needs one that covers the reference. Refused with a sentence: a proximal map, an objective
 * with H of its own, more than SOSMC_SOLVE_PARAMETERS parameters with other objectives than these. The section is experimental: fields may be
 * added. */
#ifndef SOSMC_SOLVE_H
#define SOSMC_SOLVE_H

#include <sosmc/analysis.h>
#include <sosmc/judge.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SOSMC_SOLVE_PARAMETERS = 200 };

typedef enum {
    SOSMC_PHASE_START = 0,
    SOSMC_PHASE_SEARCH,
    SOSMC_PHASE_MEASURE,
    SOSMC_PHASE_JUDGE,
    SOSMC_PHASE_DONE
} sosmc_phase;
SOSMC_API const char *sosmc_phase_name(sosmc_phase phase); /* "start", "search", "measure", "judge", "done" */

typedef struct sosmc_solver sosmc_solver;

/* Where the solver is, after each of its steps. What does not exist yet is NaN. */
typedef struct {
    int phase;          /* sosmc_phase */
    int64_t step;       /* steps of the solver so far: temperatures, updates and rounds of measuring */
    int64_t updates;    /* updates of theta */
    double temperature; /* start, and fresh particles of measure: from 0 to 1 */
    int stage, round;   /* measure: the stage, and rounds of moves in it */
    double gain;        /* what the last update gained in the loss, by the cloud's own estimate */
    double decrease;    /* the sum of the gains so far */
    double
        left; /* measure: what the Newton step is still worth in the loss; a network's reward: above the best of all densities */
    double left_error; /* measure: what the Monte Carlo error is worth in the loss */
    double wanted;     /* what that may be at the end */
    double loss;       /* the loss, where its constant is known, and its standard error as the groups see it */
    double loss_error;
    double ess; /* effective sample size of the cloud */
    double accept, mobility;
    double reward;        /* weighted mean of the reward over the cloud */
    int moves;            /* per update */
    int64_t evaluations;  /* of U, with or without its x-gradient, for one particle */
    int64_t contractions; /* of dU/dtheta, for one particle */
    double seconds;       /* wall-clock time of all steps so far */
} sosmc_solve_info;

typedef int (*sosmc_solve_observer)(void *ctx, const sosmc_solver *s,
                                    const sosmc_solve_info *info); /* non-zero stops */

/* Zeros are the defaults of everything. */
typedef struct {
    /* How small the Monte Carlo error has to be. Marginal likelihoods and likelihoods of data: relative to the statistical standard
     * errors of theta; 0: 0.045, which costs 0.001 nats per parameter (0.14 of a standard error, and at most 0.02 nats in all, for data). Rewards: in the loss;
     * 0: 0.002 of the decrease of the loss, for networks of what the best of all densities would gain. Networks fitted to data: the gain of 50
     * updates that is little, in nats per row; 0: 0.001. */
    double precision;
    double seconds;      /* wall-clock time; 0: no limit */
    int64_t evaluations; /* evaluations of U for one particle; 0: no limit */
    int particles; /* 0: 1,024, 8 dim_x for dim_x from 129 to 600, 2,048 for networks that are fitted to data; a multiple of 16 from 128 on */
    uint64_t seed;
    int threads;              /* 0 or 1: the calling thread alone */
    double low, high;         /* theta is held between them; equal: nowhere */
    int64_t rows;             /* of the data behind a marginal likelihood, for BIC; 0: not known */
    const char *why_no_log_z; /* as in sosmc_judge_options */
    const sosmc_simd *simd;   /* NULL: the environment's SOSMC_SIMD if set, else the best */
    sosmc_solve_observer see; /* called after every step; may be NULL */
    void *see_ctx;
    int (*stop)(
        void *ctx); /* asked now and then in a step that takes more than a second; non-zero ends it; may be NULL */
    void *stop_ctx;
} sosmc_solve_options;

typedef struct {
    sosmc_judgement judgement; /* theta and its errors, loss, log Z, KL, reward with theirs, and the verdict */
    int finished;              /* 0: a limit or the observer ended it before */
    sosmc_solve_info info;     /* of the last step */
} sosmc_solution;

/* Solves, and fills the solution in any case; free it in any case. SOSMC_OK whatever the verdict is, and also where a limit ended
 * it; SOSMC_STOPPED where the observer did. A failure (SOSMC_EINVAL, SOSMC_EMODEL, SOSMC_ENUMERIC, SOSMC_ENOMEM) is also the first
 * reason of the verdict, in words. options may be NULL. */
SOSMC_API sosmc_status sosmc_solve(sosmc_solution *out, const sosmc_problem *problem,
                                   const sosmc_solve_options *options);
SOSMC_API void sosmc_solution_free(sosmc_solution *r); /* zeros are fine */

/* Tests a problem before anyone waits for sosmc_solve: the model (sosmc_check without settings) and, where no test of it fails, what
 * sosmc_solve says with 256 particles and 200,000 evaluations. Where these do not converge, it is asked again as the run will be, with at
 * most a million evaluations. Items "verdict": SOSMC_CHECK_OK where it converges, else for each reason SOSMC_CHECK_NOTE,
 * SOSMC_CHECK_UNKNOWN where these evaluations or the limits of `options` ended it, SOSMC_CHECK_FAIL where the run failed. SOSMC_EINVAL: the solver refuses the problem, and the last item, SOSMC_CHECK_SKIP, says why.
 * Else as sosmc_check. */
SOSMC_API sosmc_status sosmc_solve_check(const sosmc_problem *problem, const sosmc_solve_options *options,
                                         sosmc_check_report *report);

/* The same in steps: create, step until sosmc_solver_info()->phase is SOSMC_PHASE_DONE, ask for the solution, free. Between two
 * steps the solver may be saved; one that is created with the same problem, seed, particles and precision and then loads what was
 * saved goes on with the same bits. *out is set even on failure (except out of memory), so that sosmc_solver_message can say what
 * is wrong; free it in either case. SOSMC_STOPPED: options.seconds or options.stop ended it while it drew points for a network. */
SOSMC_API sosmc_status sosmc_solver_create(sosmc_solver **out, const sosmc_problem *problem,
                                           const sosmc_solve_options *options);
/* The bytes that a solver takes from its creation to its answer, as sosmc_memory says those of an engine: no callback is called.
 * Modes and laws, which are small beside the clouds, and passes that have to be repeated with more particles are left out. */
SOSMC_API size_t sosmc_solver_memory(const sosmc_problem *problem, const sosmc_solve_options *options);
/* One step: a temperature, an update of theta, or a round of measuring. Nothing happens when it is done. After SOSMC_EMODEL, a
 * callback that returned non-zero, the solver is where it was before the step, to the bit, but for info->seconds; it can be saved, and
 * a step that succeeds later gives what it would have given at once. A step that takes more than a second is ended in the same way, with
 * SOSMC_STOPPED, when options.seconds have passed or options.stop asks for it. After any other failure it stays failed until a saved state is
 * loaded. */
SOSMC_API sosmc_status sosmc_solver_step(sosmc_solver *s);
/* Steps until it is done, a limit is reached (SOSMC_OK; the solution says so) or the observer stops it. */
SOSMC_API sosmc_status sosmc_solver_run(sosmc_solver *s);
/* Other limits, for a solver that goes on; 0: none. */
SOSMC_API void sosmc_solver_limits(sosmc_solver *s, double seconds, int64_t evaluations);
/* What it has: the answer when it is done, else what is known so far, with a verdict that says that it is not done. */
SOSMC_API sosmc_status sosmc_solver_solution(const sosmc_solver *s, sosmc_solution *out);
SOSMC_API void sosmc_solver_free(sosmc_solver *s); /* NULL is fine */

SOSMC_API const sosmc_solve_info *sosmc_solver_info(const sosmc_solver *s);
SOSMC_API const char *sosmc_solver_message(const sosmc_solver *s);
SOSMC_API const double *sosmc_solver_theta(const sosmc_solver *s); /* a view, valid until the next step */
SOSMC_API int sosmc_solver_particles(const sosmc_solver *s);
/* The cloud as sosmc_cloud gives it: x (particles rows of dim_x) and normalised log-weights; either may be NULL. */
SOSMC_API sosmc_status sosmc_solver_cloud(const sosmc_solver *s, double *x, double *logw);
SOSMC_API uint64_t sosmc_solver_hash(const sosmc_solver *s); /* of everything that decides where it goes */

/* As sosmc_save and its neighbours. */
SOSMC_API sosmc_status sosmc_solver_save(const sosmc_solver *s, sosmc_write put, void *ctx);
SOSMC_API sosmc_status sosmc_solver_load(sosmc_solver *s, sosmc_read get, void *ctx);
SOSMC_API sosmc_status sosmc_solver_save_file(const sosmc_solver *s, const char *path);
SOSMC_API sosmc_status sosmc_solver_load_file(sosmc_solver *s, const char *path);

#ifdef __cplusplus
}
#endif
#endif
