/* The program as a user meets it: exit codes and sentences, run directories, kill -9 and resume, Ctrl-C. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { TEXT = 8192, ROOM = 1024 };

static char directory[256];

static const char RUN_FILE[] = "model: {type: gaussian_mixture, means: [[-3, 0], [3, 0]], variance: 0.5, eps: 1.0e-9}\n"
                               "objective:\n"
                               "  type: reward_forward\n"
                               "  reward: {type: smooth_gate, center: [4, 3.8], tau: 20, lambda: 0.5, alpha: 0.7}\n"
                               "  beta: 0.1\n"
                               "  reference: {batch: 200}\n"
                               "kernel: {type: ula, step: 0.1}\n"
                               "resampling: {scheme: multinomial, threshold: 0.9}\n"
                               "adapt: {threshold: 0.95, factor: 1.01, min: 0.001, max: 0.99}\n"
                               "optimiser: {type: adam, rate: 0.1}\n"
                               "particles: 500\n"
                               "iterations: 400\n"
                               "output: {checkpoint_every: 7, report: false}\n";

static const char *program(void)
{
    const char *path = getenv("SOSMC_PROGRAM");
    return path ? path : "./sosmc";
}

static void write_text(const char *name, const char *text)
{
    char path[ROOM];
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* Runs `sosmc ARGUMENTS` in the directory; both streams go to `output`. Returns the exit code. */
static int sosmc_says(char output[TEXT], const char *format, ...)
{
    char arguments[ROOM], command[2 * ROOM + 512];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(arguments, sizeof arguments, format, list);
    va_end(list);
    (void)snprintf(command, sizeof command, "cd '%s' && '%s' %s 2>&1", directory, program(), arguments);
    FILE *f = popen(command, "r"); // NOLINT(cert-env33-c): a test drives the program the way a shell does
    assert_non_null(f);
    size_t n = fread(output, 1, TEXT - 1, f);
    output[n] = 0;
    char rest[512];
    while (fread(rest, 1, sizeof rest, f) > 0) {
    }
    int status = pclose(f);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void expect(int code, const char *words, const char *arguments)
{
    char output[TEXT];
    int got = sosmc_says(output, "%s", arguments);
    if (got != code || !strstr(output, words))
        fail_msg("sosmc %s: exit %d (expected %d), '%s' (expected '%s')", arguments, got, code, output, words);
}

/* The experiments are another program: without it, the sentence says where it is looked for and how to get it. */
static void experiments_are_another_program(void **state)
{
    char command[3 * ROOM], words[TEXT];
    (void)snprintf(command, sizeof command,
                   "cp '%s' '%s/alone' && cd '%s' && PATH=/nowhere ./alone reproduce theory 2>&1", program(), directory,
                   directory);
    FILE *f = popen(command, "r"); // NOLINT(cert-env33-c): a test drives the program the way a shell does
    assert_non_null(f);
    size_t n = fread(words, 1, sizeof words - 1, f);
    words[n] = 0;
    int status = pclose(f);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 2);
    assert_non_null(strstr(words, "needs the program sosmc-paper, which is neither beside this one nor in PATH"));
    expect(0, "sosmc reproduce langevin [--quick]", "help reproduce");
    expect(0, "sosmc reproduce langevin [--quick]", "reproduce --help");
}

static pid_t start(const char *const *argv)
{
    pid_t pid = fork();
    if (pid) return pid;
    int null = open("/dev/null", O_WRONLY);
    if (chdir(directory) || dup2(null, 1) < 0 || dup2(null, 2) < 0) _exit(99);
    execv(program(), (char *const *)argv);
    _exit(98);
}

static void nap(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds, .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))};
    (void)nanosleep(&t, NULL);
}

static long file_size(const char *name)
{
    char path[ROOM];
    struct stat s;
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    return stat(path, &s) ? -1 : (long)s.st_size;
}

