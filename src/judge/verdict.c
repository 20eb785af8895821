/* verdict.c: what was measured of a run, as a status and sentences. This is the one place where runs are judged; each rule names
 * its number and what to change. What was not measured is not judged. */
#include <float.h>
#include <math.h>
#include <sosmc/judge.h>
#include <stdarg.h>
#include <stdio.h>

static const double FROZEN = 0.01, FEW_SURVIVORS = 0.1, COVERS = 0.7, LEARNT = 0.01, UNSEEN = 0.1, /* nats */
    REACH = 0.1,                              /* of an independent draw */
    BLUNT = 0.07,                             /* of a curvature, its standard error */
    BEHIND = 0.1,                             /* nats per point */
    SHORT = 0.05,                             /* of what there was to gain: so much may be missing */
    ROUNDING = 1e-12;                         /* of a loss */
static const double STEEP = 0.05, WALL = 1e6; /* of a power that is named; nats of a jump that is called a wall */
enum { OBSERVED_PER_RENEWAL = 8, COLLAPSED = 100, SHORTEST = 128 };

const char *sosmc_verdict_name(sosmc_verdict_status status)
{
    static const char *const names[] = {"converged", "not_converged", "failed"};
    return names[status];
}

sosmc_measured sosmc_nothing_measured(void)
{
    return (sosmc_measured){.learnt = NAN,
                            .unseen = NAN,
                            .unseen_error = NAN,
                            .excess = NAN,
                            .excess_error = NAN,
                            .to_gain = NAN,
                            .tail_from = -1,
                            .observed = -1,
                            .newton = NAN,
                            .newton_expected = NAN,
                            .newton_limit = NAN,
                            .imprecise = NAN,
                            .newton_worst = -1,
                            .newton_worst_step = NAN,
                            .newton_worst_error = NAN,
                            .renewals = -1,
                            .hessian_definite = -1,
                            .unresolved_hides = NAN,
                            .unresolved_where = -1,
                            .at_bound = -1,
                            .bound = NAN,
                            .mobility = NAN,
                            .step = NAN,
                            .step_bound = NAN,
                            .first_ess = NAN,
                            .first_khat = NAN,
                            .behind = NAN,
                            .behind_error = NAN,
                            .score_spread = NAN,
                            .pass_arrived = NAN,
                            .pass_survivors = NAN,
                            .pass_khat = NAN,
                            .pass_log_z = NAN,
                            .fresh_worst = -1,
                            .fresh_step = NAN,
                            .fresh_error = NAN,
                            .fresh_limit = NAN,
                            .fresh_worth = NAN,
                            .loss_unit = NAN,
                            .gradient_ratio = NAN,
                            .start_arrived = -1,
                            .modes = -1,
                            .start_gap = NAN,
                            .start_gap_error = NAN,
                            .reach = NAN,
                            .runs_from = NAN,
                            .runs_to = NAN,
                            .moves_wanted = NAN};
}

