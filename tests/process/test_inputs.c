/* test_inputs.c: the files that a command reads. Whatever --out is, they keep their bytes; a run goes on only while they are what they
 * were when it began, for every key that names a file; and what no run made is not replaced without --overwrite. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "folder.h"
#include "program.h"
#include "runfile/schema.h"

static char folder[FOLDER_ROOM];
enum { BYTES = 1 << 18 };

static void expect(int code, const char *words, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void expect(int code, const char *words, const char *format, ...)
{
    char said[PROGRAM_WORDS], arguments[PROGRAM_WORDS];
    program_setting s = {.folder = folder};
    va_list list;
    va_start(list, format);
    (void)vsnprintf(arguments, sizeof arguments, format, list);
    va_end(list);
    int got = program_run(&s, arguments, said);
    if (got != code || (words && !strstr(said, words)))
        fail_msg("sosmc %s: exit code %d (expected %d), '%s' (expected '%s')", arguments, got, code, said,
                 words ? words : "anything");
}

static size_t read_file(const char *path, char *bytes)
{
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("cannot open %s", path);
    size_t n = fread(bytes, 1, BYTES, f);
    (void)fclose(f);
    return n;
}

static void write_file(const char *name, const char *bytes, size_t n)
{
    FILE *f = fopen(folder_path(folder, name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void copy_file(const char *from, const char *name)
{
    static char bytes[BYTES];
    size_t n = read_file(from, bytes);
    write_file(name, bytes, n);
}

static int holds(const char *name, const char *text)
{
    static char bytes[BYTES + 1];
    bytes[read_file(folder_path(folder, name), bytes)] = 0;
    return strstr(bytes, text) != NULL;
}

static void make_folder(const char *name) { assert_int_equal(mkdir(folder_path(folder, name), 0755), 0); }
static void clear(const char *name) { (void)folder_remove(folder_path(folder, name)); }

/* ---------------------------------------------------------------------------- never written to */

/* With each of these flags the command is refused, and the file keeps its bytes. */
static void must_keep(const char *name, const char *words, const char *arguments)
{
    static const char *const flags[] = {"", " --overwrite", " --resume", " --resume --overwrite"};
    static char before[BYTES], after[BYTES];
    size_t n = read_file(folder_path(folder, name), before);
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        expect(2, words, "%s%s", arguments, flags[i]);
        if (read_file(folder_path(folder, name), after) != n || memcmp(before, after, n) != 0)
            fail_msg("sosmc %s%s changed %s", arguments, flags[i], name);
    }
}

static void outputs_are_no_inputs(void **state)
{
    char model[PROGRAM_WORDS], photo[PROGRAM_WORDS];
    must_keep("run.yaml", "the run file itself", "run run.yaml --out . --quiet");
    (void)snprintf(model, sizeof model, "%s", folder_path(folder, "model.safetensors"));
    make_folder("m");
    copy_file(model, "m/model.safetensors");
    must_keep("m/model.safetensors", "model.file",
              "tune m/model.safetensors --reward lower --beta 1 --particles 20 --iterations 8 --out m --quiet");
    assert_int_not_equal(access(folder_path(folder, "m/start"), F_OK), 0); /* refused before anything was made */
    must_keep("m/model.safetensors", "model.file",
              "tune m/model.safetensors --reward lower --beta 1 --out m --quiet"); /* by the solver */
    must_keep("m/model.safetensors", "model.file", "sample m/model.safetensors --chains 9 --steps 9 --out m --quiet");
    /* under another name, too */
    make_folder("linked");
    assert_int_equal(link(model, folder_path(folder, "linked/model.npz")), 0);
    must_keep("model.safetensors", "model.file", "sample model.safetensors --chains 9 --steps 9 --out linked --quiet");
    make_folder("pointed");
    assert_int_equal(symlink(model, folder_path(folder, "pointed/theta.npy")), 0);
    must_keep("model.safetensors", "model.file", "sample model.safetensors --chains 9 --steps 9 --out pointed --quiet");
    (void)snprintf(photo, sizeof photo, "%s", folder_path(folder, "photo.pgm"));
    make_folder("p");
    copy_file(photo, "p/restored.png");
    must_keep("p/restored.png", "model.picture", "deblur p/restored.png --noise 2 --out p --quiet");
    must_keep("p/restored.png", "photo", "deblur p/restored.png --simulate --out p --quiet");
    make_folder("p/figures");
    copy_file(photo, "p/figures/sd.png");
    assert_int_equal(unlink(folder_path(folder, "p/restored.png")), 0);
    must_keep("p/figures/sd.png", "model.picture", "deblur p/figures/sd.png --noise 2 --out p --quiet");
    static const char *const names[] = {"m", "linked", "pointed", "p"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) clear(names[i]);
    /* A directory's own run file continues it, and does not replace it. */
    expect(0, NULL, "run run.yaml --out d --quiet");
    expect(0, NULL, "run d/run.yaml --out d --quiet --resume --iterations 44");
    expect(2, "the run file itself", "run d/run.yaml --out d --quiet --overwrite");
    clear("d");
}

