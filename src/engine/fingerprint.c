/* fingerprint.c: whether all ranks were given the same run.
 *
 * Every rank computes theta for itself from sums that all of them share, so ranks with another seed, another theta or another optimiser
 * would go different ways, each with SOSMC_OK. Before the first iteration, and with a loaded state, they compare hashes of
 * what decides the run. Addresses differ between processes: of callbacks and data only the presence is compared. */
#include "engine_inside.h"

enum {
    SEED,
    MODEL,
    INITIAL_LAW,
    OBJECTIVE,
    SCHEME,
    KERNEL,
    ADAPT,
    OPTIMISER,
    SCHEDULE,
    POLICIES,
    THETA,
    REFERENCE,
    WORDS
};
static const char *const NAMES[WORDS] = {"seed",     "model",
                                         "init",     "objective",
                                         "scheme",   "kernel",
                                         "adapt",    "optimiser",
                                         "schedule", "average, on_nonfinite or on_collapse",
                                         "theta0",   "objective.theta_ref"};

#define MIX(which, ...)                                              \
    do {                                                             \
        const double mixed[] = {__VA_ARGS__};                        \
        word[which] = sosmc_i_mix(word[which], mixed, sizeof mixed); \
    } while (0)

static uint64_t mix_name(uint64_t word, const char *name)
{
    for (; *name; name++) {
        uint64_t letter = (unsigned char)*name;
        word = sosmc_i_mix(word, &letter, sizeof letter);
    }
    return word;
}

static void describe_problem(const sosmc *s, uint64_t word[WORDS])
{
    const sosmc_model *m = &s->p.model;
    const sosmc_objective *o = &s->p.objective;
    size_t dim = (size_t)m->dim_theta * sizeof(double);
    MIX(MODEL, m->dim_x, m->dim_theta, (double)m->work, (double)m->prep, m->tile, m->rounding, m->prepare != NULL,
        m->grad_theta != NULL, m->prox != NULL, (double)sosmc_i_bounds_hash(m));
    MIX(INITIAL_LAW, s->p.init.logpdf != NULL, s->p.init.exact, (double)s->p.init.rows, s->p.init.fixed);
    MIX(OBJECTIVE, o->a, o->b, o->kl, o->scale, o->H != NULL, o->penalty != NULL, o->energy2, o->score.eval != NULL,
        (double)o->ramp, o->batch, o->loss, o->data.logpdf != NULL, (double)o->data.rows, o->data.fixed);
    word[THETA] = sosmc_i_mix(word[THETA], s->now->theta, dim);
    if (o->theta_ref) word[REFERENCE] = sosmc_i_mix(word[REFERENCE], o->theta_ref, dim);
}

static void describe_settings(const sosmc *s, uint64_t word[WORDS])
{
    const sosmc_scheme *c = &s->cfg.scheme;
    const sosmc_kernel *k = &s->cfg.kernel;
    const sosmc_optimiser *o = &s->cfg.optimiser;
    const sosmc_schedule *d = &s->cfg.schedule;
    word[SEED] = sosmc_i_mix(word[SEED], &s->cfg.seed, sizeof s->cfg.seed);
    MIX(SCHEME, c->particles, c->pool, c->sweeps, c->keep, s->weighted, c->order, c->drift_at, c->refresh, c->ess_min,
        c->resampling, c->pool_rule);
    word[KERNEL] = mix_name(word[KERNEL], k->name);
    MIX(KERNEL, k->h, k->noise, k->spread, k->clamp, k->lambda, k->gradient_clip, k->mass, k->friction, k->leapfrog,
        k->invariant, k->no_weight, k->uses_gradient, k->uses_prox, k->metropolis, k->blind, k->aux, k->forward_at,
        k->backward_at, k->begin != NULL);
    for (int i = 0; i < 2; i++) {
        const sosmc_adapt *a = &s->cfg.adapt[i];
        MIX(ADAPT, a->threshold, a->factor, a->min, a->max, a->signal, a->target, a->before_move);
    }
    word[OPTIMISER] = mix_name(word[OPTIMISER], o->name);
    MIX(OPTIMISER, o->lr, o->momentum, o->beta1, o->beta2, o->eps, o->weight_decay, o->clip, o->low, o->high, o->noise,
        o->slots, o->map);
    MIX(SCHEDULE, d->kind, d->a, d->b, (double)d->warmup);
    MIX(POLICIES, s->cfg.average, (double)s->cfg.average_from, s->nonfinite, s->cfg.on_collapse);
}

/* The first rank, in rank order, with a word unlike rank 0's, and which word; -1: all are alike. */
static int find_other(const uint64_t *all, int size, int words, int *which)
{
    for (int r = 1; r < size; r++)
        for (*which = 0; *which < words; (*which)++)
            if (all[r * words + *which] != all[*which]) return r;
    return -1;
}

/* The packets hold more than WORDS numbers of every rank: a rank's share of a reduction is longer. */
static sosmc_status gather(sosmc *s, const uint64_t *word, int words, const uint64_t **all)
{
    memcpy(s->packet_out, word, (size_t)words * sizeof *word);
    *all = (const uint64_t *)s->packet_in;
    if (s->cfg.comm.allgather(s->cfg.comm.self, s->packet_out, (size_t)words * sizeof *word, s->packet_in) == 0)
        return SOSMC_OK;
    return sosmc_i_fail(s, SOSMC_ECOMM, "the communicator's allgather failed on rank %d", s->cfg.comm.rank);
}

sosmc_status sosmc_i_same_run(sosmc *s)
{
    uint64_t word[WORDS] = {0};
    const uint64_t *all;
    int which = 0;
    if (ranks(s) == 1) return SOSMC_OK;
    assert(s->packet_doubles >= (size_t)WORDS * (size_t)ranks(s));
    describe_problem(s, word);
    describe_settings(s, word);
    TRY(gather(s, word, WORDS, &all));
    int other = find_other(all, ranks(s), WORDS, &which);
    if (other < 0) return SOSMC_OK;
    return sosmc_i_fail(s, SOSMC_EINVAL,
                        "rank %d has another %s than rank 0; all ranks must be given the same problem and settings",
                        other, NAMES[which]);
}

sosmc_status sosmc_i_same_state(sosmc *s, uint64_t hash)
{
    const uint64_t *all;
    int which = 0;
    if (ranks(s) == 1) return SOSMC_OK;
    TRY(gather(s, &hash, 1, &all));
    int other = find_other(all, ranks(s), 1, &which);
    if (other < 0) return SOSMC_OK;
    return sosmc_i_fail(s, SOSMC_EINVAL,
                        "rank %d was given another checkpoint than rank 0; every rank must read the same bytes", other);
}
