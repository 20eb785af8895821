/* deblurring_page.c: the results of the deblurring experiment as lines, as table.csv and summary.json, and as a page with every
 * figure. Invariant: nothing is computed here but means over seeds. */
#include "deblurring_page.h"

#include <math.h>

#include "deblurring_figures.h"

/* ---------------------------------------------------------------------------- tables */

static int write_csv(const deblurring_results *r, char *error, size_t room)
{
    const deblurring_plan *plan = r->plan;
    char path[FILES_PATH];
    atomic_file f;
    if (files_join(path, plan->out, "table.csv", error, room) || atomic_open(&f, path, error, room)) return -1;
    atomic_print(&f, "setup,picture,method,seed,particles");
    for (int v = 0; v < DEBLURRING_VALUES; v++) atomic_print(&f, ",%s", deblurring_value_names[v]);
    atomic_print(&f, "\n");
    for (int i = 0; i < plan->cells; i++) {
        const deblurring_cell *c = &plan->cell[i];
        const deblurring_setting *s = &deblurring_settings[c->setup];
        atomic_print(&f, "%s,%s,%s,%d,%d", s->name, deblurring_picture_names[s->picture],
                     deblurring_recipes[c->method].name, c->seed, deblurring_cell_particles(plan, c));
        for (int v = 0; v < DEBLURRING_VALUES; v++) experiment_field(&f, deblurring_last(c, (deblurring_value)v));
        atomic_print(&f, "\n");
    }
    return atomic_close(&f, error, room);
}

static void put_cell(json_writer *w, const deblurring_plan *plan, const deblurring_cell *c)
{
    int rows, columns;
    (void)deblurring_truth(plan, c, &rows, &columns);
    json_open_object(w, NULL);
    json_put_text(w, "setup", deblurring_settings[c->setup].name);
    json_put_text(w, "picture", deblurring_picture_names[deblurring_settings[c->setup].picture]);
    json_put_whole(w, "rows", rows);
    json_put_whole(w, "columns", columns);
    json_put_text(w, "method", deblurring_recipes[c->method].name);
    json_put_whole(w, "seed", c->seed);
    json_put_whole(w, "particles", deblurring_cell_particles(plan, c));
    for (int v = 0; v < DEBLURRING_VALUES; v++)
        json_put_number(w, deblurring_value_names[v], deblurring_last(c, (deblurring_value)v));
    json_close(w);
}

static int write_summary(const deblurring_results *r, char *error, size_t room)
{
    char path[FILES_PATH];
    atomic_file f;
    if (files_join(path, r->plan->out, "summary.json", error, room) || atomic_open(&f, path, error, room)) return -1;
    json_writer w = json_to(&f);
    json_open_object(&w, NULL);
    json_put_text(&w, "experiment", "deblurring");
    json_put_text(&w, "data", r->plan->data);
    json_put_unsigned(&w, "seed", r->plan->seed);
    json_put_truth(&w, "published_size", r->plan->scale.published_size);
    claims_json(&w, r->claim, DEBLURRING_CLAIMS);
    json_open_list(&w, "cells");
    for (int i = 0; i < r->plan->cells; i++) put_cell(&w, r->plan, &r->plan->cell[i]);
    json_close(&w);
    json_close(&w);
    return atomic_close(&f, error, room);
}

int deblurring_write_tables(const deblurring_results *r, char *error, size_t room)
{
    return write_csv(r, error, room) || write_summary(r, error, room) ? -1 : 0;
}

/* ---------------------------------------------------------------------------- rows over seeds */

enum { COLUMNS = 11, TEXT = 64 };
static const char *const heads[COLUMNS + 1] = {"method",       "seeds",     "θ",    "MSE",       "SSIM", "MSE of mean",
                                               "SSIM of mean", "least ESS", "res.", "last step", "s",    NULL};

typedef struct {
    char cell[COLUMNS][TEXT];
} text_row;

