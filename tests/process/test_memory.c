/* test_memory.c: memory that runs out in the program, its libraries (YAML, JSON, PNG, JPEG) and libc's streams.
 *
 * Some of the allocations that come from a new place fail (in the nightly tier all of these, and all others too unless they are
 * many thousands or a try takes long), alone or with all that follow: the program ends by itself, with 3 or 4 and a sentence,
 * or goes on without what it could not have; it never crashes. An experiment whose command is given again afterwards has the
 * bytes of one to which nothing happened, and a download that fails leaves no folder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jpeglib.h>

#include "folder.h"
#include "program.h"

static char folder[FOLDER_ROOM];

typedef struct {
    const char *name, *arguments, *out; /* arguments NULL: of the scene it is named after; out: the folder it writes */
    long step;                          /* of the places that fail in the quick tier: every so many */
    int kept;                           /* the folder is there before the first try and stays between two tries */
    int slow;                           /* a try takes long: in the nightly tier the new places alone fail */
    const char *whole;                  /* what an undisturbed run leaves is kept under this name, and compared with */
} job;

#define SMALL " --set particles=10 --set iterations=2 --set output.report=false"
#define THEORY "reproduce theory --quick --threads 1 --out theory --quiet --only "
static const job jobs[] = {
    {.name = "run", .arguments = "run run.yaml --out run --quiet --set iterations=8", .out = "run", .step = 6},
    {.name = "train", .out = "train", .step = 12},
    {.name = "tune", .out = "tune", .step = 20},
    {.name = "deblur", .out = "deblur", .step = 9},
    {.name = "sample",
     .arguments = "sample model.safetensors --chains 10 --steps 3 --out sample --quiet",
     .out = "sample",
     .step = 15},
    {.name = "table", .arguments = "run examples/logistic.yaml --out table --quiet" SMALL, .out = "table", .step = 12},
    {.name = "pictures",
     .arguments = "run examples/train_bars.yaml --out bars --quiet" SMALL,
     .out = "bars",
     .step = 15},
    {.name = "mask",
     .arguments = "run examples/tune_bars_mask.yaml --out masked --quiet" SMALL,
     .out = "masked",
     .step = 15},
    {.name = "solved",
     .arguments = "run examples/batting.yaml --out solved --quiet --set particles=128 --set output.report=false",
     .out = "solved",
     .step = 6},
    {.name = "check solved", .arguments = "check examples/batting.yaml --particles 128", .step = 6},
    {.name = "png", .arguments = "deblur sharp.png --noise 2 --print", .step = 6},
    {.name = "jpeg", .arguments = "deblur photo.jpg --noise 2 --print", .step = 6},
    {.name = "check", .arguments = "check run.yaml", .step = 8},
    {.name = "report", .arguments = "report done", .out = "done", .step = 12, .kept = 1},
    {.name = "resume", .arguments = "run run.yaml --out done --quiet --resume", .out = "done", .step = 8, .kept = 1},
    {.name = "list", .arguments = "list", .step = 1},
    {.name = "help", .arguments = "help run", .step = 1},
    {.name = "theory", .arguments = THEORY "chi-square", .out = "theory", .step = 8, .whole = "theory.whole"},
    {.name = "theory runs",
     .arguments = THEORY "equivalences",
     .out = "theory",
     .step = 84,
     .slow = 1,
     .whole = "runs.whole"},
    {.name = "reproduce", .out = "reproduce", .step = 70, .slow = 1, .whole = "cells.whole"},
    {.name = "reproduce again", .out = "reproduce", .step = 32, .kept = 1, .slow = 1, .whole = "again.whole"},
};
enum { JOBS = sizeof jobs / sizeof *jobs, MOST = 1 << 16, MOST_TRIES = 4000 };

static const char *arguments_of(const job *j)
{
    if (j->arguments) return j->arguments;
    for (int k = 0; k < SCENES; k++)
        if (strncmp(j->name, program_scenes[k].name, strlen(program_scenes[k].name)) == 0)
            return program_scenes[k].fresh;
    return "";
}

static void clear(const job *j)
{
    if (j->out && !j->kept) (void)folder_remove(folder_path(folder, j->out));
}

static int is_there(const char *name) { return access(folder_path(folder, name), F_OK) == 0; }

/* A run to which nothing happens. */
static void undisturbed(const job *j, const program_setting *s)
{
    char said[PROGRAM_WORDS];
    int code = program_run(s, arguments_of(j), said);
    if (code != 0) fail_msg("%s: exit code %d: %s", j->name, code, said);
}

/* The folder of an undisturbed run gets another name, and is made anew where a job begins with it. */
static void keep_whole(const job *j)
{
    char from[PROGRAM_WORDS];
    program_setting s = {.folder = folder};
    (void)snprintf(from, sizeof from, "%s", folder_path(folder, j->out));
    assert_int_equal(rename(from, folder_path(folder, j->whole)), 0);
    if (j->kept) undisturbed(j, &s);
}

