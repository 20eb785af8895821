/* judgements.c: see judgements.h. */
#include "judgements.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

sosmc_judgement expect_judgement(const sosmc *s, const sosmc_judge_options *options)
{
    sosmc_judgement j;
    char message[400] = "";
    sosmc_status status = sosmc_judge(s, options, &j, message, sizeof message);
    if (status != SOSMC_OK) print_error("sosmc_judge: %s: %s\n", sosmc_status_name(status), message);
    assert_int_equal(status, SOSMC_OK);
    return j;
}

/* FNV-1a */
static void add(uint64_t *h, const void *bytes, size_t n)
{
    const unsigned char *b = bytes;
    for (size_t i = 0; i < n; i++) *h = (*h ^ b[i]) * 0x100000001b3u;
}

/* NaN is NaN, whatever its bits. */
static void add_number(uint64_t *h, double v)
{
    if (v != v)
        add(h, "NaN", 4);
    else
        add(h, &v, sizeof v);
}

static void add_numbers(uint64_t *h, int n, const double *v)
{
    for (int j = 0; v && j < n; j++) add_number(h, v[j]);
    if (!v) add(h, "none", 5);
}

static void add_text(uint64_t *h, const char *text)
{
    if (text) add(h, text, strlen(text) + 1);
}

static void add_with_error(uint64_t *h, const sosmc_number *v)
{
    add_number(h, v->value);
    add_number(h, v->error);
    add_text(h, v->why);
}

static void add_measured(uint64_t *h, const sosmc_measured *m)
{
    const double numbers[] = {m->newton,       m->newton_expected,    m->newton_limit,  m->newton_worst_step,
                              m->bound,        m->newton_worst_error, m->mobility,      m->step,
                              m->step_bound,   m->first_ess,          m->first_khat,    m->score_spread,
                              m->pass_arrived, m->pass_survivors,     m->pass_khat,     m->fresh_step,
                              m->fresh_error,  m->fresh_limit,        m->fresh_worth,   m->loss_unit,
                              m->imprecise,    m->gradient_ratio,     m->gradient_error};
    const int64_t counts[] = {m->dim_theta,         m->particles,  m->weighted,  m->optimises,        m->likelihood,
                              m->iterations,        m->failed,     m->collapsed, m->tail_from,        m->observed,
                              m->newton_worst,      m->at_bound,   m->renewals,  m->hessian_definite, m->pass_particles,
                              m->pass_temperatures, m->fresh_worst};
    add_numbers(h, sizeof numbers / sizeof *numbers, numbers);
    add(h, counts, sizeof counts);
    add_text(h, m->failed_why);
    add_text(h, m->gradient_which);
}

uint64_t judgement_hash(const sosmc_judgement *j)
{
    uint64_t h = 0xcbf29ce484222325u;
    const int counts[] = {j->verdict.status, j->verdict.reasons, j->dim_theta};
    const double numbers[] = {j->t_quantile, j->aic, j->bic, (double)j->rows};
    add(&h, counts, sizeof counts);
    for (int r = 0; r < j->verdict.reasons; r++) add_text(&h, j->verdict.reason[r]);
    add_with_error(&h, &j->loss);
    add_with_error(&h, &j->log_z);
    add_with_error(&h, &j->kl);
    add_with_error(&h, &j->reward);
    add_numbers(&h, j->dim_theta, j->theta);
    add_numbers(&h, j->dim_theta, j->theta_mc_error);
    add_numbers(&h, j->dim_theta, j->theta_standard_error);
    add_numbers(&h, j->dim_theta, j->theta_low);
    add_numbers(&h, j->dim_theta, j->theta_high);
    add_numbers(&h, 4, numbers);
    add_text(&h, j->why_no_mc_error);
    add_text(&h, j->why_no_standard_error);
    add_measured(&h, &j->measured);
    return h;
}
