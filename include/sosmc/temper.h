/* temper.h: a weighted sample of a model at one theta, with log Z and every number beside its error, from a law that can be far away.
 *
 *     sosmc_law *wide = sosmc_law_create(dim, 0);
 *     sosmc_law_add(wide, 1, NULL, sd);                          N(0, diag(sd^2)); mixtures by more calls
 *     sosmc_temper_task task = {.model = model, .theta = theta, .start = wide};
 *     sosmc_tempered r;
 *     sosmc_temper(&task, &r, x);                                r.log_z.value, r.log_z.error, r.verdict; x: 4,096 points
 *
 * It is done twice. A trial, with a quarter of the particles, goes from the law to the model; the measurement, which is what is told,
 * starts from a normal fit of where they have arrived, mixed with a fifth of the law itself: a mode that the trial has lost is found again
 * through it in few dimensions. In tens of them it may not be, and nothing says so: more particles lose fewer (docs/trust.md, Tempering).
 *
 * Particles are drawn from the law and go to exp(-U) over V_t = (1 - t)(-log law) + t U, t from 0 to 1. Every next t is the one at
 * which the conditional effective sample size comes down to `cess`; both energies stay with a particle, so looking for it costs no
 * evaluation. Moves are preconditioned MALA or leapfrog trajectories (a random walk where the model has no gradient), in coordinates that are fitted on
 * particles other than those that move, with a step that acceptance leads. Errors come from first ancestors (maths.md TEMPER).
 *
 * With beta > 0 the target is tilted by the score R, exp(-U + R/beta): the density that makes E[R] - beta KL(. || model) largest, the exact answer to
 * the problem of sosmc_reward_reverse among all densities. R needs no gradient. The particles pass through the model itself, whose own log Z and mean reward are told too.
 *
 * The result is the same bits on any number of threads, with any vector code, and across a stop and a later start. The section is
 * experimental: fields may be added. */
#ifndef SOSMC_TEMPER_H
#define SOSMC_TEMPER_H

#include <sosmc/judge.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SOSMC_TEMPER_LARGEST = 2000 }; /* coordinates of a particle */

/* A mixture of normal laws. `correlated`: components may have full covariances (at most 200 coordinates; above, diagonals are
 * taken). NULL: dim is below 1, or there is no memory. */
typedef struct sosmc_law sosmc_law;
SOSMC_API sosmc_law *sosmc_law_create(int dim, int correlated);
SOSMC_API void sosmc_law_free(sosmc_law *law); /* NULL is fine */
/* A component with this mean and these standard deviations, dim numbers each (mean NULL: zeros); or at most eight (fewer where points are
 * few) that are fitted to n points, rows of dim with weights w (NULL: equal), 1.2 times as wide in variance: so any law that can be drawn
 * from may be started from, and log Z is right however near the fit is. Weights of components are relative. SOSMC_EINVAL: a number that
 * makes no law, or more than 24 components. */
SOSMC_API sosmc_status sosmc_law_add(sosmc_law *law, double weight, const double *mean, const double *sd);
SOSMC_API sosmc_status sosmc_law_add_fit(sosmc_law *law, double weight, int64_t n, const double *x, const double *w);

/* Zeros are the defaults of everything behind `start`. Models, laws and scores are borrowed. A model with bounds of x (model.x_low, x_high)
 * needs no start, NULL: the particles begin at N(0, 4 I) of its z, and a law given, which has mass outside, is refused. */
typedef struct {
    sosmc_model model;
    const double *theta;
    const sosmc_law *start;
    sosmc_score score; /* its mean is told */
    double beta;       /* above 0: the model is tilted by score/beta */
    int particles;     /* 0: 4,096; fewer than 256 are made that many */
    int moves;         /* at every temperature; 0: 2 up to 4 coordinates, 1 above */
    int leaps;         /* leapfrog steps of a move; 0: 1, which is MALA, up to 4 coordinates, 1.5 dim_x^(1/4) above */
    double cess;       /* 0: 0.9; a share of the particles, between 0 and 1 */
    int direct;        /* 1: no trial; the particles come from `start` alone */
    uint64_t seed;
    int threads; /* 0 or 1: the calling thread alone */
    const char *
        why_no_log_z; /* not NULL: exp(-U) need not have a finite integral, and why: there are particles and no numbers */
    const sosmc_simd *simd;
} sosmc_temper_task;

