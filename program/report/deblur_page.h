/* deblur_page.h: what `sosmc deblur` leaves beside the run itself: the restored picture, the map of its standard deviation,
 * deblur.json and report.html. */
#ifndef SOSMC_REPORT_DEBLUR_PAGE_H
#define SOSMC_REPORT_DEBLUR_PAGE_H

#include "pictures/images.h"

/* Measures of the difference of two pictures: mean square error, PSNR and SSIM with the range 255. */
typedef struct {
    double mse, psnr, ssim;
} quality_figures;

typedef struct {
    const char *dir, *photo; /* the run directory; the file the user named */
    const char *photo_path;  /* the same from the root, so that the page can be written again from another folder */
    int seen_stored;         /* what was seen is DIR/seen.npy instead of the photograph */
    const char *blur;        /* in words */
    /* Of the noise: the value that was used; the estimate from the picture, NaN when none was made. */
    double sigma, estimated;
    double theta0; /* where theta started */
    int frame;     /* pixels outside the border that were estimated and cut off */
    int bits;      /* of the picture that is written */
    int quiet;
    const char *warning; /* a sentence that the reader must not miss; NULL: none */
    const image *seen;   /* what was seen, missing pixels filled in */
    const image *clean;  /* --simulate: the truth; else NULL */
} deblur_outcome;

/* Reads mean.npy, sd.npy, summary.json and trace.csv of the directory. */
int deblur_results(const deblur_outcome *o, char *error, size_t room);

/* The same again, the outcome taken from deblur.json, the photograph and DIR/seen.npy (deblur_report.c). */
int deblur_report(const char *dir, char *error, size_t room);

#endif
