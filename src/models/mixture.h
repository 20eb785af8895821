/* mixture.h: the arithmetic of the Gaussian mixture that exists once per vector level (mixture_vec.c). prep and work are
 * described there. */
#ifndef SOSMC_MODELS_MIXTURE_H
#define SOSMC_MODELS_MIXTURE_H

#include <sosmc/models.h>

typedef struct {
    void (*energy)(const sosmc_mixture *m, const double *prep, const sosmc_batch *b, double *U, double *gx);
    void (*contract)(const sosmc_mixture *m, const double *prep, const sosmc_batch *b, const double *c, double *g);
    void (*scores)(const sosmc_mixture *m, const double *prep, const sosmc_batch *b, double *D);
    /* n standard normal particles in x (dim rows of ld) become draws from the mixture with weights softmax(theta):
     * x = mean of the component that u[i] in (0,1] picks + sqrt(variance) x */
    void (*place)(const sosmc_mixture *m, const double *theta, int n, int ld, const double *u, double *x);
} mixture_code;

#endif