static void say(sosmc_verdict_words *v, sosmc_verdict_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void say(sosmc_verdict_words *v, sosmc_verdict_status status, const char *format, ...)
{
    va_list arguments;
    if ((int)status > v->status) v->status = (int)status;
    if (v->reasons == SOSMC_REASONS) return;
    va_start(arguments, format);
    (void)vsnprintf(v->reason[v->reasons++], SOSMC_SENTENCE, format, arguments);
    va_end(arguments);
}

/* The user's name of a parameter, or "theta", or which of several, counted from 1 as in the trace. */
static const char *which(const sosmc_measured *m, int parameter, char text[32])
{
    if (m->names) return m->names + (size_t)parameter * (size_t)m->name_room;
    (void)snprintf(text, 32, m->dim_theta > 1 ? "theta_%d" : "theta", parameter + 1);
    return text;
}

static void judge_failure(const sosmc_measured *m, sosmc_verdict_words *v)
{
    if (m->failed < 0)
        say(v, SOSMC_RUN_FAILED, "the run failed: %s", m->failed_why ? m->failed_why : sosmc_status_name(m->failed));
    else if (m->weighted && m->collapsed >= COLLAPSED)
        say(v, SOSMC_RUN_FAILED,
            "the cloud is dead: its effective sample size was below 2 of %d particles for the last %lld iterations; take a smaller "
            "kernel step or learning rate, more particles or a wider initial law",
            m->particles, (long long)m->collapsed);
    if (fabs(m->gradient_ratio - 1) > m->gradient_error)
        say(v, SOSMC_NOT_CONVERGED,
            "%s does not match the energy: differences of the energy are %.6g +- %.1g of its derivative instead of 1; mend the "
            "gradient of the model (sosmc check)",
            m->gradient_which ? m->gradient_which : "a gradient", m->gradient_ratio, m->gradient_error);
}

/* Where the best of all densities is known, theta is judged by how near it comes, whatever else is known of theta. */
static void judge_excess(const sosmc_measured *m, sosmc_verdict_words *v)
{
    double error = isfinite(m->excess_error) ? m->excess_error : 0;
    if (m->excess <= ROUNDING && m->excess >= -ROUNDING && error <= ROUNDING)
        return; /* where there is nothing to gain, no share of it is left */
    if (m->theta_unknown && (!isfinite(m->to_gain) || m->excess < -5 * error - ROUNDING)) {
        say(v, SOSMC_NOT_CONVERGED,
            "the loss came out %.2g from that of the best of all densities (error %.1g), which gains %.2g over the reference: one of the "
            "two was not measured rightly; look for points at which the reward or an energy is no finite number",
            m->excess, error, m->to_gain);
        return;
    }
    if (m->theta_unknown && m->excess > SHORT * m->to_gain + 2 * error)
        say(v, SOSMC_NOT_CONVERGED,
            "the loss is %.2g above that of the best of all densities (error %.1g), which is %.0f %% of what there was to gain (at "
            "most %.0f %% is wanted); take %s",
            m->excess, error, 100 * m->excess / m->to_gain, 100 * SHORT,
            m->automatic ? "more particles or a larger network" : "more iterations, a larger rate or a larger network");
    else if (m->theta_unknown && error > SHORT * m->to_gain)
        say(v, SOSMC_NOT_CONVERGED,
            "whether the loss is near that of the best of all densities is not known: its distance is %.2g with an error of %.2g; %s",
            m->excess, error,
            m->automatic ? "give an initial law that is closer" : "let judging take more (judge: cost)");
}

static void judge_theta(const sosmc_measured *m, sosmc_verdict_words *v)
{
    char name[32];
    if (!m->optimises) return;
    if (m->iterations < SHORTEST)
        say(v, SOSMC_NOT_CONVERGED,
            "%lld iterations are too few to tell whether theta has converged; it takes at least %d",
            (long long)m->iterations, SHORTEST);
    else if (isfinite(m->excess))
        judge_excess(m, v);
    else if (m->theta_unknown)
        say(v, SOSMC_NOT_CONVERGED, "whether theta has converged is not known: %s", m->theta_unknown);
    if (m->at_bound >= 0)
        say(v, SOSMC_NOT_CONVERGED,
            "%s ended at its bound %g: the loss still falls there; widen the bound, or leave the parameter out",
            which(m, m->at_bound, name), m->bound);
    if (m->hessian_definite == 0)
        say(v, SOSMC_NOT_CONVERGED,
            "the second derivative of the loss is not positive definite: theta is not at a minimum, or the cloud is too small to "
            "tell; take more iterations or more particles");
    int moves = m->newton > m->newton_limit + 4 * m->newton_expected;
    if (moves)
        say(v, SOSMC_NOT_CONVERGED,
            "theta has not converged: a Newton step would still gain %.2g of the loss, of which %.2g is noise (%s would move by "
            "%.3g, its error is %.2g); take more iterations or a larger rate",
            m->newton, m->newton_expected, which(m, m->newton_worst < 0 ? 0 : m->newton_worst, name),
            -m->newton_worst_step, m->newton_worst_error);
    if (m->newton_expected > m->imprecise)
        say(v, SOSMC_NOT_CONVERGED,
            "theta is not known well enough: its Monte Carlo error is worth %.2g of the loss (at most %.2g is wanted), and may be larger "
            "where the loss is not quadratic; take more particles, more iterations or a smaller rate",
            m->newton_expected, m->imprecise);
    if (m->unresolved > 0 && m->unresolved_hides > 5 * m->newton_limit)
        say(v, SOSMC_NOT_CONVERGED,
            "theta is not determined along a direction that is mostly %s: the cloud cannot tell the curvature of the loss there, and "
            "its slope may hide %.2g of the loss; take more particles, or leave the parameter out",
            which(m, m->unresolved_where, name), m->unresolved_hides);
    if (m->renewals > 0 && m->observed < OBSERVED_PER_RENEWAL * (m->renewals + 1))
        say(v, SOSMC_NOT_CONVERGED,
            "the error of theta is not to be trusted: the groups of particles behind it died out %lld times in %lld observed "
            "iterations; take more particles or a smaller rate",
            (long long)m->renewals, (long long)m->observed);
    if (!moves && m->fresh_worst >= 0 && fabs(m->fresh_step) > m->fresh_limit * m->fresh_error &&
        m->fresh_worth > 0.005 * m->loss_unit)
        say(v, SOSMC_NOT_CONVERGED,
            "fresh particles contradict the run: they would move %s by %.3g, %.1f times the error of that, and gain %.2g of the "
            "loss; the cloud has lost a part of the target, or is biased: take more moves, a smaller step or a wider initial law",
            which(m, m->fresh_worst, name), -m->fresh_step, fabs(m->fresh_step) / m->fresh_error, m->fresh_worth);
}

static void judge_cloud(const sosmc_measured *m, sosmc_verdict_words *v)
{
    if (m->mobility < FROZEN)
        say(v, SOSMC_NOT_CONVERGED,
            "the cloud is frozen: a move goes %.2g of the way to an independent draw (mobility; at least %g is needed); take a "
            "larger kernel step, more sweeps or another kernel",
            m->mobility, FROZEN);
    if (isfinite(m->step_bound))
        say(v, SOSMC_NOT_CONVERGED,
            "the kernel's step ended at the bound %g of its adaptation; widen adapt's min and max", m->step_bound);
    if (m->score_spread == 0 && (m->optimises || m->tilts))
        say(v, SOSMC_NOT_CONVERGED,
            "the reward is the same for all %d particles, so %s; take %sanother reward, or an initial law that reaches where it "
            "differs",
            m->particles, m->tilts ? "nothing is known of what it would change" : "it says nothing about theta",
            m->tilts ? "more particles, " : "");
    /* Where fresh particles agree with theta, the run has recovered from its start. */
    int confirmed = m->fresh_worst >= 0 && m->pass_survivors >= FEW_SURVIVORS && v->reasons == 0;
    if (m->weighted && m->first_khat > COVERS && m->first_ess < 0.05 && !confirmed)
        say(v, SOSMC_NOT_CONVERGED,
            "the initial law does not cover the target: its first weights leave %.2g of the particles (Pareto index %.2f, at most "
            "%.1f is wanted); take a wider initial law or more particles",
            m->first_ess, m->first_khat, COVERS);
}

static void judge_pass(const sosmc_measured *m, sosmc_verdict_words *v)
{
    if (m->pass_particles == 0 && !m->optimises)
        say(v, SOSMC_NOT_CONVERGED,
            "nothing was measured of what the particles follow, so nothing can be said of them");
    if (m->pass_particles == 0) return;
    if (!(m->pass_arrived >= 1))
        say(v, SOSMC_NOT_CONVERGED,
            "log Z, loss, KL and reward could not be measured: the fresh particles came to temperature %.2g of 1",
            m->pass_arrived);
    else if (m->pass_survivors < FEW_SURVIVORS)
        say(v, SOSMC_NOT_CONVERGED,
            "log Z, loss, KL and reward are not to be trusted: all %d fresh particles descend from %.2g of them (at least %g is "
            "wanted); take a model or an initial law that is closer, or more particles",
            m->pass_particles, m->pass_survivors, FEW_SURVIVORS);
    if (fabs(m->pass_log_z) * DBL_EPSILON > UNSEEN)
        say(v, SOSMC_NOT_CONVERGED,
            "the energies are too large: log Z is %.3g, whose rounding alone is %.2g nats (at most %g is allowed), so differences between "
            "particles are lost; scale the coordinates, start nearer to the mass, or take a constant off the energy",
            m->pass_log_z, fabs(m->pass_log_z) * DBL_EPSILON, UNSEEN);
}

/* What the solver assumes of U and does not hold. */
static void judge_energy(const sosmc_measured *m, sosmc_verdict_words *v)
{
    char name[32];
    int at = m->wall_where + 1;
    if (m->batch) /* then the jumps are of its making */
        say(v, SOSMC_NOT_CONVERGED,
            "%s of a particle depends on its place in the batch or on the size of the batch; look for an index into the batch, a mean "
            "over it, or random numbers",
            m->batch == 1 ? "U or dU/dx" : "dU/dtheta");
    else if (m->wall_jump < 0)
        say(v, SOSMC_NOT_CONVERGED, "U is minus infinity near x_%d = %.4g; return plus infinity where x is not allowed",
            at, m->wall_place);
    else if (m->wall_moves > 0)
        say(v, SOSMC_NOT_CONVERGED,
            "U jumps at x_%d = %.4g and the jump changes with %s, so the gradient of the loss is not the mean of dU/dtheta; write x "
            "with a bound that does not depend on theta, or make the step smooth",
            at, m->wall_place, which(m, m->wall_moves - 1, name));
    else if (fabs(m->wall_power) > STEEP)
        say(v, SOSMC_NOT_CONVERGED,
            "U behaves as %.2g log(distance) at the wall x_%d = %.4g, so its slopes have no variance and moves stick there; declare the "
            "bound with x_low or x_high",
            m->wall_power, at, m->wall_place);
    else if (m->wall_jump > 0 && v->reasons > 0) /* alone it is no reason: theta is right all the same */
        say(v, SOSMC_NOT_CONVERGED,
            "U %s at x_%d = %.4g, which may be the cause; declare the bound with x_low or x_high, or make the step smooth",
            m->wall_jump >= WALL ? "has a wall" : "jumps", at, m->wall_place);
}

/* So many times the particles, in whole hundreds. */
static int enough_particles(int particles, double times)
{
    return (int)(100 * ceil(fmin(particles * times, 1e9) / 100));
}

/* A parameter that ran far: whether the loss asks for it, or hardly depends on it. */
static void judge_running(const sosmc_measured *m, sosmc_verdict_words *v)
{
    char text[32];
    int up = m->runs_away > 0;
    if (!m->runs_away) return;
    const char *name = which(m, (up ? m->runs_away : -m->runs_away) - 1, text), *end = up ? "plus" : "minus";
    if (m->vertex)
        say(v, SOSMC_NOT_CONVERGED,
            "%s ran to %s infinity (it went from %.4g to %.4g), where no particle tells the parameters apart; does U contain every term with "
            "theta, the normalising constant of the prior included?",
            name, end, m->runs_from, m->runs_to);
    else if (m->keeps_falling)
        say(v, SOSMC_NOT_CONVERGED,
            "%s keeps %s (it went from %.4g to %.4g), and the loss falls further as far as the particles see; does U contain every term with "
            "theta, the normalising constant of the prior included? If it does, fix the parameter or leave it out",
            name, up ? "increasing" : "decreasing", m->runs_from, m->runs_to);
    else
        say(v, SOSMC_NOT_CONVERGED,
            "%s is not determined: it went from %.4g to %.4g, where the loss hardly depends on it; its best value may be %s infinity%s, or U lacks "
            "a term with theta, such as the normalising constant of the prior; fix the parameter, leave it out, or take more particles",
            name, m->runs_from, m->runs_to, end, up ? "" : " (of the logarithm of a scale: a scale of 0)");
}

/* What a solver cannot vouch for. It chose its settings itself, so what can be changed is particles, limits and the problem. */
static void judge_solver(const sosmc_measured *m, sosmc_verdict_words *v)
{
    char name[32];
    if (m->ended_in) {
        say(v, SOSMC_NOT_CONVERGED,
            "it was ended while in its phase `%s`; go on with a larger limit of time or evaluations", m->ended_in);
        return;
    }
    if (m->modes == 0)
        say(v, SOSMC_NOT_CONVERGED,
            "no mode of the particles' law was found, so nothing says that they are where its mass is; give an initial law that "
            "reaches it");
    if (m->start_arrived == 0)
        say(v, SOSMC_NOT_CONVERGED,
            "fresh particles did not arrive at the law of the particles within 400 temperatures; give an initial law that is closer");
    if (m->reach < REACH)
        say(v, SOSMC_NOT_CONVERGED,
            "the particles' distribution has many modes (%d were found, and not all), and particles do not pass between them: a jump along "
            "a coordinate makes %.2g of an independent draw (at least %g is needed), so the masses of the modes are not known; write the "
            "model in coordinates of which each has modes of its own, or with fewer modes",
            m->modes, m->reach, REACH);
    /* Where law A holds all modes, the other way round wide particles missed one. */
    if (m->start_gap < -(2 + 5 * m->start_gap_error) ||
        (isfinite(m->reach) && m->start_gap > 2 + 5 * m->start_gap_error))
        say(v, SOSMC_NOT_CONVERGED,
            "two ways to the law of the particles disagree about log Z by %.2g, with an error of %.2g: a part of the law is missed by "
            "one of them; take more particles, or an initial law that covers it",
            m->start_gap, m->start_gap_error);
    if (isfinite(m->excess))
        judge_excess(m, v);
    else if (m->theta_unknown)
        say(v, SOSMC_NOT_CONVERGED, "whether theta has converged is not known: %s", m->theta_unknown);
    if (m->learnt < LEARNT)
        say(v, SOSMC_NOT_CONVERGED,
            "the network has learnt nothing: its loss fell by %.2g from the untrained one's; unless the points follow its base law, take "
            "another seed or scale the points",
            m->learnt);
    if (m->behind > BEHIND + 3 * m->behind_error)
        say(v, SOSMC_NOT_CONVERGED,
            "the network has not learnt the shape of the points: normal laws that are fitted to them have a mean log-density that is %.2g "
            "larger, at points that neither has seen (error %.1g); take a larger network or other coordinates, or such laws",
            m->behind, m->behind_error);
    if (m->unseen > UNSEEN + 5 * m->unseen_error)
        say(v, SOSMC_NOT_CONVERGED,
            "the network has mass where the search had no particles: log Z is %.2g larger than it saw (error %.1g), as where a single "
            "point lies far from all others; look for such points, scale them, or take more particles",
            m->unseen, m->unseen_error);
    if (m->out_of_updates)
        say(v, SOSMC_NOT_CONVERGED,
            "theta still moved after %lld updates; start closer to the answer, or scale the parameters",
            (long long)m->updates);
    if (m->moves_wanted > 48)
        say(v, SOSMC_NOT_CONVERGED,
            "the particles hardly move: half of a particle's place is forgotten after %.0f moves only (at most 48 are allowed); scale "
            "the model's coordinates, or write it in others",
            m->moves_wanted);
    if (m->vertex && !m->runs_away)
        say(v, SOSMC_NOT_CONVERGED,
            "no particle tells the parameters apart any more: theta has gone to the border of what the model can be");
    judge_running(m, v);
    if (m->at_bound >= 0)
        say(v, SOSMC_NOT_CONVERGED,
            "%s ended at its bound %g: the loss still falls there; widen the bound, or leave the parameter out",
            which(m, m->at_bound, name), m->bound);
    if (m->newton_expected > 2 * m->newton_limit)
        say(v, SOSMC_NOT_CONVERGED,
            "theta is not known well enough: its Monte Carlo error is worth %.2g of the loss (at most %.2g is wanted); some %d particles "
            "would do, or ask for less precision",
            m->newton_expected, m->newton_limit, enough_particles(m->particles, m->newton_expected / m->newton_limit));
    else if (m->newton > 0.25 * m->newton_limit + 4 * m->newton_expected)
        say(v, SOSMC_NOT_CONVERGED,
            "theta has not settled: a Newton step would still gain %.2g of the loss, of which %.2g is noise (%s would move by %.3g, its "
            "error is %.2g); take more particles",
            m->newton, m->newton_expected, which(m, m->newton_worst < 0 ? 0 : m->newton_worst, name),
            m->newton_worst_step, m->newton_worst_error);
    if (m->unresolved > 0 && m->unresolved_hides > 5 * m->newton_limit)
        say(v, SOSMC_NOT_CONVERGED,
            "theta is not determined along a direction that is mostly %s: the curvature of the loss is not known there, and its slope "
            "may hide %.2g of the loss; take more particles, or leave the parameter out",
            which(m, m->unresolved_where, name), m->unresolved_hides);
    else if (m->unresolved > 0 && m->likelihood) {
        if (!m->runs_away) /* else that is the reason */
            say(v, SOSMC_NOT_CONVERGED,
                "the likelihood is flat along a direction that is mostly %s, so the data do not determine it; leave the parameter out, or "
                "start from another theta",
                which(m, m->unresolved_where, name));
    } else if (m->downhill > 0)
        say(v, SOSMC_NOT_CONVERGED,
            "theta is not at a minimum: along a direction that is mostly %s the loss still falls, and does not curve upwards; start from "
            "another theta",
            which(m, m->unresolved_where, name));
    if (m->bent > 0)
        say(v, SOSMC_NOT_CONVERGED,
            "the second derivative of the loss along a direction that is mostly %s changes by %.0f %% when its differences are shortened "
            "(at most 5 %% is allowed), so the errors of theta may be wrong; look for a jump or for rounding in U and dU/dtheta",
            which(m, m->bent_where, name), 100 * m->bent);
    if (m->blunt > BLUNT && m->likelihood)
        say(v, SOSMC_NOT_CONVERGED,
            "the curvature of the loss along a direction that is mostly %s has an error of %.0f %% (at most 7 %% is wanted), so the errors "
            "of theta may be wrong; take %d particles",
            which(m, m->blunt_where, name), 100 * m->blunt,
            enough_particles(m->particles, m->blunt * m->blunt / (BLUNT * BLUNT)));
    if (m->off != 0)
        say(v, SOSMC_NOT_CONVERGED,
            "%s is off by %.2g behind its last step, because the loss is no quadratic there; take more particles, or start from "
            "the theta that was found",
            which(m, m->off_where, name), m->off);
    if (m->negative)
        say(v, SOSMC_NOT_CONVERGED,
            "the loss curves downwards in %d direction%s of theta: this is no minimum; start from another theta",
            m->negative, m->negative > 1 ? "s" : "");
    if (m->fresh_worst >= 0)
        say(v, SOSMC_NOT_CONVERGED,
            "fresh particles contradict those that led theta here: they would move %s by %.3g, with an error of %.2g, which is worth "
            "%.2g of the loss; take more particles",
            which(m, m->fresh_worst, name), m->fresh_step, m->fresh_error, m->fresh_worth);
    judge_energy(m, v);
}

void sosmc_verdict(const sosmc_measured *m, sosmc_verdict_words *out)
{
    *out = (sosmc_verdict_words){.status = SOSMC_CONVERGED};
    judge_failure(m, out);
    if (out->status == SOSMC_RUN_FAILED) return;
    if (m->automatic)
        judge_solver(m, out);
    else
        judge_theta(m, out);
    judge_cloud(m, out);
    judge_pass(m, out);
}
