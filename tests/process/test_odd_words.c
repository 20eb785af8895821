/* test_odd_words.c: names of files, keys, values, cells of tables, variables of the environment and what other programs say, with every kind
 * of byte that a terminal would obey: no command lets one through, on either stream. Files of a run are valid YAML, JSON and HTML
 * without them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "assertions.h"
#include "files/words.h"
#include "folder.h"
#include "program.h"

static char folder[FOLDER_ROOM];

/* ESC and BEL, DEL, C1 as a character and as a byte, overrides and isolates of directions, marks, what is no UTF-8. */
#define ESCAPE "\x1b[31m\x07"
#define DELETE "\x7f"
#define C1 "\xc2\x9b"
#define BYTES "\x9b\xff\xc0\xaf\xed\xa0\x80"
#define TURNED "\xe2\x80\xae\xe2\x80\xaa\xe2\x81\xa6\xe2\x81\xa9"
#define MARKS "\xe2\x80\x8e\xe2\x80\x8f\xd8\x9c\xe2\x80\xa8"
#define GOOD ESCAPE DELETE C1 TURNED MARKS /* UTF-8 */
#define ODD GOOD BYTES
static const char *const odd[] = {"a" ESCAPE "b", "a" DELETE "b", "a" C1 "b", "a" BYTES "b",
                                  "a" TURNED "b", "a" MARKS "b",  "a\r\n\tb"};
enum { ODDS = sizeof odd / sizeof *odd };
static const char *const all[] = {"a" GOOD "\tb", "a" ODD "\r\tb"}; /* for what takes long */
enum { ALL = sizeof all / sizeof *all };

static void expect_clean(const char *what, const char *text, size_t size)
{
    for (size_t i = 0; i < size;) {
        unsigned code = 0;
        size_t n = text[i] ? (size_t)words_next(text + i, &code) : 1;
        if (words_control(code) && code != '\n') fail_msg("%s: U+%04X at byte %zu of: %s", what, code, i, text);
        i += n;
    }
}

static char *slurp(const char *path, size_t *size)
{
    struct stat st;
    FILE *f = fopen(path, "rb");
    if (!f || fstat(fileno(f), &st)) fail_msg("%s cannot be read", path);
    char *text = calloc((size_t)st.st_size + 1, 1);
    *size = fread(text, 1, (size_t)st.st_size, f);
    (void)fclose(f);
    return text;
}

