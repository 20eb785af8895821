/* test_guest.c: the engine in a process that is not its own.
 *
 * Callbacks that use the engine or never return, processes that fork, signals, and a host that has set another floating-point
 * environment: none of these ends in SOSMC_OK with another answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <sosmc/analysis.h>
#include <sosmc/imaging.h>
#include <sosmc/judge.h>

#include "assertions.h"
#include "expect_engine.h"
#include "fake_comm.h"
#include "memory_stream.h"

enum { DIM = 2, PARTICLES = 300, FAR = 5 };

/* ---------------------------------------------------------------------------- a model that lets its caller in */

typedef void (*visit)(void);
static sosmc *engine;            /* whom the callbacks may call */
static _Atomic(visit) in_energy; /* what the energy does beside its work */
static pthread_t main_thread;

/* U = |x - theta|^2 / 2 + sum of x^4 / 8, which passes through a number that is subnormal, so that flushing it to zero shows. */
static int guest_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    visit also = in_energy;
    if (also) also();
    for (int i = 0; i < b->n; i++) U[i] = 0;
    for (int j = 0; j < b->dim; j++)
        for (int i = 0; i < b->n; i++) {
            volatile double small = b->x[j * b->ld + i] * 1e-310;
            double x = b->x[j * b->ld + i], away = x - theta[j], shade = small * 1e308;
            U[i] += 0.5 * away * away + 0.125 * x * x * x * x + shade;
            if (gx) gx[j * b->ld + i] = away + 0.5 * x * x * x + 0.01;
        }
    return 0;
}

static int guest_grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    for (int j = 0; j < b->dim; j++)
        for (int i = 0; i < b->n; i++) g[j] += c[i] * (theta[j] - b->x[j * b->ld + i]) / 3;
    return 0;
}

static const double start[DIM] = {0.5, -0.25};

static void fill(sosmc_problem *p, sosmc_settings *cfg, int threads)
{
    *p = (sosmc_problem){
        .model = {.dim_x = DIM, .dim_theta = DIM, .energy = guest_energy, .grad_theta = guest_grad_theta},
        .objective = sosmc_mmle(),
        .init = sosmc_standard_normal(),
        .theta0 = start};
    *cfg = sosmc_defaults();
    cfg->scheme = sosmc_scheme_sosmc(PARTICLES);
    cfg->kernel = sosmc_ula(0.05);
    cfg->optimiser = sosmc_adam(0.05);
    cfg->threads = threads;
    cfg->judge = 0.1;
    cfg->seed = 11;
}

static void open_engine(int threads)
{
    sosmc_problem p;
    sosmc_settings cfg;
    in_energy = NULL;
    fill(&p, &cfg, threads);
    engine = expect_create(&p, &cfg);
}

static void pause_for(long milliseconds)
{
    struct timespec t = {.tv_nsec = milliseconds * 1000000};
    (void)nanosleep(&t, NULL);
}

static uint64_t undisturbed(int iterations)
{
    open_engine(1);
    expect_steps(engine, iterations);
    uint64_t hash = sosmc_hash(engine);
    sosmc_free(engine);
    return hash;
}

/* ---------------------------------------------------------------------------- inside a callback */

static memory checkpoint;
static sosmc_status (*intrude)(void);
static sosmc_status intruded;

static sosmc_status by_step(void) { return sosmc_step(engine); }
static sosmc_status by_run(void) { return sosmc_run(engine, 2, NULL, NULL); }
static sosmc_status by_save(void)
{
    memory m = {.used = 0};
    sosmc_status status = memory_save(engine, &m);
    free(m.bytes);
    return status;
}
static sosmc_status by_load(void) { return memory_load(engine, &checkpoint); }
static sosmc_status by_save_file(void) { return sosmc_save_file(engine, "guest.checkpoint"); }
static sosmc_status by_load_file(void) { return sosmc_load_file(engine, "guest.checkpoint"); }
static sosmc_status by_cloud(void) { return sosmc_cloud(engine, NULL, NULL); }
static sosmc_status by_hash(void) { return sosmc_hash(engine) ? SOSMC_OK : SOSMC_EINVAL; }
static sosmc_status by_judge(void)
{
    sosmc_judgement j;
    char message[600];
    sosmc_status status = sosmc_judge(engine, NULL, &j, message, sizeof message);
    if (status == SOSMC_EINVAL && !strstr(message, "inside one of its callbacks")) status = SOSMC_ENUMERIC;
    sosmc_judgement_free(&j);
    return status;
}
static sosmc_status (*const INTRUSIONS[])(void) = {by_step,      by_run,   by_save, by_load, by_save_file,
                                                   by_load_file, by_cloud, by_hash, by_judge};

