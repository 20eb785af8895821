/* langevin_exact.h: the Langevin experiment without Monte Carlo. Mixtures of isotropic Gaussians in the plane (eps
 * neglected), where E[R] is a weighted sum of component rewards and the forward KL a smooth integral. */
#ifndef SOSMC_LANGEVIN_LANGEVIN_EXACT_H
#define SOSMC_LANGEVIN_LANGEVIN_EXACT_H

#include <sosmc/models.h>

#include "files/files.h"
#include "runfile/config.h"

enum { LANGEVIN_MAX = 6 };

/* A setting is a run file that comes with the program; what follows `file` is read from it and belongs to it. */

typedef struct {
    const char *name;     /* "A".."D" */
    const char *label;    /* "V_dual, R_smooth" */
    char dir[FILES_PATH]; /* the folder of NAME.yaml */
    config *file;
    sosmc_mixture mixture; /* dim 2 */
    const double *theta_ref;
    sosmc_gate reward;
    double beta;               /* the selected one */
    int particles, iterations; /* so many iterations stand for the paper's two seconds */
} langevin_setting;

enum { LANGEVIN_SETTINGS = 4 };
/* Reads the four settings (langevin_cells.c). 0, or -1 with a sentence; langevin_close may be called in either case. */
int langevin_open(langevin_setting out[LANGEVIN_SETTINGS], char *error, size_t room);
void langevin_close(langevin_setting settings[LANGEVIN_SETTINGS]);

/* r_i = E[R] under component i. */
void langevin_component_rewards(const langevin_setting *s, double *r);
void langevin_softmax(int m, const double *theta, double *p);
/* KL(pi_ref || pi_p) for mixture weights p. */
double langevin_kl(const langevin_setting *s, const double *p);
/* The maximiser of E[R] - beta KL over mixture weights, beta > 0. */
void langevin_optimum(const langevin_setting *s, double beta, double *p);
/* Returns E[R] after K updates of the noise-free recursion with the component rewards r. `rewards` (NULL: not wanted) receives
 * it after each of them, rewards[0] before the first: K + 1 numbers. */
double langevin_recursion(const langevin_setting *s, const double *r, sosmc_optimiser optimiser, double beta, int K,
                          double *rewards);

/* Density at the start, up to a factor, and reward on a square of LANGEVIN_SIDE by LANGEVIN_SIDE nodes around the origin. Narrow
 * modes are drawn with a variance of 0.05, because they would fall between the nodes. */
enum { LANGEVIN_SIDE = 121 };
#define LANGEVIN_BOX 7.0 /* half the length of a side */
void langevin_maps(const langevin_setting *s, double *density, double *reward);

#endif
