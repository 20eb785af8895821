/* test_dispatch.c: the vector level is the one that the compiler's own library would choose on this machine, and lower ones can be
 * had by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sosmc/sosmc.h>

static int expected_level(void)
{
#if defined(SOSMC_HAVE_X86_LEVELS)
    int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    int wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
    return avx2 && wide ? 2 : avx2;
#else
    return 0;
#endif
}

static void the_best_level_is_what_the_machine_has(void **state)
{
    for (int again = 0; again < 2; again++) assert_int_equal(sosmc_simd_level(sosmc_simd_best()), expected_level());
    assert_int_equal(sosmc_simd_level(NULL), expected_level());
}

static void lower_levels_have_names(void **state)
{
    static const char *const names[] = {"plain", "avx2", "avx512"};
    for (int level = 0; level < 3; level++) {
        const sosmc_simd *simd = sosmc_simd_named(names[level]);
        if (level > expected_level()) {
            assert_null(simd);
            continue;
        }
        assert_int_equal(sosmc_simd_level(simd), level);
        assert_string_equal(sosmc_simd_name(simd), names[level]);
    }
    assert_null(sosmc_simd_named("sse9"));
    assert_null(sosmc_simd_named(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_best_level_is_what_the_machine_has),
                                       cmocka_unit_test(lower_levels_have_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
