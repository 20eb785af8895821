/* mnist_page_tables.c: the tables of the page of the experiment with pictures. Invariant: a table has the columns for which its
 * group has values, and recorded values are dim. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "mnist_page.h"
#include "mnist_record.h"

/* ---------------------------------------------------------------------------- words and numbers */

static const char *percent(double share, char out[64])
{
    if (isnan(share)) return "";
    (void)snprintf(out, 64, "%.1f%%", 100 * share);
    return out;
}

/* A mean with the ends of its 95% interval. */
static const char *interval(experiment_mean m, char out[64])
{
    if (isnan(m.mean)) return "";
    (void)snprintf(out, 64, "%+.3f [%.3f, %.3f]", m.mean, m.mean - 1.96 * m.error, m.mean + 1.96 * m.error);
    return out;
}

/* Step and noise are those of the whole group where the settings have no names. */
const char *mnist_setting_words(const mnist_cell *c, char *out, size_t room)
{
    int used = snprintf(out, room, "%s%s%s, beta %g", c->label ? c->label : "", c->label ? ": " : "",
                        mnist_reward_names[c->reward], c->beta);
    if ((c->group == MNIST_REDUCED || c->group == MNIST_BETTER) && used > 0 && (size_t)used < room)
        (void)snprintf(out + used, room - (size_t)used, ", step %g, noise %g", c->set.gamma, c->set.noise);
    return out;
}

int mnist_has_group(const mnist_plan *plan, mnist_group group)
{
    for (int i = 0; i < plan->cells; i++)
        if (plan->cell[i].group == group) return 1;
    return 0;
}

/* Reward, noise, beta, method. */
static int in_order(const void *a, const void *b)
{
    const mnist_cell *x = *(const mnist_cell *const *)a, *y = *(const mnist_cell *const *)b;
    if (x->reward != y->reward) return x->reward < y->reward ? -1 : 1;
    if (x->set.noise != y->set.noise) return x->set.noise > y->set.noise ? -1 : 1;
    if (x->beta != y->beta) return x->beta > y->beta ? -1 : 1;
    return (x->method > y->method) - (x->method < y->method);
}

int mnist_group_cells(const mnist_plan *plan, mnist_group group, const mnist_cell *out[MNIST_CELLS])
{
    int n = 0;
    out[0] = NULL;
    for (int i = 0; i < plan->cells; i++)
        if (plan->cell[i].group == group && plan->cell[i].seed == 0) out[n++] = &plan->cell[i];
    qsort(out, (size_t)n, sizeof(const mnist_cell *), in_order);
    return n;
}

/* ---------------------------------------------------------------------------- tables */

void mnist_page_rewards(page *p, const mnist_findings *findings, mnist_group group)
{
    const mnist_cell *cell[MNIST_CELLS];
    int n = mnist_group_cells(findings->plan, group, cell);
    experiment_page_table(
        p, "Mean reward of fresh chains before and after tuning, and gains with 95% intervals",
        "l setting|l method|r before|r recorded|r after|r recorded|r gain, paired|r over ImpDiff, paired");
    for (int i = 0; i < n; i++) {
        const mnist_finding *f = mnist_finding_of(findings, cell[i]);
        mnist_known k = mnist_known_of(findings->plan, cell[i]);
        int reduced = group == MNIST_REDUCED;
        char what[128], t[2][64];
        page_mark mark[8] = {[3] = PAGE_DIM, [5] = PAGE_DIM};
        experiment_cells(p, mark, "ssm4mess", mnist_setting_words(cell[i], what, sizeof what),
                         mnist_method_names[cell[i]->method], f->before, reduced ? k.reduced_before : k.baseline,
                         f->after, reduced ? k.reduced : k.final, reduced ? k.reduced_error : NAN,
                         interval(f->gain, t[0]), f->over.n ? interval(f->over, t[1]) : "");
    }
    page_table_end(p);
}

