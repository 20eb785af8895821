/* embed.c: see embed.h. Invariant: whatever is read or written here is read or written between enter and leave, in the C locale
 * and the default floating-point environment, and the caller gets its own back. */
#include "embed.h"

#include <errno.h>
#include <fenv.h>
#include <locale.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/directory.h"
#include "job/problem.h"
#include "report/closing.h"
#include "report/run_report.h"
#include "run/lock.h"
#include "run/place.h"
#include "run/need.h"
#include "run/run.h"
#include "runfile/config.h"

/* ------------------------------------------------------------------------------------------------ the caller's process */

typedef struct {
    locale_t ours, before; /* ours 0: it could not be made, and the caller's stays */
    fenv_t arithmetic;
} visit;

static void enter(visit *v)
{
    v->ours = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    v->before = v->ours ? uselocale(v->ours) : (locale_t)0;
    (void)fegetenv(&v->arithmetic);
    (void)fesetenv(FE_DFL_ENV);
}

static void leave(const visit *v)
{
    int number = errno;
    (void)fesetenv(&v->arithmetic);
    if (v->ours) {
        (void)uselocale(v->before);
        freelocale(v->ours);
    }
    errno = number;
}

/* ------------------------------------------------------------------------------------------------ run files */

struct embed_file {
    config *c;
    job_own own;       /* what is lent to it */
    sosmc_model model; /* copies of what `own` points to */
    sosmc_score reward;
    sosmc_source init, reference;
    atomic_int users; /* embed_open's caller and the jobs that were made of it */
};

static embed_status no_memory(char *error, size_t room)
{
    if (error && room) (void)snprintf(error, room, "out of memory");
    return EMBED_ENUMERIC;
}

/* The status of a run file that was not read, by what config_load left in errno; lack of memory is never a mistake of the user. */
static embed_status unread(int number)
{
    return number == 0 ? EMBED_EUSAGE : number == ENOMEM ? EMBED_ENUMERIC : EMBED_EIO;
}

static config *read_config(const embed_source *from, char *error, size_t room, embed_status *status)
{
    errno = 0;
    config *c = from->path ? config_load(from->path, error, room)
                           : config_parse(from->text, from->name ? from->name : "run file", error, room);
    *status = c ? EMBED_OK : unread(errno);
    return c;
}

static int prepare(config *c, const embed_source *from, char *error, size_t room)
{
    for (int i = 0; i < from->sets; i++)
        if (config_set(c, from->set[i], error, room)) return -1;
    return config_resolve(c, error, room);
}

/* Standard input belongs to the caller, so "-" is not that here. */
static int refuse_source(const embed_source *from, char *error, size_t room)
{
    const char *wrong = !from->path && !from->text ? "there is neither a path nor a text of a run file"
                        : from->path && !strcmp(from->path, "-")
                            ? "the path of the run file is '-'; expected a file, or its text"
                            : NULL;
    if (wrong && error && room) (void)snprintf(error, room, "%s", wrong);
    return wrong != NULL;
}

/* Structs are copied, as by sosmc_create. */
static void lend(embed_file *f, const embed_own *own)
{
    f->own = (job_own){.theta0 = own->theta0,
                       .names = own->names,
                       .observations = own->observations,
                       .points = own->points,
                       .rows = own->rows};
    if (own->model) f->model = *own->model, f->own.model = &f->model;
    if (own->reward) f->reward = *own->reward, f->own.reward = &f->reward;
    if (own->init) f->init = *own->init, f->own.init = &f->init;
    if (own->reference) f->reference = *own->reference, f->own.reference = &f->reference;
    config_lend(f->c, &f->own);
}

embed_status embed_open(embed_file **out, const embed_source *from, char *error, size_t room)
{
    visit v;
    embed_status status;
    *out = NULL;
    if (refuse_source(from, error, room)) return EMBED_EUSAGE;
    enter(&v);
    config *c = read_config(from, error, room, &status);
    errno = 0;
    if (c && prepare(c, from, error, room)) status = errno == ENOMEM ? EMBED_ENUMERIC : EMBED_EUSAGE;
    embed_file *f = status == EMBED_OK ? calloc(1, sizeof *f) : NULL;
    if (status == EMBED_OK && !f) status = no_memory(error, room);
    if (f) {
        f->c = c;
        atomic_init(&f->users, 1);
        if (from->own) lend(f, from->own);
    } else {
        config_free(c);
    }
    *out = f;
    leave(&v);
    return status;
}

static void drop(embed_file *f)
{
    if (atomic_fetch_sub(&f->users, 1) > 1) return;
    config_free(f->c);
    free(f);
}

void embed_close(embed_file *f)
{
    if (f) drop(f);
}

/* ------------------------------------------------------------------------------------------------ text */

