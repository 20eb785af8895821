/* mnist_findings.c: rewards, gains and spread of samples. Invariant: all samples of one length share their starts and
 * their noise, so differences between networks are taken chain by chain. */
#include "mnist_findings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mnist_chains.h"

/* ---------------------------------------------------------------------------- beginning and end */

static int base_of(mnist_findings *f, const mnist_setting *s)
{
    for (int i = 0; i < f->bases; i++)
        if (f->base[i].steps == s->final_steps) {
            if (f->base[i].chains < s->final_chains) f->base[i].chains = s->final_chains;
            return i;
        }
    if (f->bases == MNIST_BASES) return -1;
    f->base[f->bases] = (mnist_sample){.chains = s->final_chains, .steps = s->final_steps};
    return f->bases++;
}

int mnist_findings_begin(mnist_findings *f, const mnist_plan *plan, char *error, size_t room)
{
    f->plan = plan;
    f->cell = calloc((size_t)plan->cells + 1, sizeof *f->cell);
    if (!f->cell) return files_fail(error, room, "out of memory");
    for (int i = 0; i < plan->cells; i++) {
        int base = base_of(f, &plan->cell[i].set);
        if (base < 0) return files_fail(error, room, "samples of more than %d lengths", (int)MNIST_BASES);
        f->cell[i].base = &f->base[base];
    }
    return 0;
}

void mnist_findings_free(mnist_findings *f)
{
    for (int i = 0; f->cell && i < f->plan->cells; i++) free(f->cell[i].sample.x);
    for (int i = 0; i < f->bases; i++) free(f->base[i].x);
    free(f->cell);
    f->cell = NULL;
    f->bases = 0;
}

const mnist_finding *mnist_finding_of(const mnist_findings *f, const mnist_cell *cell)
{
    return cell ? &f->cell[cell - f->plan->cell] : NULL;
}

/* ---------------------------------------------------------------------------- samples */

static double spread(const mnist_sample *s)
{
    double total = 0;
    for (int j = 0; j < MNIST_PIXELS; j++) {
        double sum = 0, square = 0;
        for (int i = 0; i < s->chains; i++) {
            double v = s->x[(size_t)i * MNIST_PIXELS + (size_t)j];
            sum += v;
            square += v * v;
        }
        total += fmax(square / s->chains - sum / s->chains * (sum / s->chains), 0);
    }
    return sqrt(total / MNIST_PIXELS);
}

static int draw(const mnist_findings *f, mnist_sample *s, const char *model, const char *name, char *error, size_t room)
{
    char cache[FILES_PATH], relative[MNIST_NAME + 16];
    mnist_chains chains = {
        .chains = s->chains, .steps = s->steps, .seed = f->plan->seed + UINT64_C(1000003), .threads = 1};
    (void)snprintf(relative, sizeof relative, "studies/%s.npz", name);
    s->x = malloc(mnist_chains_count(&chains) * MNIST_PIXELS * sizeof *s->x);
    if (!s->x) return files_fail(error, room, "out of memory for %d chains", s->chains);
    if (files_join(cache, f->plan->out, relative, error, room) ||
        mnist_chains_run(&chains, model, cache, s->x, error, room))
        return -1;
    s->spread = spread(s);
    return 0;
}

int mnist_base_draw(mnist_findings *f, int base, char *error, size_t room)
{
    char name[64];
    (void)snprintf(name, sizeof name, "pretrained-%d", f->base[base].steps);
    return draw(f, &f->base[base], f->plan->model, name, error, room);
}

/* ---------------------------------------------------------------------------- rewards */

static double reward_of(const mnist_cell *c, const mnist_sample *s, int i)
{
    return mnist_reward_of(c->reward, c->scale, s->x + (size_t)i * MNIST_PIXELS);
}

/* Mean over the first n chains of the reward, less that of other samples where there are any. */
static int mean_reward(const mnist_cell *c, const mnist_sample *s, const mnist_sample *less, int n,
                       experiment_mean *out, char *error, size_t room)
{
    double *value = malloc((size_t)n * sizeof *value + 1);
    if (!value) return files_fail(error, room, "out of memory");
    for (int i = 0; i < n; i++) value[i] = reward_of(c, s, i) - (less ? reward_of(c, less, i) : 0);
    *out = experiment_mean_of(value, n);
    free(value);
    return 0;
}

int mnist_cell_draw(mnist_findings *f, int cell, char *error, size_t room)
{
    const mnist_cell *c = &f->plan->cell[cell];
    mnist_finding *found = &f->cell[cell];
    char model[FILES_PATH], name[MNIST_NAME];
    int n = c->set.final_chains, few = n < MNIST_FEW ? n : MNIST_FEW;
    found->sample = (mnist_sample){.chains = n, .steps = c->set.final_steps};
    found->over = (experiment_mean){.mean = NAN, .sd = NAN, .error = NAN};
    mnist_cell_name(c, name, sizeof name);
    if (mnist_cell_model(f->plan, c, model, error, room) || draw(f, &found->sample, model, name, error, room))
        return -1;
    return mean_reward(c, found->base, NULL, few, &found->before, error, room) ||
                   mean_reward(c, &found->sample, NULL, few, &found->after, error, room) ||
                   mean_reward(c, &found->sample, found->base, n, &found->gain, error, room)
               ? -1
               : 0;
}

static int same_setting(const mnist_cell *a, const mnist_cell *b)
{
    return a->seed == b->seed && a->group == b->group && a->reward == b->reward && a->beta == b->beta &&
           (a->label == b->label || (a->label && b->label && strcmp(a->label, b->label) == 0));
}

int mnist_compare(mnist_findings *f, char *error, size_t room)
{
    const mnist_plan *plan = f->plan;
    for (int i = 0; i < plan->cells; i++)
        for (int j = 0; j < plan->cells; j++) {
            const mnist_cell *c = &plan->cell[i], *other = &plan->cell[j];
            if (c->method != MNIST_SOSMC || other->method != MNIST_IMPDIFF || !same_setting(c, other)) continue;
            if (mean_reward(c, &f->cell[i].sample, &f->cell[j].sample, c->set.final_chains, &f->cell[i].over, error,
                            room))
                return -1;
        }
    return 0;
}

experiment_mean mnist_gain_over_seeds(const mnist_findings *f, const mnist_cell *cell)
{
    double gain[MNIST_SEEDS];
    int n = 0;
    for (int i = 0; i < f->plan->cells && n < MNIST_SEEDS; i++) {
        mnist_cell other = f->plan->cell[i];
        other.seed = cell->seed;
        if (other.method == cell->method && same_setting(&other, cell)) gain[n++] = f->cell[i].gain.mean;
    }
    return experiment_mean_of(gain, n);
}
