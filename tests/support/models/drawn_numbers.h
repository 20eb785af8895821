/* drawn_numbers.h: random numbers of which data are made, by name: the same name gives the same numbers everywhere. */
#ifndef SOSMC_TESTS_DRAWN_NUMBERS_H
#define SOSMC_TESTS_DRAWN_NUMBERS_H

#include <stdint.h>

/* n standard normals, or uniforms on (0, 1], of this name. */
void drawn_normals(uint32_t name, int n, double *z);
void drawn_uniforms(uint32_t name, int n, double *u);

#endif
