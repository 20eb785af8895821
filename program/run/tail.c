/* tail.c: what a trace says at its end.
 *
 * Does theta still move? Let d_k = (theta_k - theta_{k-1}) / rate_k be the direction of update k, free of the schedule: minus
 * the gradient for plain gradient descent, a number near +-1 for Adam while the gradient keeps its sign. The last tenth is
 * cut into BATCHES batches; b_1, ..., b_B are the mean directions of a parameter in them. Where theta has settled, their
 * mean is zero within its noise. It is called moving when both hold:
 *
 *     |mean b| > CRITICAL p^(1/4) se,    se = sd(b) / sqrt(B)     of p parameters; CRITICAL is exceeded by Student's t with
 *                                                                 4 degrees with probability 0.004, and its tail falls as
 *                                                                 t^-4, so p^(1/4) keeps that level for all p together
 *     |mean b| sum_k rate_k > NOTICEABLE (max theta - min theta)  as many iterations again would change theta by more than
 *                                                                 a hundredth of the way it has come
 *
 * A batch's mean direction is its change of theta over its sum of rates, so a thinned trace will do. */
#include "tail.h"

#include <math.h>
#include <string.h>

#include "files/files.h"

enum { BATCHES = 5, LEAST_ROWS = 10, USUAL_ROWS = 20 };
static const double CRITICAL = 6, NOTICEABLE = 0.01, SCARCE = 0.05;

/* The columns of a trace that are looked at; each has `rows` numbers, or is NULL. */
typedef struct {
    const double *iteration, *rate, *ess;
    csv_table table;
    int rows;
} sheet;

static const double *column(const sheet *s, const char *name)
{
    const csv_column *c = csv_find(&s->table, name);
    return c ? c->number : NULL;
}

static tail_value value_of(const sheet *s, const char *name, int rows)
{
    tail_value v = {.mean = NAN, .sd = NAN};
    const double *y = column(s, name);
    double mean = 0, squares = 0;
    for (int i = s->rows - rows; y && i < s->rows; i++) {
        if (!isfinite(y[i])) continue;
        double off = y[i] - mean;
        mean += off / ++v.n;
        squares += off * (y[i] - mean);
    }
    if (v.n > 0) v.mean = mean;
    if (v.n > 1) v.sd = sqrt(squares / (v.n - 1));
    return v;
}

/* ---------------------------------------------------------------------------- does theta still move? */

/* sum of rate times iterations over the rows behind `from` up to and including `to` */
static double path_length(const sheet *s, int from, int to)
{
    double sum = 0;
    for (int i = from + 1; i <= to; i++) sum += s->rate[i] * (s->iteration[i] - s->iteration[i - 1]);
    return sum;
}

typedef struct {
    double direction, error; /* mean over the batches, and its standard error */
} mean_direction;

static mean_direction direction_of(const sheet *s, const double *theta, int rows)
{
    double b[BATCHES], mean = 0, squares = 0;
    for (int i = 0; i < BATCHES; i++) {
        int from = s->rows - 1 - rows + i * rows / BATCHES, to = s->rows - 1 - rows + (i + 1) * rows / BATCHES;
        b[i] = (theta[to] - theta[from]) / path_length(s, from, to);
        mean += b[i] / BATCHES;
    }
    for (int i = 0; i < BATCHES; i++) squares += (b[i] - mean) * (b[i] - mean);
    return (mean_direction){.direction = mean, .error = sqrt(squares / (BATCHES - 1) / BATCHES)};
}

static double range_of(const double *y, int n)
{
    double low = y[0], high = y[0];
    for (int i = 1; i < n; i++) {
        low = fmin(low, y[i]);
        high = fmax(high, y[i]);
    }
    return high - low;
}

static int count_parameters(const sheet *s)
{
    char name[32];
    for (int p = 0;; p++) {
        (void)snprintf(name, sizeof name, "theta_%d", p + 1);
        if (!column(s, name)) return p;
    }
}

/* The rates of the last tenth must be known and positive, or there is no direction. */
static int has_rates(const sheet *s, int rows)
{
    for (int i = s->rows - rows; i < s->rows; i++)
        if (!(s->rate[i] > 0)) return 0;
    return 1;
}

