/* reproduce_langevin.c: the paper's first experiment. Four settings, six methods, SGD and Adam without divergence term and
 * Adam at the selected beta; every cell next to the paper's value, the exact optimum and the noise-free recursion.
 *
 * The full version is judged by the paper's tables. The quick one ends long before the runs of these tables have, so it is judged by
 * the noise-free recursion at its own iteration, and the paper's values are shown beside it. With a wall-clock budget the number
 * of iterations depends on the machine, and nothing is judged.
 *
 * Cells are computed in parallel, one thread each; with a wall-clock budget one at a time, with all threads. */
#include "common/reproduce.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/experiment.h"
#include "files/files.h"
#include "terminal/interrupt.h"
#include "common/known.h"
#include "langevin_cells.h"
#include "langevin_parts.h"
#include "langevin_judge.h"
#include "view/page.h"
#include "view/plot.h"
#include "terminal/say.h"

enum { SENTENCE = 512, COLUMNS = 3 };
typedef enum { SGD_0, ADAM_0, ADAM_BETA } column;
static const char *const column_names[COLUMNS] = {"SGD, beta = 0", "Adam, beta = 0", "Adam, selected beta"};

/* Settings of known.csv are those of the experiment with these words behind them. */
static const char *const column_words[COLUMNS] = {"SGD beta 0", "Adam beta 0", "Adam selected beta"};

/* The paper's tables: mean and half-width (1.96 standard errors of 10 runs). */
typedef struct {
    double mean, half;
} figure;

typedef struct {
    int setting, method, column;
    figure paper;
    double optimum, recursion; /* exact */
    double mean, half;         /* ours: mean and 1.96 standard errors */
    double off;                /* from the recursion, in standard errors; NaN where it cannot be said */
    double iterations, seconds_per_iteration;
    langevin_result *result; /* one per seed */
} cell;

typedef struct {
    const reproduce_options *o;
    int seeds, particles, reference, threads, cells;
    double scale; /* of the number of iterations */
    langevin_setting setting[LANGEVIN_SETTINGS];
    cell cell[LANGEVIN_SETTINGS * LANGEVIN_METHODS * COLUMNS];
} study;

/* What cells are judged by. */
typedef enum { BY_NOTHING, BY_RECURSION, BY_PAPER } judge;
static judge judged(const study *s)
{
    if (s->o->budget_seconds > 0 || s->seeds < 2) return BY_NOTHING;
    return s->o->quick ? BY_RECURSION : BY_PAPER;
}

static int iterations_of(const study *s, int setting) { return (int)(s->scale * s->setting[setting].iterations); }

static figure figure_of(const study *s, const known *k, const cell *c)
{
    char setting[64];
    const char *method = langevin_method_names[c->method];
    (void)snprintf(setting, sizeof setting, "%s %s", s->setting[c->setting].name, column_words[c->column]);
    return (figure){known_value(k, setting, method, "reward"), known_value(k, setting, method, "half_width")};
}

static langevin_run run_of(const study *s, const cell *c, int seed)
{
    const langevin_setting *setting = &s->setting[c->setting];
    int timed = s->o->budget_seconds > 0;
    return (langevin_run){.setting = setting,
                          .method = (langevin_method)c->method,
                          .adam = c->column != SGD_0,
                          .beta = c->column == ADAM_BETA ? setting->beta : 0,
                          .particles = s->particles,
                          .reference = s->reference,
                          .iterations = timed ? 1000000 : iterations_of(s, c->setting),
                          .threads = timed ? s->threads : 1,
                          .budget_seconds = s->o->budget_seconds,
                          .seed = (uint64_t)seed};
}

/* ---------------------------------------------------------------------------- what is exact */

static void exact_values(const study *s, cell *c)
{
    const langevin_setting *setting = &s->setting[c->setting];
    int K = iterations_of(s, c->setting), m = setting->mixture.components;
    double beta = c->column == ADAM_BETA ? setting->beta : 0, r[LANGEVIN_MAX], p[LANGEVIN_MAX] = {0};
    langevin_component_rewards(setting, r);
    c->optimum = 0;
    if (beta > 0) langevin_optimum(setting, beta, p);
    for (int i = 0; i < m; i++) c->optimum = beta > 0 ? c->optimum + p[i] * r[i] : fmax(c->optimum, r[i]);
    /* with beta the recursion has converged long before K: 300 updates stand for all */
    int updates = beta > 0 && K > 300 ? 300 : K;
    c->recursion = langevin_recursion(setting, r, c->column == SGD_0 ? sosmc_sgd(0.1) : sosmc_adam(0.1), beta, updates,
                                      NULL);
}

