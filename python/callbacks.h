/* callbacks.h: the functions that C calls and whose bodies are Python (sosmc/_calls.py). cffi_build.py reads these declarations and
 * lets cffi define them; binding.c calls them. `self` is a handle of cffi; addresses are numbers, which cost less to convert than
 * pointers. Those that return int return 0, or 1 where Python failed. */
#ifndef SOSMC_PYTHON_CALLBACKS_H
#define SOSMC_PYTHON_CALLBACKS_H

#include "embed/embed.h"

int sosmc_py_energy(void *self, intptr_t theta, intptr_t x, int n, int ld, intptr_t U, intptr_t gx, int64_t pass);
int sosmc_py_grad_theta(void *self, intptr_t theta, intptr_t x, int n, int ld, intptr_t c, intptr_t g, int64_t pass);
int sosmc_py_scores(void *self, intptr_t theta, intptr_t x, int n, int ld, intptr_t D, int64_t pass);
int sosmc_py_prox(void *self, intptr_t theta, double lambda, intptr_t x, int n, int ld, intptr_t p);
int sosmc_py_reward(void *self, intptr_t x, int n, int ld, intptr_t s);
int sosmc_py_draw(void *self, intptr_t rng, intptr_t batch, intptr_t x, int n, int ld, int64_t first);
int sosmc_py_logpdf(void *self, intptr_t x, int n, int ld, intptr_t lq);
int sosmc_py_see(void *self);
int sosmc_py_see_solver(void *self, intptr_t info);
int sosmc_py_stop(void *self);
void sosmc_py_progress(void *self, const embed_progress *p);
void sosmc_py_log(void *self, const char *sentence);

#endif
