/* theory_families.h: one-dimensional families pi_theta whose divergences are integrals that a grid gives to nearly all digits. */
#ifndef SOSMC_THEORY_THEORY_FAMILIES_H
#define SOSMC_THEORY_THEORY_FAMILIES_H

enum { THEORY_POINTS = 4001, THEORY_PARAMETERS = 2 };

typedef struct {
    const char *name;
    int half_line;                      /* x > 0, on a grid that is even in log x */
    int parameters;                     /* 1 or 2 */
    double theta[THEORY_PARAMETERS];    /* theta_{k-1} */
    double gradient[THEORY_PARAMETERS]; /* of some loss at theta_{k-1}; nothing else of the loss is used */
    double (*U)(const double *theta, double x);
    void (*dU)(const double *theta, double x, double *out); /* with respect to theta */
} theory_family;

/* In this order: Z constant (location, mixture), Z not constant (exponential, scale, quartic). */
enum { THEORY_GENERAL = 5, THEORY_BOUNDED = 3 };
extern const theory_family theory_general[THEORY_GENERAL];
/* dU/dtheta and its derivative are bounded in x; the last one has E dU/dtheta = 0 at its theta. */
extern const theory_family theory_bounded[THEORY_BOUNDED];

typedef struct {
    double x[THEORY_POINTS], p[THEORY_POINTS]; /* p: probability of each point under pi_theta */
    double logz;
} theory_grid;
void theory_integrate(const theory_family *f, const double *theta, theory_grid *g);

/* The constants of the expansions at theta_{k-1}: g'Cov(dU)g and g'E[dU dU']g. */
typedef struct {
    double covariance, uncentred;
} theory_constants;
theory_constants theory_constants_of(const theory_family *f, const theory_grid *g);

/* One step of size gamma: theta_k = theta_{k-1} - gamma * gradient. */
typedef struct {
    double chi2;     /* E (r - 1)^2, r = pi_k / pi_{k-1} */
    double absolute; /* E |r - 1| */
    double printed;  /* E (r - 1 + t'dU)^2, t = theta_k - theta_{k-1}: the condition of Proposition 2 */
    double centred;  /* E (r - 1 + t'(dU - E dU))^2 */
} theory_step;
theory_step theory_step_of(const theory_family *f, const theory_grid *g, double gamma);

#endif