static void same_bytes(const char *one, const char *other)
{
    char command[3 * ROOM];
    (void)snprintf(command, sizeof command, "cmp '%s/%s' '%s/%s'", directory, one, directory, other);
    if (system(command) != 0) fail_msg("%s and %s differ", one, other); // NOLINT(cert-env33-c)
}

static void same_runs(const char *one, const char *other)
{
    static const char *const names[] = {"trace.csv", "theta.npy", "particles.npz", "checkpoint"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char a[ROOM], b[ROOM];
        (void)snprintf(a, sizeof a, "%s/%s", one, names[i]);
        (void)snprintf(b, sizeof b, "%s/%s", other, names[i]);
        same_bytes(a, b);
    }
}

/* ---------------------------------------------------------------------------- words */

static void help_teaches(void **state)
{
    static const char *const commands[] = {"run", "train", "tune", "sample", "check", "report", "reproduce", "list"};
    char arguments[64];
    expect(0, "First steps", "help");
    expect(0, "sosmc ", "--version");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        (void)snprintf(arguments, sizeof arguments, "help %s", commands[i]);
        expect(0, commands[i], arguments);
        (void)snprintf(arguments, sizeof arguments, "%s --help", commands[i]);
        expect(0, commands[i], arguments);
    }
    expect(0, "gaussian_mixture", "list");
    expect(0, "\n  ebm2d ", "list");
}

/* One parser reads the flags of all commands. */
static void all_commands_speak_alike(void **state)
{
    static const char *const commands[] = {"run",   "train",  "tune",      "sample", "deblur",
                                           "check", "report", "reproduce", "list",   "demo"};
    char arguments[64], words[128];
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        (void)snprintf(arguments, sizeof arguments, "%s --nosuchflag", commands[i]);
        (void)snprintf(words, sizeof words, "sosmc: %s has no flag '--nosuchflag'; see 'sosmc help %s'", commands[i],
                       commands[i]);
        expect(2, words, arguments);
        (void)snprintf(arguments, sizeof arguments, "%s --hel", commands[i]);
        (void)snprintf(words, sizeof words, "sosmc %s", commands[i]);
        expect(0, words, arguments);
    }
    expect(2, "sosmc: --threads is '0'; expected a whole number in [1, 1024]", "run run.yaml --threads 0");
    expect(2, "sosmc: --threads is '0'; expected a whole number in [1, 1024]", "demo --threads 0");
    expect(2, "sosmc: --out is ''; expected a value", "run run.yaml --out=");
}

static void wrong_words_are_named(void **state)
{
    expect(2, "sosmc run FILE.yaml", "");
    expect(2, "there is no command 'rnu'; did you mean 'run'?", "rnu run.yaml");
    expect(2, "there is no command 'reprt'; did you mean 'report'?", "help reprt");
    expect(2, "there is no command 'zzz'; see 'sosmc help'", "zzz");
    expect(2, "sosmc: run has no flag '--fast'; see 'sosmc help run'", "run run.yaml --fast");
    expect(2, "sosmc: run has no flag '--iteratoins'; did you mean '--iterations'?", "run run.yaml --iteratoins 5");
    expect(2, "sosmc: check has no flag '--partcles'; did you mean '--particles'?", "check --partcles 5 run.yaml");
    expect(2, "sosmc: run: --seed needs a value", "run run.yaml --seed");
    expect(2, "there is no experiment 'langvin'; did you mean 'langevin'?", "reproduce langvin");
    expect(2, "iterations is 'many'", "run run.yaml --iterations many --out w");
    expect(2, "one run file", "run");
    expect(4, "absent.yaml", "run absent.yaml");
    expect(2, "did you mean 'kernel.step'", "run run.yaml --set kernel.stp=0.1 --out w");
    expect(2, "kernel.step is 'fast'", "run run.yaml --set kernel.step=fast --out w");
    expect(2, "--budget-seconds is 'x'", "run run.yaml --budget-seconds x --out w");
    expect(2, "langevin", "reproduce everything");
    expect(4, "nowhere", "report nowhere");
    write_text("broken.yaml", "model: {type: gaussian_mixture\n");
    expect(2, "broken.yaml:", "run broken.yaml --out w");
    write_text("theta.yaml", RUN_FILE);
    expect(2, "model.theta has 3 numbers; expected 2", "run theta.yaml --set 'model.theta=[0,0,0]' --out w");
    expect(2, "formula", "run run.yaml --set 'objective.reward={formula: \"x1 + x9\"}' --out w");
    expect(4, "run.yaml/file", "run run.yaml --out run.yaml/file/out");
    assert_int_equal(file_size("w"), -1); /* nothing was begun */
}