static void intrude_once(void)
{
    if (!pthread_equal(pthread_self(), main_thread) || !intrude) return; /* the main thread alone looks at it */
    sosmc_status (*how)(void) = intrude;
    intrude = NULL;
    intruded = how();
}

/* The call inside is refused, the step that it disturbed fails, and a checkpoint brings the run back. */
static void use_inside_a_callback_is_refused(void **state)
{
    uint64_t right = undisturbed(FAR);
    for (size_t i = 0; i < sizeof INTRUSIONS / sizeof *INTRUSIONS; i++)
        for (int threads = 1; threads <= 3; threads += 2) {
            open_engine(threads);
            expect_steps(engine, 2);
            memory_must_save(engine, &checkpoint);
            in_energy = intrude_once;
            intruded = SOSMC_OK;
            sosmc_status status = SOSMC_OK;
            for (int tries = 0; intruded == SOSMC_OK && status == SOSMC_OK && tries < 1000; tries++) {
                intrude = INTRUSIONS[i]; /* with helpers the calling thread may find no tile left */
                status = sosmc_step(engine);
            }
            intrude = NULL;
            assert_int_equal(intruded, SOSMC_EINVAL);
            assert_int_equal(status, SOSMC_EINVAL);
            assert_contains(sosmc_message(engine), "inside one of its callbacks");
            assert_int_equal(sosmc_step(engine), SOSMC_EINVAL);
            assert_int_equal(sosmc_run(engine, 1, NULL, NULL), SOSMC_EINVAL);
            assert_contains(sosmc_message(engine), "inside one of its callbacks");
            memory_must_load(engine, &checkpoint);
            expect_steps(engine, FAR - 2);
            assert_int_equal(sosmc_hash(engine), right);
            sosmc_free(engine);
        }
}

/* A judgement is not disturbed by what it refuses. */
static void a_step_inside_a_judgement_is_refused(void **state)
{
    sosmc_judgement j;
    open_engine(1);
    expect_steps(engine, FAR);
    uint64_t before = sosmc_hash(engine);
    in_energy = intrude_once;
    intrude = by_step;
    intruded = SOSMC_OK;
    assert_int_equal(sosmc_judge(engine, NULL, &j, NULL, 0), SOSMC_OK);
    assert_null(intrude);
    assert_int_equal(intruded, SOSMC_EINVAL);
    sosmc_judgement_free(&j);
    assert_int_equal(sosmc_hash(engine), before);
    expect_steps(engine, 1);
    sosmc_free(engine);
}

/* An observer is no callback of a step: it may do what it likes. */
static int observe(void *ctx, const sosmc *s, const sosmc_info *info)
{
    assert_int_equal(by_save(), SOSMC_OK);
    return by_cloud() != SOSMC_OK || sosmc_hash(s) == 0;
}
static void observers_may_use_the_engine(void **state)
{
    uint64_t right = undisturbed(FAR);
    open_engine(2);
    assert_int_equal(sosmc_run(engine, FAR, observe, NULL), SOSMC_OK);
    assert_int_equal(sosmc_hash(engine), right);
    sosmc_free(engine);
}

/* ---------------------------------------------------------------------------- callbacks that never return */

static jmp_buf outside;
static void leave(void)
{
    if (pthread_equal(pthread_self(), main_thread)) longjmp(outside, 1);
}

