/* test_commands_ebm.c: `train`, `tune` and `sample`: the run files they print against the experiment's constants, small
 * runs of all three from end to end, interruption and resumption, and what they say to wrong words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "drafts/commands_ebm.h"
#include "runfile/config.h"
#include "files/files.h"
#include "job/model_file.h"
#include "job/network_text.h"
#include "streams_and_python.h"
#include "terminal/say.h"
#include "runtext.h"

enum { TEXT = 1 << 16, WORDS = 64 };

static char folder[64], error[1024];
#define ERROR error, sizeof error

/* Both streams of the last command. */
static char output[TEXT];

/* ---------------------------------------------------------------------------- a command */

/* Runs "COMMAND WORD ..." (a space inside a word is written ~); returns the exit code, the streams are in `output`. */
static int says(const char *line)
{
    static const struct {
        const char *name;
        int (*run)(int, char **);
    } commands[] = {{"train", command_train}, {"tune", command_tune}, {"sample", command_sample}};
    char copy[2048], *argv[WORDS], *bytes = NULL;
    int argc = 0, code = -1;
    size_t n = 0;
    assert_true(strlen(line) < sizeof copy);
    (void)snprintf(copy, sizeof copy, "%s", line);
    char *rest = copy;
    for (char *word = strsep(&rest, " "); word && argc < WORDS - 1; word = strsep(&rest, " ")) {
        for (char *space = word; (space = strchr(space, '~')) != NULL;) *space = ' ';
        if (*word) argv[argc++] = word;
    }
    argv[argc] = NULL;
    diverted_streams kept = streams_divert("streams");
    for (size_t i = 0; argv[0] && i < sizeof commands / sizeof *commands; i++)
        if (strcmp(commands[i].name, argv[0]) == 0) code = commands[i].run(argc, argv);
    streams_restore(kept);
    if (files_read("streams", TEXT - 1, &bytes, &n, ERROR) || !bytes) fail_msg("%s", error);
    (void)snprintf(output, sizeof output, "%s", bytes);
    free(bytes);
    return code;
}

static void expect(int code, const char *words, const char *line)
{
    int got = says(line);
    if (got != code || !strstr(output, words))
        fail_msg("%s: exit %d (expected %d), '%s' (expected '%s')", line, got, code, output, words);
}

/* What the command prints, read back. */
static config *printed(const char *line)
{
    char whole[2048];
    (void)snprintf(whole, sizeof whole, "%s --print", line);
    expect(0, "model:", whole);
    config *c = config_parse(output, line, ERROR);
    if (!c || config_resolve(c, ERROR)) fail_msg("%s", error);
    return c;
}

static void expect_number(const config *c, const char *path, double value)
{
    double got = config_number(c, path);
    if (!(got == value)) fail_msg("%s is %g; expected %g", path, got, value);
}

static void expect_word(const config *c, const char *path, const char *word)
{
    const char *got = config_text(c, path);
    if (!got || strcmp(got, word) != 0) fail_msg("%s is %s; expected %s", path, got ? got : "absent", word);
}

static void same_file(const char *one, const char *other)
{
    char *a = NULL, *b = NULL;
    size_t n = 0, m = 0;
    if (files_read(one, (size_t)1 << 24, &a, &n, ERROR) || files_read(other, (size_t)1 << 24, &b, &m, ERROR))
        fail_msg("%s", error);
    if (!a || !b || n != m || memcmp(a, b, n) != 0) fail_msg("%s and %s differ", one, other);
    free(a);
    free(b);
}

/* ---------------------------------------------------------------------------- what is printed */

/* The resolved file without the lattice, which has no part in the run. */
static char *without_lattice(const config *c)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    assert_int_equal(config_write(c, f), 0);
    assert_int_equal(fclose(f), 0);
    char *from = strstr(text, "evaluate:"), *to = strstr(text, "output:");
    assert_true(from && to && from < to);
    memmove(from, to, strlen(to) + 1);
    return text;
}

static void training_is_the_experiment(void **state)
{
    static const char *const names[] = {"circles", "two_moons", "blobs"};
    const char *source = getenv("SOSMC_TEST_SOURCE");
    for (int i = 0; i < 3; i++) {
        char path[FILES_PATH], line[64];
        (void)snprintf(path, sizeof path, "%s/../experiments/ebm2d/%s.yaml", source ? source : "", names[i]);
        if (!source || access(path, R_OK)) {
            print_message("skipped: %s\n", source ? path : "SOSMC_TEST_SOURCE names no folder");
            skip();
        }
        (void)snprintf(line, sizeof line, "train %s --cd --scaled --seed %d", names[i],
                       i == 0); /* the stored circles have seed 1 */
        config *ours = printed(line), *stored = config_load(path, ERROR);
        if (!stored || config_resolve(stored, ERROR)) fail_msg("%s", error);
        char *a = without_lattice(ours), *b = without_lattice(stored);
        assert_string_equal(a, b);
        expect_number(ours, "evaluate.every", i == 2 ? 390 : 975);
        free(a);
        free(b);
        config_free(ours);
        config_free(stored);
    }
}

