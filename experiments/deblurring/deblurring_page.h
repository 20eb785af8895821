/* deblurring_page.h: the results of the deblurring experiment: verdicts, tables, the page. */
#ifndef SOSMC_DEBLURRING_DEBLURRING_PAGE_H
#define SOSMC_DEBLURRING_DEBLURRING_PAGE_H

#include <stdio.h>

#include "common/claims.h"
#include "deblurring_cells.h"
#include "common/experiment.h"
#include "common/reproduce.h"

/* What is known of a setup and method: the paper's table, and an independent run with the published random numbers. NaN where
 * nothing is known. */
typedef struct {
    double theta, mse, ssim; /* printed with 2 decimals */
    double check_theta, check_mse, check_ssim, check_mean_mse, check_mean_ssim;
    int check_particles;
} deblurring_known;
deblurring_known deblurring_known_of(const deblurring_plan *plan, deblurring_setup setup, deblurring_method method);

/* A value at the end, over the seeds. */
experiment_mean deblurring_over_seeds(const deblurring_plan *plan, deblurring_setup setup, deblurring_method method,
                                      deblurring_value value);

enum { DEBLURRING_CLAIMS = 9 };
void deblurring_judge(const deblurring_plan *plan, claim out[DEBLURRING_CLAIMS]);

typedef struct {
    const deblurring_plan *plan;
    claim claim[DEBLURRING_CLAIMS];
} deblurring_results;

void deblurring_print(const deblurring_results *r, FILE *out);
int deblurring_write_tables(const deblurring_results *r, char *error, size_t room); /* table.csv and summary.json */
int deblurring_write_page(const deblurring_results *r, char *error, size_t room);   /* report.html and figures */

/* The command (reproduce.h) at a size of one's own: the exit code. */
int reproduce_deblurring_scaled(const reproduce_options *options, const deblurring_scale *scale);

#endif
