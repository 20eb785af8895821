/* test_embed.c: run files inside another program: the bytes and the words of the program itself, from two threads at once and from
 * a caller with habits of its own; a stop is a status; nothing is printed and no signal is touched; and the table of keys, run files
 * and jobs as values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sosmc/models.h>

#include "assertions.h"
#include "embed/embed.h"
#include "files/child.h"
#include "files/files.h"
#include "folder.h"
#include "program.h"
#include "runtext.h"
#include "streams_and_python.h"

static char folder[FOLDER_ROOM];

static const char *const texts[] = {
    "model: {type: gaussian_mixture, means: [[-3, 0], [3, 0]], variance: 0.5, eps: 1.0e-9}\n"
    "objective: {type: reward_forward, reward: \"exp(-(x1 - 3)^2)\", beta: 0.1}\n"
    "kernel: {type: ula, step: 0.1}\noptimiser: {type: adam, rate: 0.1}\nparticles: 400\niterations: 300\n"
    "output: {checkpoint_every: 50}\n",
    "model: {type: hierarchical_gaussian, y: [1, 2, 3]}\nobjective: mmle\nparticles: 320\nseed: 4\n",
    "model: {type: hierarchical_gaussian, y: [1, 2, 3]}\nobjective: temper\nparticles: 200\nseed: 3\n"};
enum { CHOSEN, AUTOMATIC, TEMPERED };

typedef struct {
    int text;
    char out[FOLDER_ROOM + 16], error[EMBED_SENTENCE];
    embed_options options;
    embed_hooks hooks;
    embed_status status; /* of opening; then that of the result */
    embed_result result;
} errand;

static errand *prepare(errand *e, int text, const char *name)
{
    *e = (errand){.text = text};
    (void)snprintf(e->out, sizeof e->out, "%s/%s", folder, name);
    e->options.out = e->out;
    return e;
}

static void *go(void *ctx)
{
    errand *e = ctx;
    embed_file *f;
    embed_source from = {.text = texts[e->text], .name = "test.yaml"};
    e->status = embed_open(&f, &from, e->error, sizeof e->error);
    if (e->status == EMBED_OK) e->status = embed_run(f, &e->options, &e->hooks, &e->result);
    embed_close(f);
    return NULL;
}

static void must_be(const errand *e, embed_status status)
{
    if (e->status != status) fail_msg("%s: status %d: %s%s", e->out, e->status, e->error, e->result.message);
}

static void must_agree(const char *one, const char *other)
{
    char difference[PROGRAM_WORDS];
    if (program_differ(folder_path(folder, one), folder_path(folder, other), difference))
        fail_msg("%s and %s: %s", one, other, difference);
}

/* What the program itself leaves and says. Reports have the last part of the name as their title: it is the same in p and in t. */
static const char *run_program(int text, const char *name)
{
    runtext_save(folder_path(folder, "test.yaml"), texts[text]);
    return program_says(folder, 0, "run test.yaml --out %s", name);
}

/* "in 0.12 s" becomes "in T s": times differ from run to run. */
static void without_time(char *words)
{
    char *in = strstr(words, " in "), *s = in ? strstr(in, " s") : NULL;
    if (s && strspn(in + 4, "0123456789.") == (size_t)(s - in - 4)) memmove(in + 4, s, strlen(s) + 1);
}

/* The words of the program are those of the result: first its closing lines, and in any order what speaks against it. */
static void must_say(const char *program, const embed_result *r, const char *own, const char *name)
{
    char said[PROGRAM_WORDS], line[PROGRAM_WORDS];
    (void)snprintf(said, sizeof said, "%s", program);
    without_time(said);
    char *closing = strdup(r->closing), *rest = NULL;
    assert_non_null(closing);
    without_time(closing);
    for (char *l = strtok_r(closing, "\n", &rest); l; l = strtok_r(NULL, "\n", &rest)) {
        (void)snprintf(line, sizeof line, "%s", l);
        if (strcmp(line, own) == 0) (void)snprintf(line, sizeof line, "results in %s", name);
        assert_contains(said, line);
    }
    free(closing);
    char *against = strdup(r->against ? r->against : "");
    assert_non_null(against);
    for (char *l = strtok_r(against, "\n", &rest); l; l = strtok_r(NULL, "\n", &rest)) assert_contains(said, l);
    free(against);
}

