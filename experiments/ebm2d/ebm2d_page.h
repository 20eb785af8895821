/* ebm2d_page.h: what the 2-D energy-based experiment found, and the page and the tables that show it. */
#ifndef SOSMC_EBM2D_EBM2D_PAGE_H
#define SOSMC_EBM2D_EBM2D_PAGE_H

#include "ebm2d_cells.h"
#include "ebm2d_claims.h"
#include "ebm2d_extras.h"
#include "ebm2d_training.h"

/* Values at the end of a run from elsewhere; NaN: not known. They belong to the published networks. */
typedef struct {
    double reward, kl, excess, particle, weighted;
    double fresh, reduced; /* R_fresh by the full and by the reduced evaluation */
} ebm2d_reference;
/* The trial: values of a rerun of the published program, R_fresh as printed. The sweep: as printed. */
ebm2d_reference ebm2d_reference_of(const ebm2d_plan *plan, const ebm2d_cell *cell);

/* Chains on the pre-trained circles network and on the final networks of the illustrative trial. */
enum { EBM2D_PRETRAINED = EBM2D_PAPER_METHODS, EBM2D_STUDIED };

typedef struct {
    const ebm2d_plan *plan;
    int threads;
    int published; /* the circles network is the published one */
    const char *models;
    ebm2d_sample sample[EBM2D_STUDIED];
    ebm2d_masses masses[EBM2D_STUDIED];
    ebm2d_sample terminal[EBM2D_PAPER_METHODS][EBM2D_BETAS]; /* with --full */
    double start_inner[2], start_reward[2];                  /* of the start particles: by chains, by tempering */
    ebm2d_training training[EBM2D_DATASETS];
    ebm2d_evidence evidence;
    claim claim[EBM2D_CLAIMS];
} ebm2d_findings;

/* The steps at which the figure of sampler efficiency shows the chains; `steps` is the last one there is. */
enum { EBM2D_EFFICIENCY = 9 };
int ebm2d_efficiency_steps(int steps, double out[EBM2D_EFFICIENCY]);

/* OUT/report.html and OUT/figures; OUT/table.csv; OUT/summary.json; the tables for a reader. */
int ebm2d_write_page(const ebm2d_findings *findings, char *error, size_t room);
int ebm2d_write_table(const ebm2d_findings *findings, char *error, size_t room);
int ebm2d_write_summary(const ebm2d_findings *findings, char *error, size_t room);
void ebm2d_print_findings(const ebm2d_findings *findings, FILE *out);

/* The reward of a method's particles as the claims mean it: with the weights, where there are weights. */
ebm2d_value ebm2d_estimate_of(ebm2d_method method);

#endif
