/* deblur.h: `sosmc deblur`: a photograph sharpened, with error bars, by a prior that learns its own strength. */
#ifndef CLI_DEBLUR_H
#define CLI_DEBLUR_H

extern const char deblur_text[];

int command_deblur(int argc, char **argv);

#endif