/* The same exact values belong to all methods of a setting and column. */
static void fill_exact(study *s)
{
    for (int i = 0; i < s->cells; i++) {
        cell *c = &s->cell[i];
        if (c->method == 0)
            exact_values(s, c);
        else {
            c->optimum = s->cell[i - c->method].optimum;
            c->recursion = s->cell[i - c->method].recursion;
        }
    }
}

/* ---------------------------------------------------------------------------- computing */

static int one_run(void *context, int job, char *error, size_t room)
{
    study *s = context;
    cell *c = &s->cell[job % s->cells];
    int seed = job / s->cells;
    char why[SENTENCE / 2];
    langevin_run run = run_of(s, c, seed);
    if (langevin_execute(&run, c->optimum, &c->result[seed], why, sizeof why) == 0) return 0;
    return files_fail(error, room, "setting %s, %s, seed %d: %s", run.setting->name, langevin_method_names[c->method],
                      seed, why);
}

static int compute(study *s)
{
    char error[SENTENCE];
    const grid cells = {.cells = s->cells * s->seeds, .run = one_run, .context = s};
    int code = experiment_grid(&cells, s->o->budget_seconds > 0 ? 1 : s->threads, s->o->quiet, error, sizeof error);
    if (code == 0) return SOSMC_EXIT_OK;
    if (code == GRID_STOPPED) return complain(SOSMC_EXIT_INTERRUPTED, "interrupted; nothing was written");
    return complain(SOSMC_EXIT_NUMERIC, "%s", error);
}

static void summarise(study *s)
{
    for (int i = 0; i < s->cells; i++) {
        cell *c = &s->cell[i];
        double sum = 0, square = 0, iterations = 0, seconds = 0;
        for (int k = 0; k < s->seeds; k++) {
            sum += c->result[k].reward;
            iterations += c->result[k].iterations;
            seconds += c->result[k].seconds;
        }
        c->mean = sum / s->seeds;
        for (int k = 0; k < s->seeds; k++) square += pow(c->result[k].reward - c->mean, 2);
        c->half = s->seeds > 1 ? 1.96 * sqrt(square / (s->seeds - 1) / s->seeds) : NAN;
        c->iterations = iterations / s->seeds;
        c->seconds_per_iteration = seconds / iterations;
    }
}

/* The cells of all methods of a setting and column follow each other. */
static void fill_differences(study *s)
{
    for (int i = 0; i < s->cells; i++) {
        cell *c = &s->cell[i];
        double own[LANGEVIN_METHODS];
        for (int m = 0; m < LANGEVIN_METHODS; m++) own[m] = s->cell[i - c->method + m].half / 1.96;
        c->off = judged(s) == BY_NOTHING
                     ? NAN
                     : (c->mean - c->recursion) / langevin_error(c->setting, (langevin_method)c->method, own);
    }
}

/* ---------------------------------------------------------------------------- differences and their causes */

/* In combined standard errors. Half-widths are 1.96 of them; the paper prints four decimals, which adds a rounding error of its own. */
static double from_paper(const cell *c)
{
    const figure *p = &c->paper;
    double rounding = 0.00005 / sqrt(3), ours = c->half / 1.96, theirs = p->half / 1.96;
    return (c->mean - p->mean) / sqrt(ours * ours + theirs * theirs + rounding * rounding);
}

static double threshold(const study *s) { return langevin_threshold(s->cells, langevin_freedom(s->seeds)); }

static int differs(const study *s, const cell *c)
{
    judge by = judged(s);
    return by == BY_RECURSION ? fabs(c->off) > threshold(s) : by == BY_PAPER && fabs(from_paper(c)) > 3;
}