static void an_engine_that_was_left_has_failed(void **state)
{
    static volatile int left; /* longjmp would forget a register */
    for (volatile int threads = 1; threads <= 4; threads++) {
        open_engine(threads);
        expect_steps(engine, 2);
        memory_must_save(engine, &checkpoint);
        in_energy = leave;
        left = 0;
        if (setjmp(outside) == 0) {
            for (int tries = 0; tries < 1000; tries++) expect_steps(engine, 1);
        } else {
            left = 1;
        }
        assert_true(left);
        in_energy = NULL;
        for (size_t i = 0; i < sizeof INTRUSIONS / sizeof *INTRUSIONS; i++) {
            assert_int_equal(INTRUSIONS[i](), SOSMC_EINVAL);
            assert_contains(sosmc_message(engine), "longjmp or an exception");
        }
        sosmc_free(engine);
    }
}

static void a_creation_that_was_left_has_failed(void **state)
{
    sosmc_problem p;
    sosmc_settings cfg;
    fill(&p, &cfg, 1);
    in_energy = leave;
    engine = NULL;
    if (setjmp(outside) == 0) (void)sosmc_create(&engine, &p, &cfg);
    in_energy = NULL;
    assert_non_null(engine);
    assert_int_equal(sosmc_step(engine), SOSMC_EINVAL);
    sosmc_free(engine);
}

/* ---------------------------------------------------------------------------- fork */

/* What the child finds, as its exit code: 0 where all is as promised. */
static int in_the_child(int threads, uint64_t right)
{
    memory m = {.used = 0};
    sosmc_status expected = threads > 1 ? SOSMC_EINVAL : SOSMC_OK;
    alarm(20); /* a child that hangs is a failure */
    if (memory_save(engine, &m) != SOSMC_OK) return 1;
    if (sosmc_step(engine) != expected) return 2;
    if (threads > 1 && !strstr(sosmc_message(engine), "forked")) return 3;
    if (memory_load(engine, &m) != expected) return 4;
    sosmc_free(engine);
    open_engine(threads); /* a new engine has threads of its own */
    if (memory_load(engine, &m) != SOSMC_OK || sosmc_run(engine, FAR - 2, NULL, NULL) != SOSMC_OK) return 5;
    if (sosmc_hash(engine) != right) return 6;
    sosmc_free(engine);
    free(m.bytes);
    return 0;
}

static void a_forked_child_may_free(void **state)
{
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    skip(); /* its child may not start threads: the sanitizer's own locks are those of the fork */
#endif
    uint64_t right = undisturbed(FAR);
    for (int threads = 1; threads <= 8; threads *= 2)
        for (int repeat = 0; repeat < 5; repeat++) {
            open_engine(threads);
            expect_steps(engine, 2);
            if (repeat % 2) pause_for(20); /* helpers spin, or sleep in the lock */
            pid_t child = fork();
            assert_true(child >= 0);
            if (child == 0) _exit(in_the_child(threads, right));
            int status;
            assert_int_equal(waitpid(child, &status, 0), child);
            if (!WIFEXITED(status) || WEXITSTATUS(status))
                fail_msg("%d threads: the child ended with status %#x", threads, (unsigned)status);
            expect_steps(engine, FAR - 2);
            assert_int_equal(sosmc_hash(engine), right);
            sosmc_free(engine);
        }
}

/* ---------------------------------------------------------------------------- signals */

/* The signals that a thread of this process blocks, from /proc; 0 where that cannot be read. */
static unsigned long long blocked_by(const char *thread)
{
    char path[300], line[200];
    unsigned long long mask = 0;
    (void)snprintf(path, sizeof path, "/proc/self/task/%s/status", thread);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "SigBlk: %llx", &mask) == 1) break;
    if (f) (void)fclose(f);
    return mask;
}

