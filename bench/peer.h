/* peer.h: runs the program of a peer and reads the timings it prints. A peer is a child process on the cores of this one;
 * it has answered only if it ended with status 0, so half an answer is never taken for a timing. */
#ifndef SOSMC_BENCH_PEER_H
#define SOSMC_BENCH_PEER_H

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* The interpreter of the peers: SOSMC_PEER_PYTHON, or the one that the README installs. */
static inline const char *peer_interpreter(void)
{
    const char *named = getenv("SOSMC_PEER_PYTHON");
    return named && *named ? named : "build/peers/bin/python";
}

/* What the program argv[0] prints, ended by a zero; what does not fit is read and dropped, because a full pipe would
 * stop the child. argv ends with NULL. 0: it ended with status 0. */
static inline int peer_output(const char *const *argv, char *text, size_t room)
{
    char spill[256] = "";
    size_t at = 0;
    int ends[2], status = 0;
    text[0] = 0;
    if (pipe(ends)) return -1;
    pid_t child = fork();
    if (child == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)close(ends[0]);
        (void)close(ends[1]);
        (void)execv(argv[0], (char *const *)argv);
        _exit(127);
    }
    (void)close(ends[1]);
    while (child > 0) {
        int full = at + 1 >= room;
        ssize_t got = read(ends[0], full ? spill : text + at, full ? sizeof spill : room - 1 - at);
        if (got <= 0) break;
        if (!full) at += (size_t)got;
    }
    text[at] = 0;
    (void)close(ends[0]);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0 ? 0 : -1;
}

/* The value of the line `name value`; NaN when there is none or it is not positive. */
static inline double peer_value(const char *text, const char *name)
{
    size_t n = strlen(name);
    for (const char *line = text; line && *line;) {
        if (strncmp(line, name, n) == 0 && line[n] == ' ') {
            double value = strtod(line + n, NULL);
            return value > 0 && isfinite(value) ? value : NAN;
        }
        line = strchr(line, '\n');
        if (line) line++;
    }
    return NAN;
}

/* ---------------------------------------------------------------------------- tuning a network */

/* What is compared: the name of a timing, our seconds for it, and the least that the machine allows for our arithmetic; NaN
 * where ours was not measured. The ratio of a peer to that least is what no program with our arithmetic can exceed. */
typedef struct {
    const char *name;
    double ours, least;
} peer_row;

static inline void peer_tell_arrangement(const char *name, const char *arrangement, const char *suffix, int threads,
                                         const char *text, const peer_row *rows, int count)
{
    char key[64];
    printf("  %-8s %-14s %d thread%s", name, arrangement, threads, threads > 1 ? "s" : " ");
    for (int i = 0; i < count; i++) {
        (void)snprintf(key, sizeof key, "%s%s", rows[i].name, suffix);
        double theirs = peer_value(text, key);
        printf("  %8.2f ms ", 1e3 * theirs);
        if (isnan(rows[i].ours))
            printf("                    ");
        else
            printf("(%5.2fx of %5.2fx)", theirs / rows[i].ours, theirs / rows[i].least);
    }
    printf("\n");
}

/* Runs one peer and prints its timings beside ours. `passes apart`: all particles at once and every pass by itself, as the
 * authors have it; `one batch`: the same as the peer's compiler makes it, which may share a forward pass; `tuned by hand`:
 * the fastest of several arrangements (tiles that stay in cache, particles dealt out to cores, backward passes or
 * convolutions written out). */
static inline void peer_compare(const char *name, const char *python, const char *script, int threads,
                                const peer_row *rows, int count)
{
    char text[16384], number[16];
    (void)snprintf(number, sizeof number, "%d", threads);
    const char *const argv[] = {python, script, "--threads", number, NULL};
    if (peer_output(argv, text, sizeof text)) {
        printf("  %-8s %d thread%s   not measured: it did not run (see the README on peers)\n", name, threads,
               threads > 1 ? "s" : " ");
        return;
    }
    peer_tell_arrangement(name, "passes apart", "_apart", threads, text, rows, count);
    peer_tell_arrangement(name, "one batch", "_whole", threads, text, rows, count);
    peer_tell_arrangement(name, "tuned by hand", "", threads, text, rows, count);
}

/* JAX and PyTorch, whose scripts are named without their ends: bench/peers/mlp for mlp_jax.py and mlp_torch.py. */
static inline void peer_compare_both(const char *script, int threads, const peer_row *rows, int count)
{
    char path[256];
    const char *torch = getenv("SOSMC_TORCH_PYTHON");
    (void)fflush(stdout);
    (void)snprintf(path, sizeof path, "%s_jax.py", script);
    peer_compare("JAX", peer_interpreter(), path, threads, rows, count);
    (void)fflush(stdout);
    (void)snprintf(path, sizeof path, "%s_torch.py", script);
    peer_compare("PyTorch", torch && *torch ? torch : "/usr/bin/python3", path, threads, rows, count);
}

#endif