/* Why a cell may differ from the paper's, judged from what it is and what we measured. */
static const char *cause(const cell *c)
{
    const figure *p = &c->paper;
    int weighted = c->method >= SOSMC_ULA, tight = c->setting == 3;
    double off_recursion = fabs(c->mean - c->recursion) / fmax(c->half / 1.96, 1e-6);
    if (tight && c->method == SOSMC_ULA)
        return "modes are lost by chance while the published rule shrinks the step; only the distribution over many seeds is "
               "comparable";
    if (tight && c->method == IMPDIFF)
        return "the particles leave the tight modes and diffuse; the reward decays with the number of iterations, which the "
               "paper's two seconds do not tell";
    if (c->method == SOUL)
        return "one chain that sits in one mode or another: nearly two-valued, so ten runs say little";
    if (c->setting == 1 && c->column == ADAM_0 && (c->method == IMPDIFF || c->method == SOSMC_HMC))
        return "the paper's entry disagrees with the paper's own figure, which shows our value";
    if (weighted && off_recursion < 4 && c->column == SGD_0)
        return "SGD is still climbing: we are on the noise-free recursion at our number of iterations, the paper stopped at "
               "another";
    if (weighted && off_recursion < 4 && fabs(p->mean - c->recursion) > fabs(c->mean - c->recursion))
        return "we are on the noise-free recursion; the paper's value lies further from it";
    if (!weighted)
        return "without weights the value depends on how long the particles had to cross, hence on the iterations reached";
    return "unexplained";
}

/* ---------------------------------------------------------------------------- output */

static const char *decimal(double value, char out[32])
{
    if (isnan(value)) return "";
    (void)snprintf(out, 32, "%.4f", value);
    return out;
}

static const char *in_errors(double value, char out[32])
{
    if (isnan(value)) return "–";
    (void)snprintf(out, 32, "%+.1f", value);
    return out;
}

static const cell *cell_at(const study *s, int setting, int method, int column)
{
    for (int i = 0; i < s->cells; i++)
        if (s->cell[i].setting == setting && s->cell[i].method == method && s->cell[i].column == column)
            return &s->cell[i];
    return NULL;
}

static void print_cell(const study *s, const cell *c, FILE *out)
{
    char half[32], off[32];
    double published = c->paper.mean;
    char star = differs(s, c) ? '*' : ' ';
    fprintf(out, "  %.4f +- %-6s", c->mean, s->seeds > 1 ? decimal(c->half, half) : "-");
    if (judged(s) == BY_RECURSION)
        fprintf(out, " %7s%c (%.4f)", in_errors(c->off, off), star, published);
    else
        fprintf(out, "  %.4f%c %7s ", published, star, judged(s) == BY_PAPER ? in_errors(from_paper(c), off) : "");
}

static void print_exact(const study *s, int col, const char *name, int recursion, FILE *out)
{
    fprintf(out, "%-12s", name);
    for (int k = 0; k < LANGEVIN_SETTINGS; k++) {
        const cell *c = cell_at(s, k, 0, col);
        fprintf(out, "  %-34.6f", recursion ? c->recursion : c->optimum);
    }
    fputc('\n', out);
}

static void print_column(const study *s, int col, FILE *out)
{
    fprintf(out, "\n%s: ours (+- 1.96 se)   %s\n%-12s", column_names[col],
            judged(s) == BY_RECURSION ? "from noise-free, in se   (paper, at its end)"
            : judged(s) == BY_PAPER   ? "paper   from paper, in combined se"
                                      : "paper",
            "");
    for (int k = 0; k < LANGEVIN_SETTINGS; k++) fprintf(out, "  %-34s", s->setting[k].label);
    fputc('\n', out);
    for (int m = 0; m < LANGEVIN_METHODS; m++) {
        fprintf(out, "%-12s", langevin_method_names[m]);
        for (int k = 0; k < LANGEVIN_SETTINGS; k++) print_cell(s, cell_at(s, k, m, col), out);
        fputc('\n', out);
    }
    if (!(s->o->budget_seconds > 0)) print_exact(s, col, "noise-free", 1, out);
    print_exact(s, col, "optimum", 0, out);
}

static void print_reached(const study *s, FILE *out)
{
    fprintf(out, "\niterations reached in %g s, mean over settings and seeds\n", s->o->budget_seconds);
    for (int m = 0; m < LANGEVIN_METHODS; m++) {
        double sum = 0;
        for (int i = 0; i < s->cells; i++) sum += s->cell[i].method == m ? s->cell[i].iterations : 0;
        fprintf(out, "%-12s %10.0f\n", langevin_method_names[m], sum * LANGEVIN_METHODS / s->cells);
    }
}

static int count_differing(const study *s, int followers)
{
    int n = 0;
    for (int i = 0; i < s->cells; i++)
        if (!followers || langevin_follows(s->cell[i].setting, (langevin_method)s->cell[i].method))
            n += differs(s, &s->cell[i]);
    return n;
}

