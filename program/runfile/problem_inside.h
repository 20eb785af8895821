/* problem_inside.h: what the files that build a job share. */
#ifndef CLI_PROBLEM_INSIDE_H
#define CLI_PROBLEM_INSIDE_H

#include <string.h>

#include <sosmc/imaging.h>
#include <sosmc/models.h>

#include "files/files.h"
#include <sosmc/expression.h>
#include "files/images.h"
#include "model_file.h"
#include "problem.h"

struct parts {
    sosmc_mixture mixture;
    sosmc_mixture_law init_mixture, reference_mixture;
    sosmc_hierarchical hierarchical;
    sosmc_hierarchical_law init_hierarchical;
    sosmc_logistic logistic;
    sosmc_gaussian gaussian;
    sosmc_gate gate;
    sosmc_peaks peaks;
    sosmc_half_plane half_plane;
    sosmc_rows rows, start;
    sosmc_mlp mlp;
    sosmc_box box;
    sosmc_tempering tempering;
    model_file network; /* of a stored model, and of any network its weights at the start */
    sosmc_linear linear;
    sosmc_network_judge judge;
    model_file judge_file;
    void *judge_prep;
    image_set images;
    double *pixel_weight, *mask;
    image seen;
    sosmc_deblur deblur;
    double *low, *high, *started;
    sosmc_expression *formula;
    double *features, *labels, *mean, *factor, *points;
    const double *theta, *theta_ref;
};

/* What is on its way. */
typedef struct {
    job *job;
    const config *c;
    struct parts *p;
    int *io;
    char *error;
    size_t room;
} builder;

static inline int is(const builder *b, const char *path, const char *word)
{
    const char *text = config_text(b->c, path);
    return text && strcmp(text, word) == 0;
}

/* One sentence that names the key's place in the run file; the value is -1. */
int job_wrong(const builder *b, const char *path, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Likewise; its value is in sight of what follows an allocation, and of those who check that. */
static inline int job_no_memory(const builder *b)
{
    (void)files_fail(b->error, b->room, "out of memory");
    return -1;
}
/* A vector of the file that must have `n` numbers; NULL: it has not, and the sentence says so. */
const double *job_vector(const builder *b, const char *path, int n);

/* The sections of a run file, in the order in which they need each other. */
int job_build_model(builder *b);      /* problem_model.c */
int job_build_objective(builder *b);  /* problem_objective.c */
int job_build_init(builder *b);       /* problem_init.c */
void job_build_settings(builder *b);  /* problem_settings.c */
int job_is_network(const builder *b); /* is the model one, of points or of pictures? */
double job_base_sd(const builder *b); /* of the network's Gaussian base; 0: it has none */

/* problem_pictures.c */
int job_new_pictures(builder *b);                     /* model.layers into parts.network, with weights still 0 */
int job_picture_reward(builder *b, sosmc_score *out); /* bright, dark, half, mask, network */
int job_picture_data(builder *b, int64_t *rows);      /* fills parts.images and all of parts.rows but rows and mode */
int job_deblur_model(builder *b);                     /* problem_deblur.c */
int job_deblur_init(builder *b);                      /* likewise; init.type seen or normal */
int job_mask(builder *b, double **out);               /* dim_x weights from -1 to 1; the caller frees */

#endif