void mnist_page_agreement(page *p, const mnist_findings *findings)
{
    const mnist_cell *cell[MNIST_CELLS];
    int n = mnist_group_cells(findings->plan, MNIST_SWEEP, cell);
    experiment_page_table(
        p,
        "SOSMC-ULA beside the independent re-run: distance in standard errors of the chains, and of the chains and of "
        "tuning from run to run",
        "l setting|r gain, paired|r seeds|r mean of seeds|r re-run, paired|r chains apart|r all apart");
    for (int i = 0; i < n; i++) {
        mnist_known k = mnist_known_of(findings->plan, cell[i]);
        mnist_distance apart = mnist_apart(findings, cell[i]);
        experiment_mean seeds = mnist_gain_over_seeds(findings, cell[i]);
        char what[128];
        page_mark mark[7] = {[4] = PAGE_DIM, [6] = apart.all > 3 ? PAGE_WARN : PAGE_PLAIN};
        if (isnan(apart.all)) continue;
        experiment_cells(p, mark, "smdme11", mnist_setting_words(cell[i], what, sizeof what),
                         mnist_finding_of(findings, cell[i])->gain, seeds.n, seeds, k.rerun_gain, k.rerun_gain_error,
                         apart.chains, apart.all);
    }
    page_table_end(p);
}

void mnist_page_samples(page *p, const mnist_findings *findings, mnist_group group)
{
    const mnist_cell *cell[MNIST_CELLS];
    int n = mnist_group_cells(findings->plan, group, cell);
    experiment_page_table(p, "Samples of the tuned models: how different from each other",
                          "l setting|l method|r spread");
    for (int i = 0; i < n; i++) {
        const mnist_finding *f = mnist_finding_of(findings, cell[i]);
        char what[128];
        experiment_cells(p, NULL, "ss2", mnist_setting_words(cell[i], what, sizeof what),
                         mnist_method_names[cell[i]->method], f->sample.spread / f->base->spread);
    }
    page_table_end(p);
}

void mnist_page_particles(page *p, const mnist_findings *findings, mnist_group group)
{
    const mnist_cell *cell[MNIST_CELLS];
    int n = mnist_group_cells(findings->plan, group, cell);
    experiment_page_table(p, "What the particles became",
                          "l setting|l method|r reward|r weighted|r least ESS / N|r resamplings|r E|r E_0|r pixel sd|"
                          "r outside [−1, 1]|r KL ≈|r l ≈");
    for (int i = 0; i < n; i++) {
        const mnist_cell *c = cell[i];
        int weights = c->method == MNIST_SOSMC;
        char what[128], outside[64];
        experiment_cells(p, NULL, "ss4440332s33", mnist_setting_words(c, what, sizeof what),
                         mnist_method_names[c->method], mnist_last_cloud(c, MNIST_PLAIN),
                         weights && c->steps > 0 ? c->series[MNIST_SCORE][c->steps - 1] : NAN,
                         mnist_smallest_ess(c) / c->set.particles, weights ? (double)mnist_resamplings(c) : NAN,
                         mnist_last_cloud(c, MNIST_ENERGY), mnist_last_cloud(c, MNIST_ENERGY_REF),
                         mnist_last_cloud(c, MNIST_PIXEL_SD), percent(mnist_last_cloud(c, MNIST_OUTSIDE), outside),
                         mnist_last(c, MNIST_KL), mnist_last(c, MNIST_LOSS));
    }
    page_table_end(p);
}

void mnist_page_bases(page *p, const mnist_findings *findings)
{
    experiment_page_table(
        p, "Samples of the pre-trained model: chains of these lengths are not stationary, so compare equal ones",
        "r steps|r bright|r half (paper's scale)|r spread");
    for (int i = 0; i < findings->bases; i++) {
        const mnist_sample *s = &findings->base[i];
        double sum[2] = {0, 0};
        for (int c = 0; c < s->chains; c++) {
            sum[0] += mnist_reward_of(MNIST_BRIGHT, 1, s->x + (size_t)c * MNIST_PIXELS);
            sum[1] += mnist_reward_of(MNIST_HALF, 1, s->x + (size_t)c * MNIST_PIXELS);
        }
        experiment_cells(p, NULL, "0443", (double)s->steps, sum[0] / s->chains, sum[1] / s->chains, s->spread);
    }
    page_table_end(p);
}
