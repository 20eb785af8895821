/* ebm2d_tables.c: what the 2-D energy-based experiment found, as text, as table.csv and as summary.json. */
#include "ebm2d_page.h"

#include <math.h>

#include "files/files.h"

/* ---------------------------------------------------------------------------- tables */

static void print_row(const ebm2d_findings *f, const ebm2d_cell *c, FILE *out)
{
    static const int shown[] = {EBM2D_REWARD, EBM2D_KL, EBM2D_EXCESS};
    ebm2d_reference r = ebm2d_reference_of(f->plan, c);
    const double known[] = {r.reward, r.kl, r.excess};
    char t[4][32];
    fprintf(out, "%-6s %-9s %-6s %5g  %-20s", ebm2d_group_names[c->group], ebm2d_dataset_names[c->data],
            ebm2d_half_names[c->half], c->beta, ebm2d_method_names[c->method]);
    for (int i = 0; i < 3; i++) {
        experiment_mean m = ebm2d_cell_mean(f->plan, c, (ebm2d_value)shown[i]);
        fprintf(out, " %7s +- %-6s [%6s]", experiment_decimals(m.mean, 4, t[0]), experiment_decimals(m.error, 4, t[1]),
                experiment_decimals(known[i], 4, t[2]));
    }
    fprintf(out, " %7s %7s %7s +- %s\n", experiment_decimals(ebm2d_cell_mean(f->plan, c, EBM2D_PARTICLE).mean, 4, t[0]),
            experiment_decimals(c->method == EBM2D_IMPDIFF ? NAN : ebm2d_cell_mean(f->plan, c, EBM2D_WEIGHTED).mean, 4,
                                t[1]),
            experiment_decimals(ebm2d_last(c, EBM2D_FRESH), 4, t[2]),
            experiment_decimals(ebm2d_last(c, EBM2D_FRESH_ERROR), 4, t[3]));
}

static void print_training(const ebm2d_findings *f, FILE *out)
{
    char t[5][32], verdict[256];
    fprintf(out, "\nexact log-likelihood of the training points, in nats\n%-9s  %-22s %9s %9s %12s %9s %11s\n", "", "",
            "loglik", "bound", "evaluations", "running", "log Z error");
    for (int d = 0; d < EBM2D_DATASETS; d++)
        for (int m = 0; m < EBM2D_TRAININGS && f->training[d].made; m++) {
            const ebm2d_training *v = &f->training[d];
            int weights = m == EBM2D_WEIGHTS;
            fprintf(out, "%-9s  %-22s %9s %9s %12s %9s %11s\n", ebm2d_dataset_names[d], ebm2d_training_names[m],
                    experiment_decimals(v->of[m].loglik, 4, t[0]), experiment_decimals(v->bound, 4, t[1]),
                    experiment_decimals(v->of[m].evaluations, 0, t[2]),
                    experiment_decimals(weights ? v->running : NAN, 4, t[3]),
                    experiment_decimals(weights ? v->logz_error : NAN, 4, t[4]));
        }
    for (int d = 0; d < EBM2D_DATASETS; d++)
        if (f->training[d].made)
            fprintf(out, "%s\n", ebm2d_training_verdict(&f->training[d], (ebm2d_dataset)d, verdict, sizeof verdict));
}

void ebm2d_print_findings(const ebm2d_findings *f, FILE *out)
{
    fprintf(out,
            "\nexact E[R], KL and l - l* with standard errors over %d seeds; in brackets a rerun of the published "
            "program%s\n%-51s %-26s%-26s%-26s %7s %7s %s\n",
            f->plan->scale.seeds, f->published ? "" : " (from other weights than these)", "", " E[R]", " KL", " l - l*",
            "particle", "weighted", "R_fresh");
    for (int i = 0; i < f->plan->cells; i++)
        if (f->plan->cell[i].seed == 0) print_row(f, &f->plan->cell[i], out);
    fputc('\n', out);
    claims_print(f->claim, EBM2D_CLAIMS, out);
    print_training(f, out);
}

