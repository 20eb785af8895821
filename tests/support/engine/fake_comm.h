/* fake_comm.h: a communicator with several ranks inside one process, each rank a thread.
 *
 * A verb that cannot succeed on every rank fails on every rank, and nobody waits for ever: a rank that is told to fail,
 * a rank whose function has returned, and verbs or sizes that do not fit together all break the communicator for good.
 * The ranks' functions must not use cmocka's assertions, which may only be used on the main thread: they note what they
 * see, and the caller of fake_run looks at it afterwards. */
#ifndef SOSMC_TESTS_FAKE_COMM_H
#define SOSMC_TESTS_FAKE_COMM_H

#include <sosmc/sosmc.h>

typedef enum { FAKE_ALLGATHER, FAKE_EXCHANGE, FAKE_VERBS } fake_verb;

/* Rank `rank` fails at its call number `call` of `verb`, counted from 1; 0: never. */
typedef struct {
    int rank;
    fake_verb verb;
    int call;
} fake_fault;

/* What one rank does. `comm` is valid until the function returns. */
typedef void (*fake_rank)(void *ctx, const sosmc_comm *comm);

/* Runs `size` ranks and waits for them. fault may be NULL. calls, unless NULL, receives how often each verb was called on
 * rank 0. Returns non-zero when the threads could not be started. */
int fake_run(int size, fake_rank run, void *ctx, const fake_fault *fault, int calls[FAKE_VERBS]);

#endif