static void helpers_block_all_signals(void **state)
{
    enum { HELPERS = 3 };
#if defined(__SANITIZE_THREAD__)
    skip(); /* the sanitizer has a thread of its own */
#endif
    int helpers = 0;
    char own[32];
    (void)snprintf(own, sizeof own, "%d", (int)getpid());
    open_engine(HELPERS + 1);
    expect_steps(engine, FAR);
    pause_for(50); /* a thread that has only just been made blocks everything for a moment */
    assert_true((blocked_by(own) & 1ull << (SIGTERM - 1)) == 0);
    DIR *threads = opendir("/proc/self/task");
    if (!threads) {
        sosmc_free(engine);
        skip();
        return;
    }
    for (const struct dirent *d; (d = readdir(threads));) { /* cppcheck-suppress readdirCalled ; one thread reads it */
        if (d->d_name[0] == '.' || strcmp(d->d_name, own) == 0) continue;
        unsigned long long open = ~blocked_by(d->d_name);
        for (int signal = 1; signal < 32; signal++) /* 9 and 19, SIGKILL and SIGSTOP, cannot be blocked */
            if (signal != 9 && signal != 19 && (open >> (signal - 1) & 1)) fail_msg("signal %d is not blocked", signal);
        helpers++;
    }
    (void)closedir(threads);
    assert_int_equal(helpers, HELPERS);
    sosmc_free(engine);
}

/* ---------------------------------------------------------------------------- the host's arithmetic */

typedef struct {
    const char *name;
    int rounding;
    unsigned flushing; /* bits of MXCSR: flush to zero, denormals are zero */
} arithmetic;
static const arithmetic HOSTS[] = {{"as usual", FE_TONEAREST, 0},     {"upward", FE_UPWARD, 0},
                                   {"downward", FE_DOWNWARD, 0},      {"towards zero", FE_TOWARDZERO, 0},
                                   {"flushed", FE_TONEAREST, 0x8040}, {"flushed, upward", FE_UPWARD, 0x8040}};
enum { HOST_COUNT = sizeof HOSTS / sizeof *HOSTS };

static void set_arithmetic(const arithmetic *a)
{
    (void)fesetround(a->rounding);
#if defined(__x86_64__)
    _mm_setcsr((_mm_getcsr() & ~0x8040u) | a->flushing);
#endif
}
static void assert_arithmetic(const arithmetic *a)
{
    int rounding = fegetround();
#if defined(__x86_64__)
    unsigned flushing = _mm_getcsr() & 0x8040;
#else
    unsigned flushing = a->flushing;
#endif
    set_arithmetic(&HOSTS[0]);
    if (rounding != a->rounding || flushing != a->flushing) fail_msg("%s: the host's arithmetic was changed", a->name);
    set_arithmetic(a);
}

/* Everything that is computed with the host's arithmetic set, as numbers that must not depend on it. */
enum { POINTS = 40, NUMBERS = 6 + 2 * POINTS, WIDTH = 12, HEIGHT = 10 };

static void compute(int threads, const arithmetic *a, double out[NUMBERS])
{
    static double x[POINTS * DIM], picture[WIDTH * HEIGHT], u[WIDTH * HEIGHT];
    sosmc_problem p;
    sosmc_settings cfg;
    sosmc_judgement j;
    sosmc_check_report report;
    sosmc_step_check step;
    for (int i = 0; i < POINTS * DIM; i++) x[i] = (i * 37 % 101) / 25.0 - 2;
    for (int i = 0; i < WIDTH * HEIGHT; i++) picture[i] = i * 29 % 97;
    fill(&p, &cfg, threads);
    memset(out, 0, NUMBERS * sizeof *out);
    in_energy = NULL;
    set_arithmetic(a);
    sosmc_status made = sosmc_create(&engine, &p, &cfg);
    assert_arithmetic(a);
    sosmc_status ran = sosmc_run(engine, 80, NULL, NULL);
    assert_arithmetic(a);
    uint64_t hash = sosmc_hash(engine);
    sosmc_status judged = sosmc_judge(engine, NULL, &j, NULL, 0);
    assert_arithmetic(a);
    sosmc_status stepped = sosmc_check_step(&p, &cfg, &step);
    assert_arithmetic(a);
    sosmc_status checked = sosmc_check(&p, &cfg, NULL, &report);
    assert_arithmetic(a);
    sosmc_status evaluated = sosmc_energies(&p.model, start, POINTS, x, threads, out + 6);
    assert_arithmetic(a);
    double *scratch = malloc(sosmc_tv_prox_scratch(HEIGHT, WIDTH) * sizeof(double));
    sosmc_tv_settings tv = {.rows = HEIGHT, .columns = WIDTH, .tolerance = 1e-6};
    sosmc_status proximal = scratch ? sosmc_tv_prox(&tv, 3, picture, u, scratch, NULL) : SOSMC_ENOMEM;
    assert_arithmetic(a);
    free(scratch);
    set_arithmetic(&HOSTS[0]);
    assert_int_equal(made, SOSMC_OK);
    assert_int_equal(ran, SOSMC_OK);
    assert_int_equal(judged, SOSMC_OK);
    assert_int_equal(stepped, SOSMC_OK);
    assert_int_equal(checked, SOSMC_OK);
    assert_int_equal(evaluated, SOSMC_OK);
    assert_int_equal(proximal, SOSMC_OK);
    memcpy(out, &hash, sizeof hash);
    out[1] = j.log_z.value;
    out[2] = j.log_z.error;
    out[3] = step.curvature;
    out[4] = report.item[0].value;
    out[5] = report.item[2].value;
    memcpy(out + 6 + POINTS, u, POINTS * sizeof(double));
    sosmc_judgement_free(&j);
    sosmc_free(engine);
}

