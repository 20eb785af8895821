/* mnist_figures.h: the figures of the experiment with pictures: curves of runs, drawn by plot.h, and grids of samples as PNG
 * files. */
#ifndef SOSMC_MNIST_MNIST_FIGURES_H
#define SOSMC_MNIST_MNIST_FIGURES_H

#include "mnist_findings.h"
#include "view/arena.h"
#include "view/plot.h"

/* ------------------------------------------------------------------------------------------------ curves */

typedef enum {
    MNIST_CURVE_FRESH,    /* fresh reward with bars of 1.96 standard errors */
    MNIST_CURVE_PARTICLE, /* reward of the particles: with weights, and without */
    MNIST_CURVE_ESS,      /* effective sample size, as a share of the particles */
    MNIST_CURVE_SD,       /* standard deviation of all pixel values, and that of a free random walk */
    MNIST_CURVE_KINDS
} mnist_curve;

typedef struct {
    const char *title;
    const mnist_cell *cell[MNIST_METHODS]; /* NULL: not there */
} mnist_panel;

/* `record`: the plan whose recorded values stand beside ours; NULL: none. */
plot_figure mnist_draw_curves(arena *memory, mnist_curve what, const mnist_panel *panel, int panels,
                              const mnist_plan *record, const char *name);

/* ------------------------------------------------------------------------------------------------ samples */

/* Pictures that are drawn are kept in OUT/studies. All write DIR/NAME.png. */

/* A sample of the pre-trained network, then followed by the sampler under several networks with the same noise: a row per
 * network (the pre-trained one first), 11 columns, whose steps `numbers` lists. */
int mnist_draw_trajectories(const mnist_findings *f, const mnist_cell *const *cell, int cells, mnist_reward reward,
                            char numbers[MNIST_NAME], const char *dir, const char *name, char *error, size_t room);

/* Eight samples of the pre-trained network and what the sampler makes of them under several networks with the same noise. */
int mnist_draw_samples(const mnist_findings *f, const mnist_cell *const *cell, int cells, mnist_reward reward,
                       const char *dir, const char *name, char *error, size_t room);

/* The first 64 of the samples, 8 by 8; 32 of `above` over 32 of `below` when there are both. */
int mnist_draw_grid(const mnist_sample *above, const mnist_sample *below, const char *dir, const char *name,
                    char *error, size_t room);

#endif
