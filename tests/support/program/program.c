/* program.c: see program.h. Invariant: the program is waited for in every case, so that no test leaves a process. */
#define _GNU_SOURCE 1 /* nftw */

#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "folder.h"

enum { MOST_ARGUMENTS = 64, PATIENCE = 120 };

const char *program_faults(void)
{
    const char *path = getenv("SOSMC_FAULTS");
    return path && *path && access(path, R_OK) == 0 ? path : NULL;
}

int program_nightly(void)
{
    const char *tier = getenv("SOSMC_TEST_TIER");
    return tier && strcmp(tier, "nightly") == 0;
}

/* ---------------------------------------------------------------------------- running */

static void put_number(const char *name, long value)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%ld", value);
    (void)setenv(name, text, 1);
}

static void arm(const program_setting *s)
{
    if (!s->fault) return;
    if (!program_faults()) _exit(97);
    (void)setenv("LD_PRELOAD", program_faults(), 1);
    (void)setenv("SOSMC_FAULT", s->fault, 1);
    put_number("SOSMC_FAULT_AT", s->at);
    put_number("SOSMC_FAULT_STAYS", s->stays);
    if (s->log) (void)setenv("SOSMC_FAULT_LOG", s->log, 1);
}

static pid_t start(const program_setting *s, const char *arguments, int words)
{
    const char *path = getenv("SOSMC_PROGRAM");
    pid_t pid = fork();
    if (pid) return pid;
    char copy[PROGRAM_WORDS], *argv[MOST_ARGUMENTS] = {"sosmc"}, *rest = copy;
    int n = 1, null = open("/dev/null", O_RDWR);
    (void)snprintf(copy, sizeof copy, "%s", arguments);
    while (rest && n + 1 < MOST_ARGUMENTS) argv[n++] = strsep(&rest, " ");
    if (words < 0) words = null;
    if (chdir(s->folder) || dup2(null, 0) < 0 || dup2(words, 1) < 0 || dup2(words, 2) < 0) _exit(99);
    arm(s);
    if (s->in_child) s->in_child();
    execv(path ? path : "./sosmc", argv);
    _exit(98);
}

pid_t program_start(const program_setting *s, const char *arguments) { return start(s, arguments, -1); }

int program_wait(pid_t pid)
{
    int status = 0;
    time_t begin = time(NULL);
    const struct timespec nap = {.tv_nsec = 500000};
    for (;;) {
        pid_t got = waitpid(pid, &status, WNOHANG);
        if (got == pid) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (got < 0 && errno != EINTR) return -1;
        if (time(NULL) - begin > PATIENCE) break;
        (void)nanosleep(&nap, NULL);
    }
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, &status, 0);
    return -1;
}

int program_run(const program_setting *s, const char *arguments, char said[PROGRAM_WORDS])
{
    FILE *words = tmpfile();
    if (!words) return -1;
    int code = program_wait(start(s, arguments, fileno(words)));
    if (fseek(words, 1 - PROGRAM_WORDS, SEEK_END)) rewind(words); /* what comes last tells */
    said[fread(said, 1, PROGRAM_WORDS - 1, words)] = 0;
    (void)fclose(words);
    return code;
}

/* ---------------------------------------------------------------------------- what is run */

#define TRAIN                                                                                                      \
    "train circles --cd --hidden 4,4 --particles 20 --batch 16 --sweeps 2 --out train --quiet --set iterations=8 " \
    "--set objective.data.points=32 --set evaluate.nodes=20 --set output.checkpoint_every=3"
#define TUNE                                                                                             \
    "tune model.safetensors --reward lower --beta 0.5 --particles 20 --iterations 8 --out tune --quiet " \
    "--set output.checkpoint_every=3 --set evaluate.nodes=20"
#define DEBLUR                                                                                    \
    "deblur photo.pgm --blur box:3 --noise 2 --iterations 20 --particles 2 --out deblur --quiet " \
    "--set output.checkpoint_every=3"
