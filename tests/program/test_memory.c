/* test_memory.c: memory that runs out in the program, its libraries (YAML, JSON, PNG, JPEG) and libc's streams.
 *
 * Some of the allocations that come from a new place fail (in the long tier all of these, and all others too unless they are
 * many thousands), alone or with all that follow: the program ends by itself, with 3 or 4 and a sentence, or goes on
 * without what it could not have; it never crashes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jpeglib.h>

#include "folder.h"
#include "program.h"

static char folder[FOLDER_ROOM];

typedef struct {
    const char *name, *arguments, *out; /* out: what is removed between two tries; NULL: nothing */
    long step;                          /* of the places that fail in the quick tier: every so many */
} job;

#define SMALL " --set particles=10 --set iterations=2 --set output.report=false"
static const job jobs[] = {
    {"run", "run run.yaml --out run --quiet --set iterations=8", "run", 6},
    {"train", NULL, "train", 12},
    {"tune", NULL, "tune", 20},
    {"deblur", NULL, "deblur", 9},
    {"sample", "sample model.safetensors --chains 10 --steps 3 --out sample --quiet", "sample", 15},
    {"table", "run examples/logistic.yaml --out table --quiet" SMALL, "table", 12},
    {"pictures", "run examples/train_bars.yaml --out bars --quiet" SMALL, "bars", 15},
    {"mask", "run examples/tune_bars_mask.yaml --out masked --quiet" SMALL, "masked", 15},
    {"png", "deblur sharp.png --noise 2 --print", NULL, 6},
    {"jpeg", "deblur photo.jpg --noise 2 --print", NULL, 6},
    {"check", "check run.yaml", NULL, 8},
    {"report", "report done", NULL, 12},
    {"resume", "run run.yaml --out done --quiet --resume", NULL, 8},
    {"list", "list", NULL, 1},
    {"help", "help run", NULL, 1},
};
enum { JOBS = sizeof jobs / sizeof *jobs, MOST = 1 << 16, MOST_TRIES = 4000 };

static const char *arguments_of(const job *j)
{
    if (j->arguments) return j->arguments;
    for (int k = 0; k < SCENES; k++)
        if (strcmp(program_scenes[k].name, j->name) == 0) return program_scenes[k].fresh;
    return "";
}

static void clear(const job *j)
{
    if (j->out) (void)folder_remove(folder_path(folder, j->out));
}

/* The allocations of a run to which nothing happens: how many, and which come from a new place. */
static long list_places(const job *j, long *place, long *places)
{
    char said[PROGRAM_WORDS], log[PROGRAM_WORDS];
    program_setting s = {.folder = folder, .fault = "memory", .log = log};
    long calls = 0;
    (void)snprintf(log, sizeof log, "%s", folder_path(folder, "log"));
    clear(j);
    int code = program_run(&s, arguments_of(j), said);
    if (code != 0) fail_msg("%s: exit code %d: %s", j->name, code, said);
    FILE *f = fopen(log, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld", &calls), 1); // NOLINT(cert-err34-c): our own numbers
    for (*places = 0; *places < MOST && fscanf(f, "%ld", &place[*places]) == 1;) ++*places; // NOLINT(cert-err34-c)
    (void)fclose(f);
    return calls;
}

/* 1: refused; 0: it went on without. `check` counts what it could not do among the checks that fail. */
static int try(const job *j, long at, int stays)
{
    char said[PROGRAM_WORDS];
    program_setting s = {.folder = folder, .fault = "memory", .at = at, .stays = stays};
    clear(j);
    int code = program_run(&s, arguments_of(j), said);
    const char *why = code == 0                                            ? NULL
                      : code != 3 && code != 4                             ? "that is not the exit code for it"
                      : !strstr(said, "memory") && !strstr(said, "FAIL  ") ? "the sentence does not say so"
                      : program_leftover(folder_path(folder, j->out ? j->out : "done")) ? "a temporary file is left"
                                                                                        : NULL;
    if (why)
        fail_msg("%s: allocation %ld%s: exit code %d, '%s': %s", j->name, at, stays ? " and on" : "", code, said, why);
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
        int all = program_long() && calls <= MOST_TRIES;
        long count = all ? calls : places, step = program_long() ? 1 : j->step;
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
