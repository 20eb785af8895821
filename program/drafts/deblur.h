/* deblur.h: `sosmc deblur`: a photograph sharpened, with error bars, by a prior that learns its own strength. */
#ifndef SOSMC_DRAFTS_DEBLUR_H
#define SOSMC_DRAFTS_DEBLUR_H

extern const char deblur_text[];

int command_deblur(int argc, char **argv);

/* Whether a directory holds what the command left: its page is not that of an ordinary run. */
int deblur_owns(const char *dir);

#endif
