/* test_random_runs.c: run files made at random from the table of keys, run for a few iterations at small size.
 *
 * Each must be refused with one sentence that names a key (exit code 2) or a data file that does not fit (4), or stop with a sentence and exit code 3 because its
 * numbers are not finite, or run to the end with finite results. Whatever happens must happen again, bit for bit, with two
 * threads and at every vector level; and a run that ends must leave the same bytes when it is taken up again from an older checkpoint.
 *
 *     SOSMC_TEST_RUNS   how many files (32)
 *     SOSMC_TEST_SEED   the first file's number (1): file n of any run of this test is the same
 *     SOSMC_TEST_TELL   set: a line per file */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runfile/config.h"
#include "files/files.h"
#include "folder.h"
#include "terminal/say.h"
#include "terminal/session.h"
#include "runfile/schema.h"
#include "files/tensors.h"

enum { TEXT = 16384, SENTENCE = 8192, MOST_CHOSEN = 256 };

/* ------------------------------------------------------------------------------------------------ chance */

static uint64_t dice;

static uint64_t roll(void)
{
    uint64_t z = dice += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static int below(int n) { return (int)(roll() % (uint64_t)n); }

static int percent(int chance) { return below(100) < chance; }

/* One of the parts of a list, which are separated by `between`. */
static void pick(const char *list, char between, char *out, size_t room)
{
    int parts = 1;
    for (const char *p = list; *p; p++) parts += *p == between;
    for (int skip = below(parts); skip > 0; skip--) list = strchr(list, between) + 1;
    size_t n = strcspn(list, (char[]){between, 0});
    (void)snprintf(out, room, "%.*s", (int)n, list);
}

/* ------------------------------------------------------------------------------------------------ values */

/* Keys whose values a type alone does not tell: data files, sizes that keep a run small, numbers that keep it sane. Values
 * are separated by @, and $ is the folder of the examples. ALWAYS: written wherever the key applies, because its default is
 * large; NEVER: the test sets it, or it hangs on too much else. */
enum { MAYBE, ALWAYS, NEVER };
static const struct {
    const char *path, *values;
    int when;
} known[] = {
    {"settings", "explicit@explicit@explicit@paper@automatic", ALWAYS},
    {"model.means", "[[-1, 0], [1, 0.5]]@[[0, 0]]@[[-2, 0], [0, 2], [2, 0]]", MAYBE},
    {"model.y", "[0.3, 1.9, 2.4]@[1, -1]", MAYBE},
    {"model.column", "2@y", ALWAYS},
    {"model.label", "sprouted@4", MAYBE},
    {"model.features", "[light, water, warmth]@[1, 3]", ALWAYS},
    {"model.train", NULL, NEVER},
    {"model.theta", NULL, NEVER},
    {"model.picture", "$/data/blocks_blurred.png@$/data/blocks_noisy.png", MAYBE},
    {"model.mask", "$/data/blocks_mask.png", MAYBE},
    {"model.noise", "1@5", MAYBE},
    {"model.tolerance", "1.0e-3@1.0e-4", ALWAYS},
    {"model.patch", "3@5", MAYBE},
    {"model.length", "3@5.5", MAYBE},
    {"model.inputs", "2", ALWAYS},
    {"model.hidden", "[6]@[8, 5]", ALWAYS},
    {"model.layers",
     "'1x8x8; conv 4 3 stride 2 pad 1 swish; dense 5 tanh; dense 1; energy -1'@'1x8x8; dense 6 gelu; dense 1; base 1.5'",
     MAYBE},
    {"model.file", "$/data/bars.safetensors@$/../experiments/ebm2d/circles.safetensors", MAYBE},
    {"model.network", NULL, NEVER},
    {"model.temperature", "0.5@2", MAYBE},
    {"model.data", NULL, MAYBE}, /* by the model, see below */
    {"objective.reward.formula", "\"x1 > 0\"@\"exp(-(x1^2+x2^2)/4) || norm > 3\"@\"tanh(x2) - 0.1*norm2\"", MAYBE},
    {"objective.reward.network", "$/data/bars_judge.npz", MAYBE},
    {"objective.reward.description", "'1x8x8; dense 3'", ALWAYS},
    {"objective.reward.output", "0@2", MAYBE},
    {"objective.reward.mask", "$/data/ring.png", MAYBE},
    {"objective.reward.center", "[1, 0.5]", MAYBE},
    {"objective.reward.centers", "[[1, 0.5], [-1, 0]]", MAYBE},
    {"objective.reward.normal", "[0, -1]", MAYBE},
    {"objective.reference.file", "$/data/points.csv", MAYBE},
    {"objective.reference.theta", NULL, NEVER},
    {"objective.reference.batch", "4@15", ALWAYS},
    {"objective.data.file", NULL, MAYBE}, /* by the kind of data, see below */
    {"objective.data.points", "20@33", ALWAYS},
    {"objective.data.centres", "[[1, 0], [0, 1]]", MAYBE},
    {"objective.data.scale", "0.5@1@2", MAYBE},
    {"objective.batch", "0@3@16", ALWAYS},
    {"objective.steps", "2@9", ALWAYS},
    {"init.file", "$/data/points.csv", MAYBE},
    {"init.low", "-1@[-1, -2]", MAYBE},
    {"init.high", "1@[1, 2]", MAYBE},
    {"init.theta", NULL, NEVER},
    {"init.mean", "0@0.5", MAYBE},
    {"init.sd", "0.5@1", MAYBE},
    {"scheme.sweeps", "1@2@4", ALWAYS},
    {"scheme.keep", "1@2", MAYBE},
    {"scheme.pool", "20@40", MAYBE},
    {"kernel.step", "0.001@0.01@0.05", MAYBE},
    {"kernel.leapfrog", "1@3", MAYBE},
    {"adapt.min", "1.0e-4@1.0e-3", MAYBE},
    {"adapt.max", "0.5@1", MAYBE},
    {"optimiser.rate", "0@0.001@0.02", MAYBE},
    {"optimiser.low", "-20", MAYBE},
    {"optimiser.high", "20", MAYBE},
    {"optimiser.schedule.a", "1@2.5@10", MAYBE},
    {"particles", NULL, ALWAYS}, /* by the settings, see below */
    {"iterations", "5", ALWAYS},
    {"threads", NULL, NEVER},
    {"limits", NULL, ALWAYS},
    {"limits.seconds", NULL, NEVER}, /* a clock ends two runs at different steps */
    {"limits.evaluations", "4000@20000", ALWAYS},
    {"evaluate.nodes", "2@11@24", ALWAYS},
    {"evaluate.chains", "0@3", ALWAYS},
    {"evaluate.burn_in", "0@4", ALWAYS},
    {"evaluate.averaged", "1@5", ALWAYS},
    {"evaluate.steps", "1@5", ALWAYS},
    {"evaluate.low", "-3", MAYBE},
    {"evaluate.high", "3", MAYBE},
    {"output.checkpoint_seconds", "0@60", MAYBE},
    {"output.report", "false", ALWAYS}, /* figures take gnuplot a second */
};

static int rule_of(const char *path)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].path, path)) return (int)i;
    return -1;
}