static void flags_set_keys(void **state)
{
    expect(0, "", "run run.yaml --iterations 3 --particles 40 --quiet --out flagged");
    expect(0, "", "run run.yaml --set iterations=3 --set particles=40 --quiet --out assigned");
    same_runs("flagged", "assigned");
    same_bytes("flagged/run.yaml", "assigned/run.yaml");
    expect(0, "short run: 3 iterations", "check run.yaml --iterations 3 --particles 40 --threads 1");
}

#define LOGISTIC "run logistic.yaml --set settings=explicit --iterations 2 --quiet --overwrite --out logistic "
#define TOY "run toy.yaml --set settings=explicit --iterations 2 --quiet --overwrite --out toy "

/* Tables that hold nothing, too little, or another separator: each has a sentence of its own. */
static void poor_tables_are_named(void **state)
{
    write_text("logistic.yaml", "model: {type: logistic_regression, data: table.csv, label: y}\nobjective: mmle\n");
    write_text("toy.yaml", "model: {type: hierarchical_gaussian, data: table.csv, column: y}\nobjective: mmle\n");
    write_text("fit.yaml", "model: {type: gaussian_mixture, means: [[-1, 0], [1, 0]]}\n"
                           "objective: {type: ebm_likelihood, data: {file: table.csv, standardise: true}}\n");
    write_text("table.csv", "x,y\n");
    expect(4, "table.csv has a header of 2 columns ('x', ...) and no rows below it; expected at least one", LOGISTIC);
    expect(4, "table.csv has a header of 2 columns ('x', ...) and no rows below it; expected at least one", TOY);
    expect(4, "no rows below it", "train table.csv");
    write_text("table.csv", "x,y;z\n1,0;2\n");
    expect(4, "table.csv:1: a comma or a semicolon may separate the columns; expected one of them", LOGISTIC);
    expect(4, "table.csv:1: a comma or a semicolon may separate the columns; expected one of them", "train table.csv");
    write_text("table.csv", "x,y\n1,0\n");
    expect(2, "table.csv has one row, and one value of column 'x' has no spread", LOGISTIC);
    expect(4, "table.csv has one row, and one point has no spread", "run fit.yaml --out fit");
    expect(4, "expected two rows or more, or --no-standardise", "train table.csv");
    expect(0, "", LOGISTIC "--set model.standardise=false");
    expect(0, "", TOY); /* one observation is a data set */
}

static void numerical_failure_is_3(void **state)
{
    expect(3, "iteration", "run run.yaml --set 'objective.reward={formula: \"log(x1)\"}' --out numeric --quiet");
}

/* No kernel moves so little that these weights recover: theta runs away from a cloud that stands still. */
static void a_collapsed_run_ends_and_can_go_on(void **state)
{
    write_text("collapse.yaml", "model: {type: hierarchical_gaussian, y: [40, 41, 39, 40]}\n"
                                "objective: mmle\n"
                                "kernel: {type: rwm, step: 1.0e-12}\n"
                                "resampling: {threshold: never}\n"
                                "optimiser: {type: sgd, rate: 0.2}\n"
                                "particles: 100\n"
                                "iterations: 300\n"
                                "output: {checkpoint_every: 50, report: false}\n");
    expect(3, "100 iterations in a row", "run collapse.yaml --out collapsed --quiet");
    expect(3, "on_collapse: continue", "run collapse.yaml --out collapsed --quiet --resume"); /* at the same place */
    expect(0, "", "run collapse.yaml --set on_collapse=continue --out collapsed --quiet --resume");
    expect(0, "", "run collapse.yaml --set on_collapse=continue --out regardless --quiet");
    same_runs("collapsed", "regardless");
    expect(2, "on_collapse is 'perhaps'", "run collapse.yaml --set on_collapse=perhaps --out w");
}