static void put(char out[TEXT], experiment_mean m, int digits)
{
    if (m.n == 0 || isnan(m.mean))
        (void)snprintf(out, TEXT, "–");
    else if (isnan(m.sd))
        (void)snprintf(out, TEXT, "%.*f", digits, m.mean);
    else
        (void)snprintf(out, TEXT, "%.*f (sd %.*f)", digits, m.mean, digits, m.sd);
}

/* What our seeds gave. */
static text_row ours(const deblurring_plan *plan, deblurring_setup s, deblurring_method m)
{
    static const deblurring_value values[COLUMNS - 2] = {
        DEBLURRING_THETA,     DEBLURRING_MSE,         DEBLURRING_SSIM, DEBLURRING_MEAN_MSE, DEBLURRING_MEAN_SSIM,
        DEBLURRING_LEAST_ESS, DEBLURRING_RESAMPLINGS, DEBLURRING_STEP, DEBLURRING_SECONDS};
    static const int digits[COLUMNS - 2] = {4, 2, 4, 2, 4, 1, 0, 3, 0};
    text_row t;
    (void)snprintf(t.cell[0], TEXT, "%s", deblurring_recipes[m].name);
    for (int v = 0; v < COLUMNS - 2; v++) {
        experiment_mean mean = deblurring_over_seeds(plan, s, m, values[v]);
        int weights = values[v] == DEBLURRING_LEAST_ESS || values[v] == DEBLURRING_RESAMPLINGS;
        if (weights && !deblurring_recipes[m].weighted) mean.n = 0;
        if (v >= 5) mean.sd = NAN; /* counts and times: the mean says enough */
        put(t.cell[v + 2], mean, digits[v]);
    }
    (void)snprintf(t.cell[1], TEXT, "%d", deblurring_over_seeds(plan, s, m, DEBLURRING_THETA).n);
    return t;
}

static void put_known(text_row *t, int column, double value, int digits)
{
    char number[32];
    (void)snprintf(t->cell[column], TEXT, "%s", isnan(value) ? "–" : experiment_decimals(value, digits, number));
}

/* The paper's row, or that of the independent check; 0: there is none. */
static int known_row(const deblurring_known *k, int check, text_row *t)
{
    if (isnan(check ? k->check_theta : k->theta)) return 0;
    for (int i = 0; i < COLUMNS; i++) t->cell[i][0] = 0;
    (void)snprintf(t->cell[0], TEXT,
                   check && k->check_particles == 4 ? "  independent check, N = 4"
                   : check                          ? "  independent check"
                                                    : "  paper");
    (void)snprintf(t->cell[1], TEXT, "1");
    put_known(t, 2, check ? k->check_theta : k->theta, check ? 4 : 2);
    put_known(t, 3, check ? k->check_mse : k->mse, 2);
    put_known(t, 4, check ? k->check_ssim : k->ssim, check ? 4 : 2);
    put_known(t, 5, check ? k->check_mean_mse : NAN, 2);
    put_known(t, 6, check ? k->check_mean_ssim : NAN, 4);
    return 1;
}

static int has_setup(const deblurring_plan *plan, deblurring_setup s)
{
    for (int i = 0; i < plan->cells; i++)
        if (plan->cell[i].setup == s) return 1;
    return 0;
}

/* ---------------------------------------------------------------------------- lines */

static void print_row(FILE *out, const char *setup, const text_row *t)
{
    (void)fprintf(out, "%-8s %-26s %5s %-19s %-20s %-20s %-19s %-20s %6s %5s %6s %5s\n", setup, t->cell[0], t->cell[1],
                  t->cell[2], t->cell[3], t->cell[4], t->cell[5], t->cell[6], t->cell[7], t->cell[8], t->cell[9],
                  t->cell[10]);
}