#define REPRODUCE "reproduce deblurring --quick --seeds 1 --threads 1 --out reproduce --quiet"

const program_scene program_scenes[SCENES] = {
    {"run", "run run.yaml --out run --quiet", "run run.yaml --out run --quiet --resume", "run"},
    {"train", TRAIN, TRAIN " --resume", "train"},
    {"tune", TUNE, TUNE " --resume", "tune"},
    {"deblur", DEBLUR, DEBLUR " --resume", "deblur"},
    {"reproduce", REPRODUCE, REPRODUCE, "reproduce"}};

static const char run_file[] = "model: {type: gaussian_mixture, means: [[-3, 0], [3, 0]], variance: 0.5}\n"
                               "objective:\n"
                               "  type: reward_forward\n"
                               "  reward: \"exp(-(x1 - 3)^2)\"\n"
                               "  beta: 0.1\n"
                               "  reference: {batch: 20}\n"
                               "kernel: {type: ula, step: 0.1}\n"
                               "optimiser: {type: adam, rate: 0.1}\n"
                               "evaluate: {every: 5, nodes: 20}\n"
                               "particles: 60\n"
                               "iterations: 43\n"
                               "output: {checkpoint_every: 7, thin: 2, trace_rows: 10}\n";

static const char drawing[] = "#!/bin/sh\n"
                              "cat >/dev/null\n"
                              "echo '<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"9\" height=\"9\"></svg>'\n";

static int put_file(const char *folder, const char *name, const char *bytes, mode_t mode)
{
    FILE *f = fopen(folder_path(folder, name), "w");
    if (!f) return -1;
    int failed = fputs(bytes, f) < 0;
    if (fclose(f) || failed) return -1;
    return chmod(folder_path(folder, name), mode);
}

static int put_photo(const char *folder)
{
    enum { ROWS = 12, COLUMNS = 14 };
    char text[2048];
    size_t n = (size_t)snprintf(text, sizeof text, "P2\n%d %d\n255\n", COLUMNS, ROWS);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%d\n", 60 + (i * 37 + i / COLUMNS * 11) % 120);
    return put_file(folder, "photo.pgm", text, 0644);
}

static int put_model(const char *folder)
{
    char said[PROGRAM_WORDS], from[PROGRAM_WORDS];
    program_setting s = {.folder = folder};
    if (program_run(&s, TRAIN " --set output.report=false", said) != 0) return -1;
    (void)snprintf(from, sizeof from, "%s", folder_path(folder, "train/model.safetensors"));
    if (rename(from, folder_path(folder, "model.safetensors"))) return -1;
    return folder_remove(folder_path(folder, "train"));
}

int program_furnish(const char *folder)
{
    char path[2 * PROGRAM_WORDS];
    const char *before = getenv("PATH");
    if (mkdir(folder_path(folder, "bin"), 0755) || put_file(folder, "bin/gnuplot", drawing, 0755) ||
        put_file(folder, "run.yaml", run_file, 0644) || put_photo(folder))
        return -1;
    (void)snprintf(path, sizeof path, "%s/bin:%s", folder, before ? before : "/usr/bin:/bin");
    if (setenv("PATH", path, 1)) return -1;
    return put_model(folder);
}

/* ---------------------------------------------------------------------------- comparing */

static char *whole(const char *path, size_t *size)
{
    struct stat st;
    FILE *f = fopen(path, "rb");
    char *bytes = f && fstat(fileno(f), &st) == 0 ? malloc((size_t)st.st_size + 1) : NULL;
    *size = bytes ? fread(bytes, 1, (size_t)st.st_size, f) : 0;
    if (bytes) bytes[*size] = 0;
    if (f) (void)fclose(f);
    return bytes;
}

static int ends_in(const char *path, const char *ending)
{
    size_t n = strlen(path), m = strlen(ending);
    return n >= m && strcmp(path + n - m, ending) == 0;
}