typedef struct {
    FILE *out;
    char *bytes;
    size_t size;
} words;

static int words_open(words *t)
{
    *t = (words){.bytes = NULL};
    t->out = open_memstream(&t->bytes, &t->size);
    return t->out ? 0 : -1;
}

/* The text; NULL: something failed, and it is freed. */
static char *words_close(words *t, int failed)
{
    if (!t->out) return NULL;
    if (ferror(t->out)) failed = 1;
    if (fclose(t->out)) failed = 1;
    if (!failed) return t->bytes;
    free(t->bytes);
    return NULL;
}

static char *written(const config *c, int (*write)(const config *c, FILE *out))
{
    visit v;
    words t;
    enter(&v);
    int failed = words_open(&t) || write(c, t.out);
    char *made = words_close(&t, failed);
    leave(&v);
    return made;
}

static int write_keys(const config *c, FILE *out)
{
    (void)c;
    return config_document_json(out);
}

char *embed_yaml(const embed_file *f) { return written(f->c, config_write); }
char *embed_json(const embed_file *f) { return written(f->c, config_write_json); }
char *embed_keys(void) { return written(NULL, write_keys); }
void embed_text_free(char *text) { free(text); }

/* ------------------------------------------------------------------------------------------------ runs */

static int ask_stop(void *ctx)
{
    const embed_hooks *h = ctx;
    return h->stop ? h->stop(h->ctx) : 0;
}

static int ask_saves(void *ctx)
{
    const embed_hooks *h = ctx;
    return h->saves ? h->saves(h->ctx) : 0;
}

static void show(void *ctx, const run_progress *p)
{
    const embed_hooks *h = ctx;
    embed_progress told = {.done = p->done,
                           .total = p->total,
                           .info = p->info,
                           .solve = p->solve,
                           .theta = p->theta,
                           .dim_theta = p->dim_theta,
                           .temper = p->temper};
    if (h->progress) h->progress(h->ctx, &told);
}

static void say(void *ctx, const char *sentence)
{
    const embed_hooks *h = ctx;
    if (h->log) h->log(h->ctx, sentence);
}

static embed_status status_of(run_status status)
{
    static const embed_status ours[] = {[RUN_OK] = EMBED_OK,         [RUN_STOPPED] = EMBED_STOPPED,
                                        [RUN_EUSAGE] = EMBED_EUSAGE, [RUN_ENUMERIC] = EMBED_ENUMERIC,
                                        [RUN_EIO] = EMBED_EIO,       [RUN_EBUSY] = EMBED_EBUSY};
    return ours[status];
}

static void put_sentence(void *ctx, const char *sentence) { fprintf(ctx, "%s\n", sentence); }

/* What `sosmc run` would print at the end. Text for which there is no memory is missing: the run itself is done. */
static void close_words(const run_result *r, embed_result *out)
{
    words t;
    if (words_open(&t) == 0) closing_write(r, out->directory, t.out);
    out->closing = words_close(&t, 0);
    if (words_open(&t) == 0) closing_against(r, put_sentence, t.out);
    out->against = words_close(&t, 0);
    if (!out->against || *out->against) return;
    free(out->against);
    out->against = NULL;
}

static void copy_result(const run_result *r, embed_result *out)
{
    out->status = status_of(r->status);
    (void)snprintf(out->message, sizeof out->message, "%s", r->message);
    out->complete = r->complete;
    out->automatic = r->automatic;
    out->iterations = r->iterations;
    out->seconds = r->seconds;
    out->verdict = r->verdict;
    if (r->limit) (void)snprintf(out->limit, sizeof out->limit, "%s", r->limit);
}

/* The directory that the options name, or that of the run file. */
static int find_directory(const config *c, const embed_options *options, embed_result *out)
{
    const char *file = config_file(c);
    if (!options->out && !file) {
        (void)snprintf(out->message, sizeof out->message,
                       "the run file is text without a file, so its directory must be named: expected options.out");
        return -1;
    }
    if (options->out)
        (void)snprintf(out->directory, sizeof out->directory, "%s", options->out);
    else
        place_default(file, out->directory);
    return 0;
}

static void run_and_report(const config *c, const run_options *what, const run_hooks *hooks, embed_result *out)
{
    run_result *r = calloc(1, sizeof *r);
    if (!r) {
        out->status = no_memory(out->message, sizeof out->message);
        return;
    }
    (void)run_execute(c, what, hooks, r);
    copy_result(r, out);
    if (out->status == EMBED_OK && run_report_asked(c, what->out, out->message, sizeof out->message))
        out->status = EMBED_EIO;
    if (out->status == EMBED_OK) close_words(r, out);
    run_result_free(r);
    free(r);
}

