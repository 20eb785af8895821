/* session.c: a run at a terminal. The run library does the work; here are its hooks, the report, and the closing lines. */
#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/words.h"
#include "interrupt.h"
#include "report/closing.h"
#include "report/run_report.h"
#include "job/problem.h"
#include "progress.h"
#include "run/need.h"
#include "run/run.h"
#include "say.h"

enum { SENTENCE = 1024 };

typedef struct {
    const session_options *options;
    progress bar;
    int begun;
    run_result result;
} session;

/* ---------------------------------------------------------------------------- hooks */

static int stop(void *ctx)
{
    (void)ctx;
    return interrupt_requested() != 0;
}

static int saves(void *ctx)
{
    (void)ctx;
    return interrupt_saves();
}

static void show(void *ctx, const run_progress *p)
{
    session *s = ctx;
    if (!s->begun) progress_begin(&s->bar, s->options->quiet, p->done);
    if (s->begun && p->temper)
        progress_temper(&s->bar, p->temper);
    else if (s->begun && p->solve)
        progress_solve(&s->bar, p->solve, p->theta, p->dim_theta);
    else if (s->begun)
        progress_info(&s->bar, p->done, p->total, p->info, p->strength, p->weighted);
    s->begun = 1;
}

static void say(void *ctx, const char *sentence)
{
    const session *s = ctx;
    int warning = strncmp(sentence, "warning: ", strlen("warning: ")) == 0;
    if (!warning || !s->options->experiment) (void)complain(0, "%s", sentence);
}

/* ---------------------------------------------------------------------------- the closing lines */

/* What speaks against the result goes to standard error, also when quiet. */
static void tell(session *s)
{
    if (!s->options->quiet) {
        closing_write(&s->result, s->options->out, stdout);
        (void)fflush(stdout);
    }
    if (!s->options->experiment) closing_against(&s->result, say, s);
}

/* ---------------------------------------------------------------------------- the run */

static int exit_code(run_status status)
{
    static const int codes[] = {[RUN_OK] = SOSMC_EXIT_OK,        [RUN_STOPPED] = SOSMC_EXIT_INTERRUPTED,
                                [RUN_EUSAGE] = SOSMC_EXIT_USAGE, [RUN_ENUMERIC] = SOSMC_EXIT_NUMERIC,
                                [RUN_EIO] = SOSMC_EXIT_IO,       [RUN_EBUSY] = SOSMC_EXIT_BUSY};
    return codes[status];
}

static int write_report(const config *c, const char *dir)
{
    char error[SENTENCE];
    if (run_report_asked(c, dir, error, sizeof error) == 0) return SOSMC_EXIT_OK;
    return complain(interrupt_requested() ? SOSMC_EXIT_INTERRUPTED : SOSMC_EXIT_IO, "%s", error);
}

static int strict_code(const session *s)
{
    if (s->result.verdict == SOSMC_CONVERGED) return SOSMC_EXIT_OK;
    if (s->result.verdict < 0)
        return complain(SOSMC_EXIT_UNTRUSTED, "%s has no verdict; 'sosmc judge %s' gives it one", s->options->out,
                        s->options->out);
    if (!s->result.complete) return SOSMC_EXIT_UNTRUSTED;
    return complain(SOSMC_EXIT_UNTRUSTED, "%s has not converged; its summary.json says why", s->options->out);
}

/* The job of a run file whose inputs are not too large to be read. */
static int build(job *j, const config *c, int *io, char *error, size_t room)
{
    *io = 0;
    return need_inputs(c, error, room) || job_build(j, c, io, error, room) ? -1 : 0;
}

int session_fits(const config *c)
{
    char error[SENTENCE];
    int io;
    job j = {.parts = NULL};
    int rc = build(&j, c, &io, error, sizeof error) || need_check(c, &j, error, sizeof error) ? -1 : 0;
    job_free(&j);
    return rc ? complain(io ? SOSMC_EXIT_IO : SOSMC_EXIT_USAGE, "%s", error) : SOSMC_EXIT_OK;
}

/* The files that the run reads may be missing; then it says why the memory is not known. */
static void print_need(const config *c)
{
    char error[SENTENCE], line[SENTENCE], words[NEED_WORDS];
    int io;
    job j = {.parts = NULL};
    if (build(&j, c, &io, error, sizeof error) == 0)
        printf("# The run takes %s of memory.\n", need_words(need_of_run(c, &j), words));
    else
        printf("# How much memory the run takes is not known: %s\n", words_line(error, line, sizeof line));
    job_free(&j);
}

int session_print(const config *c)
{
    print_need(c);
    return config_write(c, stdout) || fflush(stdout) ? complain(SOSMC_EXIT_IO, "cannot write to standard output")
                                                     : SOSMC_EXIT_OK;
}

int session_run(const config *c, const session_options *options)
{
    session *s = calloc(1, sizeof *s);
    if (!s) return complain(SOSMC_EXIT_NUMERIC, "out of memory");
    run_lock lock = {.held = 0}; /* until the report is written */
    s->options = options;
    run_hooks hooks = {.stop = stop, .saves = saves, .progress = show, .say = say, .ctx = s};
    run_options what = {.out = options->out,
                        .resume = options->resume,
                        .overwrite = options->overwrite,
                        .judge = options->judge,
                        .budget_seconds = options->budget_seconds,
                        .accept_changed = options->accept_changed,
                        .unnamed = options->unnamed,
                        .lock = options->lock ? options->lock : &lock,
                        .root = options->root,
                        .photo = options->photo};
    int code = exit_code(run_execute(c, &what, &hooks, &s->result));
    if (s->begun) progress_end(&s->bar);
    if (*s->result.message) (void)complain(0, "%s", s->result.message);
    if (code == SOSMC_EXIT_OK) code = write_report(c, options->out);
    if (code == SOSMC_EXIT_OK) tell(s);
    if (code == SOSMC_EXIT_OK && options->strict) code = strict_code(s);
    run_result_free(&s->result);
    lock_give_back(&lock);
    free(s);
    return code;
}
