/* ebm2d_page_inside.h: what ebm2d_page.c and ebm2d_page_figures.c share. */
#ifndef SOSMC_EBM2D_EBM2D_PAGE_INSIDE_H
#define SOSMC_EBM2D_EBM2D_PAGE_INSIDE_H

#include <stdio.h>

#include "ebm2d_page.h"
#include "view/page.h"

typedef struct {
    const ebm2d_findings *f;
    const ebm2d_plan *plan;
    experiment_page at;
    page *page; /* of `at` */
} ebm2d_page_context;

/* Draw and put onto the page: 0, or -1 with a sentence in x->at.error. */
int ebm2d_page_models(const ebm2d_page_context *x);
int ebm2d_page_training(const ebm2d_page_context *x);
int ebm2d_page_trial(const ebm2d_page_context *x);
int ebm2d_page_sweep(const ebm2d_page_context *x);
int ebm2d_page_efficiency(const ebm2d_page_context *x);
int ebm2d_page_hitting(const ebm2d_page_context *x);
int ebm2d_page_paths(const ebm2d_page_context *x);
int ebm2d_page_rings(const ebm2d_page_context *x);

#endif