/* The run file of points names the model and the data; the rest is the solver's. */
static void training_on_points_chooses_nothing(void **state)
{
    config *c = printed("train circles --hidden 16,8 --activation tanh --seed 18446744073709551615");
    int n = 0;
    const double *hidden = config_vector(c, "model.hidden", &n);
    assert_true(n == 2 && hidden[0] == 16 && hidden[1] == 8);
    expect_word(c, "settings", "automatic");
    expect_word(c, "model.activation", "tanh");
    expect_word(c, "model.base", "gaussian");
    assert_false(config_has(c, "model.base_sd"));
    expect_number(c, "model.init_sd", 0.1);
    expect_word(c, "init.type", "base");
    expect_number(c, "objective.held_out", 0.1);
    expect_number(c, "objective.energy2", 0);
    expect_number(c, "objective.gradient_penalty", 0);
    expect_number(c, "particles", 2048);
    assert_false(config_has(c, "scheme") || config_has(c, "iterations") || config_has(c, "evaluate"));
    assert_true(config_unsigned(c, "seed") == UINT64_MAX);
    config_free(c);
    c = printed("train small.csv --weighted --set objective.held_out=0.25 --particles 256");
    expect_word(c, "settings", "automatic");
    expect_number(c, "objective.held_out", 0.25);
    expect_number(c, "particles", 256);
    config_free(c);
    c = printed("train small.csv --cd");
    expect_word(c, "settings", "explicit");
    expect_word(c, "scheme.type", "pcd");
    expect_number(c, "objective.held_out", 0);
    config_free(c);
}

static void tuning_has_the_papers_constants(void **state)
{
    config *c = printed("tune small.npz --reward lower --beta 0.25 --paper --out p");
    assert_non_null(strstr(output, "#   type: none")); /* the start */
    assert_non_null(strstr(output, "# iterations: 20000"));
    int n = 0;
    const double *normal = config_vector(c, "objective.reward.normal", &n);
    assert_true(n == 2 && normal[0] == 0 && normal[1] == -1);
    expect_word(c, "objective.type", "reward_reverse");
    expect_number(c, "objective.beta", 0.25);
    expect_word(c, "init.type", "file");
    assert_false(config_flag(c, "init.exact"));
    assert_non_null(strstr(config_text(c, "init.file"), "/p/start/particles.npz"));
    expect_word(c, "scheme.type", "sosmc");
    expect_word(c, "scheme.order", "authors");
    expect_word(c, "kernel.type", "ula");
    expect_number(c, "kernel.step", 0.005);
    expect_number(c, "kernel.clamp", 0);
    expect_word(c, "resampling.scheme", "systematic");
    expect_number(c, "resampling.threshold", 0.9);
    expect_word(c, "adapt.signal", "ess");
    expect_number(c, "adapt.threshold", 0.95);
    expect_number(c, "adapt.factor", 1.01);
    expect_number(c, "adapt.min", 1e-8);
    expect_number(c, "adapt.max", 0.01);
    expect_word(c, "optimiser.type", "adam");
    expect_number(c, "optimiser.rate", 2e-4);
    expect_number(c, "optimiser.clip", 1000);
    expect_number(c, "particles", 10000);
    expect_number(c, "iterations", 1001);
    expect_number(c, "evaluate.every", 100);
    config_free(c);
}

/* What was printed, without the folder in which it was, so that models and particles are beside the run file, and without the line about
 * memory, which depends on the machine. */
static char *without_folder(const char *text)
{
    char folder_here[FILES_PATH], here[FILES_PATH + 1], *out = malloc(strlen(text) + 1), *to = out;
    assert_true(out && getcwd(folder_here, sizeof folder_here));
    size_t n = (size_t)snprintf(here, sizeof here, "%s/", folder_here);
    for (const char *from = text; *from;)
        if (strncmp(from, here, n) == 0)
            from += n;
        else if (strncmp(from, "# The run takes ", 16) == 0 || strncmp(from, "# How much memory ", 18) == 0)
            from += strcspn(from, "\n") + 1;
        else
            *to++ = *from++;
    *to = 0;
    return out;
}

/* The text is that of a file under experiments/ebm2d; with SOSMC_UPDATE_DOCS it is written there. */
static void expect_stored(const char *name, const char *text)
{
    char file[FILES_PATH], rest[128];
    (void)snprintf(rest, sizeof rest, "experiments/ebm2d/%s.yaml", name);
    if (!runtext_source(rest, file)) skip();
    if (getenv("SOSMC_UPDATE_DOCS")) runtext_save(file, text);
    char *stored = runtext_read(file);
    if (!stored || strcmp(stored, text) != 0)
        fail_msg("%s is not what the command prints; SOSMC_UPDATE_DOCS=1 in the environment of this test renews it",
                 file);
    free(stored);
}

/* The experiment's row "sosmc tune" is made of these files: the run of the first particles, printed as a comment, and the
 * tuning. */
static void stored_tuning_is_what_is_printed(void **state)
{
    char model[RUNTEXT_PATH];
    if (!runtext_source("experiments/ebm2d/circles.safetensors", model) || access(model, R_OK)) skip();
    assert_int_equal(symlink(model, "circles.safetensors"), 0);
    expect(0, "model:", "tune circles.safetensors --reward lower --beta 0.25 --kernel rwm --scaled --print");
    char *text = without_folder(output), *tune = strstr(text, "\n\n"), *start = strstr(text, "#\n");
    assert_true(tune && start && start < tune);
    tune[1] = 0;
    start += 2;
    char *to = start;
    for (const char *from = start; *from; from++) {
        if (strncmp(from, "# ", 2) == 0 && (from == start || from[-1] == '\n')) from += 2;
        *to++ = *from;
    }
    *to = 0;
    expect_stored("tune-start", start);
    expect_stored("tune", tune + 2);
    free(text);
    assert_int_equal(remove("circles.safetensors"), 0);
}

