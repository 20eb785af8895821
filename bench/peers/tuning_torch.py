"""Reward tuning of an energy network in PyTorch: passes over the particles in several arrangements, and one whole
iteration in the order of the published programs. Particles are rows of x; an energy takes (theta, x) with theta a list of
tensors."""
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, NamedTuple

import torch
from common import fastest


class Task(NamedTuple):
    reward: Callable  # of x, one number per particle
    beta: float
    rate: float  # of Adam
    clip: float  # largest gradient norm
    gamma: float  # first step of the kernel, and how it follows the effective sample size
    factor: float
    gamma_max: float


class Passes(NamedTuple):
    energy: Callable
    energy_gradient: Callable
    theta_gradient: Callable


def autograd(energy):
    def energy_gradient(theta, x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            e = energy(theta, x)
            g, = torch.autograd.grad(e, x, torch.ones_like(e))
        return e.detach(), g

    def theta_gradient(theta, x, c):
        with torch.enable_grad():
            theta = [t.detach().requires_grad_() for t in theta]
            return torch.autograd.grad(energy(theta, x), theta, c)

    return Passes(energy, energy_gradient, theta_gradient)


def compiled(make, theta, x):
    """make(torch.compile) is the passes made of compiled parts, tried once on (theta, x); None where that does not work:
    an older PyTorch, or no C++ compiler."""
    if not hasattr(torch, "compile"):
        return None
    try:
        made = make(lambda f: torch.compile(f, dynamic=False))
        with torch.no_grad():
            made.energy(theta, x), made.energy_gradient(theta, x), made.theta_gradient(theta, x, torch.zeros(len(x)))
        return made
    except Exception as error:
        print(f"# torch.compile does not work here: {str(error).splitlines()[0]}")
        return None


class Arrangement:
    """How the passes are written and cut: tile = 0 takes all particles at once; workers > 1 take tiles in turn, each
    with a thread of its own, instead of sharing every operation. A plain one is what a user would write, in one batch.
    Every pass is a call of its own: nothing is shared between them."""

    apart = True

    def __init__(self, passes, written, tile, workers, plain=True):
        self.energy, self.energy_gradient, self.theta_gradient = passes
        self.tile, self.plain = tile, plain and tile == 0
        self.name = f"{written}, tile {tile or 'none'}, " + ("workers" if workers > 1 else "threads in operations")
        self.pool = ThreadPoolExecutor(workers, initializer=self._alone) if workers > 1 else None

    @staticmethod
    def _alone():
        torch.set_num_threads(1)
        torch.set_grad_enabled(False)

    def _tiles(self, f, theta, *arrays):
        if not self.tile:
            return [f(theta, *arrays)]
        parts = zip(*(a.split(self.tile) for a in arrays))
        if not self.pool:
            return [f(theta, *part) for part in parts]
        return list(self.pool.map(lambda part: f(theta, *part), parts))

    def each(self, f, theta, x):
        """f, particle by particle."""
        out = self._tiles(f, theta, x)
        if len(out) == 1:
            return out[0]
        return torch.cat(out) if torch.is_tensor(out[0]) else tuple(torch.cat(o) for o in zip(*out))

    def total(self, f, theta, x, c):
        """f, summed over the particles."""
        out = self._tiles(f, theta, x, c)
        total = list(out[0])
        for more in out[1:]:
            torch._foreach_add_(total, list(more))
        return total


def arrangements(written, threads):
    """Every way to write the passes (name: (passes, whether it is plain, tiles)) in every cut."""
    return [Arrangement(passes, name, tile, workers, plain) for name, (passes, plain, tiles) in written.items()
            for tile in tiles for workers in range(1, threads + 1) if tile or workers == 1]


# ------------------------------------------------------------------------------------------------ one iteration


def half_weight(here, there, e, g, gamma):
    return e + 0.5 * ((there - here) * g).sum(1) + (0.25 * gamma) * (g * g).sum(1)


class Tuning:
    """The state of a run; the optimiser owns theta and steps in place."""

    def __init__(self, task, way, theta, x):
        self.task, self.way, self.theta0 = task, way, [t.clone() for t in theta]
        self.theta = [t.clone().requires_grad_() for t in theta]
        self.view = [t.detach() for t in self.theta]
        self.x, self.logw, self.gamma = x.clone(), torch.zeros(len(x)), task.gamma
        self.steps = torch.arange(len(x), dtype=torch.float32)
        try:
            self.adam = torch.optim.Adam(self.theta, lr=task.rate, fused=True)
            self._adam_step_works()
        except Exception:  # an older PyTorch fuses on a GPU only
            self.adam = torch.optim.Adam(self.theta, lr=task.rate, foreach=True)

    def _adam_step_works(self):
        probe = torch.zeros(1, requires_grad=True)
        probe.grad = torch.zeros(1)
        torch.optim.Adam([probe], lr=self.task.rate, fused=True).step()

    def _clipped(self, slope):
        size = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(slope)))
        torch._foreach_mul_(slope, float(torch.clamp(self.task.clip / (size + 1e-6), max=1)))
        return size

    def _move_and_update(self, w):
        """The part that both methods have: a step of the kernel at theta_k, the gradient there, Adam."""
        way, x, gamma = self.way, self.x, self.gamma
        e, g = way.each(way.energy_gradient, self.view, x)
        moved = torch.randn_like(x).mul_((2 * gamma) ** 0.5).add_(x).sub_(g, alpha=gamma)
        score = (e - way.each(way.energy, self.theta0, x)).mul_(self.task.beta).add_(self.task.reward(x))
        slope = way.total(way.theta_gradient, self.view, x, w * (score - torch.dot(w, score)))
        size = self._clipped(slope)
        for t, s in zip(self.theta, slope):
            t.grad = s
        self.adam.step()
        return e, g, moved, size

    @torch.no_grad()
    def iterate(self):
        """SOSMC-ULA."""
        way, x, gamma, n, task = self.way, self.x, self.gamma, len(self.x), self.task
        e, g, moved, size = self._move_and_update(torch.softmax(self.logw, 0))
        forth = half_weight(x, moved, e, g, gamma)
        e, g = way.each(way.energy_gradient, self.view, moved)
        self.logw += forth.sub_(half_weight(moved, x, e, g, gamma))
        self.logw -= self.logw.max()
        w = torch.softmax(self.logw, 0)
        ess = float(1 / (torch.dot(w, w) + 1e-12))
        self.gamma = (max(gamma / task.factor, 1e-8) if ess < 0.95 * n else
                      min(gamma * task.factor, task.gamma_max))
        if ess < 0.9 * n:
            points = (self.steps + torch.rand(1)) / n
            moved = moved[torch.searchsorted(torch.cumsum(w, 0), points).clamp_(max=n - 1)]
            self.logw.zero_()
        self.x = moved
        return ess, size

    @torch.no_grad()
    def impdiff(self):
        """Implicit diffusion: equal weights, the new particles are not evaluated before the next iteration."""
        n = len(self.x)
        _, _, self.x, size = self._move_and_update(torch.full((n,), 1 / n))
        return n, size


# ------------------------------------------------------------------------------------------------ measuring


def set_threads(way, threads):
    torch.set_num_threads(1 if way.pool else threads)


@torch.no_grad()
def time_energy_gradient(way, theta, x, threads, seconds):
    set_threads(way, threads)
    return fastest(lambda: way.each(way.energy_gradient, theta, x), seconds)


def time_iteration(method, task, way, theta, x, threads, seconds):
    set_threads(way, threads)
    tuning = Tuning(task, way, theta, x)
    return fastest(lambda: method(tuning), seconds)