typedef struct {
    const char *path;
    char value[128];
} choice;
static choice chosen[MOST_CHOSEN];
static int choices;

static const char *chosen_value(const char *path)
{
    for (int i = choices - 1; i >= 0; i--)
        if (!strcmp(chosen[i].path, path)) return chosen[i].value;
    return "";
}

/* Does "PATH=a|b" hold for what was chosen, and is the key not left to the solver? */
static int applies(const schema_key *row)
{
    char path[128];
    if (!strcmp(chosen_value("settings"), "automatic") && schema_has_word(schema_chosen, row->path)) return 0;
    if (!row->when) return 1;
    const char *equals = strchr(row->when, '=');
    (void)snprintf(path, sizeof path, "%.*s", (int)(equals - row->when), row->when);
    return schema_has_word(equals + 1, chosen_value(path));
}

/* A number of the row's interval. */
static void number_text(const schema_key *row, int whole, char *out, size_t room)
{
    static const char *const wholes = "0@1@2@3@5", *const numbers = "0@0.02@0.1@0.25@0.5@0.9@1@1.5@2@-0.5";
    for (int tries = 0; tries < 50; tries++) {
        pick(whole ? wholes : numbers, '@', out, room);
        if (schema_in_range(row->allowed, strtod(out, NULL))) return;
    }
    (void)snprintf(out, room, "1");
}

static const char *examples(void)
{
    static char path[512];
    const char *source = getenv("SOSMC_TEST_SOURCE");
    if (!*path && source) (void)snprintf(path, sizeof path, "%.400s/../examples", source);
    return path;
}