/* Those of a solver hold the time that its steps took. The state in them is compared by the hash of summary.json. */
static void forget_checkpoints(void)
{
    static const char *const names[] = {"p/1/checkpoint", "t/1/checkpoint", "p/1/checkpoint.previous",
                                        "t/1/checkpoint.previous"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) (void)unlink(folder_path(folder, names[i]));
}

/* Two runs at once, one of them the solver's: the directories, with their reports, and the closing words of two processes. */
static void two_threads_are_two_processes(void **state)
{
    static const char *const programs[] = {"p/0", "p/1"}, *const ours[] = {"t/0", "t/1"};
    char said[2][PROGRAM_WORDS], results[FOLDER_ROOM + 32];
    errand e[2];
    pthread_t thread[2];
    for (int i = 0; i < 2; i++) (void)snprintf(said[i], PROGRAM_WORDS, "%s", run_program(i, programs[i]));
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&thread[i], NULL, go, prepare(&e[i], i, ours[i])), 0);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
    for (int i = 0; i < 2; i++) {
        must_be(&e[i], EMBED_OK);
        if (i == AUTOMATIC) forget_checkpoints();
        must_agree(programs[i], ours[i]);
        (void)snprintf(results, sizeof results, "results in %s", e[i].out);
        must_say(said[i], &e[i].result, results, programs[i]);
        assert_string_equal(e[i].result.directory, e[i].out);
        assert_int_equal(e[i].result.automatic, i == AUTOMATIC);
        embed_result_free(&e[i].result);
    }
    assert_int_equal(e[0].result.iterations, 300);
    assert_int_equal(access(folder_path(folder, "t/0/report.html"), F_OK), 0);
}

/* ---------------------------------------------------------------------------- hooks */

typedef struct {
    int64_t calls, last, stop_at;
    int sentences, asked;
} witness;

static void see(void *ctx, const embed_progress *p)
{
    witness *w = ctx;
    assert_int_equal(p->total, 300);
    assert_true(p->info && !p->solve && p->theta && p->dim_theta == 2);
    w->calls++;
    w->last = p->done;
}

static void count(void *ctx, const embed_progress *p) { ((witness *)ctx)->last = p->done; }

static int enough(void *ctx)
{
    const witness *w = ctx;
    return w->stop_at > 0 && w->last >= w->stop_at;
}

static int saves(void *ctx)
{
    witness *w = ctx;
    w->asked++;
    return 0;
}

static void hear(void *ctx, const char *sentence)
{
    witness *w = ctx;
    w->sentences += *sentence != 0;
}

static void a_stop_is_a_status_and_the_run_goes_on(void **state)
{
    errand e;
    witness w = {.stop_at = 123};
    (void)run_program(CHOSEN, "p/half");
    prepare(&e, CHOSEN, "t/half")->hooks = (embed_hooks){
        .stop = enough, .saves = saves, .progress = see, .log = hear, .ctx = &w};
    (void)go(&e);
    must_be(&e, EMBED_STOPPED);
    assert_int_equal(e.result.iterations, 123);
    assert_contains(e.result.message, "stopped after iteration 123 of 300");
    assert_int_equal(w.calls, 124); /* once before the first iteration */
    assert_int_equal(w.asked, 123);
    embed_result_free(&e.result);
    prepare(&e, CHOSEN, "t/half")->options.resume = 1;
    (void)go(&e);
    must_be(&e, EMBED_OK);
    embed_result_free(&e.result);
    must_agree("p/half", "t/half");
    (void)go(&e);
    must_be(&e, EMBED_OK);
    assert_true(e.result.complete);
    assert_contains(e.result.closing, "half is finished: 300 iterations");
    embed_result_free(&e.result);
}

static void see_temper(void *ctx, const embed_progress *p)
{
    witness *w = ctx;
    assert_true(p->temper && !p->info && !p->solve && p->dim_theta == 1);
    w->calls++;
}

/* Runs that temper are neither explicit nor the solver's. */
static void a_tempered_run_has_its_own_progress(void **state)
{
    errand e;
    witness w = {.calls = 0};
    char error[EMBED_SENTENCE];
    embed_file *f;
    embed_job *j = NULL;
    embed_source from = {.text = texts[TEMPERED]};
    (void)run_program(TEMPERED, "p/temper");
    prepare(&e, TEMPERED, "t/temper")->hooks = (embed_hooks){.progress = see_temper, .ctx = &w};
    (void)go(&e);
    must_be(&e, EMBED_OK);
    assert_true(w.calls > 5);
    must_agree("p/temper", "t/temper");
    embed_result_free(&e.result);
    if (embed_open(&f, &from, error, sizeof error) || embed_job_make(&j, f, error, sizeof error)) fail_msg("%s", error);
    assert_true(embed_job_temper(j) && !embed_job_solve(j) && embed_job_iterations(j) == 0);
    assert_int_equal(embed_job_temper(j)->particles, 200);
    embed_job_free(j);
    embed_close(f);
}

