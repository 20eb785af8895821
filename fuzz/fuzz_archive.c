/* fuzz_archive.c: packages out of which data sets are taken. Whatever names an archive holds, nothing but the files that
 * are asked for may appear, and these only with the bytes that are expected. */
#include "fuzz.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/fetch.h"

static const fetch_file wanted[] = {
    {"letters", 26, "71c480df93d6ae2f1efad1447c66c9525e316218cf51fc8d9ed832f2daf18b73"},
};

/* Any file but the wanted one and the archive is one too many. */
static int is_strange(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && strcmp(entry->d_name, "letters") != 0 && strcmp(entry->d_name, "package") != 0;
}

static int strangers(void)
{
    struct dirent **entry = NULL;
    int count = scandir(fuzz_path("."), &entry, is_strange, NULL);
    for (int i = 0; i < count; i++) free(entry[i]);
    free((void *)entry);
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[FUZZ_SENTENCE] = "";
    const char *path = fuzz_file("package", data, size);
    int status = fetch_unpack(path, fuzz_path("."), wanted, 1, error, sizeof error);
    fuzz_judge(status, error);
    fuzz_must(fetch_is_there(fuzz_path("letters"), wanted) == (status == 0), "the file is there, whole, or it is not");
    fuzz_must(strangers() == 0, "nothing else was written");
    (void)unlink(fuzz_path("letters"));
    return 0;
}
