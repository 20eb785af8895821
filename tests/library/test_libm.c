/* test_libm.c: which functions of libm the library calls.
 *
 * The bits of a run must not depend on the C library. floor, fma, sqrt and their like have one correct result, and every libm
 * gives it; exp, log, pow, sin and cos differ in the last bits from one libm to the next. The library has its own exp and log
 * for that reason. This test reads the undefined symbols of every object in the static library and refuses every libm function
 * that is neither exact nor listed below with the reason why no state of a run depends on it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Functions with one correct result. A compiler calls them or puts their instruction in place. */
static const char *const EXACT[] = {"ceil", "fabs", "floor", "fma", "fmaf", "fmax", "fmin", "ldexp", "sqrt", "sqrtf"};

/* Other functions, each in one object and with its reason. */
static const struct {
    const char *object, *function, *reason;
} EXEMPT[] = {
    {"check.c.o", "cos", "directions in which a check moves; no state depends on them"},
    {"check.c.o", "exp", "the verdict of a check"},
    {"check.c.o", "log", "the verdict of a check"},
    {"deblur_estimate.c.o", "cos", "spectra for an estimate of the noise, which is given to a run as a number"},
    {"deblur_estimate.c.o", "exp", "the weight of the prior in a first picture, which is given to a run as it is"},
    {"deblur_estimate.c.o", "log",
     "likelihoods of noise levels, and a first theta; both are given to a run as numbers"},
    {"deblur_estimate.c.o", "sin", "as cos"},
    {"deblur_estimate.c.o", "sincos", "as cos; a compiler may join the two"},
    {"image_quality.c.o", "log10", "PSNR is printed; no state depends on it"},
};

/* The functions of <math.h>, without the suffixes f and l. */
static const char *const LIBM[] = {
    "acos",   "acosh",  "asin",   "asinh",    "atan",   "atan2",     "atanh",     "cbrt",       "ceil",  "copysign",
    "cos",    "cosh",   "erf",    "erfc",     "exp",    "exp10",     "exp2",      "expm1",      "fabs",  "fdim",
    "floor",  "fma",    "fmax",   "fmin",     "fmod",   "frexp",     "hypot",     "ilogb",      "j0",    "j1",
    "jn",     "ldexp",  "lgamma", "lgamma_r", "llrint", "llround",   "log",       "log10",      "log1p", "log2",
    "logb",   "lrint",  "lround", "modf",     "nan",    "nearbyint", "nextafter", "nexttoward", "pow",   "remainder",
    "remquo", "rint",   "round",  "scalbln",  "scalbn", "sin",       "sincos",    "sinh",       "sqrt",  "tan",
    "tanh",   "tgamma", "trunc",  "y0",       "y1",     "yn"};

enum { NAME = 256, LINE = 4096 };
#define COUNT(array) (sizeof(array) / sizeof *(array))

static int is_libm(const char *symbol)
{
    for (size_t i = 0; i < COUNT(LIBM); i++) {
        size_t n = strlen(LIBM[i]);
        const char *rest = symbol + n;
        if (strncmp(symbol, LIBM[i], n) == 0 && (!*rest || ((*rest == 'f' || *rest == 'l') && !rest[1]))) return 1;
    }
    return 0;
}

static int is_allowed(const char *object, const char *symbol)
{
    for (size_t i = 0; i < COUNT(EXACT); i++)
        if (strcmp(symbol, EXACT[i]) == 0) return 1;
    for (size_t i = 0; i < COUNT(EXEMPT); i++)
        if (strcmp(object, EXEMPT[i].object) == 0 && strcmp(symbol, EXEMPT[i].function) == 0) return 1;
    return 0;
}

/* The object and the symbol in a line of `nm -A -u -P`: "LIBRARY[OBJECT]: SYMBOL U ..."; 0: the line has another form. */
static int parse(const char *line, char *object, char *symbol)
{
    const char *open = strchr(line, '[');
    if (!open || sscanf(open, "[%255[^]]]: %255s", object, symbol) != 2) return 0;
    char *version = strchr(symbol, '@');
    if (version) *version = 0;
    return 1;
}

/* Reads nm's output: the number of lines understood, and of those the ones that are refused, named on standard error. */
static int count_refused(FILE *from, int *understood)
{
    char line[LINE], object[NAME], symbol[NAME];
    int refused = 0;
    *understood = 0;
    while (fgets(line, sizeof line, from)) {
        if (!parse(line, object, symbol)) continue;
        (*understood)++;
        if (!is_libm(symbol) || is_allowed(object, symbol)) continue;
        print_error("%s calls libm's %s: use the library's own function, or list it here with a reason\n", object,
                    symbol);
        refused++;
    }
    return refused;
}

static void the_library_calls_exact_functions_alone(void **state)
{
    int understood = 0;
    const char *command =
        "nm -A -u -P ../../libsosmc.a 2>/dev/null"; /* from build/tests/library, where ctest runs this */
    FILE *nm = popen(command, "r");                 // NOLINT(cert-env33-c): a line of our own
    assert_non_null(nm);
    int refused = count_refused(nm, &understood);
    (void)pclose(nm);
    if (understood == 0) {
        print_message("skipped: nm is not installed, or this is not the folder of the build\n");
        skip();
    }
    assert_true(understood > 100);
    assert_int_equal(refused, 0);
}

static int refused_in(const char *text)
{
    int understood = 0;
    FILE *f = tmpfile();
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    rewind(f);
    int refused = count_refused(f, &understood);
    (void)fclose(f);
    assert_int_equal(understood, 1);
    return refused;
}

static void others_are_refused(void **state)
{
    assert_int_equal(refused_in("libsosmc.a[deblur.c.o]: exp U         \n"), 1);
    assert_int_equal(refused_in("libsosmc.a[ula.c.o]: sincosf U         \n"), 1);
    assert_int_equal(refused_in("libsosmc.a[ula.c.o]: log10 U         \n"), 1);
    assert_int_equal(refused_in("libsosmc.a[ula.c.o]: pow@GLIBC_2.29 U         \n"), 1);
    assert_int_equal(refused_in("libsosmc.a[image_quality.c.o]: log10 U         \n"), 0);
    assert_int_equal(refused_in("libsosmc.a[ula.c.o]: sqrt U         \n"), 0);
    assert_int_equal(refused_in("libsosmc.a[ula.c.o]: memcpy U         \n"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_library_calls_exact_functions_alone),
        cmocka_unit_test(others_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