/* ---------------------------------------------------------------------------- a guest in another program */

/* Makes the language with commas known to this process, where the system has its sources; NULL: it has not. */
static const char *speak_german(void)
{
    char made[FOLDER_ROOM + 16];
    pid_t pid;
    (void)snprintf(made, sizeof made, "%s/de_DE.UTF-8", folder);
    const char *const argv[] = {"localedef", "-i", "de_DE", "-f", "UTF-8", made, NULL};
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    assert_true(nothing >= 0);
    if (child_start(&pid, argv, nothing, nothing, nothing) == 0 && child_wait(pid, 30) == 0)
        (void)setenv("LOCPATH", folder, 1);
    (void)close(nothing);
    return setlocale(LC_ALL, "de_DE.UTF-8");
}

/* A caller that rounds upwards and writes decimals with a comma, where the system has such a language: the same bytes. */
static void the_callers_habits_do_not_matter(void **state)
{
    errand e;
    char kept[64];
    (void)run_program(CHOSEN, "p/habit");
    (void)snprintf(kept, sizeof kept, "%s", setlocale(LC_ALL, NULL));
    const char *comma = speak_german();
    if (!comma) print_message("the locale de_DE.UTF-8 is not installed; only the rounding is tried\n");
    assert_int_equal(fesetround(FE_UPWARD), 0);
    (void)go(prepare(&e, CHOSEN, "t/habit"));
    int rounding = fegetround(), point = comma ? *localeconv()->decimal_point : ',';
    (void)fesetround(FE_TONEAREST);
    (void)setlocale(LC_ALL, kept);
    must_be(&e, EMBED_OK);
    assert_int_equal(rounding, FE_UPWARD);
    assert_int_equal(point, ',');
    must_agree("p/habit", "t/habit");
    embed_result_free(&e.result);
}

static void nothing_is_printed_and_no_signal_touched(void **state)
{
    struct sigaction before[32], after;
    errand e, again;
    const char *file = folder_path(folder, "streams");
    for (int i = 1; i < 32; i++) (void)sigaction(i, NULL, &before[i]);
    diverted_streams streams = streams_divert(file);
    (void)go(prepare(&e, CHOSEN, "silent"));
    (void)go(prepare(&again, CHOSEN, "silent"));
    streams_restore(streams);
    must_be(&e, EMBED_OK);
    must_be(&again, EMBED_EUSAGE);
    assert_contains(again.result.message, "already holds a run");
    assert_null(again.result.closing);
    char *text = runtext_read(file);
    assert_string_equal(text, "");
    free(text);
    for (int i = 1; i < 32; i++) {
        if (sigaction(i, NULL, &after)) continue;
        assert_memory_equal(&before[i].sa_handler, &after.sa_handler, sizeof after.sa_handler);
        assert_int_equal(before[i].sa_flags, after.sa_flags);
    }
    embed_result_free(&e.result);
    embed_result_free(&again.result);
}

/* ---------------------------------------------------------------------------- bad input */

static void wrong_files_have_the_programs_sentence(void **state)
{
    static const char *const wrong[] = {
        "model: {type: gaussian_mixture, mean: [[0]]}\nobjective: mmle\n", "model: [\n",
        "kernel: {type: ula, step: -1}\n",
        "model: {type: logistic_regression, data: none.csv, label: 1}\nobjective: mmle\n"};
    static const embed_status statuses[] = {EMBED_EUSAGE, EMBED_EUSAGE, EMBED_EUSAGE, EMBED_EIO};
    char sentence[EMBED_SENTENCE + 8], error[EMBED_SENTENCE];
    for (int i = 0; i < 4; i++) {
        embed_file *f;
        embed_result r = {.status = EMBED_OK};
        embed_source from = {.path = folder_path(folder, "wrong.yaml")};
        embed_options options = {.out = folder_path(folder, "wrong")};
        runtext_save(from.path, wrong[i]);
        embed_status status = embed_open(&f, &from, error, sizeof error);
        if (status == EMBED_OK) {
            status = embed_run(f, &options, NULL, &r);
            (void)snprintf(error, sizeof error, "%s", r.message);
        }
        assert_int_equal(status, statuses[i]);
        (void)snprintf(sentence, sizeof sentence, "sosmc: %s", error);
        assert_contains(program_says(folder, statuses[i] == EMBED_EIO ? 4 : 2, "run %s --out wrong", from.path),
                        sentence);
        assert_int_not_equal(access(options.out, F_OK), 0);
        embed_result_free(&r);
        embed_close(f);
    }
}