static void judge_motion(tail *t, const sheet *s)
{
    char name[32];
    double most = 0;
    int p = count_parameters(s), rows = t->rows < s->rows ? t->rows : s->rows - 1;
    if (!s->rate || !s->iteration || p == 0 || rows < LEAST_ROWS || !has_rates(s, rows)) return;
    double critical = CRITICAL * sqrt(sqrt(p)), whole = path_length(s, 0, s->rows - 1);
    t->motion = TAIL_SETTLED;
    for (int j = 0; j < p; j++) {
        (void)snprintf(name, sizeof name, "theta_%d", j + 1);
        const double *theta = column(s, name);
        mean_direction d = direction_of(s, theta, rows);
        double share = fabs(d.direction) * whole / range_of(theta, s->rows);
        if (!(fabs(d.direction) > critical * d.error) || !(share > NOTICEABLE) || !(share > most)) continue;
        most = share;
        int last = s->rows - 1, first = last - rows;
        t->motion = TAIL_MOVES;
        t->moving = j + 1;
        t->move = (theta[last] - theta[first]) / (s->iteration[last] - s->iteration[first]);
    }
}

/* ---------------------------------------------------------------------------- were there weights? */

static void judge_weights(tail *t, const sheet *s, int64_t particles)
{
    int from = -1;
    t->first_ess = t->least_ess = NAN;
    if (!s->ess || !s->iteration) return;
    t->first_ess = s->ess[0];
    for (int i = 0; i < s->rows; i++) {
        t->least_ess = fmin(t->least_ess, s->ess[i]);
        if (!(s->ess[i] < SCARCE * (double)particles)) {
            from = -1;
            continue;
        }
        if (from < 0) from = i;
        int64_t long_for = (int64_t)(s->iteration[i] - s->iteration[from]) + 1;
        if (long_for <= t->starved) continue;
        t->starved = long_for;
        t->starved_from = (int64_t)s->iteration[from];
    }
}

/* ---------------------------------------------------------------------------- reading */

/* A tenth of the rows, but at least USUAL_ROWS or, of a trace that has fewer than twice as many, half of the rows: estimates from
 * fewer would be too uncertain. */
static int last_tenth(int rows)
{
    int tenth = (rows + 9) / 10, usual = rows / 2 < USUAL_ROWS ? rows / 2 : USUAL_ROWS;
    return tenth > usual ? tenth : usual;
}

static void judge(tail *t, const sheet *s, int64_t particles)
{
    t->rows = last_tenth(s->rows);
    t->iterations = (int64_t)(s->iteration[s->rows - 1] - s->iteration[s->rows - t->rows]) + 1;
    t->loss = value_of(s, "loss", t->rows);
    t->reward = value_of(s, "mean_score", t->rows);
    t->kl = value_of(s, "kl", t->rows);
    t->logz = value_of(s, "logz", t->rows);
    for (int i = 0; s->rate && i < s->rows; i++) t->top_rate = fmax(t->top_rate, s->rate[i]);
    if (s->rate) t->rate = s->rate[s->rows - 1];
    judge_motion(t, s);
    judge_weights(t, s, particles);
}

int tail_read(tail *out, const char *dir, int64_t particles, char *error, size_t room)
{
    char path[FILES_PATH];
    csv_options options = {.header = CSV_HEADER_YES, .max_bytes = (size_t)4 << 30};
    sheet s = {.rows = 0};
    const tail_value none = {.mean = NAN, .sd = NAN};
    *out = (tail){.loss = none, .reward = none, .kl = none, .logz = none, .first_ess = NAN, .least_ess = NAN};
    if (files_join(path, dir, "trace.csv", error, room) || csv_read(path, &options, &s.table, error, room)) return -1;
    s.rows = (int)s.table.rows;
    s.iteration = column(&s, "iteration");
    s.rate = column(&s, "rate");
    s.ess = column(&s, "ess");
    if (s.rows > 0 && s.iteration) judge(out, &s, particles);
    csv_free(&s.table);
    return 0;
}