static int count_followers(const study *s)
{
    int n = 0;
    for (int i = 0; i < s->cells; i++) n += langevin_follows(s->cell[i].setting, (langevin_method)s->cell[i].method);
    return n;
}

static void print_table(const study *s, FILE *out)
{
    for (int col = 0; col < COLUMNS; col++) print_column(s, col, out);
    if (s->o->budget_seconds > 0) print_reached(s, out);
    if (judged(s) == BY_PAPER)
        fputs("* differs from the paper by more than three combined standard errors; the page says why\n", out);
    if (judged(s) == BY_RECURSION)
        fprintf(
            out,
            "* differs by more than %.1f standard errors from the noise-free recursion after the same iterations: %d of %d cells;\n"
            "  of the %d whose method must follow the recursion, %d. The page says why. The paper's runs were longer and are "
            "not compared.\n",
            threshold(s), count_differing(s, 0), s->cells, count_followers(s), count_differing(s, 1));
}

static int write_csv(const study *s, const char *dir, char *error, size_t room)
{
    char path[FILES_PATH];
    atomic_file f;
    if (files_join(path, dir, "table.csv", error, room) || atomic_open(&f, path, error, room)) return -1;
    atomic_print(
        &f, "setting,method,optimiser,beta,mean,half_width,paper_mean,paper_half_width,optimum,recursion,iterations,"
            "seconds_per_iteration,combined_standard_errors,recursion_standard_errors\n");
    for (int i = 0; i < s->cells; i++) {
        const cell *c = &s->cell[i];
        const figure *p = &c->paper;
        double beta = c->column == ADAM_BETA ? s->setting[c->setting].beta : 0;
        atomic_print(&f, "%s,%s,%s,%g,%.17g,%.17g,%g,%g,%.17g,%.17g,%.17g,%.6g,%.3f,%.3f\n",
                     s->setting[c->setting].name, langevin_method_names[c->method], c->column == SGD_0 ? "sgd" : "adam",
                     beta, c->mean, c->half, p->mean, p->half, c->optimum, c->recursion, c->iterations,
                     c->seconds_per_iteration, fabs(from_paper(c)), c->off);
    }
    return atomic_close(&f, error, room);
}

enum { QUICK_WIDTH = 8, FULL_WIDTH = 9 };
static const char *const quick_heads[] = {"method",     "setting",           "ours ± 1.96 se",
                                          "noise-free", "ours from it, se",  "optimum",
                                          "iterations", "paper, at its end", NULL};
static const char *const full_heads[] = {"method",           "setting",    "ours ± 1.96 se",   "paper",
                                         "ours from it, se", "noise-free", "ours from it, se", "optimum",
                                         "iterations",       NULL};

static void page_cell(const study *s, page *page, const cell *c)
{
    const figure *p = &c->paper;
    int by_recursion = judged(s) == BY_RECURSION;
    char t[5][32], setting[64], ours[64], theirs[64];
    (void)snprintf(setting, sizeof setting, "%s: %s", s->setting[c->setting].name, s->setting[c->setting].label);
    (void)snprintf(t[0], sizeof t[0], "%.0f", c->iterations);
    const char *method = langevin_method_names[c->method];
    const char *mean = experiment_with_error(c->mean, c->half, ours),
               *printed = experiment_with_error(p->mean, p->half, theirs);
    const char *exact = decimal(c->recursion, t[1]), *best = decimal(c->optimum, t[2]), *off = in_errors(c->off, t[3]);
    const char *apart = in_errors(judged(s) == BY_PAPER ? from_paper(c) : NAN, t[4]);
    const char *quick[QUICK_WIDTH] = {method, setting, mean, exact, off, best, t[0], printed};
    const char *full[FULL_WIDTH] = {method, setting, mean, printed, apart, exact, off, best, t[0]};
    page_mark mark[FULL_WIDTH] = {PAGE_PLAIN};
    if (differs(s, c)) mark[2] = mark[4] = PAGE_WARN;
    if (by_recursion) mark[QUICK_WIDTH - 1] = PAGE_DIM;
    page_row(page, by_recursion ? quick : full, mark);
}

