/* fuzz.c: files for readers that take a path, and the verdicts.
 *
 * Invariant: nothing is written outside the folder of this process. */
#include "fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[FUZZ_PATH / 2];

void fuzz_must(int holds, const char *what)
{
    if (holds) return;
    (void)fprintf(stderr, "what must hold does not: %s\n", what);
    abort();
}

static int is_shown(const struct dirent *entry) { return entry->d_name[0] != '.'; }

static void remove_folder(void)
{
    struct dirent **entry = NULL;
    int count = scandir(folder, &entry, is_shown, NULL);
    for (int i = 0; i < count; i++) {
        (void)unlink(fuzz_path(entry[i]->d_name));
        free(entry[i]);
    }
    free((void *)entry);
    (void)rmdir(folder);
}

static void make_folder(void)
{
    static const char *const places[] = {"/dev/shm", "/tmp", "."};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        (void)snprintf(folder, sizeof folder, "%s/sosmc_fuzz_XXXXXX", places[i]);
        if (mkdtemp(folder)) {
            (void)atexit(remove_folder);
            return;
        }
    }
    fuzz_must(0, "there is a place for a folder");
}

const char *fuzz_path(const char *name)
{
    static char path[4][FUZZ_PATH];
    static int turn;
    if (!*folder) make_folder();
    char *out = path[turn++ % 4];
    int n = snprintf(out, FUZZ_PATH, "%s/%s", folder, name);
    fuzz_must(n > 0 && n < FUZZ_PATH, "a path fits into its room");
    return out;
}

const char *fuzz_file(const char *name, const uint8_t *data, size_t size)
{
    const char *path = fuzz_path(name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ssize_t written = fd >= 0 ? write(fd, data, size) : -1;
    if (fd >= 0) (void)close(fd);
    fuzz_must(written == (ssize_t)size, "the input can be written");
    return path;
}

char *fuzz_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    fuzz_must(text != NULL, "there is memory for the input");
    if (size) memcpy(text, data, size);
    text[size] = 0;
    return text;
}

void fuzz_judge(int status, const char *sentence)
{
    if (status == 0) return;
    fuzz_must(*sentence != 0, "a refusal comes with a sentence");
    for (const char *p = sentence; *p; p++)
        fuzz_must((unsigned char)*p >= 0x20 && *p != 0x7F, "a sentence holds no control characters");
}