void deblurring_print(const deblurring_results *r, FILE *out)
{
    (void)fprintf(out, "\n%-8s %-26s %5s %-19s %-20s %-20s %-19s %-20s %6s %5s %6s %5s\n", "setup", "method", "seeds",
                  "theta", "MSE", "SSIM", "MSE of mean", "SSIM of mean", "ESS", "res.", "step", "s");
    for (int s = 0; s < DEBLURRING_SETUPS; s++)
        for (int m = 0; m < DEBLURRING_METHODS; m++) {
            const char *name = deblurring_settings[s].name;
            const deblurring_known k = deblurring_known_of(r->plan, (deblurring_setup)s, (deblurring_method)m);
            text_row t;
            if (!deblurring_find(r->plan, (deblurring_setup)s, (deblurring_method)m, 0)) continue;
            t = ours(r->plan, (deblurring_setup)s, (deblurring_method)m);
            print_row(out, name, &t);
            for (int check = 0; check < 2; check++)
                if (known_row(&k, check, &t)) print_row(out, name, &t);
        }
    (void)fputc('\n', out);
    claims_print(r->claim, DEBLURRING_CLAIMS, out);
}

/* ---------------------------------------------------------------------------- the page */

typedef struct {
    const deblurring_results *r;
    const deblurring_plan *plan;
    experiment_page at;
    page *page; /* of `at` */
} context;

static void page_text_row(const context *x, const text_row *t, page_mark mark)
{
    const char *cells[COLUMNS];
    page_mark marks[COLUMNS];
    for (int i = 0; i < COLUMNS; i++) {
        cells[i] = t->cell[i];
        marks[i] = mark;
    }
    page_row(x->page, cells, marks);
}

static void table_of(const context *x, deblurring_setup s, int ablation)
{
    page_table(x->page, NULL, "lrrrrrrrrrr", heads);
    for (int m = 0; m < DEBLURRING_METHODS; m++) {
        const deblurring_cell *c = deblurring_find(x->plan, s, (deblurring_method)m, 0);
        const deblurring_known k = deblurring_known_of(x->plan, s, (deblurring_method)m);
        text_row t;
        if (!c || (!ablation && c->ablation)) continue;
        t = ours(x->plan, s, (deblurring_method)m);
        page_text_row(x, &t, PAGE_PLAIN);
        for (int check = 0; check < 2; check++)
            if (known_row(&k, check, &t)) page_text_row(x, &t, PAGE_DIM);
    }
    page_table_end(x->page);
}

static int figures_of(const context *x, deblurring_setup s)
{
    const char *setup = deblurring_settings[s].name;
    arena memory = {0};
    char name[DEBLURRING_NAME];
    if (experiment_figure(&x->at, &memory, deblurring_curves(&memory, x->plan, s), NULL,
                          "Strength θ of the prior, MSE and SSIM of the cloud against the iteration; thin lines are "
                          "further seeds, the dashed line is log 0.03."))
        return -1;
    (void)snprintf(name, sizeof name, "means-%s", setup);
    if (deblurring_draw_means(x->plan, s, x->at.figures, name, x->at.error, x->at.room)) return -1;
    experiment_picture(
        &x->at, name,
        "From the left: the truth, what was seen, mean picture of MYPGD, weighted mean picture of SOSMC-MYULA; "
        "one range of greys.");
    (void)snprintf(name, sizeof name, "particles-%s", setup);
    if (deblurring_draw_particles(x->plan, s, x->at.figures, name, x->at.error, x->at.room)) return -1;
    experiment_picture(
        &x->at, name,
        "Particles 0 to 7 at the end, above MYPGD, below SOSMC-MYULA, in one range of greys; the last three "
        "with a magnifier.");
    return 0;
}

