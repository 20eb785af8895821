/* peer.h: runs the program of a peer and reads the timings it prints. A peer is a child process on the cores of this one;
 * it has answered only if it ended with status 0, so half an answer is never taken for a timing. */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include <math.h>
#include <stddef.h>
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

#endif
