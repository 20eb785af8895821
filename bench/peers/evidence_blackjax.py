"""log Z of two normal modes (0.25 and 0.75 of the mass, unit covariance, at -4 and 4 on the first axis) from N(0, 16 I) by the
adaptive tempering of BlackJAX, with the inner kernels that did best here: Hamiltonian moves with the covariance of the modes given,
and MALA. Prints a line per setting, as bench/evidence does."""
import resource
import sys

try:
    import jax
    import jax.numpy as jnp
    import numpy as np

    import blackjax
    from blackjax.smc import extend_params, resampling
except ImportError:
    sys.exit(1)  # bench/evidence says what to install

jax.config.update("jax_enable_x64", True)

# Target of the effective sample size, kernel, moves per temperature, step, leapfrogs.
SETTINGS = ((0.5, "hmc", 10, 0.3, 10), (0.9, "hmc", 2, 0.5, 5), (0.9, "hmc", 1, 0.6, 3), (0.9, "mala", 5, 0.15, 1))


def problem(dim):
    means = jnp.zeros((2, dim)).at[0, 0].set(-4.0).at[1, 0].set(4.0)
    log_mass = jnp.log(jnp.array([0.25, 0.75]))

    def prior(x):
        return -jnp.sum(x**2) / 32 - 0.5 * dim * jnp.log(32 * jnp.pi)

    def likelihood(x):
        return jax.scipy.special.logsumexp(log_mass - 0.5 * jnp.sum((x - means) ** 2, -1)) - prior(x)

    return prior, likelihood


def sampler(dim, particles, share, kernel, moves, step, leaps):
    prior, likelihood = problem(dim)
    if kernel == "hmc":
        inner, init = blackjax.hmc.build_kernel(), blackjax.hmc.init
        settings = {"step_size": step, "inverse_mass_matrix": jnp.ones(dim), "num_integration_steps": leaps}
    else:
        inner, init, settings = blackjax.mala.build_kernel(), blackjax.mala.init, {"step_size": step}
    smc = blackjax.adaptive_tempered_smc(prior, likelihood, inner, init, extend_params(settings), resampling.systematic,
                                         share, num_mcmc_steps=moves)

    def temperature(state):
        return state.tempering_param if hasattr(state, "tempering_param") else state.lmbda

    def advance(carry):
        count, state, key, log_z = carry
        now, key = jax.random.split(key)
        state, info = smc.step(now, state)
        return count + 1, state, key, log_z + info.log_likelihood_increment

    def run(key):
        first, key = jax.random.split(key)
        state = smc.init(4 * jax.random.normal(first, (particles, dim)))
        count, _, _, log_z = jax.lax.while_loop(lambda c: temperature(c[1]) < 1, advance, (0, state, key, 0.0))
        return log_z, count

    return jax.jit(run)


def measure(dim, runs, particles, setting):
    share, kernel, moves, step, leaps = setting
    run = sampler(dim, particles, *setting)
    run(jax.random.PRNGKey(10**6))[0].block_until_ready()
    begun = resource.getrusage(resource.RUSAGE_SELF)
    results = [run(jax.random.PRNGKey(seed)) for seed in range(runs)]
    off = np.array([float(log_z) for log_z, _ in results]) - 0.5 * dim * np.log(2 * np.pi)
    ended = resource.getrusage(resource.RUSAGE_SELF)
    seconds = (ended.ru_utime - begun.ru_utime) / runs
    temperatures = np.mean([int(count) for _, count in results])
    evaluations = particles * (1 + temperatures * moves * (leaps if kernel == "hmc" else 1))
    rms = np.sqrt(np.mean(off**2))
    name = f"BlackJAX, {kernel} {moves} x {leaps}, ESS {share}"
    print(f"  {name:34s} rms {rms:.3f}   no stated error              {evaluations:10.0f} evaluations   {seconds:.3f} s   "
          f"at 100,000: {rms * np.sqrt(evaluations / 1e5):.3f}", flush=True)


if __name__ == "__main__":
    for one in SETTINGS:
        measure(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), one)
