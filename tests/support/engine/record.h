/* record.h: an uninterrupted run, and the comparison of another with it, iteration by iteration and to the last bit. */
#ifndef SOSMC_TESTS_RECORD_H
#define SOSMC_TESTS_RECORD_H

#include "memory_stream.h"
#include "engine_matrix.h"

enum { K = 8 }; /* iterations */

/* What the run was at every iteration. */
typedef struct {
    memory at[K + 1];
    uint64_t hash[K + 1];
    sosmc_info info[K + 1]; /* of the iteration that led there */
    double theta[K + 1][DT], average[K + 1][DT];
} record;

record *record_run(const engine_case *w);
void record_free(record *r);
/* Steps the engine from iteration k to the end and asserts that every iteration equals the record. */
void record_follow(sosmc *s, const engine_case *w, const record *r, int k, int bytes_too);

int same_number(double a, double b); /* the same bits, or both NaN */

#endif
