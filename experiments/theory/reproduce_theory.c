/* reproduce_theory.c: every result of the paper as a numerical statement: the list of them, run side by side, and the exit code.
 *
 *     OUT/theory.html                statement, figure, table, verdict
 *     OUT/results.json, OUT/tables/ID.csv, OUT/figures/ID.svg and .pdf
 *
 * The same seed gives the same files on any number of threads. Nothing is written before the last statement is done, so that
 * Ctrl-C leaves nothing half-written. Exit code 3: something that we claim ourselves did not hold. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/experiment.h"
#include "common/reproduce.h"
#include "terminal/say.h"
#include "theory.h"

enum { SENTENCE = 1024, IDS = 512 };

const theory_entry theory_entries[] = {
    {"data-sign", "Section 2.2", theory_data_sign},
    {"feynman-kac", "Theorem 1, Lemma 1, appendix A", theory_feynman_kac},
    {"normalising-constant", "Theorem 1 (φ = 1), section 3.2", theory_normalising_constant},
    {"equivalences", "Remarks 1 and 2, appendix A", theory_equivalences},
    {"ula-bias", "Section 3, ULA with and without weights", theory_ula_bias},
    {"convergence-rate", "Assumption A1, Proposition 1", theory_rate},
    {"finite-n", "Remark 3", theory_finite_n},
    {"gaussian-ess", "Section 4.2, ESS of Gaussians", theory_gaussian_ess},
    {"chi-square", "Proposition 2", theory_chi_square},
    {"chi-square-bounded", "Proposition 3 (appendix B)", theory_chi_bounded},
    {"chi-square-root", "Proposition 4 (appendix B)", theory_chi_root},
    {"step-rule", "Remark 4", theory_remark4},
    {"score-identities", "Lemmas 2 to 5, appendices C and F", theory_score_identities},
    {"tilted-optimum", "Section 5.2, appendix E.2", theory_tilted},
    {"tv-constant", "Section 5.4, appendix E.4", theory_tv_constant},
    {NULL, NULL, NULL}};

typedef struct {
    theory_options options;
    theory_results results;
    int *job; /* entries that were asked for */
    int jobs;
    char out[FILES_PATH];
} study;

/* ---------------------------------------------------------------------------- running */

static int choose(study *s, const char *only)
{
    char known[IDS] = "";
    const theory_entry *entry = s->results.entry;
    for (int i = 0; i < s->results.n; i++)
        if (!only || strcmp(only, entry[i].id) == 0) s->job[s->jobs++] = i;
    if (s->jobs > 0) return SOSMC_EXIT_OK;
    for (int i = 0; i < s->results.n; i++) {
        size_t used = strlen(known);
        (void)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", entry[i].id);
    }
    return complain(SOSMC_EXIT_USAGE, "--only is '%s'; expected one of %s", only, known);
}

/* The grid calls this function from several threads. A job writes to its own place in `statement` and to no other. */
static int one_statement(void *context, int job, char *error, size_t room)
{
    study *s = context;
    const theory_entry *e = &s->results.entry[s->job[job]];
    theory_statement *out = &s->results.statement[s->job[job]];
    out->id = e->id;
    int code = e->check(&s->options, out);
    if (code == SOSMC_EXIT_OK && (out->table.failed || out->second.failed || out->memory.failed)) {
        code = SOSMC_EXIT_NUMERIC;
        (void)snprintf(out->error, sizeof out->error, "out of memory, or a row has not the columns of its table");
    }
    if (code == SOSMC_EXIT_OK) {
        if (!out->claim.claim) out->claim.claim = out->title;
        if (out->figure.panels > 0) out->figure.name = out->id;
        return 0;
    }
    (void)snprintf(error, room, "%s: %s", e->id, out->error);
    return -1;
}

static int run_statements(study *s, const reproduce_options *o)
{
    char error[SENTENCE];
    int threads = experiment_threads(o->threads);
    s->options.threads = s->jobs == 1 ? threads : 1;
    if (!o->quiet)
        (void)fprintf(stderr, "%d statements, %d at a time\n", s->jobs, threads < s->jobs ? threads : s->jobs);
    const grid statements = {.cells = s->jobs, .run = one_statement, .context = s};
    int code = experiment_grid(&statements, threads, o->quiet, error, sizeof error);
    if (code == GRID_STOPPED) return complain(SOSMC_EXIT_INTERRUPTED, "interrupted; nothing was written");
    return code ? complain(SOSMC_EXIT_NUMERIC, "%s", error) : SOSMC_EXIT_OK;
}

/* ---------------------------------------------------------------------------- what came of it */

/* Returns SOSMC_EXIT_NUMERIC when a statement of our own does not hold or a variant that is wrong on purpose was not
 * noticed. */
static int look_for_faults(const study *s)
{
    int code = SOSMC_EXIT_OK;
    for (int i = 0; i < s->jobs; i++) {
        const theory_statement *t = &s->results.statement[s->job[i]];
        if (t->faults) code = complain(SOSMC_EXIT_NUMERIC, "%s: our own statement does not hold: %s", t->id, t->fault);
        if (t->unnoticed)
            code = complain(SOSMC_EXIT_NUMERIC, "%s: a wrong variant was not noticed: %s", t->id, t->control);
    }
    return code;
}

static int tell(study *s, const reproduce_options *o)
{
    char error[SENTENCE];
    if (!o->quiet) theory_print(&s->results, stdout);
    if (theory_write(&s->results, error, sizeof error)) return complain(SOSMC_EXIT_IO, "%s", error);
    if (!o->quiet) (void)printf("\ntheory.html, results.json, tables and figures are in %s\n", s->out);
    return look_for_faults(s);
}

/* Makes the folder before the statements run, so that a folder that cannot be made is reported at once. A folder that did
 * not exist before is removed again when the statements fail. */
static int run_into_folder(study *s, const reproduce_options *o)
{
    int existed = access(o->out, F_OK) == 0, code = experiment_folder(o->out, s->out);
    if (code != SOSMC_EXIT_OK) return code;
    s->results.out = s->out;
    code = run_statements(s, o);
    if (code == SOSMC_EXIT_OK) return tell(s, o);
    if (!existed) (void)rmdir(s->out);
    return code;
}

int theory_run(const reproduce_options *o, const theory_entry *entries)
{
    study s = {.options = {.quick = o->quick, .seed = o->seed}};
    int n = 0;
    while (entries[n].id) n++;
    s.results = (theory_results){.options = &s.options, .entry = entries, .n = n};
    s.results.statement = calloc((size_t)n + 1, sizeof *s.results.statement);
    s.job = calloc((size_t)n + 1, sizeof *s.job);
    int code = SOSMC_EXIT_NUMERIC;
    if (!s.job || !s.results.statement)
        (void)complain(0, "out of memory");
    else if ((code = choose(&s, o->only)) == SOSMC_EXIT_OK)
        code = run_into_folder(&s, o);
    for (int i = 0; s.results.statement && i < n; i++) theory_statement_free(&s.results.statement[i]);
    free(s.results.statement);
    free(s.job);
    return code;
}

int reproduce_theory(const reproduce_options *options) { return theory_run(options, theory_entries); }
