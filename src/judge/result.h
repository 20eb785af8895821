/* result.h: a judgement as it is filled: memory, errors of theta, what takes the place of numbers. */
#ifndef SOSMC_JUDGE_RESULT_H
#define SOSMC_JUDGE_RESULT_H

#include "theta.h"

/* Memory for `dim` parameters; no numbers, nothing measured. SOSMC_ENOMEM. */
sosmc_status sosmc_i_result_open(sosmc_judgement *out, int dim);
/* No log Z, loss, reward and KL, as far as the objective has them, and why. */
void sosmc_i_result_no_numbers(sosmc_judgement *out, const sosmc_objective *o, const char *why);
/* Monte Carlo and statistical errors of theta, which stands in out->theta, or the reasons why there are none. e NULL: nothing is known
 * of theta, and why_no_mc_error says why. converged 0: theta is not at the optimum, where its errors would be believed and wrong. `dof`:
 * of the groups behind the Monte Carlo errors. */
void sosmc_i_result_errors(sosmc_judgement *out, const sosmc_objective *o, const theta_estimate *e, int converged,
                           int dof);
/* AIC and BIC from the loss; kind: sosmc_loss_kind. */
void sosmc_i_result_criteria(sosmc_judgement *out, int kind);

#endif
