/* mnist_tables.c: the results of the experiment with pictures as lines, as table.csv and as summary.json. Invariant: a field of
 * the table is a key of a cell in the summary, with the same value. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "mnist_page.h"
#include "mnist_record.h"

enum { FIELDS = 34 };
typedef struct {
    const char *name;
    double value;
} field;

static void fields_of(const mnist_findings *f, const mnist_cell *c, field out[FIELDS])
{
    const mnist_finding *found = mnist_finding_of(f, c);
    const mnist_setting *s = &c->set;
    mnist_known k = mnist_known_of(f->plan, c);
    mnist_distance apart = mnist_apart(f, c);
    experiment_mean seeds = mnist_gain_over_seeds(f, c);
    int reduced = c->group == MNIST_REDUCED, weights = c->method == MNIST_SOSMC;
    const field all[FIELDS] = {
        {"particles", s->particles},
        {"iterations", s->iterations},
        {"rate", s->rate},
        {"step", s->gamma},
        {"noise", s->noise},
        {"threshold", weights ? s->threshold : NAN},
        {"before", found->before.mean},
        {"before_se", found->before.error},
        {"after", found->after.mean},
        {"after_se", found->after.error},
        {"gain", found->gain.mean},
        {"gain_se", found->gain.error},
        {"over_impdiff", found->over.n ? found->over.mean : NAN},
        {"over_impdiff_se", found->over.n ? found->over.error : NAN},
        {"particle_reward", mnist_last_cloud(c, MNIST_PLAIN)},
        {"weighted_reward", weights && c->steps > 0 ? c->series[MNIST_SCORE][c->steps - 1] : NAN},
        {"least_ess", mnist_smallest_ess(c)},
        {"resamplings", weights ? (double)mnist_resamplings(c) : NAN},
        {"energy", mnist_last_cloud(c, MNIST_ENERGY)},
        {"energy_ref", mnist_last_cloud(c, MNIST_ENERGY_REF)},
        {"pixel_sd", mnist_last_cloud(c, MNIST_PIXEL_SD)},
        {"outside", mnist_last_cloud(c, MNIST_OUTSIDE)},
        {"kl_approximate", mnist_last(c, MNIST_KL)},
        {"loss_approximate", mnist_last(c, MNIST_LOSS)},
        {"spread", found->sample.spread / found->base->spread},
        {"known_before", reduced ? k.reduced_before : k.baseline},
        {"known_after", reduced ? k.reduced : k.final},
        {"rerun_gain", k.rerun_gain},
        {"rerun_gain_se", k.rerun_gain_error},
        {"apart_chains", apart.chains},
        {"apart_all", apart.all},
        {"seeds", seeds.n},
        {"gain_sd_of_seeds", seeds.sd},
        {"rerun_least_ess", k.rerun_ess},
    };
    memcpy(out, all, sizeof all);
}

static int write_csv(const mnist_results *r, char *error, size_t room)
{
    const mnist_plan *plan = r->found->plan;
    char path[FILES_PATH];
    field one[FIELDS];
    atomic_file f;
    if (files_join(path, plan->out, "table.csv", error, room) || atomic_open(&f, path, error, room)) return -1;
    atomic_print(&f, "group,label,reward,reward_scale,beta,method,seed");
    fields_of(r->found, &plan->cell[0], one);
    for (int i = 0; i < FIELDS; i++) atomic_print(&f, ",%s", one[i].name);
    atomic_print(&f, "\n");
    for (int i = 0; i < plan->cells; i++) {
        const mnist_cell *c = &plan->cell[i];
        fields_of(r->found, c, one);
        atomic_print(&f, "%s,%s,%s,%g,%g,%s,%d", mnist_group_names[c->group], c->label ? c->label : "",
                     mnist_reward_names[c->reward], c->scale, c->beta, mnist_method_names[c->method], c->seed);
        for (int v = 0; v < FIELDS; v++) experiment_field(&f, one[v].value);
        atomic_print(&f, "\n");
    }
    return atomic_close(&f, error, room);
}

static void put_cell(json_writer *w, const mnist_findings *f, const mnist_cell *c)
{
    field one[FIELDS];
    fields_of(f, c, one);
    json_open_object(w, NULL);
    json_put_text(w, "group", mnist_group_names[c->group]);
    json_put_text(w, "label", c->label);
    json_put_text(w, "reward", mnist_reward_names[c->reward]);
    json_put_number(w, "reward_scale", c->scale);
    json_put_number(w, "beta", c->beta);
    json_put_text(w, "method", mnist_method_names[c->method]);
    json_put_whole(w, "seed", c->seed);
    for (int i = 0; i < FIELDS; i++) json_put_number(w, one[i].name, one[i].value);
    json_close(w);
}

static void put_base(json_writer *w, const mnist_sample *s)
{
    json_open_object(w, NULL);
    json_put_whole(w, "steps", s->steps);
    json_put_whole(w, "chains", s->chains);
    json_put_number(w, "spread", s->spread);
    json_close(w);
}

static int write_summary(const mnist_results *r, char *error, size_t room)
{
    const mnist_findings *found = r->found;
    char path[FILES_PATH];
    atomic_file f;
    if (files_join(path, found->plan->out, "summary.json", error, room) || atomic_open(&f, path, error, room))
        return -1;
    json_writer w = json_to(&f);
    json_open_object(&w, NULL);
    json_put_text(&w, "experiment", "mnist");
    json_put_text(&w, "model", found->plan->model);
    json_put_truth(&w, "published_checkpoint", found->published);
    json_put_unsigned(&w, "seed", found->plan->seed);
    claims_json(&w, r->claim, MNIST_CLAIMS);
    json_open_list(&w, "pretrained");
    for (int i = 0; i < found->bases; i++) put_base(&w, &found->base[i]);
    json_close(&w);
    json_open_list(&w, "cells");
    for (int i = 0; i < found->plan->cells; i++) put_cell(&w, found, &found->plan->cell[i]);
    json_close(&w);
    json_close(&w);
    return atomic_close(&f, error, room);
}

int mnist_write_tables(const mnist_results *r, char *error, size_t room)
{
    return write_csv(r, error, room) || write_summary(r, error, room) ? -1 : 0;
}

/* ---------------------------------------------------------------------------- lines */

