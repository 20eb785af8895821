/* reproduce_mnist.c: the paper's third experiment: an energy model of MNIST digits, tuned towards brighter, darker or
 * lower-half digits by ImpDiff and by SOSMC-ULA.
 *
 *     OUT/start/..., OUT/cells/...    run directories
 *     OUT/studies                     samples
 *     OUT/report.html, OUT/figures, OUT/table.csv, OUT/summary.json
 *
 * Everything that takes time is kept in a file when it is done and picked up where it was left: the same command continues
 * after Ctrl-C or worse. Runs are made in parallel, one thread each. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "files/directory.h"
#include "files/files.h"
#include "mnist_chains.h"
#include "mnist_page.h"
#include "mnist_record.h"
#include "common/reproduce.h"
#include "terminal/say.h"
#include "files/share.h"

enum { SENTENCE = 1024 };

typedef struct {
    const reproduce_options *o;
    mnist_plan plan;
    mnist_findings found;
    mnist_results results;
    char out[FILES_PATH];
    int threads;
} study;

static void announce(const study *s, const char *what)
{
    if (!s->o->quiet) (void)fprintf(stderr, "%s\n", what);
}

/* ---------------------------------------------------------------------------- the model */

static int find_model(study *s)
{
    char dir[FILES_PATH], given[FILES_PATH], error[SENTENCE];
    mnist_network n;
    if (s->o->checkpoint)
        (void)snprintf(given, sizeof given, "%s", s->o->checkpoint);
    else if (share_find("mnist", "mnist.safetensors", dir) ||
             files_join(given, dir, "mnist.safetensors", error, sizeof error))
        return complain(SOSMC_EXIT_IO, "no folder with mnist.safetensors was found; expected --checkpoint FILE, or the "
                                       "environment variable SOSMC_SHARE with the folder above mnist");
    if (!realpath(given, s->plan.model))
        return complain(SOSMC_EXIT_IO, "--checkpoint is %s, which is not there", given);
    if (mnist_open(&n, s->plan.model, error, sizeof error)) return complain(SOSMC_EXIT_IO, "%s", error);
    s->found.published = mnist_is_published(n.file.theta, n.file.parameters);
    mnist_close(&n);
    return SOSMC_EXIT_OK;
}

/* ---------------------------------------------------------------------------- how long it will take */

static int tell_time(const study *s)
{
    char error[SENTENCE];
    double unit, cost = mnist_start_cost(&s->plan);
    if (s->o->quiet) return SOSMC_EXIT_OK;
    if (mnist_unit_cost(s->plan.model, &unit, error, sizeof error)) return experiment_failed(SOSMC_EXIT_NUMERIC, error);
    for (int i = 0; i < s->plan.cells; i++) cost += mnist_cell_cost(&s->plan.cell[i]);
    double minutes = unit * cost / 60 / s->threads;
    (void)fprintf(stderr, "%d tuning runs, about %.*f minutes from nothing with %d thread%s\n", s->plan.cells,
                  minutes < 10 ? 1 : 0, minutes, s->threads, s->threads == 1 ? "" : "s");
    return SOSMC_EXIT_OK;
}

/* ---------------------------------------------------------------------------- runs */

/* Runs them one at a time, each with all threads, because everything else needs their results. */
static int draw_starts(study *s)
{
    int code = SOSMC_EXIT_OK;
    announce(s, "initial particles");
    for (int i = 0; code == SOSMC_EXIT_OK && i < s->plan.cells; i++)
        if (mnist_start_is_first(&s->plan, i)) code = mnist_start_run(&s->plan, &s->plan.cell[i], s->threads, 1);
    return code;
}

static int one_base(void *context, int base, char *error, size_t room)
{
    study *s = context;
    return mnist_base_draw(&s->found, base, error, room);
}

static void name_of_cell(const void *context, int cell, char out[GRID_NAME])
{
    mnist_cell_name(&((const study *)context)->plan.cell[cell], out, GRID_NAME);
}

static int one_cell(void *context, int cell, char *error, size_t room)
{
    study *s = context;
    int code = mnist_cell_run(&s->plan, cell, error, room);
    return code != SOSMC_EXIT_OK ? code : mnist_cell_draw(&s->found, cell, error, room);
}