static int section(const context *x, deblurring_setup s)
{
    const deblurring_setting *set = &deblurring_settings[s];
    char heading[64];
    int rows = x->plan->rows[set->picture], columns = x->plan->columns[set->picture];
    if (!deblurring_find(x->plan, s, DEBLURRING_P, 0)) return 0;
    (void)snprintf(heading, sizeof heading, "Setup %s", set->name);
    page_heading(x->page, heading);
    page_paragraph(
        x->page,
        "%s, %d x %d pixels; blurred with a window of %d x %d, noise of standard deviation %g; particles start at "
        "N(50, %g²). MSE and SSIM are weighted means over the particles; 'of mean' is that of the mean picture.%s",
        deblurring_picture_names[set->picture], rows, columns, 2 * (set->patch / 2) + 1, 2 * (set->patch / 2) + 1,
        set->noise, set->start_sd,
        s == DEBLURRING_B && !x->plan->flower ? " A drawn flower stands for the paper's photograph." : "");
    table_of(x, s, 0);
    return figures_of(x, s);
}

static void ablation(const context *x)
{
    deblurring_setup s = deblurring_find(x->plan, DEBLURRING_A, DEBLURRING_P_MANY, 0) ? DEBLURRING_A : DEBLURRING_FLAT;
    page_heading(x->page, "Ablation");
    page_paragraph(
        x->page,
        "Setup %s: step size, its adaptation, the weighting and the number of particles, one at a time. The exact "
        "weightings (ratio, cached) grow the step to its bound as the authors' program does: the effective sample "
        "size it looks at is taken after resampling and never small.",
        deblurring_settings[s].name);
    table_of(x, s, 1);
    experiment_page_table(x->page, NULL, "l method|l what it is");
    for (int m = 0; m < DEBLURRING_METHODS; m++)
        experiment_cells(x->page, NULL, "ss", deblurring_recipes[m].name, deblurring_recipes[m].words);
    page_table_end(x->page);
    if (has_setup(x->plan, DEBLURRING_C)) {
        page_subheading(x->page, "Setup C");
        table_of(x, DEBLURRING_C, 1);
    }
}

static void introduce(const context *x)
{
    page_paragraph(
        x->page,
        "A picture is blurred by a moving average and overlaid with noise. The posterior under a total-variation "
        "prior is sampled while the strength e^θ of the prior is learned by maximum marginal likelihood. MYPGD moves "
        "%d particles by MYULA with step 0.01; SOSMC-MYULA weighs them for the change of θ, resamples, and adapts "
        "its step by the effective sample size up to 0.396. %d iterations from θ = %g.",
        x->plan->scale.particles, x->plan->scale.iterations, x->plan->scale.theta);
    page_paragraph(
        x->page,
        "The paper prints six rows: both methods on setups A, B and C. Those of B are compared where --data DIR names the "
        "folder of its photograph, flower.jpeg; otherwise a drawn flower stands for it.");
    if (!x->plan->scale.guitar)
        page_note(x->page,
                  "This is the quick version: it runs none of the paper's setups, only small drawn pictures, so no "
                  "published row is compared. The command without --quick compares setup A, --full A and C.");
    else if (!x->plan->scale.published_size)
        page_note(x->page, "This is the small size. A claim that is not seen here may well hold.");
    if (x->plan->scale.guitar && !x->plan->data)
        page_note(x->page,
                  "The photograph of setups A and C, which comes with the program, was not found: they were left out. "
                  "--data DIR names the folder of guitar_292x119.f64.");
    if (!x->at.plots) page_note(x->page, "%s", x->at.no_plots);
}

static int fill(const context *x)
{
    introduce(x);
    claims_page(x->page, x->r->claim, DEBLURRING_CLAIMS);
    for (int s = 0; s < DEBLURRING_SETUPS; s++)
        if (section(x, (deblurring_setup)s)) return -1;
    ablation(x);
    return 0;
}

int deblurring_write_page(const deblurring_results *r, char *error, size_t room)
{
    char subtitle[96];
    context x = {.r = r, .plan = r->plan};
    (void)snprintf(subtitle, sizeof subtitle, "%d runs", r->plan->cells);
    if (experiment_page_begin(&x.at, r->plan->out, "Deblurring with a prior that tunes itself", subtitle, error, room))
        return -1;
    x.page = x.at.page;
    return experiment_page_end(&x.at, fill(&x), "report.html");
}
