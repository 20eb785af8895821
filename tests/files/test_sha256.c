/* test_sha256.c: SHA-256 gives the published sums. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "files/sha256.h"

static void sum_of(const void *bytes, size_t n, size_t step, char out[SHA256_TEXT])
{
    sha256 s;
    sha256_begin(&s);
    for (size_t i = 0; i < n; i += step) sha256_add(&s, (const char *)bytes + i, n - i < step ? n - i : step);
    sha256_end(&s, out);
}

/* FIPS 180-4 and its examples. */
static void sums_are_the_published_ones(void **state)
{
    static const struct {
        const char *text, *sum;
    } known[] = {{"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
                 {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
                 {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
                 {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                  "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
                  "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"}};
    char sum[SHA256_TEXT];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        for (size_t step = 1; step < 200; step += 31) {
            sum_of(known[i].text, strlen(known[i].text), step, sum);
            assert_string_equal(sum, known[i].sum);
        }
    char *million = malloc(1000000);
    assert_non_null(million);
    memset(million, 'a', 1000000);
    sum_of(million, 1000000, 1000000, sum);
    assert_string_equal(sum, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    sum_of(million, 1000000, 4099, sum);
    assert_string_equal(sum, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(million);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_are_the_published_ones)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
