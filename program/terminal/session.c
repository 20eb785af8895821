/* session.c: a run at a terminal. The run library does the work; here are its hooks, the report, and the closing lines. */
#include "session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/files.h"
#include "interrupt.h"
#include "report/run_report.h"
#include "progress.h"
#include "run/run.h"
#include "say.h"

enum { SHOWN = 8 /* parameters */, SENTENCE = 1024 };

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

static void show(void *ctx, const run_progress *p)
{
    session *s = ctx;
    if (!s->begun) progress_begin(&s->bar, s->options->quiet, p->done);
    if (s->begun) progress_info(&s->bar, p->done, p->total, p->info, p->strength, p->weighted);
    s->begun = 1;
}

static void say(void *ctx, const char *sentence)
{
    const session *s = ctx;
    int warning = strncmp(sentence, "warning: ", strlen("warning: ")) == 0;
    if (!warning || !s->options->experiment) (void)complain(0, "%s", sentence);
}

/* ---------------------------------------------------------------------------- the closing lines */

/* Prints the error only where it is large enough to change the printed digits of the value. */
static void print_number(FILE *out, double value, double error)
{
    fprintf(out, " %.6g", value);
    if (error > 1e-6 * fabs(value)) fprintf(out, " +- %.2g", error);
}

static void print_value(const outcome *o, FILE *out, const char *name, const told *t)
{
    if (t->from == TOLD_NOT) return;
    fputs(name, out);
    print_number(out, t->value, t->error);
    if (t->from == TOLD_EXACT) fputs(" (exact, by quadrature)", out);
    if (t->from == TOLD_FRESH) fputs(t->error > 0 ? " (from fresh draws)" : " (exact)", out);
    if (t->from == TOLD_RUNNING)
        fprintf(out, " (running estimate: the mean of the last %lld iterations, which spread by %.2g; it has no error)",
                (long long)o->tail.iterations, t->spread);
    fputc('\n', out);
}

static void print_theta(const outcome *o, FILE *out)
{
    int dim = o->dim_theta;
    fputs("theta =", out);
    for (int j = 0; j < dim && j < SHOWN; j++) fprintf(out, " %.6g", o->theta[j]);
    if (dim > SHOWN) fputs(" ...", out);
    if (o->averaged) fputs(", averaged", out);
    if (!isnan(o->standard_error)) fprintf(out, ", standard error %.3g", o->standard_error);
    fputc('\n', out);
}

static told negative(told t)
{
    t.value = -t.value;
    return t;
}

static void print_outcome(const outcome *o, FILE *out)
{
    const sosmc_info *info = &o->last;
    told likelihood = negative(o->loss);
    print_value(o, out, "reward", &o->reward);
    print_value(o, out, o->mmle ? "log-likelihood" : "loss", o->mmle ? &likelihood : &o->loss);
    print_value(o, out, "the best loss of all densities is", &o->best_loss);
    print_value(o, out, "KL", &o->kl);
    if (!o->optimises) print_value(o, out, "log Z", &o->log_z);
    if (o->optimises && !o->network) print_theta(o, out);
    if (o->weighted && o->iterations > 0) {
        fprintf(out, "ESS %.0f of %d in the last iteration", info->ess, o->particles);
        if (o->accepts && !isnan(info->accept)) fprintf(out, ", acceptance %.2g", info->accept);
        fputc('\n', out);
    }
}

static int said_before(const outcome *o, int i) { return i == 0 && strncmp(o->warning[0], "kernel.step is ", 15) == 0; }

/* Warnings are printed last, where they are noticed. The warning about the step was printed before the first iteration. */
static void tell(const session *s)
{
    const outcome *o = &s->result.outcome;
    const char *dir = s->options->out;
    if (!s->options->quiet) {
        printf("%lld iterations in %.2f s\n", (long long)s->result.iterations, s->result.seconds);
        print_outcome(o, stdout);
        if (o->network && o->optimises)
            printf("the network of %d parameters is stored as %s/model.safetensors\n", o->dim_theta, dir);
        printf("results in %s\n", dir);
        (void)fflush(stdout);
    }
    for (int i = 0; i < o->warnings && !s->options->experiment; i++)
        if (!said_before(o, i)) (void)complain(0, "warning: %s", o->warning[i]);
}

/* ---------------------------------------------------------------------------- the run */

static int exit_code(run_status status)
{
    static const int codes[] = {[RUN_OK] = SOSMC_EXIT_OK,
                                [RUN_STOPPED] = SOSMC_EXIT_INTERRUPTED,
                                [RUN_EUSAGE] = SOSMC_EXIT_USAGE,
                                [RUN_ENUMERIC] = SOSMC_EXIT_NUMERIC,
                                [RUN_EIO] = SOSMC_EXIT_IO};
    return codes[status];
}

static int has_report(const char *dir)
{
    char path[FILES_PATH];
    return files_join(path, dir, "report.html", NULL, 0) == 0 && access(path, F_OK) == 0;
}

static int write_report(const config *c, const char *dir)
{
    char error[SENTENCE];
    if (!config_flag(c, "output.report") || has_report(dir) || run_report(dir, error, sizeof error) == 0)
        return SOSMC_EXIT_OK;
    return complain(SOSMC_EXIT_IO, "%s", error);
}

int session_run(const config *c, const session_options *options)
{
    session *s = calloc(1, sizeof *s);
    if (!s) return complain(SOSMC_EXIT_NUMERIC, "out of memory");
    s->options = options;
    run_hooks hooks = {.stop = stop, .progress = show, .say = say, .ctx = s};
    run_options what = {.out = options->out,
                        .resume = options->resume,
                        .overwrite = options->overwrite,
                        .budget_seconds = options->budget_seconds};
    int code = exit_code(run_execute(c, &what, &hooks, &s->result));
    if (s->begun) progress_end(&s->bar);
    if (*s->result.message) (void)complain(0, "%s", s->result.message);
    if (code == SOSMC_EXIT_OK) code = write_report(c, options->out);
    if (code == SOSMC_EXIT_OK && s->result.complete && !options->quiet)
        printf("%s is finished: %lld iterations\n", options->out, (long long)s->result.iterations);
    if (code == SOSMC_EXIT_OK && !s->result.complete) tell(s);
    free(s);
    return code;
}
