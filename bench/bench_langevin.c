/* bench_langevin.c: one outer iteration of the Langevin experiment, next to the same iteration in jitted JAX on the same two
 * cores and to what the machine allows.
 *
 * Setting C (six modes, hard gate) with Adam, beta = 0.001 and a fresh reference batch in every iteration, in the order of
 * the published programs. Run it from the root of the source tree:
 *
 *     build/bench/langevin [SECONDS]          how long the peer is measured each time; 4 unless told
 *
 * The peer lives in build/peers (SOSMC_PEER_PYTHON names another interpreter). Ours, peer and ours again are measured in
 * turn and the best is taken of each, because other work on the machine only ever adds time. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "langevin/langevin_cells.h"
#include "limit.h"
#include "peer.h"

enum { PARTICLES = 10000, REFERENCE = 5000, CORES = 2, PATH_ROOM = 4096 };
static const double target_ratio = 15, target_ns = 40, target_start = 0.020;
static const char *const advice =
    "python3 -m venv build/peers && build/peers/bin/pip install -r bench/peers/requirements.txt";
static const char *const script = "bench/peers/langevin_jax.py";

/* The peer's names; NULL: it has no such method. */
static const char *const peer_names[LANGEVIN_METHODS] = {
    [IMPDIFF] = "impdiff", [SOSMC_ULA] = "sosmc-ula", [SOSMC_MALA] = "sosmc-mala", [SOSMC_RWM] = "sosmc-rwm"};

/* This process and its children stay on the first two cores that are allowed to it. */
static int pin(void)
{
    cpu_set_t allowed, chosen;
    int found = 0;
    CPU_ZERO(&chosen);
    if (sched_getaffinity(0, sizeof allowed, &allowed)) return 0;
    for (int i = 0; i < CPU_SETSIZE && found < CORES; i++)
        if (CPU_ISSET((size_t)i, &allowed)) {
            CPU_SET((size_t)i, &chosen);
            found++;
        }
    (void)sched_setaffinity(0, sizeof chosen, &chosen);
    return found;
}

static langevin_setting settings[LANGEVIN_SETTINGS];

/* Seconds per iteration by its best tenth, as the peer reports it; the best of `repeats` runs. */
static double ours(langevin_method method, int particles, int reference, int threads, int repeats)
{
    enum { LEAST = 12 };
    static langevin_result r;
    const langevin_setting *s = &settings[2];
    langevin_run run = {.setting = s,
                        .method = method,
                        .adam = 1,
                        .beta = s->beta,
                        .particles = particles,
                        .reference = reference,
                        .threads = threads};
    double best = INFINITY;
    run.iterations = (method == SOUL ? 500000 : 2000000) / particles;
    if (run.iterations > LANGEVIN_POINTS) run.iterations = LANGEVIN_POINTS; /* the times of all of them are kept */
    if (run.iterations < LEAST) run.iterations = LEAST;
    for (int k = 0; k < repeats; k++) {
        char error[256];
        run.seed = (uint64_t)k;
        if (langevin_execute(&run, NAN, &r, error, sizeof error)) {
            fprintf(stderr, "%s\n", error);
            exit(1);
        }
        best = fmin(best, langevin_best_tenth(&r));
    }
    return best;
}

/* ---------------------------------------------------------------------------- the peer */

typedef struct {
    double best, median; /* seconds per iteration: best tenth, median; NaN: no answer */
} peer;

static peer ask_peer(const char *method, double seconds)
{
    char n[32], batch[32], time[32], text[256];
    (void)snprintf(n, sizeof n, "%d", PARTICLES);
    (void)snprintf(batch, sizeof batch, "%d", REFERENCE);
    (void)snprintf(time, sizeof time, "%g", seconds);
    const char *argv[] = {peer_interpreter(), script, method, n, batch, time, NULL};
    int answered = peer_output(argv, text, sizeof text) == 0;
    char *end = text;
    double best = strtod(text, &end), median = end != text ? strtod(end, NULL) : 0;
    return answered && best > 0 && median > 0 ? (peer){best, median} : (peer){NAN, NAN};
}

/* ---------------------------------------------------------------------------- start-up */

/* Seconds from fork to exit of `sosmc --version`, the best of 20; NaN when it cannot be run. The program stands above the
 * folder of this one. */
static double start_up(void)
{
    enum { REPEATS = 20 };
    char path[PATH_ROOM];
    double best = INFINITY;
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0) return NAN;
    path[n] = 0;
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(path, '/');
        if (!slash) return NAN;
        *slash = 0;
    }
    if (strlen(path) + sizeof "/sosmc" > sizeof path) return NAN;
    memcpy(path + strlen(path), "/sosmc", sizeof "/sosmc");
    for (int k = 0; k < REPEATS; k++) {
        int status = 0;
        double begin = limit_now();
        pid_t child = fork();
        if (child < 0) return NAN;
        if (child == 0) {
            int nowhere = open("/dev/null", O_WRONLY);
            if (nowhere < 0 || dup2(nowhere, STDOUT_FILENO) < 0) _exit(127);
            (void)execl(path, path, "--version", (char *)NULL);
            _exit(127);
        }
        (void)waitpid(child, &status, 0);
        if (status) return NAN;
        best = fmin(best, limit_now() - begin);
    }
    return best;
}

/* ---------------------------------------------------------------------------- */

static const char *met(int yes) { return yes ? "met" : "missed"; }

typedef struct {
    double one, two; /* seconds per iteration with one and two threads */
    peer jax;
} row;

