/* langevin_claims.c: the claims of the paper's section, each with what we measured and a verdict worked out from it: what an
 * iteration costs, that SOUL is serial, ImpDiff under two optimisers, RWM in many dimensions. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/experiment.h"
#include "terminal/interrupt.h"
#include "langevin_parts_inside.h"

/* Microseconds per iteration, setting C with the reference batch. */
static int microseconds(const parts *e, langevin_method method, int particles, int threads, double *best)
{
    int iterations = e->o->quick ? 40 : 200, repeats = e->o->quick ? 1 : 5;
    if (method == SOUL) iterations = e->o->quick ? 12 : 40;
    static langevin_result r;
    *best = INFINITY;
    for (int k = 0; k < repeats && !interrupt_requested(); k++) {
        const langevin_setting *s = &e->setting[C];
        langevin_run run = {.setting = s,
                            .method = method,
                            .adam = 1,
                            .beta = s->beta,
                            .particles = particles,
                            .reference = particles / 2,
                            .iterations = iterations,
                            .threads = threads};
        if (langevin_execute(&run, NAN, &r, e->error, e->room)) return -1;
        *best = fmin(*best, 1e6 * langevin_best_tenth(&r));
    }
    return 0;
}

enum { SMALL, LARGE, WIDE, TIMES }; /* 1,000 particles, 10,000, 10,000 with two threads */
static const int time_particles[TIMES] = {1000, 10000, 10000}, time_threads[TIMES] = {1, 1, 2};

static int measure_times(const parts *e, double us[LANGEVIN_METHODS][TIMES])
{
    for (int m = 0; m < LANGEVIN_METHODS; m++)
        for (int k = 0; k < TIMES; k++)
            if (microseconds(e, (langevin_method)m, time_particles[k], time_threads[k], &us[m][k])) return -1;
    return 0;
}

static void claim_cheapest(const parts *e, double us[LANGEVIN_METHODS][TIMES], claim *c)
{
    int next = SOUL; /* the cheapest of the others */
    for (int m = SOUL; m < LANGEVIN_METHODS; m++)
        if (us[m][LARGE] < us[next][LARGE]) next = m;
    double ratio = us[next][LARGE] / us[IMPDIFF][LARGE];
    c->claim = "ImpDiff is the cheapest per iteration";
    claim_decide(c, !e->o->quick, ratio > 1.05,
                 "%.0f µs at N = 10,000 on one thread; next is %s with %.0f µs (%.2f times)%s", us[IMPDIFF][LARGE],
                 langevin_method_names[next], us[next][LARGE], ratio,
                 ratio > 1.05   ? ""
                 : ratio > 0.95 ? ": a tie"
                                : ", which is cheaper");
}

static void claim_soul(const parts *e, double us[LANGEVIN_METHODS][TIMES], claim *c)
{
    double growth = us[SOUL][LARGE] / us[SOUL][SMALL], gain = us[SOUL][LARGE] / us[SOUL][WIDE];
    double other = us[SOSMC_ULA][LARGE] / us[SOSMC_ULA][WIDE], ratio = us[SOUL][LARGE] / us[SOSMC_ULA][LARGE];
    int proportional = growth > 7 && growth < 13, serial = gain < 1.2;
    c->claim = "SOUL costs N serial steps: time proportional to N, no profit from threads or vectors";
    claim_decide(c, !e->o->quick, proportional && serial && ratio > 1,
                 "1,000 to 10,000 steps: %.1f times the time; two threads: %.2f times as fast (SOSMC-ULA: %.2f); %.1f "
                 "times the time of SOSMC-ULA at N = 10,000%s",
                 growth, gain, other, ratio,
                 proportional && serial && ratio <= 1 ? ": serial, yet not slower than SOSMC here" : "");
}

enum { SGD, ADAM };

