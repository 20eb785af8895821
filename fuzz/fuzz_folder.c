/* fuzz_folder.c: what a run finds in its folder when it goes on: a trace, whose rows below an iteration are kept, and JSON.
 * The first byte chooses. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "files/files.h"

/* Whether every line behind the first, the header, is one of the old file, in its order: rows that are damaged are left out, and a header
 * that is damaged is written anew. */
static int lines_of(const char *kept, size_t length, const char *old, size_t size)
{
    const char *end = kept + length, *line = memchr(kept, '\n', length), *from = old, *old_end = old + size;
    if (!line || end[-1] != '\n') return 0;
    for (line++; line < end;) {
        size_t n = (size_t)((const char *)memchr(line, '\n', (size_t)(end - line)) + 1 - line);
        while (from < old_end && ((size_t)(old_end - from) < n || memcmp(from, line, n) != 0)) {
            const char *next = memchr(from, '\n', (size_t)(old_end - from));
            from = next ? next + 1 : old_end;
        }
        if (from >= old_end) return 0;
        from += n;
        line += n;
    }
    return 1;
}

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
    fuzz_must(files_read(path, size + FUZZ_SENTENCE, &kept, &length, error, sizeof error) == 0,
              "a trace grows by no more than a header when it is opened");
    fuzz_must(lines_of(kept, length, (const char *)data, size),
              "what is kept are a header and whole lines of the old file");
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
