/* result.c: a judgement as it is filled, by a judged run and by a solver alike. */
#include "result.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/student.h"
#include "base/table.h"
#include "numbers.h"

sosmc_status sosmc_i_result_open(sosmc_judgement *out, int dim)
{
    *out = (sosmc_judgement){
        .dim_theta = dim, .aic = NAN, .bic = NAN, .t_quantile = NAN, .measured = sosmc_nothing_measured()};
    sosmc_i_no_number(&out->loss, NULL);
    sosmc_i_no_number(&out->log_z, NULL);
    sosmc_i_no_number(&out->kl, NULL);
    sosmc_i_no_number(&out->reward, NULL);
    sosmc_number *best[] = {&out->best_loss, &out->best_kl, &out->best_reward, &out->excess};
    for (int k = 0; k < 4; k++) sosmc_i_no_number(best[k], NULL);
    out->memory = out->theta = calloc(5 * (size_t)dim + 1, sizeof(double));
    return out->memory ? SOSMC_OK : SOSMC_ENOMEM;
}

void sosmc_judgement_free(sosmc_judgement *j)
{
    free(j->memory);
    j->memory = j->theta = j->theta_mc_error = j->theta_mc_covariance = j->theta_standard_error = j->theta_low =
        j->theta_high = NULL;
}

void sosmc_i_result_no_numbers(sosmc_judgement *out, const sosmc_objective *o, const char *why)
{
    sosmc_i_no_number(&out->log_z, why);
    if (o->scale != 0) sosmc_i_no_number(&out->loss, why);
    if (o->score.eval) sosmc_i_no_number(&out->reward, why);
    if (o->loss == SOSMC_LOSS_FORWARD_KL || o->loss == SOSMC_LOSS_REVERSE_KL) sosmc_i_no_number(&out->kl, why);
}

void sosmc_i_result_criteria(sosmc_judgement *out, int kind)
{
    double p = out->dim_theta, rows = (double)out->rows;
    double loglik = kind == SOSMC_LOSS_MMLE         ? -out->loss.value
                    : kind == SOSMC_LOSS_LIKELIHOOD ? -out->loss.value * rows
                                                    : NAN;
    if (kind == SOSMC_LOSS_LIKELIHOOD && out->rows == 0) return;
    out->aic = 2 * p - 2 * loglik;
    if (out->rows > 0) out->bic = p * sosmc_i_log1(NULL, rows) - 2 * loglik;
}

/* Of likelihoods: the inverse of the information, which for a mean over rows is theirs times the Hessian. */
static void standard_errors(sosmc_judgement *out, int kind, const theta_estimate *e, int converged)
{
    size_t p = (size_t)out->dim_theta;
    const char *why = NULL;
    if (kind != SOSMC_LOSS_MMLE && kind != SOSMC_LOSS_LIKELIHOOD)
        why = "the loss is no likelihood";
    else if (!e)
        why = out->why_no_mc_error;
    else if (!e->definite)
        why = "the observed information is not positive definite";
    else if (!converged)
        why = "theta has not converged";
    else if (e->flat > 0 || e->unresolved > 0)
        why = "the likelihood is flat along a direction of theta, which the data do not identify";
    else if (kind == SOSMC_LOSS_LIKELIHOOD && out->rows == 0)
        why = "the number of data rows is not known";
    if (why) {
        (void)snprintf(out->why_no_standard_error, SOSMC_WHY, "%s", why);
        return;
    }
    out->theta_standard_error = out->theta + 2 * p;
    out->theta_low = out->theta + 3 * p;
    out->theta_high = out->theta + 4 * p;
    double rows = kind == SOSMC_LOSS_LIKELIHOOD ? (double)out->rows : 1;
    for (size_t k = 0; k < p; k++) {
        double variance = e->inverse[k * p + k] / rows, mc = out->theta_mc_error[k];
        out->theta_standard_error[k] = sqrt(variance);
        double half = 1.959963984540054 * sqrt(variance + mc * mc);
        out->theta_low[k] = out->theta[k] - half;
        out->theta_high[k] = out->theta[k] + half;
    }
}

void sosmc_i_result_errors(sosmc_judgement *out, const sosmc_objective *o, const theta_estimate *e, int converged,
                           int dof)
{
    size_t p = (size_t)out->dim_theta;
    if (e && !e->definite)
        (void)snprintf(out->why_no_mc_error, SOSMC_WHY, "the second derivative of the loss is not positive definite");
    else if (e && !converged)
        (void)snprintf(out->why_no_mc_error, SOSMC_WHY, "theta has not converged");
    else if (e) {
        out->theta_mc_error = out->theta + p;
        memcpy(out->theta_mc_error, e->mc_error, p * sizeof(double));
        out->t_quantile = sosmc_i_student_quantile(0.975, dof);
    }
    standard_errors(out, o->loss, e, converged);
}