/* `values` of the table, with the folder in place of $. */
static void known_text(const char *values, char *out, size_t room)
{
    char value[400];
    pick(values, '@', value, sizeof value);
    if (*value == '$')
        (void)snprintf(out, room, "%s%s", examples(), value + 1);
    else
        (void)snprintf(out, room, "%s", value);
}

static const char *values_for(const char *path)
{
    if (!strcmp(path, "particles")) return !strcmp(chosen_value("settings"), "automatic") ? "128@144" : "8@17@20";
    if (!strcmp(path, "model.data"))
        return !strcmp(chosen_value("model.type"), "logistic_regression") ? "$/data/seedlings.csv"
                                                                          : "$/data/groups.csv";
    return !strcmp(chosen_value("objective.data.type"), "images") ? "$/data/bars.idx" : "$/data/points.csv";
}

/* Words that go with few others: chosen blindly, most files would be refused. Mostly they are drawn again. */
static const struct {
    const char *path, *words, *needs, *values;
} pairs[] = {
    {"model.type", "own", "settings", "none: it belongs to another program"},
    {"objective.reward.type", "own", "settings", "none"},
    {"objective.data.type", "own", "settings", "none"},
    {"init.type", "own", "settings", "none"},
    {"model.type", "deblur|mlp|network|stored", "settings", "explicit|paper"},
    {"objective.type", "none|anneal", "settings", "explicit|paper"},
    {"objective.type", "ebm_likelihood", "model.type", "mlp|network"},
    {"objective.type", "reward_forward", "model.type", "gaussian_mixture"},
    {"objective.type", "anneal", "model.type", "mlp|network|stored"},
    {"objective.type", "mmle", "model.type", "gaussian_mixture|hierarchical_gaussian|logistic_regression|deblur"},
    {"objective.reward.type", "bright|dark|half|mask|network", "model.type", "network"},
    {"objective.reward.type", "hard_gate|smooth_gate|multi_modal|half_plane", "model.type", "gaussian_mixture|mlp"},
    {"objective.data.type", "images", "model.type", "network"},
    {"objective.data.type", "file|two_moons|circles|blobs", "model.type", "mlp"},
    {"init.type", "file", "model.type", "mlp"},
    {"init.type", "data", "objective.type", "ebm_likelihood"},
    {"scheme.type", "jala_em|pgd|ipla", "model.type", "hierarchical_gaussian|logistic_regression"},
    {"scheme.type", "mypgd|myipla", "model.type", "deblur"},
    {"scheme.type", "jala_em|pgd|mypgd|ipla|myipla", "objective.type", "mmle"},
    {"scheme.type", "sosmc", "init.type", "uniform|normal|base|file|model|laplace|seen"},
    {"scheme.type", "cd", "init.type", "data"},
    {"kernel.type", "mala|rwm|hmc|underdamped|leapfrog|gibbs|mymala|jitter", "scheme.type",
     "sosmc|impdiff|impdiff_printed|unweighted|soul|pcd|cd"},
    {"kernel.type", "myula", "scheme.type", "sosmc|impdiff|impdiff_printed|unweighted|soul|pcd|cd|mypgd|myipla"},
    {"kernel.type", "ula", "scheme.type", "sosmc|impdiff|impdiff_printed|unweighted|soul|pcd|cd|jala_em|pgd|ipla"},
    {"kernel.type", "gibbs|myula|mymala", "model.type", "deblur"},
    {"kernel.type", "jitter", "scheme.type", "impdiff|impdiff_printed|unweighted|soul|pcd"},
    {"adapt.signal", "ess", "scheme.type", "sosmc"},
    {"adapt.signal", "accept", "kernel.type", "mala|rwm|hmc|mymala"},
    {"on_nonfinite", "drop|retry", "scheme.type", "sosmc"},
    {"on_nonfinite", "restart", "scheme.type", "impdiff|impdiff_printed|unweighted|soul|pcd"},
};

static int suits(const char *path, const char *word)
{
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (!strcmp(pairs[i].path, path) && schema_has_word(pairs[i].words, word) &&
            !schema_has_word(pairs[i].values, chosen_value(pairs[i].needs)))
            return 0;
    return 1;
}

static void choice_text(const schema_key *row, char *out, size_t room)
{
    int has_default = row->fallback && *row->fallback && !strchr("=?", *row->fallback);
    for (int tries = 0; tries < 20; tries++) {
        if (has_default && strcmp(row->path, "kernel.type") != 0 && percent(40))
            (void)snprintf(out, room, "%s", row->fallback);
        else
            pick(schema_words(row), '|', out, room);
        if (suits(row->path, out) || percent(4)) return;
    }
}

