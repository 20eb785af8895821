/* fake_comm.c: the two verbs over shared memory.
 *
 *     post what I send | barrier | copy what the others posted to me | barrier | return
 *
 * The second barrier keeps a rank from reusing its buffer while another still copies from it. A rank that has passed a
 * barrier reports success even when the communicator breaks at that moment: breaking happens only at the entry of a later
 * verb or after it, when all copies of this one are done. Invariant: whoever reads a slot is between the two barriers. */
#include "fake_comm.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* What a rank has posted. */
typedef struct {
    fake_verb verb;
    const char *send;
    size_t bytes;                          /* allgather */
    const size_t *send_bytes, *recv_bytes; /* exchange */
} slot;

typedef struct world world;
typedef struct {
    world *world;
    pthread_t id;
    int rank;
    int calls[FAKE_VERBS];
} member;

struct world {
    pthread_mutex_t lock;
    pthread_cond_t turn;
    int size, arrived, broken;
    unsigned generation;
    fake_rank run;
    void *ctx;
    fake_fault fault;
    slot *slots; /* one per rank */
};

static int break_up(world *w)
{
    pthread_mutex_lock(&w->lock);
    w->broken = 1;
    pthread_cond_broadcast(&w->turn);
    pthread_mutex_unlock(&w->lock);
    return -1;
}

static int barrier(world *w)
{
    pthread_mutex_lock(&w->lock);
    unsigned mine = w->generation;
    if (!w->broken && ++w->arrived == w->size) {
        w->arrived = 0;
        w->generation++;
        pthread_cond_broadcast(&w->turn);
    }
    while (w->generation == mine && !w->broken) pthread_cond_wait(&w->turn, &w->lock);
    int met = w->generation != mine;
    pthread_mutex_unlock(&w->lock);
    return met ? 0 : -1;
}

/* Every rank looks at all slots, so that all come to the same conclusion. */
static int fits(const world *w)
{
    for (int q = 0; q < w->size; q++) {
        const slot *a = &w->slots[q];
        if (a->verb != w->slots[0].verb) return 0;
        if (a->verb == FAKE_ALLGATHER && a->bytes != w->slots[0].bytes) return 0;
        for (int r = 0; a->verb == FAKE_EXCHANGE && r < w->size; r++)
            if (w->slots[r].verb == FAKE_EXCHANGE && a->send_bytes[r] != w->slots[r].recv_bytes[q]) return 0;
    }
    return 1;
}

static void copy(char *to, const char *from, size_t bytes)
{
    if (bytes) memcpy(to, from, bytes);
}

static void receive_all(const world *w, char *all)
{
    for (int q = 0; q < w->size; q++, all += w->slots[0].bytes) copy(all, w->slots[q].send, w->slots[q].bytes);
}

static void receive_mine(const world *w, int rank, char *recv)
{
    for (int q = 0; q < w->size; q++) {
        const slot *theirs = &w->slots[q];
        const char *from = theirs->send;
        for (int r = 0; r < rank; r++) from += theirs->send_bytes[r];
        copy(recv, from, theirs->send_bytes[rank]);
        recv += theirs->send_bytes[rank];
    }
}

static int perform(member *m, slot posted, void *recv)
{
    world *w = m->world;
    const fake_fault *f = &w->fault;
    m->calls[posted.verb]++;
    if (f->rank == m->rank && f->verb == posted.verb && f->call == m->calls[posted.verb]) return break_up(w);
    w->slots[m->rank] = posted;
    if (barrier(w)) return -1;
    int good = fits(w);
    if (good && posted.verb == FAKE_ALLGATHER) receive_all(w, recv);
    if (good && posted.verb == FAKE_EXCHANGE) receive_mine(w, m->rank, recv);
    if (barrier(w)) return -1;
    return good ? 0 : break_up(w);
}

static int allgather(void *self, const void *mine, size_t bytes, void *all)
{
    return perform(self, (slot){.verb = FAKE_ALLGATHER, .send = mine, .bytes = bytes}, all);
}

static int exchange(void *self, const size_t *send_bytes, const void *send, const size_t *recv_bytes, void *recv)
{
    return perform(
        self, (slot){.verb = FAKE_EXCHANGE, .send = send, .send_bytes = send_bytes, .recv_bytes = recv_bytes}, recv);
}

static void *rank_main(void *arg)
{
    member *m = arg;
    world *w = m->world;
    sosmc_comm comm = {.self = m, .rank = m->rank, .size = w->size, .allgather = allgather, .exchange = exchange};
    w->run(w->ctx, &comm);
    (void)break_up(w); /* nobody may wait for a rank that has left */
    return NULL;
}

/* Starts the ranks and waits for them; returns how many could be started. */
static int run_members(world *w, member *members)
{
    int started = 0;
    for (; started < w->size; started++) {
        member *m = &members[started];
        m->world = w;
        m->rank = started;
        if (pthread_create(&m->id, NULL, rank_main, m)) break;
    }
    if (started < w->size) (void)break_up(w);
    for (int r = 0; r < started; r++) pthread_join(members[r].id, NULL);
    return started;
}

int fake_run(int size, fake_rank run, void *ctx, const fake_fault *fault, int calls[FAKE_VERBS])
{
    world w = {.size = size, .run = run, .ctx = ctx, .fault = fault ? *fault : (fake_fault){.call = 0}};
    member *members = calloc((size_t)size, sizeof *members);
    int started = 0;
    w.slots = calloc((size_t)size, sizeof *w.slots);
    pthread_mutex_init(&w.lock, NULL);
    pthread_cond_init(&w.turn, NULL);
    if (members && w.slots) started = run_members(&w, members);
    for (int v = 0; calls && started && v < FAKE_VERBS; v++) calls[v] = members[0].calls[v];
    pthread_cond_destroy(&w.turn);
    pthread_mutex_destroy(&w.lock);
    free(w.slots);
    free(members);
    return started == size ? 0 : -1;
}