static void what_no_run_made_stays(void **state)
{
    static const char *const names[] = {"trace.csv", "report.html", "theta.npy", "run.yaml", "checkpoint", "sd.npy"};
    static char bytes[BYTES];
    char name[64];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        make_folder("f");
        (void)snprintf(name, sizeof name, "f/%s", names[i]);
        write_file(name, "mine", 4);
        expect(2, "no run of this program made it", "run run.yaml --out f --quiet");
        expect(2, "no run of this program made it", "run run.yaml --out f --quiet --resume");
        expect(2, NULL, "deblur photo.pgm --noise 2 --out f --quiet");
        assert_true(read_file(folder_path(folder, name), bytes) == 4 && memcmp(bytes, "mine", 4) == 0);
        expect(0, NULL, "run run.yaml --out f --quiet --overwrite");
        clear("f");
    }
    make_folder("f");
    write_file("f/restored.png", "mine", 4);
    expect(0, NULL, "run run.yaml --out f --quiet"); /* which writes no such file */
    clear("f");
    make_folder("f");
    write_file("f/restored.png", "mine", 4);
    expect(2, "f/restored.png is there", "deblur photo.pgm --noise 2 --out f --quiet");
    write_file("f/table.csv", "mine", 4);
    expect(2, "f/table.csv is there", "reproduce theory --quick --only chi-square --out f --quiet");
    make_folder("f/likelihood");
    write_file("f/likelihood/run.yaml", "mine", 4);
    expect(2, "f/likelihood/run.yaml is there", "demo --quick --quiet --out f");
    clear("f");
}

/* Nobody chose the directory: the beginnings of another run file are left alone, those of the same one are not in the way. */
static void a_default_directory_is_not_shared(void **state)
{
    program_setting s = {.folder = folder};
    static const char text[] =
        "model: {type: hierarchical_gaussian, y: [%d, 2]}\nobjective: mmle\niterations: 100000000\n";
    char file[256];
    make_folder("a");
    make_folder("b");
    for (int i = 0; i < 2; i++) {
        (void)snprintf(file, sizeof file, text, i);
        write_file(i ? "b/twin.yaml" : "a/twin.yaml", file, strlen(file));
    }
    pid_t pid = program_start(&s, "run a/twin.yaml --quiet");
    for (int i = 0; i < 60000 && access(folder_path(folder, "twin/timing.csv"), F_OK) != 0; i++)
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    (void)kill(pid, SIGKILL);
    (void)program_wait(pid);
    assert_int_not_equal(access(folder_path(folder, "twin/checkpoint"), F_OK), 0);
    expect(2, "belongs to another run", "run b/twin.yaml --quiet");
    expect(0, NULL, "run a/twin.yaml --quiet --budget-seconds 0.01");
    clear("twin");
    clear("a");
    clear("b");
}

/* ---------------------------------------------------------------------------- the same inputs */

/* A run for every key that names a file, and a byte of that file whose change leaves it readable, counted from its end; 0: one is
 * appended. */