/* Runs it and looks at every byte of both streams; returns the exit code. `argument` ends with NULL. */
static int run_clean(const char *const *argument)
{
    const char *path = getenv("SOSMC_PROGRAM"), *argv[16] = {path ? path : "./sosmc"};
    int n = 1, status;
    for (; argument[n - 1]; n++) argv[n] = argument[n - 1];
    pid_t pid = fork();
    if (pid == 0) {
        int out = open(folder_path(folder, "said.txt"), O_CREAT | O_TRUNC | O_WRONLY | O_APPEND, 0644);
        if (out < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0 || chdir(folder)) _exit(99);
        (void)execv(argv[0], (char *const *)(uintptr_t)argv);
        _exit(98);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    size_t size;
    char *said = slurp(folder_path(folder, "said.txt"), &size);
    expect_clean(argument[0], said, size);
    if (size == 0 && WEXITSTATUS(status)) fail_msg("sosmc %s said nothing", argument[0]);
    free(said);
    return WEXITSTATUS(status);
}
#define RUN(...) run_clean((const char *const[]){__VA_ARGS__, NULL})

static void write_file(const char *name, const char *text)
{
    FILE *f = fopen(folder_path(folder, name), "wb");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

/* ---------------------------------------------------------------------------- arguments */

static void as_arguments(void **state)
{
    static const char *const commands[] = {"run",  "check",  "train",     "tune", "sample", "deblur", "judge",
                                           "demo", "report", "reproduce", "new",  "list",   "help"};
    char flag[64], set[64], out[64];
    for (int i = 0; i < ODDS; i++) {
        (void)snprintf(flag, sizeof flag, "--%s", odd[i]);
        (void)snprintf(set, sizeof set, "%s=%s", odd[i], odd[i]);
        (void)snprintf(out, sizeof out, "/proc/%s", odd[i]);
        assert_int_not_equal(RUN(odd[i]), 0);
        for (size_t k = 0; k < sizeof commands / sizeof *commands; k++) {
            (void)RUN(commands[k], odd[i]);
            (void)RUN(commands[k], flag);
            (void)RUN(commands[k], "run.yaml", odd[i]);
            if (strcmp(commands[k], "demo") != 0 && strcmp(commands[k], "new") != 0)
                (void)RUN(commands[k], "run.yaml", "--out", out);
        }
        (void)RUN("run", "run.yaml", "--set", set);
        (void)RUN("run", "run.yaml", "--seed", odd[i]);
        (void)RUN("run", "run.yaml", "--particles", odd[i]);
        (void)RUN("reproduce", "theory", "--threads", odd[i]);
        (void)RUN("train", odd[i]);
        (void)RUN("tune", "model.safetensors", "--reward", odd[i], "--beta", "1");
        (void)RUN("deblur", "photo.pgm", "--blur", odd[i]);
    }
}

/* ---------------------------------------------------------------------------- directories that work */

static void as_directories(void **state)
{
    const char *dir = "d" GOOD "\r\n\te"; /* one that is not UTF-8 is refused or accepted, above */
    assert_int_equal(RUN("run", "run.yaml", "--out", dir), 0);
    assert_int_equal(RUN("run", "run.yaml", "--out", dir, "--resume"), 0);
    assert_int_not_equal(RUN("run", "run.yaml", "--out", dir), 0);
    assert_int_equal(RUN("report", dir), 0);
    assert_int_equal(RUN("judge", dir), 0);
}

/* ---------------------------------------------------------------------------- contents of files */

static void as_run_files(void **state)
{
    static const char *const texts[] = {
        "%s: 1\n",
        "model: {type: %s}\n",
        "model: {type: \"%s\"}\n",
        "model: {type: gaussian_mixture, means: [[1, 2]], %s: 3}\n",
        "model: {type: gaussian_mixture, means: \"%s\"}\nobjective: mmle\n",
        "model: {type: hierarchical_gaussian, data: \"%s\"}\nobjective: mmle\n",
        "model: {type: gaussian_mixture, means: [[-3, 0], [3, 0]]}\nobjective: {type: reward_forward, reward: \"x1 + %s\", beta: 1}\n",
        "model: [%s\n",
        "# %s\n",
        "!%s x\n",
        "&%s [*%s]\n",
    };
    char text[512], escaped[256];
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
        for (int i = 0; i < ALL; i++) {
            size_t used = 0;
            for (const char *c = all[i]; *c; c++) /* as escapes of YAML too, where the reader cannot object */
                used += (size_t)snprintf(escaped + used, sizeof escaped - used, "\\x%02x", (unsigned)(unsigned char)*c);
            (void)snprintf(text, sizeof text, texts[k], all[i], all[i]);
            write_file("odd.yaml", text);
            (void)RUN("run", "odd.yaml", "--print");
            (void)RUN("check", "odd.yaml");
            (void)snprintf(text, sizeof text, texts[k], escaped, escaped);
            write_file("odd.yaml", text);
            (void)RUN("run", "odd.yaml", "--print");
            (void)RUN("run", "odd.yaml", "--out", "odd");
        }
}

static void as_tables(void **state)
{
    char text[512];
    for (int i = 0; i < ALL; i++) {
        write_file(
            "odd.yaml",
            "model: {type: logistic_regression, data: odd.csv, label: label}\nobjective: mmle\nlimits: {evaluations: 20000}\n");
        (void)snprintf(text, sizeof text, "\"%s\",x,label\n1,2,0\n2,1,1\n3,5,0\n2,2,1\n4,1,1\n", all[i]);
        write_file("odd.csv", text);
        (void)RUN("run", "odd.yaml", "--out", "table", "--overwrite");
        (void)snprintf(text, sizeof text, "a,x,label\n1,2,0\n\"%s\",1,1\n3,5,0\n2,2,1\n", all[i]);
        write_file("odd.csv", text);
        (void)RUN("run", "odd.yaml", "--out", "table", "--overwrite");
    }
}

/* Other files under the names of a run, or of a picture, a network, an array. */
static void as_other_files(void **state)
{
    static const char *const files[] = {"odd.npy", "odd.npz", "odd.png", "odd.safetensors", "odd.csv", "odd.txt"};
    for (int i = 0; i < ALL; i++)
        for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
            char text[128];
            (void)snprintf(text, sizeof text, "{\"%s\": \"%s\"}\n", all[i], all[i]);
            write_file(files[k], text);
            (void)RUN("deblur", files[k], "--blur", "box:3", "--noise", "2", "--out", "odd");
            (void)RUN("tune", files[k], "--reward", "lower", "--beta", "1", "--out", "odd");
            (void)RUN("sample", files[k], "--out", "odd");
            (void)RUN("train", files[k], "--out", "odd");
        }
}

/* A directory that somebody sent. */
static void as_received_directories(void **state)
{
    static const char *const names[] = {"summary.json", "run.yaml",   "trace.csv",
                                        "inputs.json",  "timing.csv", "checkpoint"};
    char path[64], text[256];
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        for (int i = 0; i < ALL; i++) {
            assert_int_equal(RUN("run", "run.yaml", "--out", "sent", "--overwrite", "--quiet"), 0);
            (void)snprintf(path, sizeof path, "sent/%s", names[k]);
            (void)snprintf(text, sizeof text, "{\"verdict\": {\"status\": \"%s\"}, \"%s\": \"%s\"}\n", all[i], all[i],
                           all[i]);
            write_file(path, text);
            (void)RUN("report", "sent");
            (void)RUN("judge", "sent");
            (void)RUN("run", "run.yaml", "--out", "sent", "--resume");
        }
}

/* ---------------------------------------------------------------------------- the environment, other programs */

static void as_environment(void **state)
{
    static const char *const names[] = {"SOSMC_MEMORY", "SOSMC_SIMD",           "SOSMC_GNUPLOT_SECONDS", "TMPDIR",
                                        "HOME",         "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS",          "COLUMNS"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        const char *before = getenv(names[k]);
        for (int i = 0; i < ALL; i++) {
            assert_int_equal(setenv(names[k], all[i], 1), 0);
            (void)RUN("run", "run.yaml", "--out", "environment", "--overwrite");
            (void)RUN("check", "run.yaml");
        }
        if (before) assert_int_equal(setenv(names[k], before, 1), 0);
        if (!before) assert_int_equal(unsetenv(names[k]), 0);
    }
}

static void as_words_of_gnuplot(void **state)
{
    write_file("bin/gnuplot", "#!/bin/sh\nprintf '\\033[31m\\302\\233\\342\\200\\256 bad \\377 line' >&2\nexit 3\n");
    (void)RUN("run", "run.yaml", "--out", "drawn", "--overwrite");
    (void)RUN("report", "drawn");
    size_t size;
    char *page = slurp(folder_path(folder, "drawn/report.html"), &size);
    expect_clean("report.html", page, size);
    free(page);
    assert_int_equal(unlink(folder_path(folder, "bin/gnuplot")), 0);
    write_file("bin/gnuplot", "#!/bin/sh\ncat >/dev/null\necho '<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>'\n");
    assert_int_equal(chmod(folder_path(folder, "bin/gnuplot"), 0755), 0);
}

/* ---------------------------------------------------------------------------- files that a run writes */

static void files_of_a_run(void **state)
{
    static const char *const pages[] = {"run.yaml", "inputs.json", "summary.json", "report.html"};
    char yaml[512], path[256];
    write_file("y" GOOD ".csv", "y\n1\n2\n3\n");
    write_file(
        "odd.yaml",
        "model: {type: hierarchical_gaussian, data: \"y\\e[31m\\a\\x7f\\u009b\\u202e\\u202a\\u2066\\u2069\\u200e\\u200f\\u061c\\u2028.csv\"}\n"
        "objective: mmle\nkernel: {type: mala, step: 0.5}\nparticles: 100\niterations: 20\n");
    assert_int_equal(RUN("run", "odd.yaml", "--out", "written", "--overwrite"), 0);
    for (size_t k = 0; k < sizeof pages / sizeof *pages; k++) {
        size_t size;
        (void)snprintf(path, sizeof path, "written/%s", pages[k]);
        char *text = slurp(folder_path(folder, path), &size);
        expect_clean(pages[k], text, size);
        free(text);
    }
    /* They read back as what they were. */
    json_error_t error;
    json_t *inputs = json_load_file(folder_path(folder, "written/inputs.json"), 0, &error);
    if (!inputs) fail_msg("inputs.json: %s", error.text);
    json_decref(inputs);
    assert_int_equal(RUN("run", "written/run.yaml", "--out", "replayed"), 0);
    (void)snprintf(yaml, sizeof yaml, "%s", "written/run.yaml");
    assert_int_equal(RUN("run", yaml, "--out", "written", "--resume"), 0);
}

static int furnish(void **state) { return folder_make(folder, "odd") || program_furnish(folder) ? -1 : 0; }
static int clear(void **state) { return folder_remove(folder); }

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_arguments),   cmocka_unit_test(as_directories),
                                       cmocka_unit_test(as_run_files),   cmocka_unit_test(as_tables),
                                       cmocka_unit_test(as_other_files), cmocka_unit_test(as_received_directories),
                                       cmocka_unit_test(as_environment), cmocka_unit_test(as_words_of_gnuplot),
                                       cmocka_unit_test(files_of_a_run)};
    return cmocka_run_group_tests(tests, furnish, clear);
}
