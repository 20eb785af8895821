/* untuned.h: problems with exact answers for a solver without settings. Each is a model, an objective and theta0, without an
 * initial law, and knows the loss at every theta and the theta that minimises it.
 *
 *     name          objective     x, theta   what it is; where the loss is from
 *     dual2         forward 0.1     2, 2     two components, a smooth reward; quadrature
 *     far3          reverse 0.3     2, 3     three components 18 standard deviations apart; closed form
 *     ring8         reverse 0.1     2, 8     eight narrow components on a circle, one of them rewarded; closed form
 *     mix10         reverse 0.5    10, 5     five components in ten dimensions; closed form
 *     mix20         reverse 0.3     2, 20    twenty components that overlap; quadrature
 *     tiny1         forward 0.01    1, 3     three components that overlap, a reward of at most 0.02; quadrature
 *     rare1         reverse 0.1     1, 3     the reward is in a component of weight 0.00006; quadrature
 *     far100_fwd    forward 0.1     1, 2     two components 100 standard deviations apart; closed form
 *     far100_rev    reverse 0.5     1, 2     the same
 *     forward       forward 0.2     2, 3     of exact_problems.h, as the next two
 *     reverse       reverse 0.3     2, 2
 *     energy        likelihood      1, 5
 *     hier1, hier50, hier6, hier1000
 *                   marginal        D, 1     the library's hierarchy; the data have means 3, 8, 60 and 1; closed form
 *     scales_x      marginal       10, 1     a hierarchy whose coordinates have standard deviations from 0.03 to 30; quadrature
 *     scales_theta  marginal       40, 3     a regression with columns of size 1, 1000 and 0.01; closed form
 *     linear50, linear150
 *                   marginal       2p, p     of exact_problems.h
 *     series        marginal       60, 2     an autoregression observed with noise; Kalman's filter
 *     wisconsin     marginal        9, 1     logistic regression on the training rows of wisconsin_split.csv; see regressions.c
 *     logit50       marginal       50, 1     logistic regression on 178 simulated rows; see regressions.c
 *     cbpp          marginal       15, 5     binomial counts of herds, cbpp.csv; of exact_problems.h
 *     glmm60        marginal       60, 5     300 binary outcomes in 60 groups; quadrature
 *     poisson20     marginal       40, 20    400 counts in 40 groups; quadrature
 *     schools       marginal        8, 2     eight schools, mean and log standard deviation; quadrature
 *     far_start     marginal       20, 2     the same model from (0, -4), thousands of nats from the maximum; quadrature
 *     dyestuff      marginal        6, 3     six batches of five yields; mean and both log standard deviations; quadrature
 *     t_latent      marginal       20, 2     latent variables with Student's law, and an outlier; quadrature
 *     square        marginal        4, 1     x^2 is observed: 16 modes, and the sign of theta is not identified; quadrature
 *     banana        likelihood      2, 3     a curved density; closed form
 *     well          likelihood      1, 3     a double well; quadrature
 *     well_far      likelihood      1, 3     the same with a high barrier
 *     funnel        marginal       10, 1     a variance and what it is the variance of; quadrature
 *
 * A second table holds problems that the solver met only when its constants were fixed. They are of other kinds than those above,
 * and nothing was chosen by how the solver does on them.
 *
 *     frailty       marginal       15, 3     60 counts in 15 groups whose rates have a gamma law; quadrature
 *     probit        marginal       20, 4     100 binary outcomes in 20 groups, probit link; quadrature
 *     factor        marginal       25, 5     one factor behind four measurements, up to its sign; quadrature
 *     volatility    marginal       40, 3     a series whose log variance is an autoregression; a filter on a grid
 *     crossed       marginal       13, 4     eight raters and five objects, both with random effects; closed form
 *     spins         likelihood      2, 4     two coupled double wells in fields, four modes; quadrature
 *     skewed        forward 0.2     1, 2     location and shape of a skewed family, a smooth step as reward; quadrature
 *     gauss_rev     reverse 0.5     3, 6     means and log standard deviations of a correlated Gaussian; closed form
 *
 * A third table holds problems that break an assumption of the method, with the outcome that is right for each.
 *
 *     penalties     right              2, 200   199 parameters whose scores do not depend on x; quadrature
 *     mixed         right             10, 4     a hierarchy, and counts without latent variables; quadrature
 *     faint         right              4, 4     shares of missing information from 0.1 to 0.0001; quadrature
 *     residual      right             20, 2     nearly all of the noise is integrated by hand; quadrature
 *     wall_one      right or named     2, 1     U is infinite below x_1 = 1; closed form, as all walls and steps
 *     wall_some     right or named    12, 2     a hierarchy with three positive coordinates
 *     wall_all      right or named    15, 3     half-normal latent variables of a frontier model
 *     step          right or named     2, 1     U rises by 3 at x_1 = 1.5
 *     steps         right or named     8, 2     three steps in each coordinate
 *     products      right or named    15, 1     latent variables with two modes each, the sign of theta not identified; quadrature
 *     ridge         right or named    20, 3     the data determine the sum of two variances; quadrature
 *     batch         named             10, 2     the energy depends on where a particle stands in the batch
 *
 * All data are simulated with the library's named random numbers, except those of the files, schools and dyestuff. */
