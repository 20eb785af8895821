/* schemes.c: methods as rows of loop options, the default settings, and the names of things.
 *
 *     preset          particles   pool   sweeps   keep       weighted   drift at    refresh
 *     sosmc           n           n      1        1          yes        -           0
 *     unweighted      n           n      1        1          no         previous    0
 *     moved_first     n           n      1        1          no         current     0
 *     soul            1           1      n        n/2        no         current     0
 *     pcd             n           M      k        1          no         current     0.05
 *
 * Invariant: a method differs from another by these values alone, so a comparison never compares two programs. */
#include <sosmc/sosmc.h>

const char *sosmc_version(void) { return SOSMC_VERSION; }

const char *sosmc_status_name(sosmc_status status)
{
    switch (status) {
    case SOSMC_OK: return "SOSMC_OK";
    case SOSMC_STOPPED: return "SOSMC_STOPPED";
    case SOSMC_EINVAL: return "SOSMC_EINVAL";
    case SOSMC_ENOMEM: return "SOSMC_ENOMEM";
    case SOSMC_EMODEL: return "SOSMC_EMODEL";
    case SOSMC_ENUMERIC: return "SOSMC_ENUMERIC";
    case SOSMC_EIO: return "SOSMC_EIO";
    case SOSMC_ECOMM: return "SOSMC_ECOMM";
    }
    return "unknown status";
}

sosmc_scheme sosmc_scheme_sosmc(int particles)
{
    return (sosmc_scheme){.particles = particles,
                          .pool = particles,
                          .sweeps = 1,
                          .keep = 1,
                          .weighted = 1,
                          .order = SOSMC_ORDER_PAPER,
                          .drift_at = SOSMC_AT_PREVIOUS,
                          .ess_min = 0.5,
                          .resampling = SOSMC_SYSTEMATIC};
}

sosmc_scheme sosmc_scheme_unweighted(int particles)
{
    sosmc_scheme s = sosmc_scheme_sosmc(particles);
    s.weighted = 0;
    s.ess_min = 0.0;
    return s;
}

sosmc_scheme sosmc_scheme_moved_first(int particles)
{
    sosmc_scheme s = sosmc_scheme_unweighted(particles);
    s.drift_at = SOSMC_AT_CURRENT;
    return s;
}

sosmc_scheme sosmc_scheme_soul(int sweeps)
{
    sosmc_scheme s = sosmc_scheme_moved_first(1);
    s.sweeps = sweeps;
    s.keep = sweeps / 2 > 1 ? sweeps / 2 : 1;
    return s;
}

sosmc_scheme sosmc_scheme_pcd(int particles, int pool, int sweeps)
{
    sosmc_scheme s = sosmc_scheme_moved_first(particles);
    s.pool = pool;
    s.sweeps = sweeps;
    s.refresh = 0.05;
    return s;
}

sosmc_settings sosmc_defaults(void)
{
    const sosmc_adapt off = {.threshold = 0.95,
                             .factor = 1.0,
                             .min = 1e-8,
                             .max = 1e8,
                             .signal = SOSMC_SIGNAL_ESS,
                             .target = SOSMC_ADAPT_STEP};
    sosmc_settings cfg = {.scheme = sosmc_scheme_sosmc(1000),
                          .kernel = sosmc_ula(0.05),
                          .adapt = {off, off},
                          .optimiser = sosmc_adam(0.01),
                          .schedule = {.kind = SOSMC_SCHEDULE_CONSTANT},
                          .threads = 1,
                          .on_nonfinite = SOSMC_NONFINITE_DEFAULT,
                          .on_collapse = SOSMC_COLLAPSE_DEFAULT,
                          .judge = 0.05,
                          .work_limit = (size_t)256 << 20};
    cfg.adapt[1].signal = SOSMC_SIGNAL_ACCEPT;
    return cfg;
}
