/* command_judge.c: `sosmc judge`. */
#include <stdio.h>
#include <unistd.h>

#include "commands.h"
#include "drafts/deblur.h"
#include "files/directory.h"
#include "files/files.h"
#include "report/deblur_page.h"
#include "terminal/say.h"
#include "terminal/say_lock.h"
#include "terminal/session.h"

enum { SENTENCE = 1024 };

const char judge_text[] =
    "sosmc judge DIR [--threads T] [--quiet] [--strict] [--accept-changed-inputs]\n"
    "\n"
    "Judges the run in DIR as it is, without another iteration: theta with its errors, the objective from fresh particles that\n"
    "did not steer theta, and whether the run has converged. summary.json and the report are written again. (The solver of an\n"
    "automatic run has judged it already, and that is told again.) Directories of\n"
    "earlier versions and runs with 'judge: none' are judged too; what was not gathered while they went on is missing, and said\n"
    "to be.\n"
    "\n"
    "  --threads T           threads; the results do not depend on it\n"
    "  --quiet               no closing words\n"
    "  --strict              exit code 5 unless the run has converged\n"
    "  --accept-changed-inputs    judge although a file that the run reads has changed since it began\n";

enum { THREADS, QUIET, STRICT, ACCEPT, HELP, FLAGS };
static const flag_row table[FLAGS] = {
    [THREADS] = {.name = "threads", .like = "threads", .key = "threads", .takes_value = 1},
    [QUIET] = {.name = "quiet"},
    [STRICT] = {.name = "strict"},
    [ACCEPT] = {.name = "accept-changed-inputs"},
    [HELP] = {.name = "help"},
};

/* The run file of a directory, as command_load returns it. */
static config *load(flag_values *v, char path[FILES_PATH], int *code)
{
    char error[SENTENCE];
    *code = SOSMC_EXIT_IO;
    if (files_join(path, v->operand, "run.yaml", error, sizeof error) || directory_regular(path, error, sizeof error))
        (void)complain(0, "%s", error);
    else if (access(path, F_OK) != 0)
        (void)complain(0, "%s is not a run directory: it has no run.yaml", v->operand);
    else {
        v->operand = path;
        return command_load(v, code);
    }
    return NULL;
}

int command_judge(int argc, char **argv)
{
    flag_values v;
    char path[FILES_PATH], error[SENTENCE];
    int code;
    if (flags_read(&v, table, FLAGS, 0, argc, argv, NULL, judge_text, &code)) return code;
    if (v.operands != 1) return complain(SOSMC_EXIT_USAGE, "judge takes one run directory; see 'sosmc help judge'");
    run_lock lock = {.held = 0};
    session_options options = {.out = v.operand,
                               .resume = 1,
                               .judge = 1,
                               .quiet = flag_given(&v, QUIET),
                               .strict = flag_given(&v, STRICT),
                               .accept_changed = flag_given(&v, ACCEPT),
                               .lock = &lock};
    config *c = load(&v, path, &code);
    if (!c) return code;
    code = say_lock(&lock, options.out);
    if (code == SOSMC_EXIT_OK) code = session_run(c, &options);
    config_free(c);
    if ((code == SOSMC_EXIT_OK || code == SOSMC_EXIT_UNTRUSTED) && deblur_owns(options.out) &&
        deblur_report(options.out, error, sizeof error))
        code = complain(SOSMC_EXIT_IO, "%s", error);
    lock_give_back(&lock);
    return code;
}
