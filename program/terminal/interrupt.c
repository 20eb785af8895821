/* interrupt.c: what a signal asks for, in a global, because a signal handler has nowhere else to write.
 *
 * The first SIGINT, SIGTERM or SIGHUP asks for an end after the iteration under way; all of them end with exit code 130. */
#include "interrupt.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static volatile sig_atomic_t requested;

static void note(int signal)
{
    if (requested && signal == SIGINT) _exit(130);
    requested = signal;
}

void interrupt_catch(void)
{
    struct sigaction action = {.sa_handler = note};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGHUP, &action, NULL);
    /* A run goes on when the reader of its output has exited; writing then returns an error. */
    action.sa_handler = SIG_IGN;
    (void)sigaction(SIGPIPE, &action, NULL);
    (void)sigaction(SIGXFSZ, &action, NULL); /* a file beyond the size limit makes write() fail, which is reported */
}

int interrupt_requested(void) { return requested; }
