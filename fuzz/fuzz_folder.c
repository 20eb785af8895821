/* fuzz_folder.c: what a run finds in its folder when it goes on: a trace, whose rows below an iteration are kept, and JSON.
 * The first byte chooses. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "files/files.h"

static void continue_trace(const uint8_t *data, size_t size, int64_t from)
{
    char error[FUZZ_SENTENCE] = "", *kept = NULL;
    size_t length = 0;
    const char *path = fuzz_file("trace.csv", data, size);
    double value = 0;
    trace *t;
    int status = trace_open(&t, path, TRACE_TIMING, from, error, sizeof error);
    fuzz_judge(status, error);
    if (status) return;
    fuzz_must(trace_kept(t, &value) < from, "no row at or behind the first new one is kept");
    fuzz_must(trace_close(t, error, sizeof error) == 0, "a trace can be closed");
    fuzz_must(files_read(path, size, &kept, &length, error, sizeof error) == 0, "a trace never grows by opening it");
    fuzz_must(!memcmp(kept, data, length) && kept[length - 1] == '\n', "what is kept are whole lines of the old file");
    free(kept);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[FUZZ_SENTENCE] = "";
    if (size < 1) return 0;
    if (data[0] % 2) {
        continue_trace(data + 1, size - 1, data[0]);
        return 0;
    }
    json_t *json = NULL;
    int status = json_read(fuzz_file("summary.json", data + 1, size - 1), &json, error, sizeof error);
    fuzz_judge(status, error);
    if (status == 0) json_decref(json);
    return 0;
}
