/* deblurring_claims.c: what is known about the deblurring experiment, and verdicts on it.
 *
 * A published row is confirmed when theta, MSE and SSIM of our seeds' mean are within three standard deviations of our seeds,
 * and half a unit of the last printed digit. Invariant: without two seeds no row is confirmed, and with fewer than five
 * none is corrected. */
#include <math.h>

#include "deblurring_page.h"

deblurring_known deblurring_known_of(const deblurring_plan *plan, deblurring_setup setup, deblurring_method method)
{
    static const char *const names[] = {"theta",          "mse",        "ssim",           "check_theta",
                                        "check_mse",      "check_ssim", "check_mean_mse", "check_mean_ssim",
                                        "check_particles"};
    double v[sizeof names / sizeof *names];
    int drawn = setup == DEBLURRING_B && !plan->flower; /* the values are those of the photograph */
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        v[i] = drawn ? NAN
                     : known_value(&plan->known, deblurring_settings[setup].name, deblurring_recipes[method].name,
                                   names[i]);
    return (deblurring_known){v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], isnan(v[8]) ? 0 : (int)v[8]};
}

experiment_mean deblurring_over_seeds(const deblurring_plan *plan, deblurring_setup setup, deblurring_method method,
                                      deblurring_value value)
{
    double at[DEBLURRING_SEEDS];
    for (int seed = 0; seed < DEBLURRING_SEEDS; seed++)
        at[seed] = deblurring_last(deblurring_find(plan, setup, method, seed), value);
    return experiment_mean_of(at, DEBLURRING_SEEDS);
}

/* The distance in standard deviations of our seeds, less what the rounding of the printed value explains. */
static double apart(experiment_mean ours, double printed)
{
    return fmax(0, fabs(ours.mean - printed) - 0.005) / ours.sd;
}

/* Why there are no runs of a setup of the paper that has the photograph. */
static const char *why_not_run(const deblurring_plan *plan, deblurring_setup setup)
{
    const deblurring_scale *s = &plan->scale;
    if (!s->guitar) return "the quick version runs drawn pictures alone";
    if (setup == DEBLURRING_B) return "its photograph was not given by --data DIR";
    if (!plan->data) return "the photograph of setups A and C was not found";
    return setup == DEBLURRING_C && !s->c ? "setup C is run by --full alone" : "no run of it is here";
}

static void judge_row(const deblurring_plan *plan, deblurring_setup setup, deblurring_method method, claim *c)
{
    const deblurring_known k = deblurring_known_of(plan, setup, method);
    experiment_mean theta = deblurring_over_seeds(plan, setup, method, DEBLURRING_THETA);
    experiment_mean mse = deblurring_over_seeds(plan, setup, method, DEBLURRING_MSE);
    experiment_mean ssim = deblurring_over_seeds(plan, setup, method, DEBLURRING_SSIM);
    if (theta.n < 2) {
        claim_not_run(c, "not judged: a row needs two seeds of setup %s at the paper's size, and %s",
                      deblurring_settings[setup].name,
                      theta.n == 1 && !isnan(k.theta) ? "one was run" : why_not_run(plan, setup));
        return;
    }
    double a = apart(theta, k.theta), b = apart(mse, k.mse), d = apart(ssim, k.ssim);
    claim_decide(c, plan->scale.published_size && theta.n >= 5, a <= 3 && b <= 3 && d <= 3,
                 "%d seeds: theta %.4f (sd %.4f, %.1f sd apart), MSE %.2f (sd %.2f, %.1f sd), SSIM %.4f (sd %.4f, %.1f "
                 "sd)",
                 theta.n, theta.mean, theta.sd, a, mse.mean, mse.sd, b, ssim.mean, ssim.sd, d);
}

/* The setup that the comparisons between methods are made on. */
static deblurring_setup main_setup(const deblurring_plan *plan)
{
    return deblurring_find(plan, DEBLURRING_A, DEBLURRING_LARGE_STEP, 0) ? DEBLURRING_A : DEBLURRING_FLAT;
}

/* The claims of the paper are about its own setups, so drawn pictures do not decide them; their results are named in the
 * reason. */
