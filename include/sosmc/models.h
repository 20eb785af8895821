/* models.h: models that come with the library. Each is a plain struct you fill and keep; the constructors borrow it. */
#ifndef SOSMC_MODELS_H
#define SOSMC_MODELS_H

#include <sosmc/sosmc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Gaussian mixture with softmax weights v = softmax(theta), fixed means, common variance (maths.md GMM):
 *     U_theta(x) = -log( sum_i v_i exp(-|x - mu_i|^2 / (2 variance)) + eps ).
 * Z does not depend on theta. eps = 0 is evaluated by log-sum-exp and is finite everywhere; eps > 0 bounds U by
 * -log eps, which makes the potential flat far from every mode (what the published experiment does with 1e-9). */
typedef struct {
    int dim, components;
    const double *means; /* components rows of dim */
    double variance, eps;
} sosmc_mixture;

SOSMC_API sosmc_model sosmc_mixture_model(const sosmc_mixture *mixture);

/* Exact draws from the mixture (eps neglected) at a given theta, with normalised density: initial or reference law. */
typedef struct {
    const sosmc_mixture *mixture;
    const double *theta; /* components of them */
} sosmc_mixture_law;
SOSMC_API sosmc_source sosmc_mixture_source(const sosmc_mixture_law *law);

/* log Z of exp(-U_theta) for eps = 0: (dim/2) log(2 pi variance), whatever theta. */
SOSMC_API double sosmc_mixture_logz(const sosmc_mixture *mixture);

#ifdef __cplusplus
}
#endif
#endif