static int claim_optimisers(const parts *e, claim *c)
{
    int n = e->seeds, K = e->setting[A].iterations; /* all of them even when quick: SGD needs them */
    task *t = langevin_tasks(e, 2 * n);
    double v[LANGEVIN_SEEDS];
    int rc = t ? 0 : -1;
    for (int i = 0; rc == 0 && i < 2 * n; i++) {
        t[i] = langevin_published(e, A, IMPDIFF, K, i % n);
        t[i].run.adam = i / n == ADAM;
    }
    if (rc == 0) rc = langevin_run_tasks(e, t, 2 * n);
    if (rc == 0) {
        summary reward[2], asked[2], there[2];
        for (int k = 0; k < 2; k++) {
            for (int i = 0; i < n; i++) v[i] = t[k * n + i].end.reward;
            reward[k] = langevin_summarise(v, n);
            for (int i = 0; i < n; i++) v[i] = t[k * n + i].end.weight[1];
            asked[k] = langevin_summarise(v, n);
            for (int i = 0; i < n; i++) v[i] = t[k * n + i].end.right;
            there[k] = langevin_summarise(v, n);
        }
        int lower = reward[ADAM].mean + reward[ADAM].half < reward[SGD].mean - reward[SGD].half;
        int higher = reward[ADAM].mean - reward[ADAM].half > reward[SGD].mean + reward[SGD].half;
        int ahead = asked[ADAM].mean - there[ADAM].mean > asked[SGD].mean - there[SGD].mean;
        c->claim =
            "ImpDiff earns less with Adam than with SGD in setting A, because theta moves away before the particles "
            "cross";
        claim_decide(c, !e->o->quick, lower && ahead,
                     "reward %.4f ± %.4f (Adam), %.4f ± %.4f (SGD) after %d iterations; theta gives the good mode a "
                     "weight of %.4f and %.4f, where %.4f and %.4f of the particles are%s",
                     reward[ADAM].mean, reward[ADAM].half, reward[SGD].mean, reward[SGD].half, K, asked[ADAM].mean,
                     asked[SGD].mean, there[ADAM].mean, there[SGD].mean,
                     lower && ahead ? ""
                     : lower        ? ": less, but the cause is another"
                     : higher       ? ": the opposite"
                                    : ": no difference");
    }
    free(t);
    return rc;
}

enum { DIMENSIONS = 6, HIGHEST = 64 };

typedef struct {
    int dim[DIMENSIONS];
    double acceptance[KERNELS][DIMENSIONS], distinct[KERNELS][DIMENSIONS];
    summary reward[KERNELS][DIMENSIONS];
} dimension_study;