/* The allocations of a run to which nothing happens: how many, and which come from a new place. */
static long list_places(const job *j, long *place, long *places)
{
    char log[PROGRAM_WORDS];
    program_setting s = {.folder = folder, .fault = "memory", .log = log}, before = {.folder = folder};
    long calls = 0;
    (void)snprintf(log, sizeof log, "%s", folder_path(folder, "log"));
    clear(j);
    if (j->kept && !is_there(j->out)) undisturbed(j, &before);
    undisturbed(j, &s);
    if (j->whole) keep_whole(j);
    FILE *f = fopen(log, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld", &calls), 1); // NOLINT(cert-err34-c): our own numbers
    for (*places = 0; *places < MOST && fscanf(f, "%ld", &place[*places]) == 1;) ++*places; // NOLINT(cert-err34-c)
    (void)fclose(f);
    return calls;
}

/* What is wrong with how a try ended, NULL: nothing. `check` counts what it could not do among the checks that fail. */
static const char *wrong_end(const job *j, int code, const char *said)
{
    if (code == 0) return NULL;
    if (code != 3 && code != 4) return "that is not the exit code for it";
    if (!strstr(said, "memory") && !strstr(said, "FAIL  ")) return "the sentence does not say so";
    return program_leftover(folder_path(folder, j->out ? j->out : "done")) ? "a temporary file is left" : NULL;
}

/* The same command once more, with memory. */
static void given_again(const job *j, long at)
{
    char one[PROGRAM_WORDS], other[PROGRAM_WORDS], difference[PROGRAM_WORDS];
    program_setting s = {.folder = folder};
    undisturbed(j, &s);
    (void)snprintf(one, sizeof one, "%s", folder_path(folder, j->out));
    (void)snprintf(other, sizeof other, "%s", folder_path(folder, j->whole));
    if (program_differ(one, other, difference))
        fail_msg("%s: allocation %ld, then given again: %s", j->name, at, difference);
}

/* 1: refused for want of memory; 0: it went on without. */
static int try(const job *j, long at, int stays)
{
    char said[PROGRAM_WORDS];
    program_setting s = {.folder = folder, .fault = "memory", .at = at, .stays = stays};
    clear(j);
    int code = program_run(&s, arguments_of(j), said);
    const char *why = wrong_end(j, code, said);
    if (why)
        fail_msg("%s: allocation %ld%s: exit code %d, '%s': %s", j->name, at, stays ? " and on" : "", code, said, why);
    if (code != 0 && j->whole) given_again(j, at);
    return code != 0;
}

static void no_allocation_is_fatal(void **state)
{
    static long place[MOST];
    if (!program_faults()) {
        print_message("no library of faults beside the sanitizers\n");
        skip();
    }
    for (int k = 0; k < JOBS; k++) {
        const job *j = &jobs[k];
        long places, calls = list_places(j, place, &places), tried = 0, refused = 0;
        int all = program_nightly() && calls <= MOST_TRIES && !j->slow;
        long count = all ? calls : places, step = program_nightly() ? 1 : j->step;
        assert_true(calls >= places);
        for (long i = 0; i < count; i += step, tried += 2) {
            long at = all ? i + 1 : place[i];
            refused += try(j, at, 0) + try(j, at, 1);
        }
        clear(j);
        print_message("%s: %ld allocations, %ld places; %ld tries, %ld refused\n", j->name, calls, places, tried,
                      refused);
        assert_true(tried < 10 || refused > tried / 2); /* a stream without memory does without its buffer */
    }
}

static int write_jpeg(const char *path)
{
    enum { SIDE = 16 };
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    JSAMPLE line[SIDE];
    JSAMPROW row = line;
    FILE *f = fopen(path, "wb");
    if (!f) return -1;
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_stdio_dest(&c, f);
    c.image_width = c.image_height = SIDE;
    c.input_components = 1;
    c.in_color_space = JCS_GRAYSCALE;
    jpeg_set_defaults(&c);
    jpeg_start_compress(&c, TRUE);
    for (int i = 0; i < SIDE; i++) {
        for (int j = 0; j < SIDE; j++) line[j] = (JSAMPLE)(40 + 9 * i + 3 * j);
        (void)jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    return fclose(f);
}

static int set_up(void **state)
{
    char said[PROGRAM_WORDS], from[PROGRAM_WORDS];
    const char *source = getenv("SOSMC_TEST_SOURCE");
    program_setting s = {.folder = folder};
    if (folder_make(folder, "sosmc_memory") || program_furnish(folder)) return -1;
    (void)snprintf(from, sizeof from, "%s/../examples", source ? source : "..");
    if (symlink(from, folder_path(folder, "examples")) || write_jpeg(folder_path(folder, "photo.jpg"))) return -1;
    if (program_run(&s, program_scenes[SCENE_DEBLUR].fresh, said) != 0) return -1;
    (void)snprintf(from, sizeof from, "%s", folder_path(folder, "deblur/restored.png"));
    if (rename(from, folder_path(folder, "sharp.png"))) return -1;
    return program_run(&s, "run run.yaml --out done --quiet", said);
}
static int tear_down(void **state) { return folder_remove(folder); }

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_allocation_is_fatal)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
