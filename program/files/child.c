/* child.c: see child.h. Invariant: every child that runs is in the list, so that a signal handler finds it. */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

enum { MOST = 64 };
static atomic_int running[MOST]; /* process ids; 0: none */
static int (*stop_asked)(void);

void child_note(pid_t pid)
{
    for (int i = 0; i < MOST; i++) {
        int none = 0;
        if (atomic_compare_exchange_strong(&running[i], &none, (int)pid)) return;
    }
}

void child_forget(pid_t pid)
{
    for (int i = 0; i < MOST; i++) {
        int it = (int)pid;
        if (atomic_compare_exchange_strong(&running[i], &it, 0)) return;
    }
}

/* The child leads a group, unless it was not fast enough to make one. */
static void end(pid_t pid)
{
    if (kill(-pid, SIGKILL)) (void)kill(pid, SIGKILL);
}

void child_end_all(void)
{
    for (int i = 0; i < MOST; i++) {
        int pid = atomic_load(&running[i]);
        if (pid > 0) end(pid);
    }
}

void child_stop_with(int (*asked)(void)) { stop_asked = asked; }

int child_must_stop(void) { return stop_asked && stop_asked(); }

/* ---------------------------------------------------------------------------- starting */

/* A group of its own, so that what it starts itself can be ended with it; and it dies when its parent is killed. */
void child_begin(pid_t parent)
{
    (void)setpgid(0, 0);
#ifdef __linux__
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
#else
    (void)parent;
#endif
}

/* In the child. The number of the error goes to `told`, which a successful exec closes. Only calls that are safe here. */
static void become(const char *const argv[], const int stream[3], int told, pid_t parent)
{
    child_begin(parent);
    int failed = 0;
    for (int i = 0; i < 3; i++) failed |= dup2(stream[i], i) < 0;
    if (!failed) (void)execvp(argv[0], (char *const *)(uintptr_t)argv);
    int number = errno;
    (void)!write(told, &number, sizeof number);
    _exit(127);
}

int child_start(pid_t *pid, const char *const argv[], int in, int out, int err)
{
    const int stream[3] = {in, out, err};
    int ends[2], number = 0;
    *pid = 0;
    if (pipe(ends)) return errno;
    for (int i = 0; i < 2; i++) (void)fcntl(ends[i], F_SETFD, FD_CLOEXEC);
    pid_t parent = getpid(), child = fork();
    if (child == 0) become(argv, stream, ends[1], parent);
    if (child < 0) number = errno;
    if (child > 0) child_note(child);
    (void)close(ends[1]);
    ssize_t got = 0;
    do got = child > 0 ? read(ends[0], &number, sizeof number) : 0;
    while (got < 0 && errno == EINTR);
    (void)close(ends[0]);
    if (child > 0 && got == (ssize_t)sizeof number) { /* it could not become the program */
        (void)waitpid(child, NULL, 0);
        child_forget(child);
        return number ? number : EIO;
    }
    if (child < 0) return number;
    *pid = child;
    return 0;
}

/* ---------------------------------------------------------------------------- waiting */

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int child_wait(pid_t pid, double seconds)
{
    struct timespec pause = {.tv_nsec = 500000};
    int status = 0, result = 0;
    double begun = now();
    for (;;) {
        pid_t got = waitpid(pid, &status, result ? 0 : WNOHANG);
        if (got == pid || (got < 0 && errno != EINTR)) {
            child_forget(pid);
            if (result) return result;
            if (got < 0) return CHILD_LOST;
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        if (got < 0) continue;
        result = child_must_stop() ? CHILD_STOPPED : now() - begun > seconds ? CHILD_LATE : 0;
        if (result) {
            end(pid);
            continue;
        }
        (void)nanosleep(&pause, NULL);
        if (pause.tv_nsec < 10000000) pause.tv_nsec += pause.tv_nsec / 4; /* short waits at first */
    }
}