#ifndef SOSMC_TESTS_UNTUNED_H
#define SOSMC_TESTS_UNTUNED_H

#include <sosmc/sosmc.h>

enum { UNTUNED_PARAMETERS = 200, UNTUNED_BLOCKS = 12 };

/* What the data or the objective determine, one number for every parameter. */
typedef enum {
    UNTUNED_THETA = 0, /* theta itself */
    UNTUNED_WEIGHTS,   /* softmax(theta) */
    UNTUNED_SIZES      /* |theta| */
} untuned_identified;

/* Which outcome is right, decided before anything was measured. Named: the verdict is not `converged`. */
typedef enum { UNTUNED_RIGHT = 0, UNTUNED_RIGHT_OR_NAMED, UNTUNED_NAMED } untuned_wanted;

typedef struct untuned_problem untuned_problem;
struct untuned_problem {
    const char *name;
    int wanted; /* untuned_wanted */
    sosmc_problem problem;
    double nats;    /* of likelihood in a unit of the loss: 1 of marginal likelihoods, the rows of data; 0 of rewards */
    int64_t rows;   /* of the data behind a marginal likelihood; 0: there are none */
    int identified; /* untuned_identified */
    const double *unit; /* theta of this problem is `unit` times that of the problem which it was made from; NULL: 1 */
    double best[UNTUNED_PARAMETERS], best_loss, start_loss;
    double *standard_error; /* of the parameters at the best theta, in the third table; NULL: not compared */
    /* The exact loss at theta, and its gradient unless that is NULL. */
    double (*loss)(const untuned_problem *u, const double *theta, double *gradient);
    void *self;                  /* what `loss` reads */
    void (*release)(void *self); /* called when the problem is closed; may be NULL */
    void *block[UNTUNED_BLOCKS]; /* memory that is freed then */
};

const char *untuned_name(int k);               /* of problem k = 0, 1, ...; NULL when there are no more */
const char *untuned_out_of_sample_name(int k); /* the same of the second table */
const char *untuned_unusual_name(int k);       /* ... and of the third */
/* 0, or non-zero where there is no such problem, its data cannot be read (`data` names the folder of reference data and may be
 * NULL) or memory is out. Close it in any case. */
int untuned_open(untuned_problem *u, const char *name, const char *data);
void untuned_close(untuned_problem *u);

/* The identified coordinates of theta, dim_theta numbers, and their standard errors when theta has this covariance (dim_theta rows
 * of dim_theta) or, where that is NULL, these errors, as if they were independent. */
void untuned_identify(const untuned_problem *u, const double *theta, double *q);
void untuned_identified_errors(const untuned_problem *u, const double *theta, const double *theta_error,
                               const double *covariance, double *error);

/* The share of the initial gap that is left at theta. */
double untuned_gap(const untuned_problem *u, const double *theta);

#endif
