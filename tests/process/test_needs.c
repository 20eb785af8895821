/* test_needs.c: memory is known before it is taken. What --print and check say of a run is at least what it then takes and at most a
 * fifth more, beside a few megabytes; and every command that would take more than is free says both numbers and leaves nothing
 * behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "assertions.h"
#include "folder.h"
#include "program.h"

static char folder[FOLDER_ROOM];

static void write_text(const char *name, const char *text)
{
    FILE *f = fopen(folder_path(folder, name), "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

/* ---------------------------------------------------------------------------- what is said against what is taken */

#define MIXTURE "model: {type: gaussian_mixture, means: [[-3, 0], [3, 0]], variance: 0.5}\n"
#define REWARD "objective: {type: reward_forward, reward: \"exp(-(x1 - 3)^2)\", beta: 0.1, reference: {batch: 20}}\n"
#define LATENT "model: {type: hierarchical_gaussian, data: y.csv}\nobjective: mmle\n"
#define SMALL "output: {particles: false, report: false}\n"
static const struct {
    const char *name, *text;
} run[] = {
    {"ula", MIXTURE REWARD "kernel: {type: ula, step: 0.1}\nparticles: 400000\niterations: 2\n"},
    {"ula without particles",
     MIXTURE REWARD "kernel: {type: ula, step: 0.1}\nparticles: 400000\niterations: 2\n" SMALL},
    {"mala", MIXTURE REWARD "kernel: {type: mala, step: 0.1}\nparticles: 400000\niterations: 2\njudge: none\n"},
    {"mala, authors",
     MIXTURE REWARD "kernel: {type: mala, step: 0.1}\nscheme: {order: authors}\nparticles: 400000\niterations: 2\n"},
    {"underdamped", MIXTURE REWARD "kernel: {type: underdamped, step: 0.1}\nparticles: 400000\niterations: 2\n"},
    {"hmc on three threads",
     MIXTURE REWARD "kernel: {type: hmc, step: 0.1}\nparticles: 300000\niterations: 2\nthreads: 3\n"},
    {"retry",
     MIXTURE REWARD "kernel: {type: ula, step: 0.1}\non_nonfinite: retry\nparticles: 400000\niterations: 2\n" SMALL},
    {"lattice", MIXTURE REWARD
     "kernel: {type: ula, step: 0.1}\nevaluate: {every: 1, nodes: 2000}\nparticles: 1000\niterations: 1\n"},
    {"a reward that jumps",
     "model: {type: gaussian_mixture, means: [[-1, -1], [1, -1], [0, 1]], variance: 0.5, theta: [0.5, 0, -0.5]}\n"
     "objective: {type: reward_reverse, reward: {type: half_plane, normal: [0, -1], offset: 0.2}, beta: 0.25}\n"
     "kernel: {type: ula, step: 0.1}\nparticles: 300000\niterations: 4\n"},
    {"unweighted",
     MIXTURE REWARD "scheme: {type: unweighted}\nkernel: {type: ula, step: 0.1}\nparticles: 500000\niterations: 2\n"},
    {"twelve latents", LATENT "kernel: {type: mala, step: 0.1}\nparticles: 100000\niterations: 2\n"},
    {"the pass of a judgement", LATENT "kernel: {type: mala, step: 0.1}\nparticles: 50000\niterations: 40\n" SMALL},
    {"tempering", "model: {type: hierarchical_gaussian, data: y.csv}\nobjective: temper\nparticles: 200000\n"},
    {"the solver", LATENT "particles: 16384\n"},
    {"moments", LATENT
     "kernel: {type: mala, step: 0.1}\nparticles: 100000\niterations: 2\noutput: {moments_from: 0, report: false}\n"},
};

/* The number of a sentence "... some 12.3 MB ...". */
static double said_megabytes(const char *words)
{
    const char *some = strstr(words, "some ");
    char *unit;
    if (!some) {
        fail_msg("there is no number in: %s", words);
        return 0; /* not reached */
    }
    double value = strtod(some + strlen("some "), &unit);
    return strncmp(unit, " GB", 3) == 0 ? 1000 * value : strncmp(unit, " kB", 3) == 0 ? value / 1000 : value;
}