static void print_row(const mnist_results *r, const mnist_cell *c, FILE *out)
{
    const mnist_finding *f = mnist_finding_of(r->found, c);
    mnist_known k = mnist_known_of(r->found->plan, c);
    int reduced = c->group == MNIST_REDUCED;
    char t[10][32], what[128];
    (void)fprintf(out, "%-8s %-42s %-9s %8s [%7s] %8s [%7s] %8s +- %s", mnist_group_names[c->group],
                  mnist_setting_words(c, what, sizeof what), mnist_method_names[c->method],
                  experiment_decimals(f->before.mean, 4, t[0]),
                  experiment_decimals(reduced ? k.reduced_before : k.baseline, 4, t[1]),
                  experiment_decimals(f->after.mean, 4, t[2]),
                  experiment_decimals(reduced ? k.reduced : k.final, 4, t[3]),
                  experiment_decimals(f->gain.mean, 4, t[4]), experiment_decimals(f->gain.error, 4, t[5]));
    (void)fprintf(out, " [%6s] %9s %4d %6s\n", experiment_decimals(k.rerun_gain, 3, t[6]),
                  experiment_decimals(mnist_smallest_ess(c), 1, t[7]), mnist_resamplings(c),
                  experiment_decimals(mnist_last_cloud(c, MNIST_PIXEL_SD), 2, t[8]));
}

void mnist_print(const mnist_results *r, FILE *out)
{
    const mnist_plan *plan = r->found->plan;
    (void)fprintf(
        out,
        "\nfresh reward before and after tuning, paired gain with its standard error; in brackets recorded values%s\n"
        "%-61s %18s %18s %27s %9s %4s %6s\n",
        r->found->published ? "" : " (of another model)", "", "before", "after", "gain", "least ESS", "res.", "pix sd");
    for (int g = 0; g < MNIST_GROUPS; g++)
        for (int i = 0; i < plan->cells; i++)
            if ((int)plan->cell[i].group == g && plan->cell[i].seed == 0) print_row(r, &plan->cell[i], out);
    (void)fputc('\n', out);
    claims_print(r->claim, MNIST_CLAIMS, out);
}
