"""Reward tuning of an energy network in jitted JAX: passes over the particles in several arrangements, and one whole
iteration in the order of the published programs, compiled as one function. Particles are rows of x; an energy takes
(theta, x) with theta any tree of arrays."""
from typing import Callable, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from common import fastest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

EVERYWHERE, SPLIT = PartitionSpec(), PartitionSpec("particles")


class Task(NamedTuple):
    reward: Callable  # of x, one number per particle
    beta: float
    rate: float  # of Adam
    clip: float  # largest gradient norm
    gamma: float  # first step of the kernel, and how it follows the effective sample size
    factor: float
    gamma_max: float


class Arrangement:
    """How an energy is written and the passes over the particles are cut: tile = 0 takes all at once; devices > 1 shares
    them out. A plain one is what a user would write, in one batch. Compiled as one function, the pass for the parameters
    takes its forward half from the pass for input gradients, unless they are kept apart, as they are when each is a call
    of its own. Tiles are loops of their own: their passes are apart whatever is said."""

    def __init__(self, energy, written, tile, devices, plain=True, apart=False):
        self.energy, self.tile, self.plain = energy, tile, plain and tile == 0 and devices == 1
        self.apart = apart
        self.name = ", ".join(part for part in (written, f"tile {tile or 'none'}", f"{devices} device") if part)
        self.name += "s" * (devices > 1) + ", passes apart" * apart
        self.mesh = Mesh(np.array(jax.devices()[:devices]), ("particles",)) if devices > 1 else None

    def energy_gradient(self, theta, x):
        e, pull = jax.vjp(lambda y: self.energy(theta, y), x)
        return e, pull(jnp.ones_like(e))[0]

    def theta_gradient(self, theta, x, c):
        if self.apart:
            theta, x = jax.lax.optimization_barrier((theta, x))
        return jax.grad(lambda t: jnp.vdot(c, self.energy(t, x)))(theta)

    def place(self, array, spec=EVERYWHERE):
        return jax.device_put(array, NamedSharding(self.mesh, spec)) if self.mesh else array

    def _share(self, f, arrays, out):
        if not self.mesh:
            return f
        return jax.shard_map(f, mesh=self.mesh, in_specs=(EVERYWHERE,) + (SPLIT,) * arrays, out_specs=out,
                             check_vma=False)

    def _cut(self, array):
        return array.reshape(-1, self.tile, *array.shape[1:])

    def each(self, f, theta, x):
        """f, particle by particle."""
        def run(theta, x):
            if not self.tile:
                return f(theta, x)
            out = jax.lax.map(lambda part: f(theta, part), self._cut(x))
            return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), out)

        return self._share(run, 1, SPLIT)(theta, x)

    def total(self, f, theta, x, c):
        """f, summed over the particles."""
        def run(theta, x, c):
            if not self.tile:
                out = f(theta, x, c)
            else:
                def add(total, part):
                    return jax.tree.map(jnp.add, total, f(theta, *part)), None
                out = jax.lax.scan(add, jax.tree.map(jnp.zeros_like, theta), (self._cut(x), self._cut(c)))[0]
            return jax.lax.psum(out, "particles") if self.mesh else out

        return self._share(run, 2, EVERYWHERE)(theta, x, c)


def arrangements(written, particles, threads):
    """Every way to write the energy (name: (energy, whether it is plain, tiles)) in every cut that comes out even; one
    batch on one device also with its passes apart."""
    return [Arrangement(energy, name, tile, devices, plain, apart) for name, (energy, plain, tiles) in written.items()
            for devices in range(1, threads + 1) for tile in tiles if particles % (devices * (tile or 1)) == 0
            for apart in ((False, True) if tile == 0 and devices == 1 else (False,))]


# ------------------------------------------------------------------------------------------------ one iteration


def norm(tree):
    return jnp.sqrt(sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(tree)))


def adam(task, theta, g, m, v, k):
    size = norm(g)
    g = jax.tree.map(lambda a: a * jnp.minimum(1, task.clip / (size + 1e-6)), g)
    m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
    v = jax.tree.map(lambda a, b: 0.999 * a + 0.001 * b * b, v, g)
    rate, unbias = task.rate / (1 - 0.9**k), 1 / jnp.sqrt(1 - 0.999**k)
    step = jax.tree.map(lambda t, a, b: t - rate * a / (jnp.sqrt(b) * unbias + 1e-8), theta, m, v)
    return step, m, v, size