/* Whether column `k` of the header line is a time. */
static int is_time(const char *header, int k)
{
    for (; k > 0; k--) {
        header += strcspn(header, ",\n");
        if (*header == ',') header++;
    }
    return strncmp(header, "seconds", 7) == 0;
}

static size_t mask_table(char *bytes, size_t size)
{
    char header[2048] = "";
    size_t kept = strcspn(bytes, "\n");
    int column = 0;
    if (kept + 1 >= sizeof header || bytes[kept] != '\n') return size;
    memcpy(header, bytes, ++kept);
    for (size_t i = kept; i < size; i++) {
        if (bytes[i] == ',') column++;
        if (bytes[i] == '\n') column = 0;
        if (bytes[i] == ',' || bytes[i] == '\n' || !is_time(header, column)) bytes[kept++] = bytes[i];
    }
    return kept;
}

static size_t mask_json(char *bytes, size_t size)
{
    size_t kept = 0;
    int time_value = 0;
    for (size_t i = 0; i < size; i++) {
        if (strncmp(bytes + i, "\"seconds", 8) == 0) time_value = 1;
        if (bytes[i] == '\n' || bytes[i] == ',') time_value = 0;
        if (!time_value) bytes[kept++] = bytes[i];
    }
    return kept;
}

static size_t mask_page(char *bytes, size_t size)
{
    size_t kept = 0;
    for (size_t i = 0; i < size; i++)
        if (!strchr("0123456789.+-em", bytes[i])) bytes[kept++] = bytes[i];
    return kept;
}

static size_t masked(const char *path, char *bytes, size_t size)
{
    return ends_in(path, ".csv")    ? mask_table(bytes, size)
           : ends_in(path, ".json") ? mask_json(bytes, size)
           : ends_in(path, ".html") ? mask_page(bytes, size)
                                    : size;
}

/* nftw has no room for a context. */
static const char *walk_root, *walk_other;
static char walk_words[PROGRAM_WORDS];
static int walk_files;

static int visit(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    if (kind != FTW_F || walk_words[0]) return 0;
    const char *name = path + strlen(walk_root);
    walk_files++;
    if (!walk_other) {
        if (ends_in(name, ".tmp")) (void)snprintf(walk_words, sizeof walk_words, "%s", name);
        return 0;
    }
    size_t n, m;
    char *a = whole(path, &n), *b = whole(folder_path(walk_other, name), &m);
    if (!a || !b)
        (void)snprintf(walk_words, sizeof walk_words, "%.1000s is missing", name);
    else {
        n = masked(path, a, n);
        m = masked(path, b, m);
        if (n != m || memcmp(a, b, n) != 0) (void)snprintf(walk_words, sizeof walk_words, "%.1000s differs", name);
    }
    free(a);
    free(b);
    return 0;
}

static int walk(const char *root, const char *other)
{
    walk_root = root;
    walk_other = other;
    walk_words[0] = 0;
    walk_files = 0;
    (void)nftw(root, visit, 16, FTW_PHYS);
    walk_root = walk_other = NULL;
    return walk_files;
}

int program_differ(const char *one, const char *other, char difference[PROGRAM_WORDS])
{
    char a[FOLDER_ROOM * 2], b[FOLDER_ROOM * 2];
    (void)snprintf(a, sizeof a, "%s", one);
    (void)snprintf(b, sizeof b, "%s", other);
    int n = walk(a, b);
    if (!walk_words[0]) {
        int m = walk(b, a); /* names that only the other has */
        if (!walk_words[0] && (n != m || n == 0))
            (void)snprintf(walk_words, sizeof walk_words, "%d files and %d files", n, m);
    }
    (void)snprintf(difference, PROGRAM_WORDS, "%s", walk_words);
    return walk_words[0] != 0;
}

const char *program_leftover(const char *folder)
{
    (void)walk(folder, NULL);
    return walk_words[0] ? walk_words : NULL;
}
