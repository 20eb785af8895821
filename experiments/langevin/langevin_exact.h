/* langevin_exact.h: the Langevin experiment without Monte Carlo. Mixtures of isotropic Gaussians in the plane (eps
 * neglected), where E[R] is a weighted sum of component rewards and the forward KL a smooth integral. */
#ifndef SOSMC_LANGEVIN_LANGEVIN_EXACT_H
#define SOSMC_LANGEVIN_LANGEVIN_EXACT_H

#include <sosmc/models.h>

enum { LANGEVIN_MAX = 6 };

typedef struct {
    const char *name;      /* "A".."D" */
    const char *label;     /* "V_dual, R_smooth" */
    sosmc_mixture mixture; /* dim 2 */
    double theta_ref[LANGEVIN_MAX];
    sosmc_gate reward;
    double beta;    /* the selected one */
    int iterations; /* the fixed K that stands for the paper's two seconds */
} langevin_setting;

enum { LANGEVIN_SETTINGS = 4 };
const langevin_setting *langevin_settings(void); /* LANGEVIN_SETTINGS of them */

/* r_i = E[R] under component i. */
void langevin_component_rewards(const langevin_setting *s, double *r);
void langevin_softmax(int m, const double *theta, double *p);
/* KL(pi_ref || pi_p) for mixture weights p. */
double langevin_kl(const langevin_setting *s, const double *p);
/* The maximiser of E[R] - beta KL over mixture weights, beta > 0. */
void langevin_optimum(const langevin_setting *s, double beta, double *p);
/* E[R] after each of K updates of the noise-free recursion, rewards[0] before the first: K + 1 numbers. */
void langevin_recursion(const langevin_setting *s, sosmc_optimiser optimiser, double beta, int K, double *rewards);

#endif