static void tuning_has_its_choices(void **state)
{
    config *c = printed("tune small.npz --reward exp(-x1^2) --beta 1 --method impdiff --rate 1e-3");
    assert_non_null(strstr(output, "#   type: anneal"));
    assert_non_null(strstr(output, "#   threshold: always"));
    expect_word(c, "objective.reward.formula", "exp(-x1^2)");
    expect_word(c, "scheme.type", "unweighted"); /* gradient at the particles before the move, as the paper's code */
    expect_word(c, "scheme.order", "authors");
    expect_word(c, "scheme.drift_at", "previous");
    assert_int_equal(config_count(c, "adapt"), 0);
    expect_number(c, "optimiser.rate", 1e-3);
    assert_true(config_flag(c, "init.exact"));
    config_free(c);
    c = printed("tune small.npz --reward upper --beta 1 --method soul --particles 40 --start small.csv");
    assert_null(strstr(output, "start/particles.npz"));
    assert_false(config_flag(c, "init.exact"));
    expect_word(c, "scheme.type", "soul");
    expect_number(c, "scheme.sweeps", 40);
    config_free(c);
    c = printed("tune small.npz --reward left --beta 1 --forward --kernel mala --set kernel.step=0.03");
    expect_word(c, "objective.type", "reward_forward");
    assert_string_equal(config_text(c, "objective.reference.file"), config_text(c, "init.file"));
    expect_word(c, "adapt.signal", "accept");
    expect_number(c, "kernel.step", 0.03);
    expect_number(c, "iterations", 1001);
    config_free(c);
    c = printed("tune small.npz --reward left --beta 1 --kernel ula --iterations 77"); /* no jumps: gently */
    expect_number(c, "particles", 10000);
    expect_number(c, "objective.ramp", 0);
    expect_number(c, "optimiser.rate", 2e-4);
    assert_true(config_flag(c, "init.exact"));
    config_free(c);
    c = printed("tune small.npz --reward left --beta 1 --kernel underdamped");
    expect_word(c, "kernel.type", "underdamped");
    expect_number(c, "kernel.friction", 1);
    config_free(c);
    c = printed("tune small.npz --reward left --beta 1 --kernel leapfrog");
    expect_word(c, "kernel.type", "leapfrog");
    expect_number(c, "kernel.leapfrog", 5);
    config_free(c);
    expect(SOSMC_EXIT_USAGE, "--kernel is 'myula'; expected ula, mala, rwm, hmc, underdamped, leapfrog or jitter",
           "tune small.npz --reward left --beta 1 --kernel myula");
}

static void sampling_is_printed(void **state)
{
    config *c = printed("sample small.npz --reward right");
    expect_word(c, "objective.type", "temper");
    expect_word(c, "model.units", "data");
    expect_number(c, "particles", 10000);
    config_free(c);
    c = printed("sample small.npz --set kernel.step=0.25 --scaled");
    expect_word(c, "objective.type", "none");
    expect_word(c, "model.units", "scaled");
    config_free(c);
    c = printed("sample small.npz --reward right --kernel ula");
    expect_word(c, "objective.type", "none");
    config_free(c);
    c = printed("sample small.npz --reward right --chains 1000");
    expect_word(c, "objective.type", "none");
    expect_word(c, "init.type", "uniform");
    expect_word(c, "kernel.type", "ula");
    expect_number(c, "kernel.step", 0.005);
    expect_number(c, "particles", 1000);
    expect_number(c, "iterations", 20000);
    config_free(c);
    c = printed("sample small.npz --smc --chains 77 --steps 60 --step 0.2");
    expect_word(c, "objective.type", "anneal");
    expect_word(c, "kernel.type", "mala");
    expect_number(c, "kernel.step", 0.2);
    expect_number(c, "objective.steps", 50);
    expect_number(c, "particles", 77);
    config_free(c);
    c = printed("sample small.npz --smc --seed 3");
    expect_word(c, "settings", "automatic");
    expect_word(c, "objective.type", "temper");
    expect_number(c, "particles", 10000);
    expect_number(c, "seed", 3);
    config_free(c);
    c = printed("sample small.npz --reward right --beta 0.5 --chains 700");
    expect_word(c, "objective.type", "temper");
    expect_word(c, "objective.reward.type", "half_plane");
    expect_number(c, "objective.beta", 0.5);
    expect_number(c, "particles", 700);
    config_free(c);
    expect(SOSMC_EXIT_USAGE, "--beta needs --reward", "sample small.npz --beta 1");
    expect(SOSMC_EXIT_USAGE, "--beta is 0; expected a number above 0", "sample small.npz --reward left --beta 0");
    expect(SOSMC_EXIT_USAGE, "--kernel stands beside --beta, which samples by tempering and finds its moves",
           "sample small.npz --reward left --beta 1 --kernel mala");
    expect(SOSMC_EXIT_USAGE, "--beta tilts a law, and a sampler of pictures follows none that is known",
           "sample pixels.npz --reward bright --beta 1");
}