static const char *const value_names[EBM2D_VALUES] = {"iteration",       "reward",          "kl",    "excess",
                                                      "particle_reward", "weighted_reward", "fresh", "fresh_error",
                                                      "short",           "short_error"};

int ebm2d_write_table(const ebm2d_findings *f, char *error, size_t room)
{
    char path[FILES_PATH];
    atomic_file file;
    if (files_join(path, f->plan->out, "table.csv", error, room) || atomic_open(&file, path, error, room)) return -1;
    atomic_print(&file, "group,dataset,half_plane,beta,method,seeds");
    for (int v = EBM2D_REWARD; v <= EBM2D_WEIGHTED; v++)
        atomic_print(&file, ",%s,%s_se", value_names[v], value_names[v]);
    atomic_print(&file,
                 ",fresh,fresh_se,short,short_se,start_reward,best_reward,best_kl,best_loss,known_reward,known_kl,"
                 "known_excess,known_particle_reward,known_weighted_reward,known_fresh,known_short\n");
    for (int i = 0; i < f->plan->cells; i++) {
        const ebm2d_cell *c = &f->plan->cell[i];
        if (c->seed) continue;
        ebm2d_reference r = ebm2d_reference_of(f->plan, c);
        const double rest[] = {ebm2d_last(c, EBM2D_FRESH),
                               ebm2d_last(c, EBM2D_FRESH_ERROR),
                               ebm2d_last(c, EBM2D_SHORT),
                               ebm2d_last(c, EBM2D_SHORT_ERROR),
                               c->ref_reward,
                               c->best_reward,
                               c->best_kl,
                               c->best_loss,
                               r.reward,
                               r.kl,
                               r.excess,
                               r.particle,
                               r.weighted,
                               r.fresh,
                               r.reduced};
        atomic_print(&file, "%s,%s,%s,%g,\"%s\",%d", ebm2d_group_names[c->group], ebm2d_dataset_names[c->data],
                     ebm2d_half_names[c->half], c->beta, ebm2d_method_names[c->method],
                     ebm2d_cell_mean(f->plan, c, EBM2D_REWARD).n);
        for (int v = EBM2D_REWARD; v <= EBM2D_WEIGHTED; v++) {
            experiment_mean m = ebm2d_cell_mean(f->plan, c, (ebm2d_value)v);
            experiment_field(&file, m.mean);
            experiment_field(&file, m.error);
        }
        for (size_t k = 0; k < sizeof rest / sizeof *rest; k++) experiment_field(&file, rest[k]);
        atomic_print(&file, "\n");
    }
    return atomic_close(&file, error, room);
}

/* ---------------------------------------------------------------------------- summary.json */

static void put_cell(json_writer *w, const ebm2d_cell *c)
{
    json_open_object(w, NULL);
    json_put_text(w, "group", ebm2d_group_names[c->group]);
    json_put_text(w, "dataset", ebm2d_dataset_names[c->data]);
    json_put_text(w, "half_plane", ebm2d_half_names[c->half]);
    json_put_number(w, "beta", c->beta);
    json_put_text(w, "method", ebm2d_method_names[c->method]);
    json_put_whole(w, "seed", c->seed);
    json_put_number(w, "start_reward", c->ref_reward);
    json_put_number(w, "best_reward", c->best_reward);
    json_put_number(w, "best_kl", c->best_kl);
    json_put_number(w, "best_loss", c->best_loss);
    for (int v = 0; v < EBM2D_VALUES; v++) json_put_number(w, value_names[v], ebm2d_last(c, (ebm2d_value)v));
    json_close(w);
}