static void what_is_missing_is_named(void **state)
{
    char error[EMBED_SENTENCE];
    embed_file *f;
    embed_result r;
    embed_options nowhere = {.out = NULL};
    embed_source none = {.path = NULL}, absent = {.path = "/nowhere/x.yaml"}, text = {.text = texts[AUTOMATIC]};
    const char *set[] = {"settings=explicit", "kernel.stepp=1"};
    assert_int_equal(embed_open(&f, &none, error, sizeof error), EMBED_EUSAGE);
    none.path = "-"; /* standard input is the caller's */
    assert_int_equal(embed_open(&f, &none, error, sizeof error), EMBED_EUSAGE);
    assert_contains(error, "is '-'");
    assert_int_equal(embed_open(&f, &absent, error, sizeof error), EMBED_EIO);
    assert_null(f);
    assert_contains(error, "/nowhere/x.yaml");
    text.set = set;
    text.sets = 2;
    assert_int_equal(embed_open(&f, &text, error, sizeof error), EMBED_EUSAGE);
    assert_contains(error, "did you mean 'kernel.step'");
    text.sets = 1;
    assert_int_equal(embed_open(&f, &text, error, sizeof error), EMBED_OK);
    assert_int_equal(embed_run(f, &nowhere, NULL, &r), EMBED_EUSAGE);
    assert_contains(r.message, "directory must be named");
    embed_close(f);
    assert_int_equal(embed_report("/nowhere/at/all", error, sizeof error), EMBED_EIO);
    assert_contains(error, "/nowhere/at/all");
}

/* ---------------------------------------------------------------------------- values */

static void the_table_of_keys_is_one(void **state)
{
    json_error_t why;
    char *keys = embed_keys();
    assert_non_null(keys);
    json_t *table = json_parse(keys, strlen(keys), &why);
    assert_non_null(table);
    assert_true(json_array_size(json_object_get(table, "keys")) > 200);
    int found = 0;
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(table, "keys"), i, row)
    {
        if (strcmp(json_string_value(json_object_get(row, "key")), "resampling.threshold") != 0) continue;
        found++;
        assert_string_equal(json_string_value(json_object_get(row, "range")), "[0, 1]");
        assert_string_equal(json_string_value(json_object_get(row, "default")), "0.5");
        assert_int_equal(json_array_size(json_object_get(row, "values")), 2);
        assert_true(json_is_true(json_object_get(row, "chosen")));
    }
    assert_int_equal(found, 1);
    json_decref(table);
    embed_text_free(keys);
    assert_contains(program_says(folder, 0, "list --json"), "\"methods\"");
}

/* A resolved file as JSON is a run file with the same values. */
static void json_reads_back_as_the_same_run_file(void **state)
{
    runtext_files examples;
    char error[EMBED_SENTENCE];
    if (runtext_examples(&examples)) skip();
    for (size_t i = 0; i < examples.found.gl_pathc; i++) {
        embed_file *f, *again;
        embed_source from = {.path = examples.found.gl_pathv[i]};
        if (embed_open(&f, &from, error, sizeof error)) fail_msg("%s", error);
        char *json = embed_json(f), *yaml = embed_yaml(f);
        embed_source second = {.text = json};
        if (embed_open(&again, &second, error, sizeof error)) fail_msg("%s: %s", from.path, error);
        char *back = embed_yaml(again);
        assert_string_equal(yaml, back);
        embed_text_free(json);
        embed_text_free(yaml);
        embed_text_free(back);
        embed_close(f);
        embed_close(again);
    }
    globfree(&examples.found);
}

static void hash_in(const char *name, char out[32])
{
    json_t *summary = NULL;
    char error[512];
    if (json_read(folder_path(folder, name), &summary, error, sizeof error)) fail_msg("%s", error);
    (void)snprintf(out, 32, "%s", json_string_value(json_object_get(summary, "state_hash")));
    json_decref(summary);
}