/* The recipe of MNIST, with 40 pictures instead of 60,000. */
#define LAYERS "1x4x4;conv~2~3~stride~2~pad~1~silu;dense~1;energy~-1;base~1"
static void training_of_pictures_is_the_tutorials(void **state)
{
    config *c = printed("train pixels.npy --network " LAYERS " --batch 8");
    expect_word(c, "model.type", "network");
    expect_word(c, "model.layers", "1x4x4;conv 2 3 stride 2 pad 1 silu;dense 1;energy -1;base 1");
    expect_word(c, "objective.type", "ebm_likelihood");
    expect_word(c, "objective.data.type", "images");
    expect_number(c, "objective.data.jitter", 0.005);
    expect_number(c, "objective.data.clamp", 1);
    expect_number(c, "objective.batch", 8);
    expect_word(c, "objective.batches", "epochs");
    expect_number(c, "objective.energy2", 0.1);
    expect_word(c, "scheme.type", "pcd");
    expect_number(c, "scheme.sweeps", 60);
    expect_number(c, "scheme.pool", 8192);
    expect_number(c, "scheme.refresh", 0.05);
    expect_word(c, "scheme.pool_rule", "newest");
    expect_word(c, "kernel.type", "jitter");
    expect_number(c, "kernel.step", 10);
    expect_number(c, "kernel.noise", 0.005);
    expect_number(c, "kernel.clamp", 1);
    expect_number(c, "kernel.gradient_clip", 0.03);
    expect_word(c, "optimiser.type", "adam");
    expect_number(c, "optimiser.rate", 1e-4);
    expect_number(c, "optimiser.beta1", 0);
    expect_number(c, "optimiser.beta2", 0.999);
    expect_number(c, "optimiser.clip", 0.1);
    expect_word(c, "optimiser.schedule.type", "steps");
    expect_number(c, "optimiser.schedule.a", 5);
    expect_number(c, "optimiser.schedule.b", 0.97);
    expect_number(c, "particles", 8);
    expect_number(c, "iterations", 300);
    int n = 0;
    assert_true(config_vector(c, "init.low", &n)[0] == -1 && config_vector(c, "init.high", &n)[0] == 1);
    config_free(c);
    c = printed("train pixels.npy --network mnist --epochs 3 --sweeps 7 --particles 9000");
    expect_word(c, "model.layers", "mnist");
    expect_number(c, "objective.batch", 40); /* all there are */
    expect_number(c, "scheme.sweeps", 7);
    expect_number(c, "scheme.pool", 9000);
    expect_number(c, "iterations", 3);
    config_free(c);
}

static void tuning_of_pictures_has_the_papers_constants(void **state)
{
    config *c = printed("tune pixels.npz --reward bright --beta 0.5 --out b");
    assert_non_null(strstr(output, "b/start:\n"));
    assert_null(strstr(output, "purified"));
    assert_non_null(strstr(output, "#   type: jitter"));
    assert_non_null(strstr(output, "# iterations: 1000"));
    assert_non_null(strstr(output, "# particles: 1000"));
    expect_word(c, "objective.type", "reward_reverse");
    expect_word(c, "objective.reward.type", "bright");
    expect_number(c, "objective.reward.scale", 1);
    expect_number(c, "objective.reward.clamp", 1);
    expect_number(c, "objective.beta", 0.5);
    assert_non_null(strstr(config_text(c, "init.file"), "/b/start/particles.npz"));
    assert_false(config_flag(c, "init.exact"));
    expect_word(c, "scheme.type", "sosmc");
    expect_word(c, "scheme.order", "authors");
    expect_word(c, "kernel.type", "ula");
    expect_number(c, "kernel.step", 3e-3);
    expect_number(c, "kernel.noise", 1);
    expect_number(c, "kernel.clamp", 0);
    expect_word(c, "resampling.scheme", "systematic");
    expect_number(c, "resampling.threshold", 0.9);
    assert_int_equal(config_count(c, "adapt"), 0);
    expect_word(c, "optimiser.type", "adam");
    expect_number(c, "optimiser.rate", 1e-4);
    expect_number(c, "optimiser.clip", 0);
    expect_word(c, "optimiser.schedule.type", "constant");
    expect_number(c, "particles", 1000);
    expect_number(c, "iterations", 1000);
    expect_number(c, "evaluate.every", 50);
    expect_word(c, "evaluate.sampler", "jitter");
    expect_number(c, "evaluate.chains", 64);
    expect_number(c, "evaluate.steps", 512);
    config_free(c);
}

static void tuning_of_pictures_has_its_choices(void **state)
{
    config *c = printed(
        "tune pixels.npz --reward half --reward-scale 2 --beta 1 --method impdiff --warm 256 --purify 77 "
        "--step 5e-3 --noise-scale 0.4 --rate 2e-4 --particles 50 --out h");
    assert_non_null(strstr(output, "# iterations: 256"));
    assert_non_null(strstr(output, "h/purified:\n"));
    assert_non_null(strstr(output, "# iterations: 77"));
    assert_non_null(strstr(output, "#   noise: 0.4")); /* as in the tuning */
    assert_non_null(strstr(config_text(c, "init.file"), "/h/purified/particles.npz"));
    expect_word(c, "scheme.type", "unweighted");
    expect_word(c, "scheme.order", "authors");
    expect_word(c, "scheme.drift_at", "previous");
    expect_number(c, "objective.reward.scale", 2);
    expect_number(c, "kernel.step", 5e-3);
    expect_number(c, "kernel.noise", 0.4);
    expect_number(c, "optimiser.rate", 2e-4);
    config_free(c);
    c = printed("tune bare.npz --network " LAYERS " --reward mean(1,2,1,4)~-~tv --beta 1");
    expect_word(c, "objective.reward.type", "formula");
    expect_word(c, "objective.reward.formula", "mean(1,2,1,4) - tv");
    assert_non_null(config_text(c, "model.network"));
    config_free(c);
    c = printed("tune pixels.npz --mask mask.png --beta 1");
    expect_word(c, "objective.reward.type", "mask");
    config_free(c);
    c = printed("tune pixels.npz --reward-network pixels.npz --output 0 --beta 1");
    expect_word(c, "objective.reward.type", "network");
    expect_number(c, "objective.reward.output", 0);
    config_free(c);
    c = printed("sample pixels.npz");
    expect_word(c, "objective.type", "none");
    expect_word(c, "kernel.type", "jitter");
    expect_number(c, "kernel.step", 10);
    expect_number(c, "kernel.noise", 0.005);
    expect_number(c, "particles", 64);
    expect_number(c, "iterations", 512);
    config_free(c);
    c = printed("sample pixels.npz --kernel ula --step 0.1 --noise-scale 0.5 --reward dark");
    expect_word(c, "kernel.type", "ula");
    expect_number(c, "kernel.noise", 0.5);
    expect_word(c, "objective.reward.type", "dark");
    config_free(c);
}