static const struct {
    const char *key, *example, *file, *more;
    int byte;
} rows[] = {{"model.data", "ipla.yaml", "data/groups.csv", "", 0},
            {"model.data", "logistic.yaml", "data/seedlings.csv", "", 0},
            {"model.picture", "deblur.yaml", "data/blocks_blurred.png", "", 0},
            {"model.mask", "denoise.yaml", "data/blocks_mask.png", "", 0},
            {"model.file", "sample_bars.yaml", "data/bars.safetensors", "", 4},
            {"objective.reward.network", "tune_bars_judge.yaml", "data/bars_judge.npz", "", -10},
            {"objective.reward.mask", "tune_bars_mask.yaml", "data/ring.png", "", 0},
            {"objective.reward.mask", "tune_bars_formula.yaml", "data/ring.png", "", 0},
            {"objective.reference.file", "tune_network.yaml", "data/circles_samples.npy", " --set particles=100", 8},
            {"objective.data.file", "pcd.yaml", "data/points.csv", "", 0},
            {"objective.data.file", "train_bars.yaml", "data/bars.idx", " --set particles=128", 1},
            {"init.file", "tune_bars.yaml", "data/bars_samples.npy", "", 8}};
enum { ROWS = sizeof rows / sizeof *rows };

static void change(const char *name, int byte)
{
    static char bytes[BYTES];
    size_t n = read_file(folder_path(folder, name), bytes);
    assert_true(n > 20 && n + 1 < BYTES);
    if (byte == 0)
        bytes[n++] = '\n';
    else
        bytes[byte > 0 ? n - (size_t)byte : (size_t)-byte] ^= 1;
    write_file(name, bytes, n);
}

/* The run is begun, refused with another file behind the key, goes on with the old one, and insists where it is told to. */
static void try_key(int i, const char *examples)
{
    char base[2 * PROGRAM_WORDS], path[PROGRAM_WORDS], behind[32], copied[32], words[256];
    const char *ending = strrchr(rows[i].file, '.');
    (void)snprintf(path, sizeof path, "%.3000s/%s", examples, rows[i].file);
    (void)snprintf(behind, sizeof behind, "behind%.16s", ending);
    (void)snprintf(copied, sizeof copied, "copied%.16s", ending);
    copy_file(path, behind);
    copy_file(path, copied);
    (void)snprintf(base, sizeof base,
                   "run %.3000s/%s --out d --quiet --set iterations=3 --set output.report=false --set judge=none --set "
                   "evaluate.every=0%s --set %s=",
                   examples, rows[i].example, rows[i].more, rows[i].key);
    clear("d");
    expect(0, NULL, "%s%s", base, behind);
    assert_true(holds("d/inputs.json", rows[i].key));
    expect(0, NULL, "%s%s --resume", base, behind);
    change(behind, rows[i].byte);
    (void)snprintf(words, sizeof words, "%s (%s) has changed since this run began", behind, rows[i].key);
    expect(2, words, "%s%s --resume", base, behind);
    expect(2, words, "judge d --quiet");
    assert_false(holds("d/summary.json", "accepted_changes"));
    expect(0, NULL, "%s%s --resume --accept-changed-inputs", base, behind);
    assert_true(holds("d/summary.json", "accepted_changes") && holds("d/summary.json", rows[i].key));
    expect(0, NULL, "%s%s --resume", base, behind); /* from now on this is the file */
    copy_file(path, behind);
    expect(2, words, "%s%s --resume", base, behind);
    expect(0, NULL, "%s%s --overwrite", base, behind);
    assert_false(holds("d/summary.json", "accepted_changes"));
    expect(0, NULL, "%s%s --resume", base, copied); /* the same bytes elsewhere are the same file */
    clear("d");
}

static void a_changed_input_is_refused(void **state)
{
    char examples[PROGRAM_WORDS];
    (void)snprintf(examples, sizeof examples, "%s/../examples", getenv("SOSMC_TEST_SOURCE"));
    for (const schema_key *row = schema_keys; row->path; row++) {
        int found = row->type != TYPE_PATH;
        for (int i = 0; i < ROWS; i++) found |= strcmp(rows[i].key, row->path) == 0;
        if (!found) fail_msg("no run here changes the file behind %s", row->path);
    }
    for (int i = 0; i < ROWS; i++) try_key(i, examples);
}