static int read_cell(void *context, int cell, char *error, size_t room)
{
    return mnist_cell_read(&((study *)context)->plan, cell, error, room);
}

static double cost_of_cell(const void *context, int cell)
{
    return mnist_cell_cost(&((const study *)context)->plan.cell[cell]);
}

static int run_cells(study *s)
{
    char error[SENTENCE], dir[FILES_PATH];
    const grid bases = {.cells = s->found.bases, .run = one_base, .context = s};
    const grid cells = {.out = s->out,
                        .cells = s->plan.cells,
                        .name = name_of_cell,
                        .cost = cost_of_cell,
                        .run = one_cell,
                        .read = read_cell,
                        .context = s};
    if (files_join(dir, s->out, "studies", error, sizeof error) || directory_make(dir, error, sizeof error))
        return complain(SOSMC_EXIT_IO, "%s", error);
    announce(s, "samples of the pre-trained model");
    int code = experiment_run_grid(&bases, s->threads, s->o->quiet);
    if (code != SOSMC_EXIT_OK) return code;
    announce(s, "tuning");
    code = experiment_run_grid(&cells, s->threads, s->o->quiet);
    if (code != SOSMC_EXIT_OK) return code;
    return mnist_compare(&s->found, error, sizeof error) ? complain(SOSMC_EXIT_NUMERIC, "%s", error) : SOSMC_EXIT_OK;
}

/* ---------------------------------------------------------------------------- */

static int set_up(study *s, const mnist_scale *scale)
{
    char error[SENTENCE];
    s->threads = experiment_threads(s->o->threads);
    s->plan.scale = *scale;
    s->plan.seed = s->o->seed;
    if (s->o->seeds > 0) s->plan.scale.seeds = s->o->seeds;
    if (s->o->paper) s->plan.scale.paper = 1;
    int code = find_model(s);
    if (code == SOSMC_EXIT_OK &&
        (mnist_plan_open(&s->plan, error, sizeof error) || known_open(&s->plan.known, "mnist", error, sizeof error)))
        code = complain(SOSMC_EXIT_IO, "%s", error);
    if (code == SOSMC_EXIT_OK) code = experiment_folder(s->o->out, s->out);
    if (code != SOSMC_EXIT_OK) return code;
    s->plan.out = s->out;
    s->found.threads = s->threads;
    s->results.found = &s->found;
    if (mnist_plan_cells(&s->plan, error, sizeof error) ||
        mnist_findings_begin(&s->found, &s->plan, error, sizeof error))
        return complain(SOSMC_EXIT_NUMERIC, "%s", error);
    return tell_time(s);
}

static int tell(study *s)
{
    char error[SENTENCE];
    mnist_judge(&s->found, s->results.claim);
    if (!s->o->quiet) mnist_print(&s->results, stdout);
    if (mnist_write_tables(&s->results, error, sizeof error) || mnist_write_page(&s->results, error, sizeof error))
        return experiment_failed(SOSMC_EXIT_IO, error);
    if (!s->o->quiet) (void)printf("\ntable.csv, summary.json, figures and report.html are in %s\n", s->out);
    return SOSMC_EXIT_OK;
}

int reproduce_mnist_scaled(const reproduce_options *options, const mnist_scale *scale)
{
    study *s = calloc(1, sizeof *s);
    if (!s) return complain(SOSMC_EXIT_NUMERIC, "out of memory");
    s->o = options;
    int code = set_up(s, scale);
    if (code == SOSMC_EXIT_OK) code = draw_starts(s);
    if (code == SOSMC_EXIT_OK) code = run_cells(s);
    if (code == SOSMC_EXIT_OK) code = tell(s);
    mnist_findings_free(&s->found);
    mnist_plan_free(&s->plan);
    free(s);
    return code;
}

int reproduce_mnist(const reproduce_options *options)
{
    mnist_scale scale = options->quick  ? mnist_scale_quick()
                        : options->full ? mnist_scale_full()
                                        : mnist_scale_default();
    int code = experiment_check_sizes(options, "mnist");
    return code == SOSMC_EXIT_OK ? reproduce_mnist_scaled(options, &scale) : code;
}
