/* A built-in model, an objective, and no setting at all: ten lines. The maximum is known: theta is the mean of y, 1.25. */
#include <sosmc/models.h>
#include <sosmc/solve.h>
#include <stdio.h>

int main(void)
{
    const double y[] = {0.3, 1.9, 2.4, -0.6, 1.5, 2.0};
    sosmc_hierarchical data = {.dim = 6, .y = y};
    sosmc_problem problem = {.model = sosmc_hierarchical_model(&data), .objective = sosmc_mmle()};
    sosmc_solution r;
    sosmc_status status = sosmc_solve(&r, &problem, NULL);
    if (status == SOSMC_OK) printf("theta = %.4f, loss %.4f\n", r.judgement.theta[0], r.judgement.loss.value);
    for (int k = 0; k < r.judgement.verdict.reasons; k++) puts(r.judgement.verdict.reason[k]);
    int solved = status == SOSMC_OK && r.judgement.verdict.status == SOSMC_CONVERGED;
    sosmc_solution_free(&r);
    return solved ? 0 : 1;
}
