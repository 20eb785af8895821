/* summary.h: what a run has left in its summary.json, for tests of the program. */
#ifndef SOSMC_TESTS_SUMMARY_H
#define SOSMC_TESTS_SUMMARY_H

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>

#include "scratch.h"

/* Of a run directory in the scratch folder; fails the test where there is none. */
static inline json_t *summary_of(const char *dir)
{
    char path[FOLDER_ROOM];
    json_error_t why;
    (void)snprintf(path, sizeof path, "%s/summary.json", dir);
    json_t *summary = json_load_file(at(path), 0, &why);
    if (!summary) fail_msg("%s: %s", path, why.text);
    return summary;
}

#endif