/* ---------------------------------------------------------------------------- what is run */

/* A report and a fine lattice take longer than all else together. */
#define FAST "--set evaluate.nodes=20 --set output.report=false "

static void trains_on_a_file(void **state)
{
    expect(0, "", "train small.csv --cd --epochs 3 --hidden 8,8 " FAST "--quiet --out t");
    expect(2, "already holds a run", "train small.csv --cd --epochs 3 --hidden 8,8 " FAST "--quiet --out t");
    model_file f;
    if (model_read("t/model.safetensors", &f, ERROR)) fail_msg("%s", error);
    assert_true(f.inputs == 2 && f.hidden_layers == 2 && f.width[1] == 8 && f.base_sd == 0);
    model_free(&f);
    config *c = config_load("t/run.yaml", ERROR);
    if (!c || config_resolve(c, ERROR)) fail_msg("%s", error);
    assert_true(config_flag(c, "objective.data.standardise"));
    expect_number(c, "objective.data.scale", 2);
    expect_number(c, "objective.batch", 60); /* all there are */
    expect_number(c, "iterations", 3);
    config_free(c);
    expect(0, "held-out points, mean -",
           "train small.csv --hidden 8 --particles 128 --no-standardise --set limits.evaluations=20000 "
           "--set output.report=false --out w");
    if (model_read("w/model.safetensors", &f, ERROR)) fail_msg("%s", error);
    assert_true(f.base_sd > 1.8 && f.base_sd < 2.2); /* of the points as they are, some of them held out */
    model_free(&f);
    c = config_load("w/run.yaml", ERROR);
    if (!c || config_resolve(c, ERROR)) fail_msg("%s", error);
    assert_false(config_flag(c, "objective.data.standardise"));
    expect_word(c, "settings", "automatic");
    config_free(c);
}

static void samples(void **state)
{
    npy_array x;
    expect(0, "", "sample small.npz --chains 30 --steps 20 " FAST "--quiet --out s");
    if (npz_read("s/particles.npz", "x", &x, ERROR)) fail_msg("%s", error);
    assert_true(x.dims == 2 && x.shape[0] == 30 && x.shape[1] == 2);
    npy_free(&x);
    expect(0, "reward 0.", "sample small.npz --smc --chains 30 --steps 12 --reward lower " FAST);
    if (npz_read("samples-small/particles.npz", "x", &x, ERROR)) fail_msg("%s", error);
    assert_true(x.shape[0] == 30);
    npy_free(&x);
    expect(0, " (chains)",
           "sample pixels.npz --chains 8 --steps 5 --reward bright --set output.report=false --out chained");
    expect(0, "before it was tilted, the model has the reward 0.",
           "sample small.npz --chains 30 --reward lower --beta 1 --out tilted");
    if (npz_read("tilted/particles.npz", "x", &x, ERROR)) fail_msg("%s", error);
    assert_true(x.shape[0] == 30);
    npy_free(&x);
}

#define TUNE "tune small.npz --reward lower --beta 0.25 --particles 40 --iterations 6 --quiet " FAST

/* Stopped during the start, then during the tuning, a run ends with the bytes of one that was not. */
static void interrupted_tuning_goes_on(void **state)
{
    static const char *const names[] = {"trace.csv", "evaluation.csv", "particles.npz", "model.safetensors"};
    expect(0, "", TUNE "--out whole");
    expect(0, "go on with --resume", TUNE "--out parts --budget-seconds 1e-6");
    assert_int_not_equal(access("parts/run.yaml", F_OK), 0);
    expect(0, "", TUNE "--out parts --set iterations=3 --resume");
    expect(2, "already holds a run", TUNE "--out parts");
    expect(0, "", TUNE "--out parts --resume");
    same_file("whole/start/particles.npz", "parts/start/particles.npz");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char a[64], b[64];
        (void)snprintf(a, sizeof a, "whole/%s", names[i]);
        (void)snprintf(b, sizeof b, "parts/%s", names[i]);
        same_file(a, b);
    }
    expect(2, "belongs to another run", TUNE "--out parts --seed 3 --resume");
    expect(0, "", TUNE "--out parts --seed 3 --overwrite");
}

/* A network that the run would write over is refused whatever the folder holds and whatever the flags: a tuned network must
 * not become the reference of its own tuning. */
static void a_network_is_not_written_over(void **state)
{
    static const char *const flags[] = {"", "--resume", "--overwrite", "--resume --overwrite"};
    static const char *const settings[] = {"", "--particles 40 --iterations 6 "};
    expect(0, "", TUNE "--out own");
    expect(0, "", TUNE "--out before");
    for (int last = 0; last < 2; last++) { /* then without the rest of the run */
        for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
            for (size_t k = 0; k < sizeof settings / sizeof *settings; k++) {
                char line[512];
                (void)snprintf(line, sizeof line,
                               "tune own/model.safetensors --reward lower --beta 0.25 --quiet " FAST "--out own %s%s",
                               settings[k], flags[i]);
                expect(2, "", line);
                same_file("before/model.safetensors", "own/model.safetensors");
            }
        expect(2, "is what this command reads (model.file)",
               "tune own/model.safetensors --reward lower --beta 0.25 --quiet " FAST "--out own --resume");
        (void)remove("own/checkpoint");
        (void)remove("own/summary.json");
    }
}