static void page_cells(const study *s, page *page, int col)
{
    char caption[96];
    int by_recursion = judged(s) == BY_RECURSION;
    (void)snprintf(caption, sizeof caption, "Terminal reward, %s", column_names[col]);
    page_table(page, caption, by_recursion ? "llrrrrrr" : "llrrrrrrr", by_recursion ? quick_heads : full_heads);
    for (int i = 0; i < s->cells; i++)
        if (s->cell[i].column == col) page_cell(s, page, &s->cell[i]);
    page_table_end(page);
}

/* What the marks in the tables mean, above them. */
static void page_how_judged(const study *s, page *page)
{
    if (judged(s) == BY_PAPER)
        page_paragraph(page,
                       "Marked are cells that differ from the paper by more than three combined standard errors.");
    else if (judged(s) == BY_RECURSION)
        page_paragraph(
            page,
            "This is the quick version: its runs end after 150 or 200 iterations of %d particles, the paper's after about 1,000 of "
            "10,000, so the paper's values stand in the last column for orientation and are not judged. What is compared is "
            "the noise-free recursion after the same number of iterations. Differences are in standard errors: the larger of "
            "a cell's own and of that of the weighted methods pooled, because %d seeds alone give a poor one. Marked are "
            "differences above %.1f: if every cell followed the recursion, 19 tables in 20 would have no mark (Student's law "
            "with %d degrees of freedom, %d cells).",
            s->particles, s->seeds, threshold(s), langevin_freedom(s->seeds), s->cells);
    else
        page_paragraph(page, "Nothing is marked here: %s.",
                       s->seeds < 2 ? "one seed has no standard error"
                                    : "within a wall-clock budget everyone reaches another number of iterations");
}

static void causes_by_paper(const study *s, page *page)
{
    page_heading(page, "Where we differ from the paper");
    for (int i = 0; i < s->cells; i++) {
        const cell *c = &s->cell[i];
        if (!differs(s, c)) continue;
        page_paragraph(page, "%s, %s, %s: ours %.4f ± %.4f, paper %.4f ± %.4f (%.1f combined standard errors): %s.",
                       s->setting[c->setting].label, langevin_method_names[c->method], column_names[c->column], c->mean,
                       c->half, c->paper.mean, c->paper.half, fabs(from_paper(c)), cause(c));
    }
    if (count_differing(s, 0) == 0) page_paragraph(page, "Nowhere by more than three combined standard errors.");
}

/* One paragraph for all cells that share the cause of cell `first`; nothing if an earlier cell has told it. */
static void page_shared_cause(const study *s, page *page, int first)
{
    char list[2048] = "";
    size_t used = 0;
    const char *why = langevin_cause(s->cell[first].setting, (langevin_method)s->cell[first].method);
    for (int i = 0; i < s->cells; i++) {
        const cell *c = &s->cell[i];
        if (!differs(s, c) || langevin_cause(c->setting, (langevin_method)c->method) != why) continue;
        if (i < first) return;
        if (used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s in %s, %s (%+.1f)", used ? "; " : "",
                                     langevin_method_names[c->method], s->setting[c->setting].name,
                                     column_names[c->column], c->off);
    }
    page_paragraph(page, "%s: %s.", list, why);
}

static void causes_by_recursion(const study *s, page *page)
{
    page_heading(page, "Where we differ from the noise-free recursion");
    page_paragraph(
        page,
        "%d of %d cells differ by more than %.1f standard errors; of the %d whose method must follow the recursion, "
        "%d do.",
        count_differing(s, 0), s->cells, threshold(s), count_followers(s), count_differing(s, 1));
    for (int i = 0; i < s->cells; i++)
        if (differs(s, &s->cell[i])) page_shared_cause(s, page, i);
}

static void page_causes(const study *s, page *page)
{
    if (judged(s) == BY_PAPER) causes_by_paper(s, page);
    if (judged(s) == BY_RECURSION) causes_by_recursion(s, page);
}

