/* numbers.c: every number that an objective has, in the form a + E_w[f] + c log Z, with its error by first ancestors.
 *
 *     mmle        loss = -log Z
 *     likelihood  loss = mean U(data) + log Z
 *     forward KL  loss = -E R + beta KL,  KL = mean over the reference of (U - U_ref) + log Z - log Z_ref, or with the density of the
 *                 reference law mean(U + log q_ref) + log Z
 *     reverse KL  loss = -E R + beta KL,  KL = -E[U - U_ref] - log Z + log Z_ref
 *
 * Fixed rows of data are all used and are no noise; random draws add their variance over their number. log Z_ref is a pass of its own
 * at theta_ref, whose error is added in squares. */
#include "numbers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/host.h"
#include "base/bounds.h"
#include "base/linear.h"
#include "base/student.h"
#include "base/tiles.h"

enum { PASS_AT_THETA, PASS_AT_REFERENCE, STREAM_DATA = 21, DATA_DRAWS = 16384 };

void sosmc_i_no_number(sosmc_number *n, const char *why)
{
    *n = (sosmc_number){.value = NAN, .error = NAN};
    (void)snprintf(n->why, sizeof n->why, "%s", why ? why : "");
}

static sosmc_number number(double value, double error) { return (sosmc_number){.value = value, .error = error}; }

/* ---------------------------------------------------------------------------- data and reference batches */

/* Means over the data: of U, of what the reference needs, of D; and the squared standard errors of random draws. */
typedef struct {
    double mean, error2;  /* of U(y), or of U(y) - U_ref(y), or of U(y) + log q(y) */
    double *D, *D_error2; /* of dU/dtheta(y), dim_theta numbers each; NULL: not wanted */
} data_means;

typedef struct {
    const fresh *f;
    const double *theta, *theta_ref;
    int density; /* take log q of the source */
} data_task;

/* One tile of the source at a time: serially, because a source may be anything and is asked once. */
static sosmc_status over_data(const data_task *t, data_means *out)
{
    const sosmc_problem *problem = t->f->problem;
    const sosmc_model *m = sosmc_i_original(&problem->model);
    const sosmc_source *data = &problem->objective.data;
    int64_t rows = data->row ? data->rows : 0, total = rows > 0 ? rows : DATA_DRAWS;
    size_t p = (size_t)m->dim_theta;
    double n = 0, mean = 0, square = 0;
    host h = {.memory = NULL}, ref = {.memory = NULL};
    sosmc_status status = sosmc_i_host_cut(&h, m, total, 1);
    sosmc_host *scores = NULL;
    double *points = NULL, *D = NULL;
    if (status == SOSMC_OK) status = sosmc_i_host_open(&h, t->theta, 1, 2);
    if (status == SOSMC_OK && t->theta_ref) {
        sosmc_i_host_shape(&ref, m, h.tile, h.ld);
        status = sosmc_i_host_open(&ref, t->theta_ref, 1, 1);
    }
    if (status == SOSMC_OK && out->D) status = sosmc_host_create(&scores, m, t->theta, 0);
    if (out->D) {
        points = malloc((size_t)h.tile * (size_t)m->dim_x * sizeof *points);
        D = malloc((size_t)h.tile * p * sizeof *D);
        if (!points || !D) status = SOSMC_ENOMEM;
        memset(out->D, 0, 2 * p * sizeof(double));
    }
    sosmc_rng rng = {.seed = t->f->seed, .stream = STREAM_DATA};
    for (int64_t first = 0; first < total && status == SOSMC_OK; first += h.tile) {
        sosmc_batch b = sosmc_i_host_batch(&h, 0, first, total);
        double *x = host_room(&h, 0), *U = x + h.vector, *other = U + h.row;
        int rc = rows > 0 ? data->row(data->self, &b, x) : data->draw(data->self, rng, &b, x);
        if (rc == 0) rc = m->energy(m->self, t->theta, &b, U, NULL);
        memset(other, 0, (size_t)b.n * sizeof(double));
        if (rc == 0 && t->density) rc = data->logpdf(data->self, &b, other);
        if (rc == 0 && t->theta_ref) {
            sosmc_batch at_ref = b;
            at_ref.prep = ref.prep;
            at_ref.work = (char *)host_room(&ref, 0) + ref.scratch;
            rc = m->energy(m->self, t->theta_ref, &at_ref, other, NULL);
            for (int i = 0; i < b.n; i++) other[i] = -other[i];
        }
        if (rc) status = SOSMC_EMODEL;
        if (status == SOSMC_OK && out->D) {
            sosmc_i_to_rows(m->dim_x, b.ld, b.n, x, points);
            status = sosmc_host_scores(scores, b.n, points, D);
        }
        for (int i = 0; i < b.n && status == SOSMC_OK; i++) {
            double value = U[i] + other[i], away = value - mean;
            mean += away / ++n;
            square += away * (value - mean);
            for (size_t j = 0; out->D && j < p; j++) {
                double apart = D[(size_t)i * p + j] - out->D[j];
                out->D[j] += apart / n;
                out->D_error2[j] += apart * (D[(size_t)i * p + j] - out->D[j]);
            }
        }
    }
    out->mean = mean;
    out->error2 = rows > 0 || n < 2 ? 0 : square / (n - 1) / n;
    for (size_t j = 0; out->D && j < p; j++) out->D_error2[j] = rows > 0 || n < 2 ? 0 : out->D_error2[j] / (n - 1) / n;
    sosmc_i_host_close(&h);
    sosmc_i_host_close(&ref);
    sosmc_host_free(scores);
    free(points);
    free(D);
    return status;
}