/* A start without its tuning is used again, and not made again. */
static void finished_start_is_kept(void **state)
{
    expect(0, "", TUNE "--method impdiff");
    char *before = NULL, *after = NULL;
    size_t n = 0, m = 0;
    if (files_read("tuned-small-lower-impdiff/start/timing.csv", 1 << 20, &before, &n, ERROR)) fail_msg("%s", error);
    for (const char *const *name = (const char *const[]){"summary.json", "checkpoint", NULL}; *name; name++) {
        char path[128];
        (void)snprintf(path, sizeof path, "tuned-small-lower-impdiff/%s", *name);
        assert_int_equal(unlink(path), 0);
    }
    expect(0, "", TUNE "--method impdiff");
    if (files_read("tuned-small-lower-impdiff/start/timing.csv", 1 << 20, &after, &m, ERROR)) fail_msg("%s", error);
    assert_string_equal(before, after); /* wall-clock times of a second run would differ */
    free(before);
    free(after);
}

static void other_starts_and_methods(void **state)
{
    expect(0, "", TUNE "--method soul --start small.csv --out soul");
    assert_int_not_equal(access("soul/start", F_OK), 0);
    expect(0, "", TUNE "--forward --kernel hmc --out forward");
    expect(0, "", "tune small.npz --reward x1 --beta 0 --paper --particles 4 --iterations 2 --quiet --out paper " FAST);
    assert_int_equal(access("paper/model.safetensors", F_OK), 0);
}

/* ---------------------------------------------------------------------------- pictures from end to end */

#define PLAIN "--set output.report=false --quiet "

static void trains_and_samples_pictures(void **state)
{
    char text[NETWORK_TEXT];
    npy_array x;
    model_file f;
    expect(0, "", "train pixels.npy --network " LAYERS " --batch 8 --epochs 2 --sweeps 3 --out digits " PLAIN);
    if (model_read("digits/model.safetensors", &f, ERROR)) fail_msg("%s", error);
    assert_int_equal(network_print(&f.network, text, sizeof text), 0);
    assert_string_equal(text, "1x4x4; conv 2 3 stride 2 pad 1 silu; dense 1; energy -1; base 1");
    assert_int_equal(f.parameters, 29);
    model_free(&f);
    expect(0, "", "sample digits/model.safetensors --chains 6 --steps 9 --reward half " PLAIN);
    if (npz_read("samples-digits/particles.npz", "x", &x, ERROR)) fail_msg("%s", error);
    assert_true(x.dims == 2 && x.shape[0] == 6 && x.shape[1] == 16);
    for (int i = 0; i < 6 * 16; i++) assert_true(fabs(((const double *)x.data)[i]) <= 1);
    npy_free(&x);
    expect(2, "the model has 1 x 28 x 28", "train pixels.npy --network mnist --out never " PLAIN);
}

#define PICTURES                                                                                                          \
    "tune pixels.npz --reward bright --beta 1 --particles 20 --iterations 6 --warm 5 --purify 4 --set evaluate.chains=3 " \
    "--set evaluate.steps=4 " PLAIN

static void tunes_pictures(void **state)
{
    static const char *const names[] = {"trace.csv", "evaluation.csv", "particles.npz", "model.safetensors"};
    expect(0, "", PICTURES "--out bright");
    expect(0, "go on with --resume", PICTURES "--out halves --budget-seconds 1e-6");
    expect(0, "", PICTURES "--out halves --set iterations=3 --resume");
    expect(0, "", PICTURES "--out halves --resume");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char a[64], b[64];
        (void)snprintf(a, sizeof a, "bright/%s", names[i]);
        (void)snprintf(b, sizeof b, "halves/%s", names[i]);
        same_file(a, b);
    }
    assert_int_equal(access("bright/purified/particles.npz", R_OK), 0);
    expect(0, "", PICTURES "--method impdiff --noise-scale 0.1");
    assert_int_equal(access("tuned-pixels-bright-impdiff/model.safetensors", R_OK), 0);
    expect(0, "",
           "tune bare.npz --network " LAYERS " --reward mean --beta 1 --particles 20 --iterations 2 --start "
           "bright/particles.npz --set evaluate.every=0 --out formula " PLAIN);
    assert_int_not_equal(access("formula/start", F_OK), 0);
}

/* ---------------------------------------------------------------------------- wrong words */

static void wrong_words_about_pictures_are_named(void **state)
{
    expect(2, "--network is '1x4x4; dens 1': clause 2 of the network: 'dens'",
           "train pixels.npy --network 1x4x4;~dens~1");
    expect(2, "--hidden stands beside --network", "train pixels.npy --network mnist --hidden 3");
    expect(2, "--weighted stands beside --network", "train pixels.npy --network mnist --weighted");
    expect(2, "--batch is 41; pixels.npy has 40 pictures", "train pixels.npy --network mnist --batch 41");
    expect(2, "--cd stands beside --network", "train pixels.npy --network mnist --cd");
    expect(2, "pictures need --network", "train train-images-idx3-ubyte");
    expect(4, "absent", "train absent --network mnist");
    expect(4, "has convolutions but no description", "sample bare.npz");
    expect(4, "holds 2 layers, but its description has 6", "sample bare.npz --network mnist");
    expect(2, "--mask is for pictures; small.npz has points of dimension 2", "tune small.npz --beta 1 --mask m.png");
    expect(2, "--warm is for pictures", "tune small.npz --reward lower --beta 1 --warm 3");
    expect(2, "--kernel is 'jitter', which is for pictures", "sample small.npz --kernel jitter");
    expect(2, "--kernel is 'jitter', which has no density", "tune pixels.npz --reward dark --beta 1 --kernel jitter");
    expect(2, "--paper is for points", "tune pixels.npz --reward dark --beta 1 --paper");
    expect(2, "--start is smc, which is for points", "tune pixels.npz --reward dark --beta 1 --start smc");
    expect(2, "--purify stands beside --start x.npz",
           "tune pixels.npz --reward dark --beta 1 --start x.npz --purify 3");
    expect(2, "expected --reward-network FILE", "tune pixels.npz --reward network --beta 1");
    expect(2, "expected --mask FILE", "tune pixels.npz --reward mask --beta 1");
    expect(2, "--mask stands beside --reward dark", "tune pixels.npz --reward dark --beta 1 --mask m.png");
    expect(2, "--output stands beside --reward dark", "tune pixels.npz --reward dark --beta 1 --output 3");
    expect(2, "--reward-scale stands beside a formula", "tune pixels.npz --reward mean --beta 1 --reward-scale 2");
    expect(2, "--reward-scale needs a --reward", "sample pixels.npz --reward-scale 2");
    expect(2, "expected bright, dark, half, mask, network or a formula", "tune pixels.npz --reward lower --beta 1");
    expect(2, "--output is '-1'", "tune pixels.npz --reward network --beta 1 --output -1");
}