def half_weight(here, there, e, g, gamma):
    return e + 0.5 * jnp.sum((there - here) * g, 1) + 0.25 * gamma * jnp.sum(g * g, 1)


def resample(key, x, w):
    n = x.shape[0]
    points = (jnp.arange(n, dtype=jnp.float32) + jax.random.uniform(key)) / n
    return x[jnp.minimum(jnp.searchsorted(jnp.cumsum(w), points), n - 1)]


def move_and_update(task, way, theta0, w, state, for_noise):
    """The part that both methods have: a step of the kernel at theta_k, the gradient there, Adam."""
    x, _, theta, m, v, k, gamma, _ = state
    e, g = way.each(way.energy_gradient, theta, x)
    moved = x - gamma * g + jnp.sqrt(2 * gamma) * jax.random.normal(for_noise, x.shape)
    score = task.reward(x) + task.beta * (e - way.each(way.energy, theta0, x))
    slope = way.total(way.theta_gradient, theta, x, w * (score - w @ score))
    return e, g, moved, adam(task, theta, slope, m, v, k)


def iteration(task, way, theta0, state):
    """SOSMC-ULA."""
    x, logw, _, _, _, k, gamma, key = state
    n = x.shape[0]
    key, for_noise, for_points = jax.random.split(key, 3)
    e, g, moved, (theta, m, v, size) = move_and_update(task, way, theta0, jax.nn.softmax(logw), state, for_noise)
    forth = half_weight(x, moved, e, g, gamma)

    e, g = way.each(way.energy_gradient, theta, moved)
    logw = logw + forth - half_weight(moved, x, e, g, gamma)
    logw = logw - logw.max()
    w = jax.nn.softmax(logw)
    ess = 1 / (w @ w + 1e-12)
    gamma = jnp.where(ess < 0.95 * n, jnp.maximum(gamma / task.factor, 1e-8),
                      jnp.minimum(gamma * task.factor, task.gamma_max))
    x, logw = jax.lax.cond(ess < 0.9 * n, lambda: (resample(for_points, moved, w), jnp.zeros_like(logw)),
                           lambda: (moved, logw))
    return (x, logw, theta, m, v, k + 1, gamma, key), (ess, size)


def impdiff(task, way, theta0, state):
    """Implicit diffusion: equal weights, the new particles are not evaluated before the next iteration."""
    x, logw, _, _, _, k, gamma, key = state
    key, for_noise = jax.random.split(key)
    w = jnp.full(x.shape[0], 1 / x.shape[0], x.dtype)
    _, _, moved, (theta, m, v, size) = move_and_update(task, way, theta0, w, state, for_noise)
    return (moved, logw, theta, m, v, k + 1, gamma, key), (jnp.float32(x.shape[0]), size)


def begin(task, way, theta, x):
    zeros = jax.tree.map(jnp.zeros_like, theta)
    rest = way.place((theta, zeros, jax.tree.map(jnp.zeros_like, theta), jnp.float32(1), jnp.float32(task.gamma),
                      jax.random.key(0)))
    return (way.place(x, SPLIT), way.place(jnp.zeros(len(x), jnp.float32), SPLIT)) + rest


# ------------------------------------------------------------------------------------------------ measuring


def time_energy_gradient(way, theta, x, seconds):
    f = jax.jit(lambda theta, x: way.each(way.energy_gradient, theta, x))
    theta, x = way.place(theta), way.place(x, SPLIT)
    return fastest(lambda: jax.block_until_ready(f(theta, x)), seconds)


def time_iteration(method, task, way, theta, x, seconds):
    # the reference's weights are arguments like theta's: constants would let the compiler fold what a run may not
    f = jax.jit(lambda theta0, state: method(task, way, theta0, state))
    theta0, state = way.place(theta), begin(task, way, theta, x)

    def call():
        nonlocal state
        state, logged = f(theta0, state)
        jax.block_until_ready((state, logged))

    return fastest(call, seconds)
