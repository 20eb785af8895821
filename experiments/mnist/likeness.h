/* likeness.h: how unlike a digit a picture is, judged by principal components of training pictures.
 *
 * With m the mean of the training pictures, v_1 .. v_K the leading eigenvectors of their covariance, l_k its eigenvalues
 * (population variances of the coefficients) and c_k = <x - m, v_k>,
 *
 *     score(x) = (1/K) sum_k c_k^2 / l_k  +  r(x) / (median of r over the training pictures),
 *     r(x)     = |x - m - sum_k c_k v_k|^2 / pixels.
 *
 * Typical pictures score about 2; large scores are unlike all of them. The score does not see what is too ordinary: a
 * blank picture scores low. The limit is the 99% quantile of pictures that were held out of the fit. A common shift and
 * scale of all pixels changes nothing. */
#ifndef SOSMC_CLI_LIKENESS_H
#define SOSMC_CLI_LIKENESS_H

#include <stddef.h>
#include <stdint.h>

#include "files/images.h"

typedef struct {
    int classes;    /* labels are 0 to classes - 1; others are passed over */
    int per_class;  /* the first so many pictures of every class are fitted */
    int components; /* K, less than the number of pixels */
    int held_out;   /* the first so many of the other pictures set the limit */
} likeness_recipe;

/* 500 pictures of each of 10 classes, 64 components, 2,000 held out. */
likeness_recipe likeness_digits(void);

typedef struct likeness likeness;

/* One label per picture of the set. NULL on failure, with a sentence in `error`; the sentence says what is wrong with the
 * pictures, and the caller knows which file they came from. */
likeness *likeness_fit(const image_set *set, const unsigned char *label, const likeness_recipe *recipe, char *error,
                       size_t room);

int likeness_pixels(const likeness *model);
double likeness_limit(const likeness *model);

/* Scores of n pictures, one after the other, likeness_pixels numbers each; held to [-1, 1] first. NaN gives NaN. */
void likeness_score(const likeness *model, int64_t n, const double *x, double *score);

void likeness_free(likeness *model); /* NULL is fine */

#endif
