/* interrupt.c: what a signal asks for, in globals, because a signal handler has nowhere else to write.
 *
 * The first SIGINT, SIGTERM, SIGHUP or SIGXCPU asks for an end after the iteration under way; all of them end with exit code 130,
 * and the next SIGINT, SIGTERM or SIGHUP ends at once. (The kernel sends SIGXCPU every second, so that one never ends at once.)
 * SIGUSR1 asks for a checkpoint. A signal that the caller ignores, as nohup and the shell's background jobs do, stays ignored. */
#include "interrupt.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "files/child.h"

static volatile sig_atomic_t requested, saves;

static void note(int signal)
{
    if (requested && signal != SIGXCPU) {
        child_end_all();
        _exit(130);
    }
    requested = signal;
}

static void note_save(int signal)
{
    (void)signal;
    saves++;
}

static void take(int signal, void (*handler)(int), int flags)
{
    struct sigaction before, action = {.sa_handler = handler, .sa_flags = flags};
    (void)sigemptyset(&action.sa_mask);
    if (sigaction(signal, NULL, &before) == 0 && before.sa_handler == SIG_IGN) return;
    (void)sigaction(signal, &action, NULL);
}

void interrupt_catch(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGXCPU};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) take(ends[i], note, 0);
    take(SIGUSR1, note_save, SA_RESTART);
    /* A run goes on when the reader of its output has exited; writing then returns an error. */
    take(SIGPIPE, SIG_IGN, 0);
    take(SIGXFSZ, SIG_IGN, 0); /* a file beyond the size limit makes write() fail, which is reported */
    child_stop_with(interrupt_requested);
}

int interrupt_requested(void) { return requested; }

int interrupt_saves(void) { return saves; }
