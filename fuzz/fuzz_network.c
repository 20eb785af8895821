/* fuzz_network.c: descriptions of networks. What is understood is printed and understood again, as the same. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "job/network_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[FUZZ_SENTENCE] = "", printed[NETWORK_TEXT], again[NETWORK_TEXT];
    char *text = fuzz_text(data, size);
    sosmc_network n, m;
    int status = network_parse(text, &n, error, sizeof error);
    fuzz_judge(status, error);
    if (status == 0) {
        fuzz_must(network_print(&n, printed, sizeof printed) == 0, "every network can be printed");
        fuzz_must(network_parse(printed, &m, error, sizeof error) == 0, "what was printed can be read");
        fuzz_must(network_print(&m, again, sizeof again) == 0 && !strcmp(printed, again), "and is the same network");
        fuzz_must(network_parameters(&n) == network_parameters(&m) && network_parameters(&n) > 0, "of the same size");
        network_free(&m);
    }
    network_free(&n);
    free(text);
    return 0;
}