/* ---------------------------------------------------------------------------- the numbers */

/* log Z at theta_ref with its error, and of the law that is best of all where that is asked for. */
typedef struct {
    int trusted; /* the particles have arrived */
    double log_z, error;
    int best; /* they have gone on to the best law */
    double best_log_z, best_error;
} reference;

void sosmc_i_tilted_numbers(const pass_cloud *p, double beta, double *scratch, sosmc_number *reward, sosmc_number *kl,
                            sosmc_number *loss)
{
    double gain = p->log_z - p->halfway_log_z;
    for (int i = 0; i < p->n; i++) scratch[i] = p->R[i] / beta;
    *reward = sosmc_i_reward_of(p);
    *kl = number(reward->value / beta - gain, sosmc_i_pass_ratio_error(p, scratch, -1));
    *loss = number(-beta * gain, beta * sosmc_i_pass_ratio_error(p, NULL, 1));
}

/* Where no particle met another reward, nothing is known of a density that would. */
static void no_best_numbers(sosmc_judgement *out)
{
    static const char *const why = "the reward is the same for all fresh particles";
    sosmc_number *all[] = {&out->best_loss, &out->best_reward, &out->best_kl, &out->excess};
    for (int k = 0; k < 4; k++) sosmc_i_no_number(all[k], why);
    out->measured.excess = out->measured.excess_error = out->measured.to_gain = NAN;
}

static void best_numbers(const fresh *f, const pass_cloud *p, reference *r, sosmc_judgement *out)
{
    double *scratch = malloc((size_t)p->n * sizeof *scratch), beta = f->problem->objective.kl;
    if (!scratch) return; /* a number less */
    r->best = 1;
    r->best_log_z = p->log_z;
    r->best_error = sosmc_i_pass_error(p, NULL, 1);
    sosmc_i_tilted_numbers(p, beta, scratch, &out->best_reward, &out->best_kl, &out->best_loss);
    out->measured.to_gain = -p->halfway_reward - out->best_loss.value;
    free(scratch);
}

static sosmc_status at_reference(const fresh *f, reference *r, sosmc_judgement *out)
{
    const sosmc_objective *o = &f->problem->objective;
    pass_cloud p = {.n = 0};
    int tilted = f->tilts && o->loss == SOSMC_LOSS_REVERSE_KL && o->kl > 0 && o->score.eval;
    sosmc_status status = sosmc_i_fresh_pass(f, o->theta_ref, PASS_AT_REFERENCE, tilted ? FRESH_TILTED : FRESH_PLAIN,
                                             &p);
    *r = (reference){.trusted = status == SOSMC_OK && p.arrived >= (tilted ? 0.5 : 1)};
    if (r->trusted) {
        r->log_z = tilted ? p.halfway_log_z : p.log_z;
        r->error = tilted ? p.halfway_log_z_error : sosmc_i_pass_error(&p, NULL, 1);
        int met = p.halfway_spread > 0; /* temperatures go by the rewards that differed at first */
        if (tilted && !met) no_best_numbers(out);
        if (tilted && met && p.arrived >= 1) best_numbers(f, &p, r, out);
    }
    sosmc_i_pass_free(&p);
    return status;
}

sosmc_number sosmc_i_reward_of(const pass_cloud *p)
{
    double low = INFINITY, high = -INFINITY;
    for (int i = 0; i < p->n; i++) {
        if (!(p->w[i] > 0)) continue;
        low = fmin(low, p->R[i]);
        high = fmax(high, p->R[i]);
    }
    double least = (high > low ? high - low : fabs(high)) / p->n;
    return number(sosmc_i_pass_mean(p, p->R), fmax(sosmc_i_pass_error(p, p->R, 0), least));
}

