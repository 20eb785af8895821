/* Tune a mixture towards a reward without gradient, under a reverse KL leash, and see how far it went.
 * With weights p on two far modes and reward 1 on the right one, the optimum is p = e^(1/beta) / (1 + e^(1/beta)). */
#include <math.h>
#include <sosmc/models.h>
#include <stdio.h>

int main(void)
{
    const double means[] = {-4, 0, 4, 0}, right[] = {1, 0}, start[] = {0, 0}, beta = 0.5;
    sosmc_mixture mixture = {.dim = 2, .components = 2, .means = means, .variance = 0.5};
    sosmc_mixture_law law = {.mixture = &mixture, .theta = start};
    sosmc_half_plane half = {.dim = 2, .normal = right};
    sosmc_problem p = {.model = sosmc_mixture_model(&mixture),
                       .objective = sosmc_reward_reverse(sosmc_half_plane_reward(&half), beta, start),
                       .init = sosmc_mixture_source(&law),
                       .theta0 = start};
    sosmc_settings cfg = sosmc_defaults();
    p.init.exact = 1; /* the cloud starts from pi_theta0 itself, so log Z is relative to it and the KL is known */
    cfg.kernel = sosmc_mala(0.2);
    cfg.optimiser = sosmc_adam(0.05);
    cfg.scheme.particles = cfg.scheme.pool = 4000;
    sosmc *run = NULL;
    sosmc_status status = sosmc_create(&run, &p, &cfg);
    if (status == SOSMC_OK) status = sosmc_run(run, 300, NULL, NULL);
    if (status == SOSMC_OK) {
        const sosmc_info *last = sosmc_last(run);
        printf("reward %.3f (optimum %.3f), KL %.3f, loss %.3f, ESS %.0f\n", last->mean_score, 1 / (1 + exp(-1 / beta)),
               last->kl, last->loss, last->ess);
    } else {
        fprintf(stderr, "%s\n", sosmc_message(run));
    }
    sosmc_free(run);
    return status == SOSMC_OK ? 0 : 1;
}