/* The weighted methods estimate the gradient that the recursion takes exactly, so they must follow it. */
static void page_tracking(const study *s, page *page)
{
    const char *head[] = {"method", "cells", "largest |ours − noise-free|, se", "verdict", NULL};
    if (judged(s) == BY_NOTHING) return; /* other iterations than the recursion's, or no error bars */
    page_heading(page, "Do the weighted methods follow the noise-free recursion?");
    page_paragraph(
        page,
        "With exact expectations the update is deterministic. Every SOSMC variant must end where it does, up to Monte Carlo error "
        "(and a bias of order 1/N); SOSMC-ULA on V_tight is left out, because the published rule loses modes there. A method "
        "follows when no cell is more than %.1f standard errors away.",
        threshold(s));
    page_table(page, NULL, "lrrl", head);
    for (int m = SOSMC_ULA; m < LANGEVIN_METHODS; m++) {
        double worst = 0;
        int cells = 0;
        for (int i = 0; i < s->cells; i++) {
            const cell *c = &s->cell[i];
            if (c->method != m || isnan(c->off) || !langevin_follows(c->setting, (langevin_method)m)) continue;
            worst = fmax(worst, fabs(c->off));
            cells++;
        }
        experiment_cells(page, NULL, "sd1s", langevin_method_names[m], cells, worst,
                         worst < threshold(s) ? "follows" : "differs: see the table");
    }
    page_table_end(page);
}

static void page_times(const study *s, page *page)
{
    page_heading(page, "Time");
    experiment_page_table(page, "Adam, beta = 0, mean over settings and seeds",
                          "l method|r µs per iteration|r iterations to 99% of the optimum|r seconds to 99%|"
                          "r runs that got there");
    for (int m = 0; m < LANGEVIN_METHODS; m++) {
        double per = 0, its = 0, secs = 0;
        int cells = 0, there = 0, runs = 0;
        for (int i = 0; i < s->cells; i++) {
            const cell *c = &s->cell[i];
            if (c->method != m || c->column != ADAM_0) continue;
            per += c->seconds_per_iteration;
            cells++;
            for (int k = 0; k < s->seeds; k++, runs++) {
                if (c->result[k].reached < 0) continue;
                there++;
                its += c->result[k].reached;
                secs += c->result[k].reached_seconds;
            }
        }
        char t[2][32];
        (void)snprintf(t[0], sizeof t[0], there ? "%.0f" : "–", its / there);
        (void)snprintf(t[1], sizeof t[1], there ? "%.4f" : "–", secs / there);
        experiment_row(page, NULL, "%s|%.0f|%s|%s|%d of %d", langevin_method_names[m], 1e6 * per / cells, t[0], t[1],
                       there, runs);
    }
    page_table_end(page);
}

/* ---------------------------------------------------------------------------- figures */

static const int colours[LANGEVIN_METHODS] = {PLOT_BLACK, PLOT_GREY,  PLOT_VERMILION,
                                              PLOT_BLUE,  PLOT_GREEN, PLOT_ORANGE};

typedef struct {
    double x[LANGEVIN_POINTS], y[LANGEVIN_POINTS], low[LANGEVIN_POINTS], high[LANGEVIN_POINTS];
} band;

static void mean_band(const study *s, const cell *c, int density, int against_time, band *b, int *n)
{
    *n = c->result[0].points;
    for (int k = 1; k < s->seeds; k++) *n = c->result[k].points < *n ? c->result[k].points : *n;
    for (int i = 0; i < *n; i++) {
        double sum = 0, square = 0, x = 0;
        for (int k = 0; k < s->seeds; k++) {
            const langevin_result *r = &c->result[k];
            double v = density ? r->curve_density[i] : r->curve_reward[i];
            sum += v;
            square += v * v;
            x += against_time ? r->curve_seconds[i] : r->at[i];
        }
        double mean = sum / s->seeds, variance = fmax(square / s->seeds - mean * mean, 0);
        double half = s->seeds > 1 ? 1.96 * sqrt(variance / (s->seeds - 1)) : 0;
        b->x[i] = x / s->seeds;
        b->y[i] = mean;
        b->low[i] = mean - half;
        b->high[i] = mean + half;
    }
}

