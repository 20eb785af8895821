/* untuned_inside.h: what the families of problems share. A family fills in problem, loss, self and, where it is not theta0, a
 * start for the search of the minimum in `best`. */
#ifndef SOSMC_TESTS_UNTUNED_INSIDE_H
#define SOSMC_TESTS_UNTUNED_INSIDE_H

#include <stddef.h>

#include "untuned.h"

#define LOG_2PI 1.8378770664093454836

/* Zeroed memory that lives as long as the problem; NULL when there is none. */
void *untuned_room(untuned_problem *u, size_t count, size_t size);
/* The problem's theta0 and the start of the search for the minimum: these numbers. Non-zero when memory is out. */
int untuned_start(untuned_problem *u, int p, const double *theta0);

/* The objective is the marginal likelihood of so many rows. */
void untuned_marginal(untuned_problem *u, int64_t rows);

/* Models of the families ask for tiles of at most this many particles, so that a row of a tile fits on the stack. */
enum { UNTUNED_TILE = 64 };
static inline const double *untuned_row(const sosmc_batch *b, int j) { return b->x + (size_t)j * (size_t)b->ld; }

/* grad_theta from scores: g += sum_i c[i] D_i. D has room for p rows of UNTUNED_TILE. */
typedef int untuned_scores(const void *self, const double *theta, const sosmc_batch *b, double *D);
int untuned_contract(untuned_scores *scores, const void *self, const double *theta, const sosmc_batch *b, int p,
                     const double *c, double *D, double *g);

/* Opens the problem u->name. Non-zero when it cannot. */
typedef int untuned_family(untuned_problem *u, const char *data);
untuned_family untuned_open_mixture, untuned_open_hierarchy, untuned_open_scales_theta, untuned_open_series;
untuned_family untuned_open_wisconsin, untuned_open_logit, untuned_open_latent, untuned_open_banana, untuned_open_well;
untuned_family untuned_open_funnel, untuned_open_exact;
untuned_family untuned_open_out_of_sample_latent, untuned_open_volatility, untuned_open_crossed;
untuned_family untuned_open_spins, untuned_open_skewed, untuned_open_gauss_rev;
untuned_family untuned_open_unusual;

#endif
