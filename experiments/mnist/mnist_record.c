/* mnist_record.c: the recorded figures, from known.csv. Invariant: rewards are on the scale of the program that made them, which
 * is that of the pairs and the sweeps here: half without its factor 1/2, dark with one. */
#include "mnist_record.h"

#include <math.h>
#include <stdio.h>

/* Values of one setting and method. */
typedef struct {
    const known *k;
    char setting[MNIST_NAME];
    const char *method;
} rows;

static double value(const rows *r, const char *quantity) { return known_value(r->k, r->setting, r->method, quantity); }

static double value_at(const rows *r, const char *quantity, int iteration)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%s at %d", quantity, iteration);
    return value(r, name);
}

static rows rows_of(const mnist_plan *plan, const mnist_cell *c)
{
    rows r = {.k = &plan->known, .method = mnist_method_names[c->method]};
    mnist_setting_name(c, r.setting, sizeof r.setting);
    return r;
}

mnist_known mnist_known_of(const mnist_plan *plan, const mnist_cell *c)
{
    const rows r = rows_of(plan, c);
    int reduced = c->group == MNIST_REDUCED;
    double before = value(&r, "before"), after = value(&r, "after");
    return (mnist_known){.particles = value(&r, "particles"),
                         .baseline = reduced ? NAN : before,
                         .final = reduced ? NAN : after,
                         .rerun_before = value(&r, "rerun_before"),
                         .rerun_after = value(&r, "rerun_after"),
                         .rerun_gain = value(&r, "rerun_gain"),
                         .rerun_gain_error = (value(&r, "rerun_gain_high") - value(&r, "rerun_gain_low")) / (2 * 1.96),
                         .rerun_ess = value(&r, "rerun_least_ess"),
                         .reduced_before = reduced ? before : NAN,
                         .reduced = reduced ? after : NAN,
                         .reduced_error = value(&r, "after_sd") / sqrt(128),
                         .reduced_resamplings = value(&r, "resamplings"),
                         .reduced_ess = value(&r, "least_ess")};
}

void mnist_known_curves(const mnist_plan *plan, const mnist_cell *c, mnist_curves *out)
{
    static const char *const cloud[] = {"reward", "weighted_reward", "energy", "reference_energy", "ess"};
    const rows row = rows_of(plan, c), *r = &row;
    out->known = !isnan(value_at(r, "fresh", 0));
    for (int i = 0; out->known && i < MNIST_RECORDED; i++) {
        out->fresh[i][0] = value_at(r, "fresh", 50 * i);
        out->fresh[i][1] = value_at(r, "fresh_sd", 50 * i);
    }
    for (int i = 0; out->known && i < MNIST_RECORDED_CLOUDS; i++)
        for (int j = 0; j < 5; j++) out->cloud[i][j] = value_at(r, cloud[j], 100 * i);
}

double mnist_run_spread(const mnist_plan *plan)
{
    double sum = 0;
    for (int r = 0; r < 2; r++)
        for (int b = 0; b < MNIST_BETAS; b++) {
            const mnist_cell c = {.group = MNIST_SWEEP,
                                  .reward = r ? MNIST_DARK : MNIST_BRIGHT,
                                  .method = MNIST_SOSMC,
                                  .beta = mnist_betas[b]};
            const rows known = rows_of(plan, &c);
            double ours = value(&known, "after") - value(&known, "before"), theirs = value(&known, "rerun_gain");
            double mean = (ours + theirs) / 2;
            sum += (ours - theirs) * (ours - theirs) / (mean * mean) / 2; /* two runs: half of the squared difference */
        }
    return sqrt(sum / (2 * MNIST_BETAS));
}

/* First and last parameter, and the sum of the absolute weights of the first layer. */
int mnist_is_published(const double *theta, int n)
{
    enum { PARAMETERS = 76993, FIRST = 400 };
    double sum = 0;
    if (n != PARAMETERS) return 0;
    for (int i = 0; i < FIRST; i++) sum += fabs(theta[i]);
    return fabs(theta[0] - 0.0202282332) < 1e-9 && fabs(theta[n - 1] + 0.1487099230) < 1e-9 &&
           fabs(sum - 44.99514) < 1e-4;
}