static void value_text(const schema_key *row, char *out, size_t room)
{
    int rule = rule_of(row->path);
    if (rule >= 0) {
        known_text(known[rule].values ? known[rule].values : values_for(row->path), out, room);
        return;
    }
    switch (row->type) {
    case TYPE_CHOICE: choice_text(row, out, room); break;
    case TYPE_FLAG: pick("true@false", '@', out, room); break;
    case TYPE_INTEGER:
    case TYPE_LONG: number_text(row, 1, out, room); break;
    case TYPE_SEED: (void)snprintf(out, room, "%" PRIu64, roll() >> below(64)); break;
    case TYPE_LEVEL:
        if (percent(50))
            pick(schema_words(row), '|', out, room);
        else
            number_text(row, 0, out, room);
        break;
    case TYPE_VECTOR: pick("0.5@[0.5]@[0.25, -0.5]", '@', out, room); break;
    default: number_text(row, 0, out, room); break;
    }
}

/* ------------------------------------------------------------------------------------------------ files */

static int observed; /* model.data was written */

static int wanted(const schema_key *row)
{
    int rule = rule_of(row->path), drawn = row->fallback != REQUIRED && !strcmp(row->path, "model.data");
    if (drawn) return observed = percent(50); /* observations come from a file or are written out */
    if (!strcmp(row->path, "model.y") || !strcmp(row->path, "model.column"))
        return (row->path[6] == 'y') != observed || percent(3);
    if (rule >= 0 && known[rule].when == NEVER) return 0;
    if (rule >= 0 && known[rule].when == ALWAYS) return 1;
    if (row->fallback == REQUIRED || !strcmp(schema_leaf(row->path), "type")) return 1;
    return percent(row->type == TYPE_MAP ? 60 : 20);
}

static void put_keys(FILE *out, const char *parent, int depth);

static void put_row(FILE *out, const schema_key *row, int depth)
{
    const char *name = schema_leaf(row->path);
    char value[1024];
    if (row->type == TYPE_MAP || row->type == TYPE_RULES) {
        char *inside = NULL;
        size_t size = 0;
        FILE *keys = open_memstream(&inside, &size);
        assert_non_null(keys);
        put_keys(keys, row->path, depth + 1);
        assert_int_equal(fclose(keys), 0);
        (void)fprintf(out, "%*s%s:%s\n%s", 2 * depth, "", name, size ? "" : " {}", inside);
        free(inside);
        return;
    }
    value_text(row, value, sizeof value);
    if (row->type == TYPE_CHOICE && choices < MOST_CHOSEN) {
        chosen[choices].path = row->path;
        (void)snprintf(chosen[choices++].value, sizeof chosen->value, "%.100s", value);
    }
    (void)fprintf(out, "%*s%s: %s\n", 2 * depth, "", name, value);
}

static void put_keys(FILE *out, const char *parent, int depth)
{
    for (const schema_key *row = schema_keys; row->path; row++)
        if (schema_is_child(row, parent) && applies(row) && wanted(row)) put_row(out, row, depth);
}

static void make_file(uint64_t number, char text[TEXT])
{
    dice = number;
    choices = 0;
    FILE *out = fmemopen(text, TEXT, "w");
    assert_non_null(out);
    put_keys(out, "", 0);
    assert_int_equal(fclose(out), 0);
}

/* ------------------------------------------------------------------------------------------------ runs */

static char folder[FOLDER_ROOM];
static const char *now; /* the run file under test, for messages */

#define must(condition, ...)                      \
    do {                                          \
        if (!(condition)) {                       \
            print_error(__VA_ARGS__);             \
            fail_msg("\nThe run file:\n%s", now); \
        }                                         \
    } while (0)

/* What the program says on standard error while it runs. */
static int run_told(const config *c, const session_options *options, char told[SENTENCE])
{
    char path[FILES_PATH], error[SENTENCE], *bytes = NULL;
    size_t size = 0;
    (void)snprintf(path, sizeof path, "%s/told", folder);
    (void)fflush(stderr);
    int old = dup(STDERR_FILENO);
    assert_non_null(freopen(path, "w", stderr));
    int code = session_run(c, options);
    (void)fflush(stderr);
    assert_true(dup2(old, STDERR_FILENO) >= 0);
    (void)close(old);
    assert_int_equal(files_read(path, SENTENCE - 1, &bytes, &size, error, sizeof error), 0);
    (void)snprintf(told, SENTENCE, "%s", bytes);
    free(bytes);
    return code;
}