static void the_hosts_arithmetic_changes_nothing_and_stays(void **state)
{
    double right[NUMBERS], now[NUMBERS], x[DIM * 8] = {-2}, U[8];
    compute(1, &HOSTS[0], right);
    assert_true(isfinite(right[1]));
    x[8] = 37 / 25.0 - 2; /* the first of the points, evaluated by hand: subnormal numbers are kept */
    (void)guest_energy(NULL, start, &(sosmc_batch){.x = x, .dim = DIM, .n = 1, .ld = 8}, U, NULL);
    assert_true(right[6] == U[0]);
    for (int a = 0; a < HOST_COUNT; a++)
        for (int threads = 1; threads <= 4; threads += 3) {
            compute(threads, &HOSTS[a], now);
            for (int i = 0; i < NUMBERS; i++)
                if (memcmp(&now[i], &right[i], sizeof *now) != 0)
                    fail_msg("%s, %d threads: number %d is %a and not %a", HOSTS[a].name, threads, i, now[i], right[i]);
        }
}

/* Set after the engine was created, whose helpers then have another environment than the caller. */
static void arithmetic_set_between_steps_changes_nothing(void **state)
{
    uint64_t right = undisturbed(FAR);
    for (int a = 0; a < HOST_COUNT; a++)
        for (int threads = 1; threads <= 4; threads++) {
            open_engine(threads);
            expect_steps(engine, 2);
            set_arithmetic(&HOSTS[a]);
            sosmc_status status = sosmc_run(engine, FAR - 2, NULL, NULL);
            assert_arithmetic(&HOSTS[a]);
            set_arithmetic(&HOSTS[0]);
            assert_int_equal(status, SOSMC_OK);
            assert_int_equal(sosmc_hash(engine), right);
            sosmc_free(engine);
        }
}

/* A callback that leaves another rounding mode behind does not reach beyond its own batch. */
static void round_upward(void) { (void)fesetround(FE_UPWARD); }
static void round_upward_in_two(void)
{
    static _Thread_local int odd;
    if ((odd = !odd)) (void)fesetround(FE_UPWARD);
}
static void a_callback_that_rounds_upward_is_repeatable(void **state)
{
    uint64_t hash[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        open_engine(1 + 3 * i);
        in_energy = round_upward;
        expect_steps(engine, FAR);
        hash[i] = sosmc_hash(engine);
        assert_int_equal(fegetround(), FE_TONEAREST);
        sosmc_free(engine);
    }
    assert_int_equal(hash[0], hash[1]);
    open_engine(2);
    in_energy = round_upward_in_two;
    expect_steps(engine, FAR);
    assert_int_equal(fegetround(), FE_TONEAREST);
    sosmc_free(engine);
}