static row measure(langevin_method m, int ask, double seconds, limit *l)
{
    enum { REPEATS = 3 };
    int rounds = m == IMPDIFF || m == SOSMC_ULA ? 2 : 1; /* those with targets are measured longer */
    row r = {.one = INFINITY, .two = INFINITY, .jax = {INFINITY, INFINITY}};
    for (int round = 0; round <= rounds; round++) { /* ours, peer, ours, ... */
        limit now = measure_limit();
        l->move = fmin(l->move, now.move);
        l->reference = fmin(l->reference, now.reference);
        r.one = fmin(r.one, ours(m, PARTICLES, REFERENCE, 1, REPEATS));
        r.two = fmin(r.two, ours(m, PARTICLES, REFERENCE, 2, REPEATS));
        if (!ask || round == rounds) continue;
        peer p = ask_peer(peer_names[m], seconds);
        r.jax.best = fmin(r.jax.best, p.best);
        r.jax.median = fmin(r.jax.median, p.median);
    }
    return r;
}

static void compare(double seconds)
{
    int have_peer = access(peer_interpreter(), X_OK) == 0 && access(script, R_OK) == 0;
    double to_ns = 1e9 / PARTICLES, worst_ns = 0, worst_ratio = INFINITY;
    row rows[LANGEVIN_METHODS];
    limit l = measure_limit();
    if (!have_peer) printf("no peer: from the root of the source tree, install it by\n    %s\n\n", advice);
    (void)fflush(stdout);
    for (int m = 0; m < LANGEVIN_METHODS; m++)
        rows[m] = measure((langevin_method)m, have_peer && peer_names[m], seconds, &l);
    double reference = l.reference * REFERENCE / PARTICLES, floor_ns = l.move + reference;
    printf(
        "N = %d, reference batch %d, Adam, beta = 0.001; ns per particle and outer iteration (SOUL: per chain step)\n",
        PARTICLES, REFERENCE);
    printf("limit: move and weight %.2f, reference batch %.2f, together %.2f\n\n", l.move, reference, floor_ns);
    printf("%-11s %10s %10s %10s %9s", "method", "1 thread", "of limit", "2 threads", "speed-up");
    if (have_peer) printf(" %12s %12s %9s %12s", "JAX, best", "JAX, median", "ratio", "(1 thread)");
    printf("\n");
    for (int m = 0; m < LANGEVIN_METHODS; m++) {
        const row *r = &rows[m];
        double ratio = r->jax.best / fmin(r->one, r->two);
        printf("%-11s %10.2f", langevin_method_names[m], r->one * to_ns);
        if (m == SOUL)
            printf(" %10s", "-"); /* a chain cannot use the lanes the limit counts on */
        else
            printf(" %9.0f%%", 100 * floor_ns / (r->one * to_ns));
        printf(" %10.2f %8.2fx", r->two * to_ns, r->one / r->two);
        if (isfinite(ratio))
            printf(" %12.1f %12.1f %8.1fx %11.1fx", r->jax.best * to_ns, r->jax.median * to_ns, ratio,
                   r->jax.best / r->one);
        else if (have_peer)
            printf(" %12s", peer_names[m] ? "no answer" : "-");
        printf("\n");
        if (m != IMPDIFF && m != SOSMC_ULA) continue;
        worst_ns = fmax(worst_ns, r->one * to_ns);
        worst_ratio = fmin(worst_ratio, ratio);
    }
    printf("\ntargets for SOSMC-ULA and ImpDiff\n");
    printf("  at most %.0f ns on one core:                     %.1f, %s\n", target_ns, worst_ns,
           met(worst_ns <= target_ns));
    printf("  at least %.0fx the peer on the same two cores:   ", target_ratio);
    if (isfinite(worst_ratio))
        printf("%.1fx, %s\n\n", worst_ratio, met(worst_ratio >= target_ratio));
    else
        printf("not measured\n\n");
}

static void over_sizes(void)
{
    static const int sizes[] = {1000, 10000, 100000, 1000000};
    static const langevin_method methods[] = {SOSMC_ULA, IMPDIFF};
    printf("over N, reference batch N/2\n%10s %12s %10s %10s %10s\n", "particles", "method", "1 thread", "2 threads",
           "speed-up");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t k = 0; k < sizeof methods / sizeof *methods; k++) {
            double one = ours(methods[k], sizes[i], sizes[i] / 2, 1, 3),
                   two = ours(methods[k], sizes[i], sizes[i] / 2, 2, 3);
            printf("%10d %12s %10.2f %10.2f %9.2fx\n", sizes[i], langevin_method_names[methods[k]],
                   one * 1e9 / sizes[i], two * 1e9 / sizes[i], one / two);
        }
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 4;
    if (!(seconds > 0)) {
        fprintf(stderr, "usage: %s [SECONDS]\n", argv[0]);
        return 2;
    }
    char error[512];
    if (langevin_open(settings, error, sizeof error)) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    int cores = pin();
    double load = 0;
    printf("vector level %s, %d core%s\n", sosmc_simd_name(sosmc_simd_best()), cores, cores == 1 ? "" : "s");
    if (getloadavg(&load, 1) == 1 && load > 0.5)
        printf("note: other work is running here (load %.1f); two threads that wait for each other suffer most\n",
               load);
    printf("\n");
    compare(seconds);
    over_sizes();
    (void)fflush(stdout);
    double start = start_up();
    if (isnan(start))
        printf("\nstart-up: the program sosmc was not found beside the folder of this one\n");
    else
        printf("\nstart-up (sosmc --version): %.1f ms (target: at most %.0f): %s\n", 1e3 * start, 1e3 * target_start,
               met(start <= target_start));
    langevin_close(settings);
    return 0;
}