static void wrong_words_are_named(void **state)
{
    expect(0, "sosmc train circles", "train --help");
    expect(0, "--paper", "tune -h");
    expect(2, "expected one DATA, found 0", "train");
    expect(2, "expected one MODEL, found 2", "sample a b");
    expect(2, "train has no flag '--fast'; see 'sosmc help train'", "train circles --fast");
    expect(2, "tune has no flag '--epochs'; see", "tune small.npz --epochs 3");
    expect(2, "train has no flag '--epocsh'; did you mean '--epochs'?", "train circles --epocsh 3");
    expect(2, "sample has no flag '--iteratoins'; did you mean '--iterations'?", "sample small.npz --iteratoins=3");
    expect(2, "tune: '--re' may be --reward, --reward-network, --reward-scale or --resume", "tune small.npz --re x");
    expect(2, "train: --out needs a value", "train circles --out");
    expect(2, "train: --quiet takes no value; found '3'", "train circles --quiet=3");
    expect(2, "train has no flag '-x'", "train circles -xh");
    expect(2, "--epochs stands beside --iterations", "train circles --cd --epochs 3 --iterations 4");
    expect(2, "--sweeps is for --cd and for pictures", "train circles --weighted --sweeps 3");
    expect(2, "--epochs is for --cd and for pictures", "train circles --epochs 3");
    expect(2, "--cd stands beside --weighted", "train circles --cd --weighted");
    expect(2, "--chains stands beside --particles", "sample small.npz --chains 3 --particles 4");
    expect(2, "DATA is 'moons'; expected two_moons", "train moons");
    expect(2, "--epochs is '0'; expected a whole number of at least 1", "train circles --epochs 0");
    expect(2, "--batch is '1.5'", "train circles --batch 1.5");
    expect(2, "--batch is 61; small.csv has 60 points", "train small.csv --cd --batch 61");
    expect(2, "--activation is 'relu'; expected silu, softplus or tanh", "train circles --activation relu");
    expect(2, "--hidden is '8,,8'", "train circles --hidden 8,,8");
    expect(2, "--hidden is '8,0'", "train circles --hidden 8,0");
    expect(2, "--seed is '-1'", "train circles --seed -1");
    expect(2, "--no-standardise is for files", "train circles --no-standardise");
    expect(2, "did you mean", "train circles --set kernel.stp=1");
    expect(4, "absent.csv", "train absent.csv");
    expect(4, "absent.npy", "train absent.npy");
    expect(2, "--seed is '18446744073709551616'", "sample small.npz --seed 18446744073709551616");
    expect(2, "tune needs --reward", "tune small.npz --beta 1");
    expect(2, "tune needs --beta", "tune small.npz --reward lower");
    expect(2, "--beta is '-1'; expected a number of at least 0", "tune small.npz --reward lower --beta -1");
    expect(2, "--reward is 'x3'", "tune small.npz --reward x3 --beta 1");
    expect(2, "--method is 'sgd'; expected sosmc, impdiff or soul", "tune small.npz --reward x1 --beta 1 --method sgd");
    expect(2, "--kernel is 'nuts'", "sample small.npz --kernel nuts");
    expect(2, "--start is 'smc' beside --paper", "tune small.npz --reward x1 --beta 1 --paper --start smc");
    expect(4, "absent.npz", "tune absent.npz --reward lower --beta 1");
    expect(4, "absent.npz", "tune small.npz --reward lower --beta 1 --start absent.npz --out never");
    expect(4, "small.csv", "sample small.csv");
    assert_int_not_equal(access("never", F_OK), 0);
}

/* Weights as PyTorch numbers them, of which nothing says what follows the hidden layer. */
static void write_torch(const char *name)
{
    double theta[33];
    for (int j = 0; j < 33; j++) theta[j] = 0.3 * sin(3.0 * j + 1);
    npz_member member[] = {{"net.0.weight", npy_matrix(theta, 8, 2)},
                           {"net.0.bias", npy_vector(theta + 16, 8)},
                           {"net.2.weight", npy_matrix(theta + 24, 1, 8)},
                           {"net.2.bias", npy_vector(theta + 32, 1)}};
    if (npz_write(name, member, 4, 0, ERROR)) fail_msg("%s", error);
}

#define FEW " --chains 8 --steps 3 --quiet --set output.report=false "