/* What the particles tell. A number that the task does not have is NaN with an empty `why`. */
typedef struct {
    sosmc_number log_z, reward;             /* of the target: the model, or the tilted one */
    sosmc_number kl, loss;                  /* of a tilted target: KL(target || model), and -E[R] + beta KL */
    sosmc_number model_log_z, model_reward; /* of the model before it was tilted */
    int temperatures;
    int64_t evaluations; /* of U, with or without its gradient, for one particle */
    double survivors;    /* share of the particles that have descendants at the end */
    double acceptance, ess;
    sosmc_verdict_words verdict;
} sosmc_tempered;

/* All at once. x receives as many points of the target as task.particles says, rows of dim_x, of equal weight; NULL: nobody wants them.
 * SOSMC_OK whatever the verdict is; SOSMC_EINVAL, SOSMC_EMODEL, SOSMC_ENOMEM. */
SOSMC_API sosmc_status sosmc_temper(const sosmc_temper_task *task, sosmc_tempered *out, double *x);

/* The bytes that it takes besides x, as sosmc_memory says those of an engine; 0: the task is refused. */
SOSMC_API size_t sosmc_temper_memory(const sosmc_temper_task *task);

/* The same in steps, each of which is a temperature: create, step until info.done, ask for the result, free. Between two steps it may be
 * saved; another one of the same task that loads what was saved goes on with the same bits. *out is set even on failure (except out
 * of memory), so that the message can say what is wrong; free it in either case. */
typedef struct sosmc_sampler sosmc_sampler;
typedef struct {
    int64_t step; /* steps so far; the first draws the particles */
    int done;
    int phase;          /* 0: the trial, 1: the measurement */
    double temperature; /* how far it has come: 1 at the end, 0.5 at the model that is then tilted */
    double log_z;       /* so far */
    double ess, accept, kernel_step;
    int64_t evaluations;
    int resamplings;
} sosmc_sampler_info;
SOSMC_API sosmc_status sosmc_sampler_create(sosmc_sampler **out, const sosmc_temper_task *task);
SOSMC_API sosmc_status sosmc_sampler_step(sosmc_sampler *s); /* nothing happens when it is done */
SOSMC_API const sosmc_sampler_info *sosmc_sampler_state(const sosmc_sampler *s);
SOSMC_API const char *sosmc_sampler_message(const sosmc_sampler *s);
SOSMC_API void sosmc_sampler_result(const sosmc_sampler *s,
                                    sosmc_tempered *out); /* also before it is done: it then says so */
/* The weighted particles as they are: their number, which changes when the measurement begins, and as sosmc_cloud gives them. */
SOSMC_API int sosmc_sampler_particles(const sosmc_sampler *s);
SOSMC_API sosmc_status sosmc_sampler_cloud(const sosmc_sampler *s, double *x, double *logw);
/* n points of equal weight, rows of dim_x: the particles, resampled by their weights. */
SOSMC_API sosmc_status sosmc_sampler_points(const sosmc_sampler *s, int n, double *x);
SOSMC_API uint64_t sosmc_sampler_hash(const sosmc_sampler *s);
SOSMC_API sosmc_status sosmc_sampler_save(const sosmc_sampler *s, sosmc_write put, void *ctx);
SOSMC_API sosmc_status sosmc_sampler_load(sosmc_sampler *s, sosmc_read get, void *ctx);
SOSMC_API void sosmc_sampler_free(sosmc_sampler *s); /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