static void put_chains(json_writer *w, const ebm2d_findings *f)
{
    static const char *const names[EBM2D_STUDIED] = {"ImpDiff", "SOSMC-ULA", "pre-trained"};
    const ebm2d_evidence *e = &f->evidence;
    json_open_list(w, "circles");
    for (int i = 0; i < EBM2D_STUDIED; i++) {
        const ebm2d_masses *m = &f->masses[i];
        const ebm2d_sample *x = &f->sample[i];
        json_open_object(w, NULL);
        json_put_text(w, "model", names[i]);
        json_put_number(w, "logz", m->logz);
        json_put_number(w, "reward", m->reward);
        json_put_number(w, "inner_mass", m->inner);
        json_put_number(w, "reward_inner", m->reward_inner);
        json_put_number(w, "reward_outer", m->reward_outer);
        json_put_number(w, "inner_share_of_chains",
                        ebm2d_inner_share(&x->snapshot[2 * (size_t)(x->snapshots - 1) * (size_t)x->chains], x->chains));
        if (i < EBM2D_PAPER_METHODS) {
            json_put_number(w, "reached", e->reached[i]);
            json_put_number(w, "median_hit", e->median_hit[i]);
            json_put_number(w, "gradient_norm_spread", e->norm_spread[i].mean);
            json_put_number(w, "particle_reward_gap", e->gap[i]);
            json_put_number(w, "early_reward", e->windows[i].early);
            json_put_number(w, "late_reward", e->windows[i].late);
            json_put_number(w, "change", e->windows[i].change);
            json_put_number(w, "change_error", e->windows[i].error);
        }
        json_close(w);
    }
    json_close(w);
    json_put_number(w, "reached_by_step", e->reached_by);
    json_put_number(w, "first_ess", e->first_ess[0].mean);
    json_put_number(w, "most_first_ess", e->most_first_ess);
    json_put_number(w, "first_ess_tempered", e->first_ess[1].mean);
    json_put_number(w, "ring_changes", e->ring_changes);
    json_put_numbers(w, "start_inner_share", f->start_inner, 2);
    json_put_numbers(w, "start_particle_reward", f->start_reward, 2);
    json_put_number(w, "ring_bias", e->ring_bias);
    json_put_number(w, "start_fresh", e->fresh);
    json_put_number(w, "start_fresh_error", e->fresh_error);
}

static void put_training(json_writer *w, const ebm2d_training *t, ebm2d_dataset data)
{
    static const char *const names[EBM2D_TRAININGS] = {"contrastive_divergence", "weighted"};
    char verdict[256];
    json_open_object(w, NULL);
    json_put_text(w, "dataset", ebm2d_dataset_names[data]);
    json_put_number(w, "bound", t->bound);
    for (int m = 0; m < EBM2D_TRAININGS; m++) {
        json_open_object(w, names[m]);
        json_put_number(w, "loglik", t->of[m].loglik);
        json_put_number(w, "logz", t->of[m].logz);
        json_put_number(w, "edge", t->of[m].edge);
        json_put_number(w, "evaluations", t->of[m].evaluations);
        if (m == EBM2D_WEIGHTS) {
            json_put_number(w, "seconds", t->seconds);
            json_put_number(w, "running_loglik", t->running);
            json_put_number(w, "logz_error", t->logz_error);
        }
        json_close(w);
    }
    json_put_text(w, "verdict", ebm2d_training_verdict(t, data, verdict, sizeof verdict));
    json_close(w);
}

int ebm2d_write_summary(const ebm2d_findings *f, char *error, size_t room)
{
    char path[FILES_PATH];
    atomic_file file;
    const ebm2d_scale *scale = &f->plan->scale;
    if (files_join(path, f->plan->out, "summary.json", error, room) || atomic_open(&file, path, error, room)) return -1;
    json_writer w = json_to(&file);
    json_open_object(&w, NULL);
    json_put_text(&w, "experiment", "ebm2d");
    json_put_text(&w, "models", f->models);
    json_put_truth(&w, "published_circles_model", f->published);
    json_put_whole(&w, "particles", scale->particles);
    json_put_whole(&w, "seeds", scale->seeds);
    json_put_whole(&w, "iterations", scale->trial_iterations);
    claims_json(&w, f->claim, EBM2D_CLAIMS);
    put_chains(&w, f);
    json_open_list(&w, "training");
    for (int d = 0; d < EBM2D_DATASETS; d++)
        if (f->training[d].made) put_training(&w, &f->training[d], (ebm2d_dataset)d);
    json_close(&w);
    json_open_list(&w, "cells");
    for (int i = 0; i < f->plan->cells; i++) put_cell(&w, &f->plan->cell[i]);
    json_close(&w);
    json_close(&w);
    return atomic_close(&file, error, room);
}