/* An engine and a solver of one's own, made from a run file that was closed, end in the state of the program. */
static void a_job_outlives_its_file(void **state)
{
    char error[EMBED_SENTENCE], hash[32], stored[32], name[EMBED_NAME];
    for (int i = 0; i < 2; i++) {
        embed_file *f;
        embed_job *j = NULL;
        sosmc *s = NULL;
        sosmc_solver *solver = NULL;
        embed_source from = {.text = texts[i]};
        if (embed_open(&f, &from, error, sizeof error) || embed_job_make(&j, f, error, sizeof error))
            fail_msg("%s", error);
        embed_close(f);
        assert_int_equal(embed_job_automatic(j), i == AUTOMATIC);
        if (i == CHOSEN) {
            assert_int_equal(sosmc_create(&s, embed_job_problem(j), embed_job_settings(j)), SOSMC_OK);
            assert_int_equal(sosmc_run(s, embed_job_iterations(j), NULL, NULL), SOSMC_OK);
            assert_null(embed_job_solve(j));
            assert_null(embed_job_temper(j));
        } else {
            assert_int_equal(sosmc_solver_create(&solver, embed_job_problem(j), embed_job_solve(j)), SOSMC_OK);
            while (sosmc_solver_info(solver)->phase != SOSMC_PHASE_DONE)
                assert_int_equal(sosmc_solver_step(solver), SOSMC_OK);
        }
        (void)snprintf(hash, sizeof hash, "%016llx",
                       (unsigned long long)(s ? sosmc_hash(s) : sosmc_solver_hash(solver)));
        hash_in(i == CHOSEN ? "p/0/summary.json" : "p/1/summary.json", stored);
        assert_string_equal(hash, stored);
        embed_job_theta_name(j, 0, name, sizeof name);
        assert_true(*name);
        sosmc_free(s);
        sosmc_solver_free(solver);
        embed_job_free(j);
    }
}

/* ---------------------------------------------------------------------------- the caller's own model */

static const double seen[] = {1, 2, 3};
static const sosmc_hierarchical law = {.dim = 3, .y = seen};
static const double start[] = {0};
static const char *const names[] = {"centre"};

#define HOW \
    "kernel: {type: mala, step: 0.3}\nparticles: 300\niterations: 200\nseed: 4\noutput: {checkpoint_every: 50}\n"
#define OURS "model: {type: own, name: pupils, dim_x: 3, dim_theta: 1}\nobjective: mmle\n" HOW
#define BUILT_IN "model: {type: hierarchical_gaussian, y: [1, 2, 3]}\nobjective: mmle\ninit: normal\n" HOW

static void run_own(const char *name, int resume, witness *w, embed_result *r)
{
    char error[EMBED_SENTENCE], out[FOLDER_ROOM + 16];
    embed_file *f;
    sosmc_model model = sosmc_hierarchical_model(&law);
    embed_own own = {.model = &model, .theta0 = start, .names = names, .observations = 3};
    embed_source from = {.text = OURS, .own = &own};
    (void)snprintf(out, sizeof out, "%s/%s", folder, name);
    embed_options options = {.out = out, .resume = resume};
    embed_hooks hooks = {.stop = w ? enough : NULL, .progress = w ? count : NULL, .ctx = w};
    if (embed_open(&f, &from, error, sizeof error)) fail_msg("%s", error);
    memset(&model, 0, sizeof model); /* it was copied */
    (void)embed_run(f, &options, &hooks, r);
    embed_close(f);
}

/* The built-in model lent as one's own: the state of the program's run, a directory that can be continued and reported, the names
 * that were given; and a sentence where the program itself is asked to run it. */
static void an_own_model_is_run_as_any_other(void **state)
{
    char ours[32], theirs[32];
    embed_result r;
    witness w = {.stop_at = 70};
    runtext_save(folder_path(folder, "built_in.yaml"), BUILT_IN);
    (void)program_says(folder, 0, "run built_in.yaml --out built_in");
    run_own("t/own", 0, &w, &r);
    assert_int_equal(r.status, EMBED_STOPPED);
    embed_result_free(&r);
    run_own("t/own", 1, NULL, &r);
    if (r.status != EMBED_OK) fail_msg("%s", r.message);
    assert_contains(r.closing, "pupils, mmle, by sosmc");
    assert_contains(r.closing, "centre ");
    embed_result_free(&r);
    hash_in("t/own/summary.json", ours);
    hash_in("built_in/summary.json", theirs);
    assert_string_equal(ours, theirs);
    run_own("p/own", 0, NULL, &r);
    assert_int_equal(r.status, EMBED_OK);
    embed_result_free(&r);
    must_agree("p/own", "t/own");
    (void)program_says(folder, 0, "report t/own");
    assert_contains(program_says(folder, 2, "run t/own/run.yaml --out again"),
                    "model.type is own: it belongs to another program that made this run file");
}