/* One figure per setting and column: reward and log-density against iteration and wall clock. */
static int curves(const study *s, const experiment_page *x, int setting, int col)
{
    enum { PANELS = 4 };
    static const char *const y_labels[] = {"mean reward", "mean log-density"}, *const x_labels[] = {"iteration",
                                                                                                    "seconds"};
    const langevin_setting *st = &s->setting[setting];
    band *bands = calloc((size_t)PANELS * LANGEVIN_METHODS, sizeof *bands);
    plot_series series[PANELS][LANGEVIN_METHODS + 1];
    plot_panel panel[PANELS];
    char name[64], title[128], caption[256];
    int rc = bands ? 0 : files_fail(x->error, x->room, "out of memory");
    double optimum = 0;
    for (int p = 0; rc == 0 && p < PANELS; p++) {
        int used = 0;
        for (int i = 0; i < s->cells; i++) {
            const cell *c = &s->cell[i];
            if (c->setting != setting || c->column != col) continue;
            band *b = &bands[p * LANGEVIN_METHODS + c->method];
            int n;
            optimum = c->optimum;
            mean_band(s, c, p / 2, p % 2, b, &n);
            series[p][used++] = (plot_series){.label = langevin_method_names[c->method],
                                              .colour = colours[c->method],
                                              .n = n,
                                              .x = b->x,
                                              .y = b->y,
                                              .low = s->seeds > 1 ? b->low : NULL,
                                              .high = s->seeds > 1 ? b->high : NULL};
        }
        if (p < 2)
            series[p][used++] = (plot_series){.kind = PLOT_LEVEL,
                                              .label = "optimum",
                                              .colour = PLOT_PURPLE,
                                              .dash = PLOT_DASHED,
                                              .n = 1,
                                              .y = &optimum};
        panel[p] = (plot_panel){
            .x_label = x_labels[p % 2], .y_label = y_labels[p / 2], .log_x = p % 2, .series = series[p], .n = used};
    }
    (void)snprintf(name, sizeof name, "curves_%s_%s", st->name,
                   col == SGD_0    ? "sgd"
                   : col == ADAM_0 ? "adam"
                                   : "adam_beta");
    (void)snprintf(title, sizeof title, "Setting %s: %s, %s", st->name, st->label, column_names[col]);
    (void)snprintf(caption, sizeof caption, "%s. Mean of %d runs with bands of 1.96 standard errors.", title, s->seeds);
    plot_figure f = {
        .name = name, .title = title, .panel = panel, .panels = PANELS, .columns = 2, .width = 460, .height = 280};
    if (rc == 0) rc = experiment_figure(x, NULL, f, title, caption);
    free(bands);
    return rc;
}

/* Density and reward of a setting on the same box. */
static int settings_figure(const study *s, const experiment_page *x)
{
    enum { NODES = LANGEVIN_SIDE * LANGEVIN_SIDE };
    static double density[LANGEVIN_SETTINGS][NODES], reward[LANGEVIN_SETTINGS][NODES];
    static char title[2 * LANGEVIN_SETTINGS][96];
    plot_lattice map[2 * LANGEVIN_SETTINGS];
    plot_panel panel[2 * LANGEVIN_SETTINGS];
    for (int k = 0; k < LANGEVIN_SETTINGS; k++) {
        langevin_maps(&s->setting[k], density[k], reward[k]);
        (void)snprintf(title[2 * k], sizeof title[0], "%s: density at the start", s->setting[k].name);
        (void)snprintf(title[2 * k + 1], sizeof title[0], "%s: reward (%s)", s->setting[k].name, s->setting[k].label);
        for (int j = 0; j < 2; j++) {
            map[2 * k + j] = (plot_lattice){.nx = LANGEVIN_SIDE,
                                            .ny = LANGEVIN_SIDE,
                                            .x_min = -LANGEVIN_BOX,
                                            .x_max = LANGEVIN_BOX,
                                            .y_min = -LANGEVIN_BOX,
                                            .y_max = LANGEVIN_BOX,
                                            .z = j ? reward[k] : density[k]};
            panel[2 * k + j] = (plot_panel){.title = title[2 * k + j],
                                            .x_label = "x1",
                                            .y_label = "x2",
                                            .equal = 1,
                                            .heat = &map[2 * k + j],
                                            .shades = j ? PLOT_ORANGES : PLOT_BLUES};
        }
    }
    plot_figure f = {
        .name = "settings", .panel = panel, .panels = 2 * LANGEVIN_SETTINGS, .columns = 2, .width = 480, .height = 330};
    return experiment_figure(
        x, NULL, f, "Densities and rewards of the four settings",
        "The four settings: where the particles start and what is rewarded. Modes of V_tight are drawn wider than they are.");
}