static void networks_from_elsewhere_are_not_guessed(void **state)
{
    static const char *const says = "does not say what its hidden layers are followed by; say it with model.activation";
    write_torch("torch.npz");
    expect(4, says, "sample torch.npz --out never");
    expect(4, says, "tune torch.npz --reward lower --beta 1 --out never");
    assert_int_not_equal(access("never", F_OK), 0);
    config *c = printed("tune torch.npz --reward lower --beta 1 --activation softplus");
    expect_word(c, "model.activation", "softplus");
    config_free(c);
    expect(0, "", "sample torch.npz --activation tanh --out tanh" FEW);
    expect(0, "", "sample torch.npz --activation silu --out silu" FEW);
    model_file f;
    if (model_read("tanh/model.safetensors", &f, ERROR)) fail_msg("%s", error);
    assert_string_equal(f.activation, "tanh"); /* what a run leaves says it */
    model_free(&f);
    char *one = NULL, *other = NULL;
    size_t n = 0, m = 0;
    if (files_read("tanh/samples.npy", 1 << 20, &one, &n, ERROR) ||
        files_read("silu/samples.npy", 1 << 20, &other, &m, ERROR))
        fail_msg("%s", error);
    assert_true(one && other && n == m && memcmp(one, other, n) != 0); /* it is not ignored */
    free(one);
    free(other);
    expect(2, "--activation is 'relu'; expected silu, softplus or tanh", "sample torch.npz --activation relu");
    expect(4, "has silu as its activation, but tanh was given", "sample small.npz --activation tanh --out never");
    expect(4, "is a network of pictures, whose layers have their own",
           "sample pixels.npz --activation silu --out never");
}

/* Earlier versions wrote no model.activation and took silu: such a directory goes on when silu is given. */
static void earlier_runs_had_silu(void **state)
{
    expect(0, "", "sample small.npz --out old" FEW);
    expect(0, "",
           "sample small.npz --activation silu --resume --out old --chains 8 --steps 5 --quiet --set "
           "output.report=false");
}

/* ---------------------------------------------------------------------------- a folder with points and a model */

/* 40 pictures of 4 x 4, and a network of them with its description and without. */
static int make_pictures(void)
{
    unsigned char pixel[40 * 16];
    double theta[29];
    model_file f = {.inputs = 16, .parameters = 29, .theta = theta};
    npy_array set = {.type = NPY_U8, .dims = 3, .shape = {40, 4, 4}, .data = pixel};
    for (int i = 0; i < 40 * 16; i++) pixel[i] = (unsigned char)(i % 16 < 8 ? i % 7 * 20 : 255 - i % 5 * 30);
    for (int j = 0; j < 29; j++) theta[j] = 0.3 * sin(5.0 * j + 1);
    if (npy_write("pixels.npy", &set, ERROR)) return -1;
    if (network_parse("1x4x4; conv 2 3 stride 2 pad 1 silu; dense 1; energy -1; base 1", &f.network, ERROR)) return -1;
    int rc = model_write("pixels.npz", &f, ERROR);
    network_free(&f.network);
    npy_array w1 = {.dims = 4, .shape = {2, 1, 3, 3}, .data = theta}, b1 = npy_vector(theta + 18, 2),
              w2 = npy_matrix(theta + 20, 1, 8), b2 = npy_vector(theta + 28, 1);
    npz_member bare[] = {{"conv1_weight", w1}, {"conv1_bias", b1}, {"fc1_weight", w2}, {"fc1_bias", b2}};
    return rc ? rc : npz_write("bare.npz", bare, 4, 0, ERROR);
}

static int make_folder(void **state)
{
    double theta[33];
    int width[] = {8};
    model_file f = {.inputs = 2, .hidden_layers = 1, .width = width, .base_sd = 1.5, .parameters = 33, .theta = theta};
    (void)snprintf(f.activation, sizeof f.activation, "silu");
    for (int j = 0; j < 33; j++) theta[j] = 0.3 * sin(3.0 * j + 1);
    (void)snprintf(folder, sizeof folder, "/tmp/sosmc_ebm_XXXXXX");
    if (!mkdtemp(folder) || chdir(folder) || model_write("small.npz", &f, ERROR) || make_pictures()) return -1;
    FILE *csv = fopen("small.csv", "w");
    if (!csv) return -1;
    (void)fprintf(csv, "x,y\n");
    for (int i = 0; i < 60; i++) (void)fprintf(csv, "%.17g,%.17g\n", 2.8 * cos(0.1047 * i), 2.8 * sin(0.1047 * i));
    return fclose(csv);
}

static int remove_folder(void **state)
{
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return chdir("/") || system(command); // NOLINT(cert-env33-c): a folder of our own making
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_is_the_experiment),
        cmocka_unit_test(training_on_points_chooses_nothing),
        cmocka_unit_test(tuning_has_the_papers_constants),
        cmocka_unit_test(stored_tuning_is_what_is_printed),
        cmocka_unit_test(tuning_has_its_choices),
        cmocka_unit_test(sampling_is_printed),
        cmocka_unit_test(training_of_pictures_is_the_tutorials),
        cmocka_unit_test(tuning_of_pictures_has_the_papers_constants),
        cmocka_unit_test(tuning_of_pictures_has_its_choices),
        cmocka_unit_test(trains_on_a_file),
        cmocka_unit_test(samples),
        cmocka_unit_test(interrupted_tuning_goes_on),
        cmocka_unit_test(a_network_is_not_written_over),
        cmocka_unit_test(finished_start_is_kept),
        cmocka_unit_test(other_starts_and_methods),
        cmocka_unit_test(trains_and_samples_pictures),
        cmocka_unit_test(tunes_pictures),
        cmocka_unit_test(wrong_words_are_named),
        cmocka_unit_test(wrong_words_about_pictures_are_named),
        cmocka_unit_test(networks_from_elsewhere_are_not_guessed),
        cmocka_unit_test(earlier_runs_had_silu),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