static double taken_megabytes(const char *arguments)
{
    program_setting s = {.folder = folder};
    struct rusage used;
    int status;
    pid_t pid = program_start(&s, arguments);
    assert_int_equal(wait4(pid, &status, 0, &used), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail_msg("sosmc %s: status %d", arguments, status);
    return 1.024e-3 * (double)used.ru_maxrss;
}

static void what_is_said_is_taken(void **state)
{
    const double slack = 6; /* megabytes */
    int wrong = 0;
    if (!program_faults()) skip(); /* sanitizers take memory of their own */
    for (size_t i = 0; i < sizeof run / sizeof *run; i++) {
        write_text("needs.yaml", run[i].text);
        double printed = said_megabytes(program_says(folder, 0, "run needs.yaml --print"));
        double taken = taken_megabytes("run needs.yaml --out needs --quiet --overwrite");
        print_message("%-28s said %6.1f MB, taken %6.1f MB\n", run[i].name, printed, taken);
        if (taken <= printed && printed <= 1.2 * taken + slack) continue;
        print_error("%s: said %.1f MB, taken %.1f MB\n", run[i].name, printed, taken);
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

static void check_says_the_same(void **state)
{
    write_text("needs.yaml", run[0].text);
    double printed = said_megabytes(program_says(folder, 0, "run needs.yaml --print"));
    double checked = said_megabytes(program_says(folder, 0, "check needs.yaml"));
    if (!(checked > 0.9 * printed && checked < 1.1 * printed)) fail_msg("%g and %g MB", printed, checked);
    assert_contains(program_says(folder, 0, "check needs.yaml"), " are free");
}

/* ---------------------------------------------------------------------------- refusals */

#define BOTH "of memory, and 1.00 MB are free by SOSMC_MEMORY"
static const struct {
    const char *command, *out;
    int code;
} refused[] = {
    {"run run.yaml --out r", "r", 2},
    {"run solved.yaml --out r", "r", 2},
    {"check run.yaml", NULL, 3},
    {"train circles --hidden 4,4 --out r", "r", 2},
    {"tune model.safetensors --reward lower --beta 0.5 --out r", "r", 2},
    {"sample model.safetensors --out r", "r", 2},
    {"deblur photo.pgm --blur box:3 --noise 2 --out r", "r", 2},
    {"report kept", NULL, 2},
    {"judge kept", NULL, 2},
    {"run run.yaml --out kept --resume --iterations 50", NULL, 2},
    {"demo --out r", NULL, 2},
    {"reproduce deblurring --quick --seeds 1 --threads 1 --out r", NULL, 3},
};

/* cmocka goes on with the next test, whatever the one before has left. */
static int forget_limit(void **state) { return unsetenv("SOSMC_MEMORY"); }

static void every_command_refuses(void **state)
{
    char before[64], after[64];
    struct stat st;
    assert_int_equal(setenv("SOSMC_MEMORY", "100G", 1), 0);
    (void)program_says(folder, 0, "run run.yaml --out kept --quiet");
    assert_int_equal(stat(folder_path(folder, "kept/checkpoint"), &st), 0);
    (void)snprintf(before, sizeof before, "%lld %lld", (long long)st.st_size, (long long)st.st_mtim.tv_nsec);
    assert_int_equal(setenv("SOSMC_MEMORY", "1M", 1), 0);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        program_setting s = {.folder = folder};
        char said[PROGRAM_WORDS];
        int code = program_run(&s, refused[i].command, said);
        if (code != refused[i].code || !strstr(said, BOTH))
            fail_msg("sosmc %s: %d, %s", refused[i].command, code, said);
        if (refused[i].out && access(folder_path(folder, refused[i].out), F_OK) == 0)
            fail_msg("sosmc %s left %s", refused[i].command, refused[i].out);
    }
    assert_int_equal(stat(folder_path(folder, "kept/checkpoint"), &st), 0);
    (void)snprintf(after, sizeof after, "%lld %lld", (long long)st.st_size, (long long)st.st_mtim.tv_nsec);
    assert_string_equal(before, after);
}

/* The number of particles in the advice fits, and one more does not. */
static void the_advice_is_right(void **state)
{
    char text[512];
    (void)snprintf(text, sizeof text, "%s", MIXTURE REWARD "kernel: {type: ula, step: 0.1}\niterations: 1\n" SMALL);
    write_text("advice.yaml", text);
    assert_int_equal(setenv("SOSMC_MEMORY", "100M", 1), 0);
    const char *said = program_says(folder, 2, "run advice.yaml --particles 2000000000 --out advice"), *most;
    assert_contains(said, "a run of 2000000000 particles of 2 numbers needs ");
    most = strstr(said, "expected particles of at most ");
    assert_non_null(most);
    long n = strtol(most + strlen("expected particles of at most "), NULL, 10);
    assert_true(n > 100000 && n < 2000000);
    (void)program_says(folder, 0, "run advice.yaml --particles %ld --out advice --quiet", n);
    (void)program_says(folder, 2, "run advice.yaml --particles %ld --out advice --quiet --overwrite", n + n / 100);
    (void)program_says(folder, 2, "run advice.yaml --particles 1000000000000000000 --out advice --quiet --overwrite");
    assert_int_equal(setenv("SOSMC_MEMORY", "lots", 1), 0);
    assert_contains(program_says(folder, 2, "run advice.yaml --out advice --quiet --overwrite"),
                    "SOSMC_MEMORY is 'lots'");
}

/* Files that are larger than what is free are not read. */
static void files_are_measured_first(void **state)
{
    FILE *f = fopen(folder_path(folder, "large.csv"), "w");
    assert_non_null(f);
    fputs("y\n", f);
    for (int i = 0; i < 400000; i++) fputs("1.25\n", f);
    assert_int_equal(fclose(f), 0);
    write_text("large.yaml", "model: {type: hierarchical_gaussian, data: large.csv}\nobjective: mmle\n");
    assert_int_equal(setenv("SOSMC_MEMORY", "1M", 1), 0);
    assert_contains(program_says(folder, 2, "run large.yaml --out large"),
                    "reading the files of this run needs 2.00 MB of memory, and 1.00 MB are free");
}

static void limit_address_space(void)
{
    (void)setrlimit(RLIMIT_AS, &(struct rlimit){(rlim_t)200 << 20, (rlim_t)200 << 20});
}

/* A picture of 2^28 pixels, of which 200 MB of address space hold no array: its header alone is read. */
static void a_picture_is_measured_by_its_header(void **state)
{
    static const char header[] = "P5 16384 16384 255\n";
    program_setting s = {.folder = folder, .in_child = limit_address_space};
    char said[PROGRAM_WORDS];
    if (!program_faults()) skip();
    write_text("dark.pgm", header);
    assert_int_equal(truncate(folder_path(folder, "dark.pgm"), (off_t)strlen(header) + ((off_t)1 << 28)), 0);
    write_text("dark.yaml", "model: {type: deblur, picture: dark.pgm, noise: 3, blur: none}\nobjective: mmle\n"
                            "particles: 20\n");
    assert_int_equal(setenv("SOSMC_MEMORY", "1G", 1), 0);
    assert_int_equal(program_run(&s, "deblur dark.pgm --noise 3 --out dark", said), 2);
    assert_contains(said, "deblurring with 4 particles of 16384 x 16384 pixels needs ");
    assert_int_equal(program_run(&s, "run dark.yaml --out dark", said), 2);
    assert_contains(said, "the set of particles needs 42.9 GB of memory, and 1.00 GB are free");
}

static void a_limit_of_the_shell_is_seen(void **state)
{
    program_setting s = {.folder = folder, .in_child = limit_address_space};
    char said[PROGRAM_WORDS];
    if (!program_faults()) skip();
    assert_int_equal(program_run(&s, "run run.yaml --particles 10000000 --out limited", said), 2);
    assert_contains(said, "below the limit of the address space (ulimit -v)");
    assert_int_equal(program_run(&s, "run run.yaml --particles 1000 --out limited --quiet", said), 0);
}

static int furnish(void **state)
{
    if (folder_make(folder, "needs") || program_furnish(folder)) return -1;
    write_text("solved.yaml", LATENT);
    write_text("y.csv", "y\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n");
    return 0;
}
static int clear(void **state) { return folder_remove(folder); }

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_said_is_taken),
                                       cmocka_unit_test(check_says_the_same),
                                       cmocka_unit_test_teardown(every_command_refuses, forget_limit),
                                       cmocka_unit_test_teardown(the_advice_is_right, forget_limit),
                                       cmocka_unit_test_teardown(files_are_measured_first, forget_limit),
                                       cmocka_unit_test_teardown(a_picture_is_measured_by_its_header, forget_limit),
                                       cmocka_unit_test(a_limit_of_the_shell_is_seen)};
    return cmocka_run_group_tests(tests, furnish, clear);
}