/* A folder of pictures: another picture, another name, one more. A file that is no picture does not count. */
static void a_changed_folder_is_refused(void **state)
{
    static const char picture[] = "P2\n4 4\n255\n0 9 0 9 9 0 9 0 0 9 0 9 9 0 9 0\n",
                      other[] = "P2\n4 4\n255\n9 9 0 9 9 0 9 0 0 9 0 9 9 0 9 0\n",
                      text[] =
                          "model: {type: network, layers: '1x4x4; conv 2 3 stride 2 pad 1 silu; dense 1; energy -1'}\n"
                          "objective: {type: ebm_likelihood, data: {type: images, file: pictures}, batch: 2}\n"
                          "init: {type: uniform, low: -1, high: 1}\nscheme: {type: pcd, pool: 4}\n"
                          "kernel: {type: ula, step: 0.01}\noptimiser: {type: adam, rate: 0.001}\nparticles: 2\n"
                          "iterations: 3\njudge: none\noutput: {report: false}\n",
                      again[] = "run pictures.yaml --out d --quiet --resume",
                      changed[] = "pictures (objective.data.file) has changed";
    make_folder("pictures");
    write_file("pictures/a.pgm", picture, sizeof picture - 1);
    write_file("pictures/b.pgm", picture, sizeof picture - 1);
    write_file("pictures.yaml", text, sizeof text - 1);
    expect(0, NULL, "run pictures.yaml --out d --quiet");
    write_file("pictures/notes.txt", "mine", 4);
    expect(0, NULL, "%s", again);
    write_file("pictures/b.pgm", other, sizeof other - 1);
    expect(2, changed, "%s", again);
    write_file("pictures/b.pgm", picture, sizeof picture - 1);
    expect(0, NULL, "%s", again);
    write_file("pictures/c.pgm", picture, sizeof picture - 1);
    expect(2, changed, "%s", again);
    assert_int_equal(unlink(folder_path(folder, "pictures/b.pgm")), 0); /* a and c: the same bytes, other names */
    expect(2, changed, "%s", again);
    clear("d");
}

/* What `deblur` reads besides the run's own files, and makes of it before the run. */
static void a_changed_photograph_is_refused(void **state)
{
    static const char base[] = "deblur photo.pgm --simulate --iterations 4 --particles 2 --out d --quiet";
    static char before[BYTES], after[BYTES];
    char photo[PROGRAM_WORDS];
    (void)snprintf(photo, sizeof photo, "%s", folder_path(folder, "photo.pgm"));
    copy_file(photo, "photo.kept");
    expect(0, NULL, "%s", base);
    size_t n = read_file(folder_path(folder, "d/seen.npy"), before);
    static char bytes[BYTES];
    size_t size = read_file(photo, bytes);
    bytes[size - 2] = bytes[size - 2] == '1' ? '2' : '1';
    write_file("photo.pgm", bytes, size);
    expect(2, "photo.pgm (photo) has changed", "%s --resume", base);
    assert_true(read_file(folder_path(folder, "d/seen.npy"), after) == n && memcmp(before, after, n) == 0);
    expect(2, "model.picture) has changed", "deblur photo.pgm --noise 2 --iterations 4 --out d --quiet --resume");
    copy_file(folder_path(folder, "photo.kept"), "photo.pgm");
    expect(0, NULL, "%s --resume", base);
    clear("d");
}

static int set_up(void **state) { return folder_make(folder, "sosmc_inputs") || program_furnish(folder) ? -1 : 0; }
static int tear_down(void **state) { return folder_remove(folder); }

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(outputs_are_no_inputs),
                                       cmocka_unit_test(what_no_run_made_stays),
                                       cmocka_unit_test(a_default_directory_is_not_shared),
                                       cmocka_unit_test(a_changed_input_is_refused),
                                       cmocka_unit_test(a_changed_folder_is_refused),
                                       cmocka_unit_test(a_changed_photograph_is_refused)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