static void without_reference(sosmc_judgement *out)
{
    sosmc_i_no_number(&out->kl, "the fresh particles did not reach the reference law");
    sosmc_i_no_number(&out->loss, out->kl.why);
}

static sosmc_status forward(const fresh *f, const double *theta, const pass_cloud *p, double *values,
                            sosmc_judgement *out)
{
    const sosmc_objective *o = &f->problem->objective;
    data_task task = {.f = f, .theta = theta, .density = o->data.logpdf != NULL};
    data_means data = {.mean = 0};
    reference ref = {.trusted = 1};
    double reward = p->R ? out->reward.value : 0;
    for (int i = 0; i < p->n; i++) values[i] = p->R ? -p->R[i] : 0;
    if (o->b == 0) {
        out->loss = number(-out->reward.value, out->reward.error);
        return SOSMC_OK;
    }
    if (!task.density && !o->theta_ref) {
        sosmc_i_no_number(&out->kl,
                          "the reference law has no density and no theta_ref, so its divergence is not known");
        sosmc_i_no_number(&out->loss, out->kl.why);
        return SOSMC_OK;
    }
    if (!task.density) task.theta_ref = o->theta_ref;
    sosmc_status status = over_data(&task, &data);
    if (status == SOSMC_OK && !task.density) status = at_reference(f, &ref, out);
    if (status != SOSMC_OK) return status;
    if (!ref.trusted) {
        without_reference(out);
        return SOSMC_OK;
    }
    double error = sosmc_i_pass_error(p, NULL, 1), ref2 = ref.error * ref.error;
    out->kl = number(data.mean + p->log_z - ref.log_z, sqrt(error * error + data.error2 + ref2));
    error = sosmc_i_pass_error(p, values, o->b);
    out->loss = number(o->b * out->kl.value - reward, sqrt(error * error + o->b * o->b * (data.error2 + ref2)));
    return SOSMC_OK;
}

static sosmc_status reverse(const fresh *f, const pass_cloud *p, double *values, sosmc_judgement *out)
{
    const double beta = f->problem->objective.kl;
    reference ref;
    if (!p->Uref) { /* the divergence has no weight */
        out->loss = number(-out->reward.value, out->reward.error);
        sosmc_i_no_number(&out->kl, "the divergence has no weight in the loss (beta 0) and is not measured");
        return SOSMC_OK;
    }
    if (sosmc_i_reweighed(&f->problem->objective, p, out) == 0) {
        if (f->tilts && sosmc_i_pass_reward_spread(p) == 0) no_best_numbers(out);
        return SOSMC_OK;
    }
    sosmc_status status = at_reference(f, &ref, out);
    if (status != SOSMC_OK) return status;
    if (!ref.trusted) {
        without_reference(out);
        return SOSMC_OK;
    }
    for (int i = 0; i < p->n; i++) values[i] = -(p->U[i] - p->Uref[i]);
    double error = sosmc_i_pass_error(p, values, -1), ref2 = ref.error * ref.error;
    out->kl = number(sosmc_i_pass_mean(p, values) - p->log_z + ref.log_z, sqrt(error * error + ref2));
    for (int i = 0; i < p->n; i++) values[i] = beta * values[i] - (p->R ? p->R[i] : 0);
    error = sosmc_i_pass_error(p, values, -beta);
    double mean = sosmc_i_pass_mean(p, values);
    out->loss = number(mean + beta * (ref.log_z - p->log_z), sqrt(error * error + beta * beta * ref2));
    if (!ref.best) return SOSMC_OK;
    double best2 = beta * beta * ref.best_error * ref.best_error; /* log Z of the reference is in both and cancels */
    out->excess = number(mean + beta * (ref.best_log_z - p->log_z), sqrt(error * error + best2));
    out->measured.excess = out->excess.value;
    out->measured.excess_error = out->excess.error;
    return SOSMC_OK;
}

