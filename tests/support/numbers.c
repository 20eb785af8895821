/* numbers.c: see numbers.h. */
#include "numbers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static uint64_t random_state;

int numbers_start(void **state)
{
    random_state = 0x9E3779B97F4A7C15u;
    return 0;
}

double numbers_uniform(double a, double b)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return a + (b - a) * ((double)(random_state >> 11) * 0x1p-53);
}

int numbers_between(int a, int b) { return a + (int)(numbers_uniform(0, 1) * (b - a + 1)); }

void *numbers_room(size_t bytes)
{
    void *p = NULL;
    assert_int_equal(posix_memalign(&p, 64, bytes ? bytes : 1), 0);
    memset(p, 0xff, bytes);
    return p;
}