static void a_run_is_not_overwritten(void **state)
{
    expect(0, "results in keep", "run run.yaml --set iterations=5 --out keep");
    expect(2, "already holds a run", "run run.yaml --set iterations=5 --out keep");
    expect(0, "finished", "run run.yaml --set iterations=5 --out keep --resume");
    expect(2, "belongs to another run", "run run.yaml --set iterations=5 --set kernel.step=0.2 --out keep --resume");
    expect(0, "results in keep", "run run.yaml --set iterations=5 --set kernel.step=0.2 --out keep --overwrite");
    assert_true(file_size("keep/summary.json") > 0);
}

/* ---------------------------------------------------------------------------- the same bytes */

static void resolved_files_replay(void **state)
{
    expect(0, "", "run run.yaml --set iterations=30 --set kernel.type=mala --out replay_a --quiet");
    expect(0, "", "run replay_a/run.yaml --out replay_b --quiet --threads 2");
    same_runs("replay_a", "replay_b");
}

static void killed_runs_resume(void **state)
{
    const char *fresh[] = {"sosmc", "run", "run.yaml", "--out", "killed", "--quiet", NULL};
    const char *again[] = {"sosmc", "run", "run.yaml", "--out", "killed", "--quiet", "--resume", NULL};
    expect(0, "", "run run.yaml --out whole --quiet");
    for (int kills = 0; kills < 8; kills++) {
        int status;
        pid_t pid = start(kills ? again : fresh);
        nap(0.004 * (kills + 1));
        (void)kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, &status, 0), pid);
    }
    expect(0, "", "run run.yaml --out killed --quiet --resume");
    same_runs("whole", "killed");
    assert_int_equal(file_size("killed/checkpoint.tmp"), -1);
}

static void interrupted_runs_resume(void **state)
{
    const char *argv[] = {"sosmc", "run", "run.yaml", "--out", "stopped", "--quiet", "--set", "iterations=100000000",
                          NULL};
    int status;
    pid_t pid = start(argv);
    for (int i = 0; i < 2000 && file_size("stopped/checkpoint") < 0; i++) nap(0.01);
    (void)kill(pid, SIGINT);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 130);
    assert_true(file_size("stopped/summary.json") > 0);
}

static void finished_runs_can_be_extended(void **state)
{
    expect(0, "", "run run.yaml --set iterations=40 --out long --quiet");
    expect(0, "", "run run.yaml --set iterations=17 --out short --quiet");
    expect(0, "", "run run.yaml --set iterations=40 --out short --quiet --resume");
    same_runs("long", "short");
    expect(0, "",
           "run run.yaml --set iterations=40 --out anew --quiet --resume"); /* nothing there: from the beginning */
    same_runs("long", "anew");
}

static void budgets_stop(void **state)
{
    char output[TEXT];
    double begin = (double)time(NULL);
    assert_int_equal(
        sosmc_says(output, "run run.yaml --set iterations=100000000 --budget-seconds 0.2 --out budget --quiet"), 0);
    assert_true((double)time(NULL) - begin < 30);
    assert_true(file_size("budget/summary.json") > 0);
}