/* Nothing that a job is built from was accepted and ignored. */
static void check_all_was_read(const config *c)
{
    int at = 0;
    for (const char *path; (path = config_unread(c, &at));)
        must(!strncmp(path, "evaluate.", 9) || !strncmp(path, "output.", 7), "%s is accepted and ignored", path);
}

/* Resolves and runs the text with one more assignment (or none); the exit code, and what was said. */
static int run_text(const char *text, const char *set, const char *name, int resume, char told[SENTENCE])
{
    char dir[FILES_PATH];
    int code = SOSMC_EXIT_USAGE;
    *told = 0;
    config *c = config_parse(text, "random.yaml", told, SENTENCE);
    if (c && (!set || config_set(c, set, told, SENTENCE) == 0) && config_resolve(c, told, SENTENCE) == 0) {
        (void)snprintf(dir, sizeof dir, "%s/%s", folder, name);
        session_options options = {.out = dir, .resume = resume, .overwrite = !resume, .quiet = 1};
        config_watch(c);
        code = run_told(c, &options, told);
        if (code == SOSMC_EXIT_OK) check_all_was_read(c);
    }
    config_free(c);
    return code;
}

static int names_a_key(const char *sentence)
{
    for (const schema_key *row = schema_keys; row->path; row++)
        if (strstr(sentence, row->path)) return 1;
    return 0;
}

static void check_sentence(const char *told)
{
    size_t n = strlen(told);
    must(n > 0, "nothing was said");
    const char *end = strchr(told, '\n');
    must(!end || end == told + n - 1, "more than one line was said: %s", told);
}

static char *contents(const char *name, const char *file, size_t *size)
{
    char path[FILES_PATH], error[SENTENCE], *bytes = NULL;
    (void)snprintf(path, sizeof path, "%s/%s/%s", folder, name, file);
    if (access(path, F_OK) != 0) return NULL;
    must(files_read(path, (size_t)1 << 26, &bytes, size, error, sizeof error) == 0, "%s", error);
    return bytes;
}

/* The same bytes in both runs; or the file is in neither. */
static int compare_files(const char *a, const char *b, const char *file)
{
    size_t n = 0, m = 0;
    char *left = contents(a, file, &n), *right = contents(b, file, &m);
    must((left != NULL) == (right != NULL), "%s is only in one of %s and %s", file, a, b);
    must(n == m && (!left || !right || !memcmp(left, right, n)), "%s of %s and of %s differ", file, a, b);
    int there = left != NULL;
    free(left);
    free(right);
    return there;
}

static void state_hash(const char *name, char out[32])
{
    char path[FILES_PATH], error[SENTENCE];
    json_t *summary = NULL;
    (void)snprintf(path, sizeof path, "%s/%s/summary.json", folder, name);
    must(json_read(path, &summary, error, sizeof error) == 0, "%s", error);
    const char *hash = json_string_value(json_object_get(summary, "state_hash"));
    must(hash != NULL, "%s has no state_hash", path);
    (void)snprintf(out, 32, "%s", hash);
    json_decref(summary);
}

/* Everything that does not tell the time is the same. */
static void compare_runs(const char *a, const char *b, const char *how)
{
    static const char *const files[] = {"theta.npy", "model.safetensors", "particles.npz", "samples.npy", "mean.npy",
                                        "sd.npy",    "evaluation.csv"};
    char left[32], right[32];
    int there = 0;
    state_hash(a, left);
    state_hash(b, right);
    must(!strcmp(left, right), "the state is %s and %s %s", left, right, how);
    assert_true(compare_files(a, b, "trace.csv"));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) there += compare_files(a, b, files[i]);
    must(there > 0, "a run left no results");
}

static void check_finite(const char *name)
{
    char path[FILES_PATH], error[SENTENCE];
    npy_array a = {0};
    (void)snprintf(path, sizeof path, "%s/%s/theta.npy", folder, name);
    if (access(path, F_OK) != 0) {
        tensor_file f; /* whose reader lets nothing else through */
        (void)snprintf(path, sizeof path, "%s/%s/model.safetensors", folder, name);
        must(tensors_read(path, &f, error, sizeof error) == 0, "%s", error);
        tensors_free(&f);
        return;
    }
    must(npy_read(path, &a, error, sizeof error) == 0, "%s", error);
    const double *theta = a.data;
    for (int64_t i = 0; i < npy_count(&a); i++) must(isfinite(theta[i]), "theta[%d] is %g", (int)i, theta[i]);
    npy_free(&a);
}