static int write_page(const study *s, const char *dir, char *error, size_t room)
{
    char subtitle[160];
    experiment_page x;
    (void)snprintf(subtitle, sizeof subtitle, "N = %d particles, reference batch %d, %d seeds, %s", s->particles,
                   s->reference, s->seeds,
                   s->o->budget_seconds > 0 ? "wall-clock budget" : "fixed number of iterations");
    if (experiment_page_begin(&x, dir, "Reward tuning of Langevin processes", subtitle, error, room)) return -1;
    page *page = x.page;
    page_paragraph(
        page,
        "A mixture of Gaussians with softmax weights theta is tuned towards a reward under a forward "
        "Kullback-Leibler leash: minimise −E[R] + beta KL(pi_ref || pi_theta). The paper's ± is 1.96 standard errors "
        "of ten runs, ours of %d. Means, variances, centres, widths and the divisor alpha of the rewards are those of the authors' "
        "program, since the text does not print them; the numbers of iterations are inferred from its SGD rewards. HMC keeps its "
        "step, as in that program, where the text has gamma_k adapted for all variants.",
        s->seeds);
    int rc = settings_figure(s, &x);
    if (!x.plots) page_note(page, "%s", x.no_plots);
    page_heading(page, "Tables");
    page_how_judged(s, page);
    for (int col = 0; col < COLUMNS; col++) page_cells(s, page, col);
    page_causes(s, page);
    page_tracking(s, page);
    page_times(s, page);
    page_heading(page, "Curves");
    for (int k = 0; rc == 0 && k < LANGEVIN_SETTINGS; k++)
        for (int col = 0; rc == 0 && col < COLUMNS; col++)
            if (!s->o->quick || col == ADAM_0) rc = curves(s, &x, k, col);
    if (rc == 0) rc = langevin_parts(s->o, s->setting, s->particles, s->seeds, s->threads, &x);
    return experiment_page_end(&x, rc, "langevin.html");
}

/* ---------------------------------------------------------------------------- */

static int set_up(study *s)
{
    const reproduce_options *o = s->o;
    char error[SENTENCE];
    known paper;
    s->threads = experiment_threads(o->threads);
    s->seeds = o->seeds > 0 ? o->seeds : o->quick ? 3 : 10;
    if (s->seeds > LANGEVIN_SEEDS)
        return complain(SOSMC_EXIT_USAGE, "--seeds is %d; expected at most %d", s->seeds, LANGEVIN_SEEDS);
    if (langevin_open(s->setting, error, sizeof error)) return complain(SOSMC_EXIT_IO, "%s", error);
    s->particles = o->quick ? 1000 : s->setting[0].particles;
    s->reference = s->particles / 2;
    s->scale = o->quick ? 0.2 : 1;
    if (known_open(&paper, "langevin", error, sizeof error)) return complain(SOSMC_EXIT_IO, "%s", error);
    for (int k = 0; k < LANGEVIN_SETTINGS; k++)
        for (int col = 0; col < COLUMNS; col++)
            for (int m = 0; m < LANGEVIN_METHODS; m++) {
                cell *c = &s->cell[s->cells++];
                *c = (cell){
                    .setting = k, .method = m, .column = col, .result = calloc((size_t)s->seeds, sizeof *c->result)};
                c->paper = figure_of(s, &paper, c);
            }
    known_close(&paper);
    for (int i = 0; i < s->cells; i++)
        if (!s->cell[i].result) return complain(SOSMC_EXIT_NUMERIC, "out of memory");
    return SOSMC_EXIT_OK;
}

int reproduce_langevin(const reproduce_options *options)
{
    char error[SENTENCE];
    study *s = calloc(1, sizeof *s);
    if (!s) return complain(SOSMC_EXIT_NUMERIC, "out of memory");
    s->o = options;
    int code = set_up(s);
    if (code == SOSMC_EXIT_OK && files_directory(options->out, error, sizeof error))
        code = complain(SOSMC_EXIT_IO, "%s", error);
    if (code == SOSMC_EXIT_OK) fill_exact(s);
    if (code == SOSMC_EXIT_OK) code = compute(s);
    if (code == SOSMC_EXIT_OK) {
        summarise(s);
        fill_differences(s);
        if (!options->quiet) print_table(s, stdout);
        if (write_csv(s, options->out, error, sizeof error) || write_page(s, options->out, error, sizeof error))
            code = interrupt_requested()
                       ? complain(SOSMC_EXIT_INTERRUPTED, "interrupted; table.csv is written, the page is not")
                       : complain(SOSMC_EXIT_IO, "%s", error);
        else if (!options->quiet)
            printf("tables, figures and %s/langevin.html are written\n", options->out);
    }
    for (int i = 0; i < s->cells; i++) free(s->cell[i].result);
    langevin_close(s->setting);
    free(s);
    return code;
}