/* Two components of variance 0.5 at -3 and 3 on the first axis, rewarded for x_1 > 0: the optimum is 1 up to 1e-5. */
static int claim_dimension(const parts *e, dimension_study *d, claim *c)
{
    static char model[DIMENSIONS][1024], reward[DIMENSIONS][512];
    int n = e->o->quick ? 2 : 3, particles = e->o->quick ? 500 : 2000, iterations = e->o->quick ? 60 : 200, used = 0;
    task *t = langevin_tasks(e, DIMENSIONS * KERNELS * n);
    int rc = t ? 0 : -1;
    for (int i = 0; i < DIMENSIONS; i++) {
        char zeros[3 * HIGHEST + 1] = ""; /* of all coordinates but the first */
        d->dim[i] = 2 << i;
        for (int j = 1; j < d->dim[i]; j++) memcpy(&zeros[3 * (j - 1)], ", 0", sizeof ", 0");
        (void)snprintf(model[i], sizeof model[i],
                       "model={type: gaussian_mixture, means: [[-3%s], [3%s]], variance: 0.5, theta: [0, 0]}", zeros,
                       zeros);
        (void)snprintf(reward[i], sizeof reward[i], "objective.reward={type: half_plane, normal: [1%s]}", zeros);
        for (int k = 0; rc == 0 && k < KERNELS * n; k++, used++) {
            t[used] = langevin_published(e, A, langevin_kernels[k / n], iterations, k % n);
            t[used].run.particles = particles;
            t[used].run.set[0] = model[i];
            t[used].run.set[1] = reward[i];
            t[used].run.set[2] = "adapt=null";
        }
    }
    if (rc == 0) rc = langevin_run_tasks(e, t, used);
    for (int i = 0, at = 0; rc == 0 && i < DIMENSIONS; i++)
        for (int k = 0; k < KERNELS; k++) {
            double value[LANGEVIN_SEEDS];
            for (int j = 0; j < n; j++, at++) {
                value[j] = t[at].end.reward;
                d->acceptance[k][i] += t[at].end.acceptance / n;
                d->distinct[k][i] += t[at].end.distinct / n;
            }
            d->reward[k][i] = langevin_summarise(value, n);
        }
    const double *rwm = d->acceptance[RWM], *mala = d->acceptance[MALA];
    int last = DIMENSIONS - 1, falls = rwm[last] < 0.2 * rwm[0], faster = rwm[last] / rwm[0] < mala[last] / mala[0];
    int shown = d->reward[RWM][last].mean < 0.99 * d->reward[MALA][last].mean;
    c->claim = "RWM degrades with the dimension";
    claim_decide(c, !e->o->quick, falls && faster,
                 "step 0.1, dimension 2 to 64: acceptance %.3f to %.4f (MALA: %.3f to %.3f); different particles "
                 "%.0f%% to %.0f%% (MALA: %.0f%% to %.0f%%); reward at 64: %.4f (MALA: %.4f)%s",
                 rwm[0], rwm[last], mala[0], mala[last], 100 * d->distinct[RWM][0], 100 * d->distinct[RWM][last],
                 100 * d->distinct[MALA][0], 100 * d->distinct[MALA][last], d->reward[RWM][last].mean,
                 d->reward[MALA][last].mean,
                 falls && faster && !shown ? ": the reward does not show it, since weights carry it" : "");
    free(t);
    return rc;
}

int langevin_claims(const parts *e)
{
    enum { CLAIMS = 4 };
    claim c[CLAIMS] = {{.claim = NULL}};
    double us[LANGEVIN_METHODS][TIMES];
    dimension_study d = {{0}, {{0}}, {{0}}, {{{0, 0}}}};
    if (measure_times(e, us) || claim_optimisers(e, &c[2]) || claim_dimension(e, &d, &c[3])) return -1;
    claim_cheapest(e, us, &c[0]);
    claim_soul(e, us, &c[1]);
    claims_page(e->page, c, CLAIMS);
    experiment_page_table(
        e->page, "Time of one iteration, setting C with a reference batch of N/2; for SOUL N is the number of steps",
        "l method|r µs at N = 1,000|r µs at N = 10,000|r growth|r µs, two threads|r speed-up");
    for (int m = 0; m < LANGEVIN_METHODS; m++)
        experiment_row(e->page, NULL, "%s|%.1f|%.1f|%.1f|%.1f|%.2f", langevin_method_names[m], us[m][SMALL],
                       us[m][LARGE], us[m][LARGE] / us[m][SMALL], us[m][WIDE], us[m][LARGE] / us[m][WIDE]);
    page_table_end(e->page);
    experiment_page_table(
        e->page, "Two Gaussians in d dimensions, half-plane reward, fixed step 0.1, Adam, beta = 0 (optimum 1)",
        "r dimension|l method|r acceptance|r different particles|r reward|r ± 1.96 se");
    for (int i = 0; i < DIMENSIONS; i++)
        for (int k = 0; k < KERNELS; k++)
            experiment_row(e->page, NULL, "%d|%s|%.4f|%.1f%%|%.4f|%.4f", d.dim[i],
                           langevin_method_names[langevin_kernels[k]], d.acceptance[k][i], 100 * d.distinct[k][i],
                           d.reward[k][i].mean, d.reward[k][i].half);
    page_table_end(e->page);
    return 0;
}
