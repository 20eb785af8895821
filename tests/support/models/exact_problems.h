/* exact_problems.h: problems with known answers, for tests of what a run is told to be worth.
 *
 * Each has log Z, loss, divergence and reward at every theta and the theta that minimises the loss:
 *
 *     name          objective       x, theta   log Z by
 *     forward       forward KL       2, 3      quadrature in the plane; four components, R = 1{x_1 < 0}
 *     reverse       reverse KL       2, 2      quadrature in the plane; three components, a smooth reward
 *     softmax       forward KL       2, 4      as `forward`, with the library's parameters, of which one is superfluous
 *     forward1      forward KL       1, 2      quadrature on the line
 *     reverse1      reverse KL       1, 2      quadrature on the line
 *     far           forward KL       2, 1      quadrature; two modes ten standard deviations apart
 *     energy        likelihood       1, 5      quadrature; bumps, all 400 data in every iteration
 *     batches       likelihood       1, 5      the same with 100 of the data at random in every iteration
 *     hier20, 50    marginal        20, 1      closed form; likewise hier50
 *     logistic      marginal         9, 1      2 million importance draws, near the maximum alone; needs wisconsin_split.csv
 *     cbpp          marginal        15, 5      quadrature per herd; needs cbpp.csv
 *     linear5, 20, 50, 60, 150, 200
 *                   marginal       2p, p       closed form
 */
#ifndef SOSMC_TESTS_EXACT_PROBLEMS_H
#define SOSMC_TESTS_EXACT_PROBLEMS_H

#include <sosmc/sosmc.h>

enum { EXACT_PARAMETERS = 200 };

/* NaN: the objective has no such number. */
typedef struct {
    double log_z, loss, kl, reward;
} exact_values;

typedef struct exact_problem exact_problem;
struct exact_problem {
    const char *name;
    sosmc_problem problem;
    int64_t rows;     /* of the data behind a marginal likelihood, 0 where there are none */
    double step;      /* of MALA at the start */
    double curvature; /* the largest of U in x, about */
    int identified;   /* 0: theta has a superfluous direction, and `best` is one of many */
    double best[EXACT_PARAMETERS];
    /* The exact values at theta, and the gradient of the loss unless that is NULL. */
    exact_values (*values)(const exact_problem *e, const double *theta, double *gradient);
    void *memory;
};

extern const char *const exact_names[]; /* ends with NULL */
/* 0, or non-zero where there is no such problem, its data cannot be read (`data` names the folder of reference data and may be
 * NULL) or memory is out. Close it in any case. */
int exact_open(exact_problem *e, const char *name, const char *data);
void exact_close(exact_problem *e);

/* The Hessian of the loss, dim_theta rows of dim_theta, by differences of the exact gradient. */
void exact_hessian(const exact_problem *e, const double *theta, double *H);

/* The settings under which the problem is well solved: MALA led by its acceptance. `schedule` is 'c' (Adam at 0.05), 'o' (the
 * same along a cosine) or 'd' (plain gradient steps at a decaying rate). */
sosmc_settings exact_settings(const exact_problem *e, int particles, int64_t iterations, char schedule);

/* Settings that are spoiled on purpose, and `good`, which are not:
 *
 *     ula2, ula07   ULA at 2 and at 0.7 over the largest curvature        few    40 particles
 *     frozen        a kernel step of 1e-6 that is not adapted             fast   a learning rate of 1
 *     zero          a start from N(0, I)                                  short  50 iterations at a learning rate of 0.01
 *     lost          the cloud of the engine (not its initial law) has no mode of a mixture but the first */
enum {
    EXACT_GOOD,
    EXACT_ULA2,
    EXACT_ULA07,
    EXACT_FROZEN,
    EXACT_ZERO,
    EXACT_LOST,
    EXACT_FEW,
    EXACT_FAST,
    EXACT_SHORT,
    EXACT_SPOILS
};
extern const char *const exact_spoils[]; /* their names; ends with NULL */
/* Spoils problem, settings (whose seed is set) or iterations. Returns 0 where the problem cannot be spoiled in this way. */
int exact_spoil(exact_problem *e, int how, sosmc_settings *cfg, int64_t *iterations);

#endif
