/* objective.c: objectives as rows of constants (maths.md OBJ),
 *
 *     grad l = scale * ( sum_i w_i (s_i - sbar + a) dU(x_i) + (b/M) sum_j dU(y_j) ),   s = score + kl (U - U_ref):
 *
 *     constructor       score     a      b     kl     y drawn from     l
 *     mmle              0         1      0     0                       -log Z
 *     likelihood        0        -1      1     0      data             mean U(data) + log Z
 *     reward_forward    R        -beta   beta  0      reference law    -E R + beta KL(pi_ref || pi_theta)
 *     reward_reverse    R         0      0     beta                    -E R + beta KL(pi_theta || pi_ref)
 *
 * Invariant: an objective differs from another by these values alone; no code asks which constructor made it, except
 * for `loss`, which names the estimate that is reported. */
#include <sosmc/sosmc.h>

sosmc_objective sosmc_mmle(void) { return (sosmc_objective){.a = 1.0, .scale = 1.0, .loss = SOSMC_LOSS_MMLE}; }

sosmc_objective sosmc_likelihood(sosmc_source data, int batch)
{
    return (sosmc_objective){
        .a = -1.0, .b = 1.0, .scale = 1.0, .data = data, .batch = batch, .loss = SOSMC_LOSS_LIKELIHOOD};
}

sosmc_objective sosmc_reward_forward(sosmc_score reward, double beta, sosmc_source reference, int batch,
                                     const double *theta_ref)
{
    return (sosmc_objective){.a = -beta,
                             .b = beta,
                             .scale = 1.0,
                             .score = reward,
                             .theta_ref = theta_ref,
                             .data = reference,
                             .batch = batch,
                             .loss = SOSMC_LOSS_FORWARD_KL};
}

sosmc_objective sosmc_reward_reverse(sosmc_score reward, double beta, const double *theta_ref)
{
    return (sosmc_objective){
        .kl = beta, .scale = 1.0, .score = reward, .theta_ref = theta_ref, .loss = SOSMC_LOSS_REVERSE_KL};
}