sosmc_status sosmc_i_numbers(const fresh *f, const double *theta, const pass_cloud *p, sosmc_judgement *out)
{
    const sosmc_objective *o = &f->problem->objective;
    sosmc_status status = SOSMC_OK;
    data_means data = {.mean = 0};
    double error = sosmc_i_pass_error(p, NULL, 1);
    out->log_z = number(p->log_z, error);
    if (p->R) out->reward = sosmc_i_reward_of(p);
    double *values = malloc((size_t)p->n * sizeof *values);
    if (!values) return SOSMC_ENOMEM;
    switch (o->scale == 0 ? SOSMC_LOSS_NONE : o->loss) {
    case SOSMC_LOSS_MMLE: out->loss = number(-p->log_z, error); break;
    case SOSMC_LOSS_LIKELIHOOD:
        status = over_data(&(data_task){.f = f, .theta = theta}, &data);
        out->loss = number(data.mean + p->log_z, sqrt(error * error + data.error2));
        break;
    case SOSMC_LOSS_FORWARD_KL: status = forward(f, theta, p, values, out); break;
    case SOSMC_LOSS_REVERSE_KL: status = reverse(f, p, values, out); break;
    default: break;
    }
    free(values);
    return status;
}

/* ---------------------------------------------------------------------------- fresh particles against theta */

/* f_i = s~_i D~_i + a D_i, whose weighted mean is the gradient without the data's share; then H^-1 of it, row by row. */
static void newton_rows(const fresh *f, const pass_cloud *p, const theta_estimate *e, double *rows, double *work)
{
    const sosmc_objective *o = &f->problem->objective;
    size_t dim = (size_t)p->dim_theta;
    double sbar = 0, *mean = rows + (size_t)p->n * dim;
    memset(mean, 0, dim * sizeof(double));
    for (int i = 0; i < p->n; i++) {
        double s = (p->R ? p->R[i] : 0) + (p->Uref ? o->kl * (p->U[i] - p->Uref[i]) : 0);
        if (!(p->w[i] > 0)) continue;
        sbar += p->w[i] * s;
        for (size_t j = 0; j < dim; j++) mean[j] += p->w[i] * p->D[(size_t)i * dim + j];
    }
    for (int i = 0; i < p->n; i++) {
        double s = (p->R ? p->R[i] : 0) + (p->Uref ? o->kl * (p->U[i] - p->Uref[i]) : 0), *row = rows + (size_t)i * dim;
        for (size_t j = 0; j < dim; j++) {
            double D = p->D[(size_t)i * dim + j];
            work[j] = p->w[i] > 0 ? o->scale * ((s - sbar) * (D - mean[j]) + o->a * D) : 0;
        }
        sosmc_i_matrix_vector(dim, e->inverse, work, row);
    }
}

sosmc_status sosmc_i_contradiction(const fresh *f, const double *theta, const pass_cloud *p, const theta_estimate *e,
                                   sosmc_measured *m)
{
    const sosmc_objective *o = &f->problem->objective;
    size_t dim = (size_t)p->dim_theta;
    if (!p->D || !e->definite || o->penalty || o->energy2 != 0) return SOSMC_OK;
    double *memory = calloc((size_t)(p->n + 5) * dim + (size_t)p->n, sizeof *memory);
    if (!memory) return SOSMC_ENOMEM;
    double *rows = memory, *column = rows + (size_t)(p->n + 1) * dim, *data_step = column + p->n,
           *data_error2 = data_step + dim;
    double worst = 0;
    data_means data = {.D = data_step, .D_error2 = data_error2};
    sosmc_status status = o->b != 0 ? over_data(&(data_task){.f = f, .theta = theta}, &data) : SOSMC_OK;
    newton_rows(f, p, e, rows, data_error2 + dim);
    double *work = data_error2 + dim;
    for (size_t j = 0; j < dim; j++) work[j] = o->scale * o->b * data_step[j];
    sosmc_i_matrix_vector(dim, e->inverse, work, data_step);
    m->fresh_limit = sosmc_i_student_quantile(1 - 0.0025 / (double)dim, SOSMC_GROUPS - 1);
    for (size_t j = 0; j < dim && status == SOSMC_OK; j++) {
        for (int i = 0; i < p->n; i++) column[i] = rows[(size_t)i * dim + j];
        double step = sosmc_i_pass_mean(p, column) + data_step[j], error = sosmc_i_pass_error(p, column, 0);
        double error2 = error * error + e->mc_error[j] * e->mc_error[j];
        for (size_t k = 0; k < dim; k++) {
            double r = o->scale * o->b * e->inverse[j * dim + k];
            error2 += r * r * data_error2[k];
        }
        double size = fabs(step) / sqrt(error2);
        if (!(size > worst)) continue;
        worst = size;
        m->fresh_worst = (int)j;
        m->fresh_step = step;
        m->fresh_error = sqrt(error2);
        m->fresh_worth = e->inverse[j * dim + j] > 0 ? 0.5 * step * step / e->inverse[j * dim + j] : 0;
    }
    free(memory);
    return status;
}