embed_status embed_run(const embed_file *f, const embed_options *options, const embed_hooks *hooks, embed_result *out)
{
    visit v;
    embed_hooks ours = hooks ? *hooks : (embed_hooks){.stop = NULL};
    run_lock lock = {.held = 0}; /* until the report is written */
    *out = (embed_result){.status = EMBED_EUSAGE, .verdict = -1};
    if (find_directory(f->c, options, out)) return out->status;
    run_hooks bridge = {.stop = ask_stop, .saves = ask_saves, .progress = show, .say = say, .ctx = &ours};
    run_options what = {.out = out->directory,
                        .resume = options->resume || options->judge,
                        .overwrite = options->overwrite,
                        .judge = options->judge,
                        .budget_seconds = options->budget_seconds,
                        .accept_changed = options->accept_changed,
                        .unnamed = !options->out,
                        .lock = &lock};
    enter(&v);
    run_and_report(f->c, &what, &bridge, out);
    lock_give_back(&lock);
    leave(&v);
    return out->status;
}

void embed_result_free(embed_result *result)
{
    free(result->closing);
    free(result->against);
    result->closing = result->against = NULL;
}

static embed_status take_lock(run_lock *lock, const char *dir, char *error, size_t room)
{
    lock_status status = access(dir, F_OK) == 0 ? lock_take(lock, dir, error, room) : LOCK_NONE;
    return status == LOCK_BUSY ? EMBED_EBUSY : status == LOCK_EIO ? EMBED_EIO : EMBED_OK;
}

struct embed_claim {
    run_lock lock;
};

embed_status embed_claim_take(embed_claim **out, const char *dir, int *ours, char *error, size_t room)
{
    visit v;
    embed_claim *c = *out = calloc(1, sizeof *c);
    if (!c) return no_memory(error, room);
    enter(&v);
    embed_status status = take_lock(&c->lock, dir, error, room);
    place where = {.dir = dir, .lock = &c->lock};
    *ours = status == EMBED_OK && place_is_ours(&where);
    leave(&v);
    return status;
}

void embed_claim_free(embed_claim *c)
{
    if (c) lock_give_back(&c->lock);
    free(c);
}

embed_status embed_report(const char *dir, char *error, size_t room)
{
    visit v;
    run_lock lock = {.held = 0};
    enter(&v);
    embed_status status = take_lock(&lock, dir, error, room);
    if (status == EMBED_OK) {
        directory_sweep(dir, 1);
        if (run_report(dir, error, room)) status = EMBED_EIO;
    }
    lock_give_back(&lock);
    leave(&v);
    return status;
}

/* ------------------------------------------------------------------------------------------------ values of the library */

struct embed_job {
    job values;
    embed_file *file; /* the values point into it */
};

embed_status embed_job_make(embed_job **out, const embed_file *f, char *error, size_t room)
{
    visit v;
    int io = 0;
    *out = NULL;
    embed_job *j = calloc(1, sizeof *j);
    if (!j) return no_memory(error, room);
    enter(&v);
    errno = 0;
    int failed = job_build(&j->values, f->c, &io, error, room);
    embed_status status = !failed ? EMBED_OK : errno == ENOMEM ? EMBED_ENUMERIC : io ? EMBED_EIO : EMBED_EUSAGE;
    leave(&v);
    if (failed) {
        job_free(&j->values);
        free(j);
        return status;
    }
    j->file = (embed_file *)(uintptr_t)f;
    (void)atomic_fetch_add(&j->file->users, 1);
    *out = j;
    return EMBED_OK;
}

void embed_job_free(embed_job *j)
{
    if (!j) return;
    job_free(&j->values);
    drop(j->file);
    free(j);
}

const sosmc_problem *embed_job_problem(const embed_job *j) { return &j->values.problem; }
int embed_job_automatic(const embed_job *j) { return j->values.automatic; }
const sosmc_settings *embed_job_settings(const embed_job *j) { return &j->values.settings; }
const sosmc_solve_options *embed_job_solve(const embed_job *j) { return j->values.automatic ? &j->values.solve : NULL; }
const sosmc_temper_task *embed_job_temper(const embed_job *j) { return j->values.tempers ? &j->values.temper : NULL; }
int64_t embed_job_iterations(const embed_job *j) { return j->values.iterations; }

void embed_job_theta_name(const embed_job *j, int k, char *out, size_t room)
{
    char name[JOB_NAME];
    job_theta_name(&j->values, k, name);
    (void)snprintf(out, room, "%s", name);
}

int64_t embed_job_rows(const embed_job *j) { return job_rows(&j->values); }

const char *embed_job_why_no_log_z(const embed_job *j) { return job_why_no_log_z(&j->values); }

embed_status embed_job_fits(const embed_job *j, char *error, size_t room)
{
    return need_check(j->file->c, &j->values, error, room) ? EMBED_ENUMERIC : EMBED_OK;
}