static int run_at(const char *level, const char *text, const char *set, const char *name, int resume,
                  char told[SENTENCE])
{
    if (level) assert_int_equal(setenv("SOSMC_SIMD", level, 1), 0);
    int code = run_text(text, set, name, resume, told);
    if (level) assert_int_equal(unsetenv("SOSMC_SIMD"), 0);
    return code;
}

/* The same again with other threads or at another level: as it was before, or with the same words. */
static void again(const char *text, const char *set, const char *level, int code, const char *told)
{
    char words[SENTENCE];
    int got = run_at(level, text, set, "again", 0, words);
    must(got == code, "exit code %d instead of %d with %s: %s", got, code, set, words);
    if (code == SOSMC_EXIT_OK)
        compare_runs("first", "again", set);
    else
        must(!strcmp(told, words), "'%s' instead of '%s' with %s", words, told, set);
}

/* As if the machine had stopped after iteration 3 of 5: the checkpoint before the last is the newest, and files have gone on
 * without it. */
static void take_up_again(const char *text)
{
    char words[SENTENCE], newest[FILES_PATH], older[FILES_PATH], summary[FILES_PATH];
    (void)snprintf(newest, sizeof newest, "%s/again/checkpoint", folder);
    (void)snprintf(older, sizeof older, "%s/again/checkpoint.previous", folder);
    (void)snprintf(summary, sizeof summary, "%s/again/summary.json", folder);
    must(rename(older, newest) == 0 && unlink(summary) == 0, "a run left no older checkpoint");
    int code = run_text(text, NULL, "again", 1, words);
    must(code == SOSMC_EXIT_OK, "resumed: %s", words);
    compare_runs("first", "again", "when it is resumed");
}

/* 0: it ran; 1: refused; 2: numbers that are not finite. */
static int try_file(const char *text, char told[SENTENCE])
{
    const char *middle = sosmc_simd_named("avx2") ? "avx2" : "plain";
    now = text;
    int code = run_text(text, NULL, "first", 0, told);
    must(code == SOSMC_EXIT_OK || code == SOSMC_EXIT_USAGE || code == SOSMC_EXIT_NUMERIC || code == SOSMC_EXIT_IO,
         "exit code %d: %s", code, told);
    if (code != SOSMC_EXIT_OK) check_sentence(told);
    if (code == SOSMC_EXIT_USAGE) must(names_a_key(told), "no key is named: %s", told);
    if (code == SOSMC_EXIT_IO)
        must(strstr(told, "/examples/") != NULL, "no file is named: %s", told); /* it does not fit */
    if (code == SOSMC_EXIT_USAGE || code == SOSMC_EXIT_IO) return 1;
    again(text, "threads=2", "plain", code, told);
    again(text, "output.checkpoint_every=3", middle, code, told);
    if (code != SOSMC_EXIT_OK) return 2;
    check_finite("first");
    take_up_again(text);
    return 0;
}

static void random_files(void **state)
{
    static char text[TEXT], told[SENTENCE];
    const char *runs = getenv("SOSMC_TEST_RUNS"), *seed = getenv("SOSMC_TEST_SEED");
    int files = runs ? (int)strtol(runs, NULL, 10) : 32, count[3] = {0};
    uint64_t first = seed ? strtoull(seed, NULL, 10) : 1;
    if (!*examples()) skip();
    print_message("run files %" PRIu64 " to %" PRIu64 "\n", first, first + (uint64_t)files - 1);
    for (int i = 0; i < files; i++) {
        make_file(first + (uint64_t)i, text);
        int verdict = try_file(text, told);
        if (getenv("SOSMC_TEST_TELL")) print_message("%d: %s\n", i, verdict ? told : chosen_value("model.type"));
        count[verdict]++;
    }
    print_message("%d run files: %d ran, %d were refused, %d stopped at numbers that are not finite\n", files, count[0],
                  count[1], count[2]);
    if (files >= 32) assert_true(4 * count[0] > files); /* or the test would say little */
}

static int make_folder(void **state) { return folder_make(folder, "random_runs"); }
static int remove_folder(void **state) { return folder_remove(folder); }

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_files)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
