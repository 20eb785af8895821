/* record.c: see record.h. Recording also checks that saving changes nothing and that every iteration changes the state. */
#include "expect_engine.h"
#include "record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void note(const sosmc *s, record *r, int k)
{
    r->hash[k] = sosmc_hash(s);
    r->info[k] = *sosmc_last(s);
    memcpy(r->theta[k], sosmc_theta(s), sizeof r->theta[k]);
    memcpy(r->average[k], sosmc_theta_average(s), sizeof r->average[k]);
}

record *record_run(const engine_case *w)
{
    record *r = calloc(1, sizeof *r);
    sosmc *s = engine_case_open(*w);
    assert_non_null(r);
    for (int k = 0; k <= K; k++) {
        note(s, r, k);
        memory_must_save(s, &r->at[k]);
        assert_true(sosmc_hash(s) == r->hash[k]); /* saving changes nothing */
        for (int q = 0; q < k; q++) assert_true(r->hash[q] != r->hash[k]);
        if (k < K) expect_steps(s, 1);
    }
    sosmc_free(s);
    return r;
}

void record_free(record *r)
{
    for (int k = 0; k <= K; k++) free(r->at[k].bytes);
    free(r);
}

int same_number(double a, double b)
{
    uint64_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    return x == y || (isnan(a) && isnan(b));
}

static int same_info(const sosmc_info *a, const sosmc_info *b)
{
    return a->iteration == b->iteration && a->updates == b->updates && a->gradient_updates == b->gradient_updates &&
           same_number(a->ess, b->ess) && same_number(a->mean_score, b->mean_score) &&
           same_number(a->mean_energy, b->mean_energy) && same_number(a->loss, b->loss) && same_number(a->kl, b->kl) &&
           same_number(a->logz, b->logz) && same_number(a->grad_norm, b->grad_norm) &&
           same_number(a->accept, b->accept) && same_number(a->h, b->h) && same_number(a->rate, b->rate) &&
           a->resampled == b->resampled && a->nonfinite == b->nonfinite && a->retries == b->retries;
}

void record_follow(sosmc *s, const engine_case *w, const record *r, int k, int bytes_too)
{
    memory m = {.used = 0};
    assert_int_equal(sosmc_iteration(s), k);
    if (!same_info(sosmc_last(s), &r->info[k])) fail_msg("%s: another last info after %d iterations", w->name, k);
    for (;; k++) {
        if (sosmc_hash(s) != r->hash[k]) fail_msg("%s: another state after %d iterations", w->name, k);
        assert_memory_equal(sosmc_theta(s), r->theta[k], sizeof r->theta[k]);
        assert_memory_equal(sosmc_theta_average(s), r->average[k], sizeof r->average[k]);
        if (bytes_too) {
            memory_must_save(s, &m);
            if (!memory_same(&m, &r->at[k])) fail_msg("%s: other bytes after %d iterations", w->name, k);
        }
        if (k == K) break;
        if (sosmc_step(s) != SOSMC_OK) fail_msg("%s: %s", w->name, sosmc_message(s));
        if (!same_info(sosmc_last(s), &r->info[k + 1])) fail_msg("%s: another info of iteration %d", w->name, k);
    }
    free(m.bytes);
}