static void checks_pass(void **state)
{
    write_text("ten.yaml",
               "model: {type: hierarchical_gaussian, y: [1.1, 2.2, 3.7, 0.8, 2.5, 1.9, 4, -0.3, 2.1, 2.4]}\n"
               "objective: mmle\n");
    expect(0, "all is well", "check ten.yaml");
    expect(0, "ok    weights", "check run.yaml");
    expect(0, "ok    weights", "check run.yaml --set kernel.type=hmc --set scheme.order=authors");
    write_text("network.yaml", "model: {type: mlp, hidden: [16, 16], init_sd: 0.3, base: gaussian, base_sd: 2}\n"
                               "objective: {type: ebm_likelihood, data: {type: circles, points: 100}, batch: 20}\n"
                               "init: base\nparticles: 50\n");
    expect(0, "all is well", "check network.yaml"); /* a float inside */
    write_text("cool.yaml", "model: {type: mlp, hidden: [16], base: gaussian, base_sd: 2}\nobjective: anneal\n"
                            "kernel: mala\nparticles: 50\n");
    expect(0, "nothing is optimised", "check cool.yaml");
}

/* A published network whose energy is strongly curved, and a potential of which gx is the smooth part's gradient alone. */
static void checks_of_our_own_run_files_pass(void **state)
{
    const char *source = getenv("SOSMC_TEST_SOURCE");
    char arguments[ROOM];
    if (!source) skip();
    (void)snprintf(arguments, sizeof arguments, "check %s/../experiments/ebm2d/chains.yaml", source);
    expect(0, "ok    gradient in x", arguments);
    (void)snprintf(arguments, sizeof arguments, "check %s/../examples/denoise.yaml", source);
    expect(0, "skip  gradient in x: gx is the gradient of the smooth part", arguments);
}

/* A test that could not have failed is not known, and so is a run that is too short to be judged. */
static void checks_that_cannot_tell_say_so(void **state)
{
    write_text(
        "many.yaml",
        "model: {type: hierarchical_gaussian, y: [1, 2, 4, 1, 2, 2, 4, -1, 2, 2, 1, 2, 4, 1, 2, 2, 4, -1, 2, 2]}\n"
        "objective: mmle\nkernel: {type: ula, step: 0.2}\n");
    expect(0, "not known  weights: Z along a closed path of theta returns to ", "check many.yaml");
    expect(0, "too coarse to tell, from an effective ", "check many.yaml");
    expect(0, "no check failed, but see the notes", "check many.yaml");
    expect(0, "note  verdict: after 50 of 50 iterations: 50 iterations are too few to tell",
           "check ten.yaml --set settings=explicit --iterations 50");
    expect(0, "no check failed, but see the notes", "check ten.yaml --set settings=explicit --iterations 50");
}

static int make_directory(void **state)
{
    const char *base = getenv("TMPDIR");
    (void)snprintf(directory, sizeof directory, "%s/sosmc_program_XXXXXX", base && strlen(base) < 100 ? base : "/tmp");
    if (!mkdtemp(directory)) return -1;
    write_text("run.yaml", RUN_FILE);
    return 0;
}

static int remove_directory(void **state)
{
    char command[512];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command); // NOLINT(cert-env33-c)
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(experiments_are_another_program),
                                       cmocka_unit_test(help_teaches),
                                       cmocka_unit_test(all_commands_speak_alike),
                                       cmocka_unit_test(wrong_words_are_named),
                                       cmocka_unit_test(flags_set_keys),
                                       cmocka_unit_test(poor_tables_are_named),
                                       cmocka_unit_test(numerical_failure_is_3),
                                       cmocka_unit_test(a_run_is_not_overwritten),
                                       cmocka_unit_test(resolved_files_replay),
                                       cmocka_unit_test(a_collapsed_run_ends_and_can_go_on),
                                       cmocka_unit_test(killed_runs_resume),
                                       cmocka_unit_test(interrupted_runs_resume),
                                       cmocka_unit_test(finished_runs_can_be_extended),
                                       cmocka_unit_test(budgets_stop),
                                       cmocka_unit_test(checks_pass),
                                       cmocka_unit_test(checks_of_our_own_run_files_pass),
                                       cmocka_unit_test(checks_that_cannot_tell_say_so)};
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