/* Exceptions that the host has unmasked, and flags that it will ask for, are the host's. */
static void exceptions_are_the_hosts(void **state)
{
    open_engine(2);
    (void)feclearexcept(FE_ALL_EXCEPT);
    (void)feraiseexcept(FE_OVERFLOW);
    int raised = fetestexcept(FE_ALL_EXCEPT);
    expect_steps(engine, FAR);
    assert_int_equal(fetestexcept(FE_ALL_EXCEPT), raised);
    (void)feclearexcept(FE_ALL_EXCEPT);
    sosmc_free(engine);
}

/* ---------------------------------------------------------------------------- ranks that were given different runs */

enum { SIZE = 3, DIFFERENCES = 12 };
typedef struct {
    int which;
    sosmc_status status[SIZE];
    char message[SIZE][300];
} ranks_run;

static const char *differ(int which, sosmc_problem *p, sosmc_settings *cfg)
{
    static const double elsewhere[DIM] = {0.5, 0.25};
    switch (which) {
    case 0: cfg->seed++; return "seed";
    case 1: p->theta0 = elsewhere; return "theta0";
    case 2: cfg->optimiser.lr *= 2; return "optimiser";
    case 3: cfg->optimiser = sosmc_sgd(0.05); return "optimiser";
    case 4: cfg->kernel.h *= 2; return "kernel";
    case 5: cfg->scheme.ess_min = 0.1; return "scheme";
    case 6: cfg->scheme.particles = cfg->scheme.pool = PARTICLES + 1; return "scheme";
    case 7: p->objective.scale = 2; return "objective";
    case 8: cfg->schedule.warmup = 3; return "schedule";
    case 9: cfg->adapt[1] = (sosmc_adapt){.threshold = 0.5, .factor = 2, .min = 0.01, .max = 1}; return "adapt";
    case 10: cfg->average = 0.5; return "average";
    default: p->init.exact = 1; return "init";
    }
}

static void one_rank(void *ctx, const sosmc_comm *comm)
{
    ranks_run *r = ctx;
    sosmc_problem p;
    sosmc_settings cfg;
    sosmc *s = NULL;
    fill(&p, &cfg, 1);
    cfg.comm = *comm;
    if (comm->rank == 1) (void)differ(r->which, &p, &cfg);
    r->status[comm->rank] = sosmc_create(&s, &p, &cfg);
    if (r->status[comm->rank] == SOSMC_OK) r->status[comm->rank] = sosmc_run(s, 3, NULL, NULL);
    (void)snprintf(r->message[comm->rank], sizeof r->message[0], "%s", sosmc_message(s));
    sosmc_free(s);
}

static void ranks_with_different_runs_are_refused(void **state)
{
    in_energy = NULL;
    for (int which = 0; which < DIFFERENCES; which++) {
        ranks_run r = {.which = which};
        sosmc_problem p;
        sosmc_settings cfg;
        char words[60];
        fill(&p, &cfg, 1);
        (void)snprintf(words, sizeof words, "rank 1 has another %s", differ(which, &p, &cfg));
        assert_int_equal(fake_run(SIZE, one_rank, &r, NULL, NULL), 0);
        for (int rank = 0; rank < SIZE; rank++) {
            assert_int_equal(r.status[rank], SOSMC_EINVAL);
            assert_contains(r.message[rank], words);
        }
    }
}

int main(void)
{
    main_thread = pthread_self();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(use_inside_a_callback_is_refused),
        cmocka_unit_test(a_step_inside_a_judgement_is_refused),
        cmocka_unit_test(observers_may_use_the_engine),
        cmocka_unit_test(an_engine_that_was_left_has_failed),
        cmocka_unit_test(a_creation_that_was_left_has_failed),
        cmocka_unit_test(a_forked_child_may_free),
        cmocka_unit_test(helpers_block_all_signals),
        cmocka_unit_test(the_hosts_arithmetic_changes_nothing_and_stays),
        cmocka_unit_test(arithmetic_set_between_steps_changes_nothing),
        cmocka_unit_test(a_callback_that_rounds_upward_is_repeatable),
        cmocka_unit_test(exceptions_are_the_hosts),
        cmocka_unit_test(ranks_with_different_runs_are_refused),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(checkpoint.bytes);
    (void)remove("guest.checkpoint");
    (void)remove("guest.checkpoint.previous");
    return failed;
}