/* Reward, points and initial law may be the caller's with a built-in model too. */
static int reward(const void *self, const sosmc_batch *b, double *s)
{
    (void)self;
    memcpy(s, b->x, (size_t)b->n * sizeof *s);
    return 0;
}

static void what_is_lent_is_used(void **state)
{
    static const char *const files[] = {
        "objective: {type: reward_reverse, reward: {type: own}, beta: 1}\ninit: own\niterations: 3\n",
        "objective: {type: ebm_likelihood, data: {type: own}}\ninit: own\niterations: 3\n"};
    static const double points[] = {0, 1, 2, 3};
    char error[EMBED_SENTENCE], text[512];
    sosmc_score score = {.eval = reward};
    sosmc_source init = sosmc_standard_normal();
    embed_own own = {.reward = &score, .init = &init, .points = points, .rows = 2}, nothing = {.model = NULL};
    for (int i = 0; i < 2; i++) {
        embed_file *f = NULL;
        embed_job *j = NULL;
        embed_source from = {.text = text, .own = &own};
        (void)snprintf(text, sizeof text, "model: {type: gaussian_mixture, means: [[-1, 0], [1, 0]]}\n%s", files[i]);
        if (embed_open(&f, &from, error, sizeof error) || embed_job_make(&j, f, error, sizeof error))
            fail_msg("%s", error);
        const sosmc_problem *p = embed_job_problem(j);
        assert_true(p->init.draw == init.draw);
        assert_true(i == 0 ? p->objective.score.eval == reward : p->objective.batch == 2);
        embed_close(f);
        embed_job_free(j);
        from.own = &nothing;
        assert_int_equal(embed_open(&f, &from, error, sizeof error), EMBED_OK);
        assert_int_equal(embed_job_make(&j, f, error, sizeof error), EMBED_EUSAGE);
        assert_contains(error,
                        i == 0 ? "run file:2: objective.reward.type is own, but the program that holds this run file "
                                 "has no reward for it"
                               : "has no points for it");
        embed_close(f);
    }
}

/* A caller that writes a directory itself takes the lock of runs, and learns whether a run made what is there. */
static void a_directory_is_claimed(void **state)
{
    char error[EMBED_SENTENCE];
    embed_claim *first, *second;
    int ours = -1;
    (void)run_program(CHOSEN, "claimed");
    assert_int_equal(embed_claim_take(&first, folder_path(folder, "claimed"), &ours, error, sizeof error), EMBED_OK);
    assert_int_equal(ours, 1);
    assert_int_equal(embed_claim_take(&second, folder_path(folder, "claimed"), &ours, error, sizeof error),
                     EMBED_EBUSY);
    assert_contains(error, "is being written by");
    assert_contains(program_says(folder, 6, "run test.yaml --out claimed --overwrite"), "is being written by");
    embed_claim_free(second);
    embed_claim_free(first);
    assert_int_equal(embed_claim_take(&first, folder, &ours, error, sizeof error), EMBED_OK);
    assert_int_equal(ours, 0);
    embed_claim_free(first);
}

static int set_up(void **state) { return folder_make(folder, "embed") || program_furnish(folder); }
static int tear_down(void **state) { return folder_remove(folder); }

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(two_threads_are_two_processes),
                                       cmocka_unit_test(a_stop_is_a_status_and_the_run_goes_on),
                                       cmocka_unit_test(a_tempered_run_has_its_own_progress),
                                       cmocka_unit_test(the_callers_habits_do_not_matter),
                                       cmocka_unit_test(nothing_is_printed_and_no_signal_touched),
                                       cmocka_unit_test(wrong_files_have_the_programs_sentence),
                                       cmocka_unit_test(what_is_missing_is_named),
                                       cmocka_unit_test(the_table_of_keys_is_one),
                                       cmocka_unit_test(json_reads_back_as_the_same_run_file),
                                       cmocka_unit_test(a_job_outlives_its_file),
                                       cmocka_unit_test(an_own_model_is_run_as_any_other),
                                       cmocka_unit_test(what_is_lent_is_used),
                                       cmocka_unit_test(a_directory_is_claimed)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