static void judge_gain(const deblurring_plan *plan, claim *c)
{
    int better[2] = {0, 0}, setups[2] = {0, 0};
    char drawn[96] = "";
    for (int s = 0; s < DEBLURRING_SETUPS; s++) {
        experiment_mean base = deblurring_over_seeds(plan, (deblurring_setup)s, DEBLURRING_MYPGD, DEBLURRING_MSE);
        experiment_mean ours = deblurring_over_seeds(plan, (deblurring_setup)s, DEBLURRING_P, DEBLURRING_MSE);
        int published = s == DEBLURRING_B ? plan->flower != NULL : s <= DEBLURRING_C;
        if (base.n == 0 || ours.n == 0) continue;
        setups[published]++;
        better[published] += ours.mean < base.mean;
    }
    if (setups[0] > 0)
        (void)snprintf(drawn, sizeof drawn, "; the MSE of the cloud is smaller on %d of %d drawn pictures", better[0],
                       setups[0]);
    if (setups[1] == 0)
        claim_not_run(c, "not judged: the claim is about the paper's setups, and %s%s", why_not_run(plan, DEBLURRING_A),
                      drawn);
    else
        claim_decide(c, plan->scale.published_size, better[1] == setups[1],
                     "smaller MSE of the cloud in %d of %d of the paper's setups that were run%s", better[1], setups[1],
                     drawn);
}

/* Which share of the gain over MYPGD the step makes without any weights. */
static void judge_step(const deblurring_plan *plan, claim *c)
{
    deblurring_setup s = main_setup(plan);
    double base = deblurring_over_seeds(plan, s, DEBLURRING_MYPGD, DEBLURRING_MSE).mean;
    double with = deblurring_over_seeds(plan, s, DEBLURRING_P, DEBLURRING_MSE).mean;
    double without = deblurring_over_seeds(plan, s, DEBLURRING_LARGE_STEP, DEBLURRING_MSE).mean;
    double share = (base - without) / (base - with);
    if (!claim_measured(c, !isnan(share), "the unweighted scheme with the large step")) return;
    claim_decide(
        c, plan->scale.published_size && s == DEBLURRING_A, share < 0.5,
        "setup %s: MSE %.1f with weights, %.1f with the step 0.396 and no weights, %.1f for MYPGD: the step alone "
        "makes %.2f of the gain",
        deblurring_settings[s].name, with, without, base, share);
}

static void judge_exact(const deblurring_plan *plan, claim *c)
{
    deblurring_setup s = main_setup(plan);
    const deblurring_cell *r = deblurring_find(plan, s, DEBLURRING_RATIO, 0);
    double least = deblurring_last(r, DEBLURRING_LEAST_ESS), count = deblurring_last(r, DEBLURRING_RESAMPLINGS);
    if (!claim_measured(c, !isnan(least), "the exact weighting")) return;
    claim_decide(
        c, plan->scale.published_size && s == DEBLURRING_A, least >= 2,
        "setup %s: the effective sample size falls to %.2f of %d, with %.0f resamplings in %.0f iterations; MSE "
        "of the mean picture %.1f, of the cloud %.1f",
        deblurring_settings[s].name, least, deblurring_cell_particles(plan, r), count, deblurring_last(r, DEBLURRING_K),
        deblurring_last(r, DEBLURRING_MEAN_MSE), deblurring_last(r, DEBLURRING_MSE));
}

void deblurring_judge(const deblurring_plan *plan, claim out[DEBLURRING_CLAIMS])
{
    static const char *const words[DEBLURRING_CLAIMS] = {
        "Setup A, MYPGD: theta -3.30, MSE 312.71, SSIM 0.74",
        "Setup A, SOSMC-MYULA: theta -3.48, MSE 215.47, SSIM 0.80",
        "Setup B, MYPGD: theta -3.18, MSE 220.42, SSIM 0.75",
        "Setup B, SOSMC-MYULA: theta -3.23, MSE 136.63, SSIM 0.81",
        "Setup C, MYPGD: theta -3.94, MSE 1520.36, SSIM 0.22",
        "Setup C, SOSMC-MYULA: theta -3.78, MSE 1030.20, SSIM 0.41",
        "SOSMC-MYULA has a smaller error than MYPGD",
        "The weights make the difference, not the step size",
        "Weights with a reverse kernel, as in the authors' program, leave more than one ancestor"};
    for (int i = 0; i < DEBLURRING_CLAIMS; i++) out[i].claim = words[i];
    for (int i = 0; i < 6; i++)
        judge_row(plan, (deblurring_setup)(i / 2), i % 2 ? DEBLURRING_P : DEBLURRING_MYPGD, &out[i]);
    judge_gain(plan, &out[6]);
    judge_step(plan, &out[7]);
    judge_exact(plan, &out[8]);
}
