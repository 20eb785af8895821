#!/usr/bin/env python3
"""Minimax polynomials behind src/base/vmath.h.

Each polynomial is the best one in the weighted maximum norm, found by Remez exchange in 60 digits; its coefficients are
then rounded to double. The error printed is that of the rounded polynomial, scanned on a dense grid: it is the bound
quoted in vmath.h, and leaves out the rounding of the evaluation itself. Run without arguments to print the tables.
"""
import mpmath as mp

mp.mp.dps = 60


def extrema(err, a, b, count, points=2000):
    """The alternating extrema of err on [a, b]: one per sign change, the largest of each run."""
    xs = [a + (b - a) * (1 - mp.cos(mp.pi * k / points)) / 2 for k in range(points + 1)]
    runs = []
    for x in xs:
        e = err(x)
        if runs and mp.sign(e) == mp.sign(runs[-1][1]):
            if abs(e) > abs(runs[-1][1]):
                runs[-1] = (x, e)
        else:
            runs.append((x, e))
    while len(runs) > count:  # drop the weaker end
        runs.pop(0 if abs(runs[0][1]) < abs(runs[-1][1]) else -1)
    return [x for x, _ in runs]


def remez(f, weight, a, b, degree, rounds=12):
    """Coefficients c_0..c_degree minimising max |weight (sum c_k x^k - f)| on [a, b]."""
    count = degree + 2
    nodes = [(a + b) / 2 - (b - a) / 2 * mp.cos(mp.pi * k / (count - 1)) for k in range(count)]
    for _ in range(rounds):
        system = mp.matrix(count, count)
        right = mp.matrix(count, 1)
        for i, x in enumerate(nodes):
            for k in range(degree + 1):
                system[i, k] = x ** k
            system[i, degree + 1] = (-1) ** i / weight(x)
            right[i] = f(x)
        solution = mp.lu_solve(system, right)
        coeff = [solution[k] for k in range(degree + 1)]
        found = extrema(lambda x: weight(x) * (mp.polyval(coeff[::-1], x) - f(x)), a, b, count)
        if len(found) < count:
            break
        nodes = found
    return coeff


def table(name, what, f, weight, a, b, degree):
    coeff = [float(c) for c in remez(f, weight, a, b, degree)]
    exact = [mp.mpf(c) for c in coeff]
    grid = [a + (b - a) * k / 20000 for k in range(20001)]
    worst = max(abs(weight(x) * (mp.polyval(exact[::-1], x) - f(x))) for x in grid)
    print(f"/* {what}: error {mp.nstr(worst, 3)} = 2^{mp.nstr(mp.log(worst, 2), 4)} */")
    print(f"static const double {name}[{degree + 1}] = {{")
    for k in range(0, degree + 1, 4):
        print("    " + ", ".join(c.hex() for c in coeff[k:k + 4]) + ",")
    print("};")


def exp_tail(r):
    """(e^r - 1 - r) / r^2."""
    if abs(r) < 1e-6:
        return sum(r ** k / mp.factorial(k + 2) for k in range(12))
    return (mp.exp(r) - 1 - r) / r ** 2


def log_tail(z):
    """(2 atanh(s) - 2 s) / s^3 with z = s^2."""
    if z < 1e-8:
        return mp.mpf(2) / 3 + 2 * z / 5 + 2 * z * z / 7
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) - 2 * s) / s ** 3


def sin_head(z):
    """sin(2 pi r) / r with z = r^2."""
    r = mp.sqrt(z)
    return 2 * mp.pi * mp.sinc(2 * mp.pi * r)


def cos_tail(z):
    """(cos(2 pi r) - 1) / r^2 with z = r^2."""
    return -2 * mp.pi ** 2 * mp.sinc(mp.pi * mp.sqrt(z)) ** 2


def double_pair(x):
    high = float(x)
    return high, float(x - mp.mpf(high))


if __name__ == "__main__":
    half = mp.log(2) / 2 * (1 + mp.mpf(2) ** -30)  # the reduced argument may overshoot by a rounding
    s2 = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * (1 + mp.mpf(2) ** -20)
    table("exp_c", "exp(r) = 1 + r + r^2 q(r), |r| <= log(2)/2, relative", exp_tail,
          lambda r: (r * r + mp.mpf("0.004")) / mp.exp(r), -half, half, 9)
    table("log_c", "log(1+f) = 2 atanh s, remainder R(z) = z q(z), z = s^2 <= 0.0295, absolute in R", log_tail,
          lambda z: z + mp.mpf("0.001"), mp.mpf(0), s2, 6)
    table("sin_c", "sin(2 pi r) = r q(r^2), |r| <= 1/8, relative", sin_head,
          lambda z: 1 / sin_head(z), mp.mpf(0), mp.mpf(1) / 64, 6)
    table("cos_c", "cos(2 pi r) = 1 + r^2 q(r^2), |r| <= 1/8, absolute", cos_tail,
          lambda z: z + mp.mpf("0.0005"), mp.mpf(0), mp.mpf(1) / 64, 6)
    for label, value in (("log 2", mp.log(2)), ("1 / log 2", 1 / mp.log(2))):
        high, low = double_pair(value)
        print(f"/* {label} = {high.hex()} + {low.hex()} */")
