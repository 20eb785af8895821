/* activations.h: what follows a layer's sums z, and its slope, in float: h = act(z), slope = act'(z). Shared by the vector
 * code of all networks; every function gives the same bits at each vector level.
 *
 * A z that is NaN gives an h that is NaN, so that the engine notices an energy that is not finite. */
#ifndef SOSMC_NETWORKS_ACTIVATIONS_H
#define SOSMC_NETWORKS_ACTIVATIONS_H

#include <sosmc/networks.h>

#include "base/simdf.h"

VEC vf sigmoid(vf z) { return vf_div(vf_set(1.0f), vf_one_plus_exp_minus(z)); }

VEC void silu(vf z, vf *h, vf *slope)
{
    vf s = sigmoid(z);
    *h = vf_mul(z, s);
    *slope = vf_fma(*h, vf_sub(vf_set(1.0f), s), s);
}

VEC void softplus(vf z, vf *h, vf *slope)
{
    vf zero = vf_set(0.0f), e = vf_exp(vf_min(z, vf_sub(zero, z)));
    *h = vf_fma(z, zero, vf_add(vf_max(zero, z), vf_log1p(e))); /* this adds zero for finite z, and NaN otherwise */
    *slope = sigmoid(z);
}

VEC void tanh_of(vf z, vf *h, vf *slope)
{
    vf one = vf_set(1.0f), e = vf_exp(vf_add(z, z)), r = vf_div(one, vf_add(e, one));
    vf t = vf_fnma(vf_set(2.0f), r, one);
    /* The exponential returns a number for NaN; this makes the result NaN again. */
    *h = vf_fma(z, vf_set(0.0f), t);
    *slope = vf_mul(vf_mul(vf_set(4.0f), r), vf_mul(e, r)); /* 1 - t t would lose all its digits where t is near 1 */
}

/* erfc(x) for x >= 0 to 2e-7 of itself: t exp(-x^2 + p(t)), t = 1/(1 + x/2), with the Chebyshev fit of Press et al.,
 * Numerical Recipes (erfcc). */
VEC vf erfc_positive(vf x)
{
    vf t = vf_div(vf_set(1.0f), vf_fma(vf_set(0.5f), x, vf_set(1.0f)));
    vf p = vf_fma(t, vf_set(0.17087277f), vf_set(-0.82215223f));
    p = vf_fma(p, t, vf_set(1.48851587f));
    p = vf_fma(p, t, vf_set(-1.13520398f));
    p = vf_fma(p, t, vf_set(0.27886807f));
    p = vf_fma(p, t, vf_set(-0.18628806f));
    p = vf_fma(p, t, vf_set(0.09678418f));
    p = vf_fma(p, t, vf_set(0.37409196f));
    p = vf_fma(p, t, vf_set(1.00002368f));
    p = vf_fma(p, t, vf_set(-1.26551223f));
    return vf_mul(t, vf_exp(vf_fnma(x, x, p)));
}

/* z Phi(z) and Phi(z) + z phi(z). The smaller tail is what is approximated; above zero Phi is one minus it. */
VEC void gelu(vf z, vf *h, vf *slope)
{
    const vf zero = vf_set(0.0f), one = vf_set(1.0f);
    vf size = vf_max(z, vf_sub(zero, z)), tail = vf_mul(vf_set(0.5f), erfc_positive(vf_mul(size, vf_set(0.70710678f))));
    vf density = vf_mul(vf_set(0.39894228f), vf_exp(vf_mul(vf_set(-0.5f), vf_mul(z, z))));
    vf above = vf_min(vf_max(vf_mul(vf_mul(z, vf_set(0x1p100f)), vf_set(0x1p100f)), zero), one); /* 1 where z > 0 */
    vf phi = vf_fma(above, vf_fnma(vf_set(2.0f), tail, one), tail);                              /* tail or 1 - tail */
    *h = vf_mul(z, phi);
    *slope = vf_fma(z, density, phi);
}

/* max(z, z/100). The step function is z times 2^200, held to [0, 1]: one for every positive z, zero for the others. */
VEC void leaky_relu(vf z, vf *h, vf *slope)
{
    vf above = vf_min(vf_max(vf_mul(vf_mul(z, vf_set(0x1p100f)), vf_set(0x1p100f)), vf_set(0.0f)), vf_set(1.0f));
    *h = vf_max(vf_mul(z, vf_set(0.01f)), z); /* with the arguments in this order NaN stays NaN */
    *slope = vf_fma(above, vf_set(0.99f), vf_set(0.01f));
}

/* `activation` is a constant where this is expanded. */
VEC void activate(const int activation, vf z, vf *h, vf *slope)
{
    switch (activation) {
    case SOSMC_SILU: silu(z, h, slope); break;
    case SOSMC_SOFTPLUS: softplus(z, h, slope); break;
    case SOSMC_TANH: tanh_of(z, h, slope); break;
    case SOSMC_GELU: gelu(z, h, slope); break;
    case SOSMC_LEAKY_RELU: leaky_relu(z, h, slope); break;
    default:
        *h = z;
        *slope = vf_set(1.0f);
        break;
    }
}

#endif
