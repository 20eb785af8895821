"""What a process that is not the library's own may expect: signals, exceptions, fork, threads, memory, progress."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest

import sosmc
from conftest import energy, grad_theta

SETTINGS = {"kernel": "mala", "particles": 200, "seed": 3}


def interrupting(at, times=1):
    """An energy that presses Ctrl-C in its call number `at`, so many times in a row."""
    calls = [0]

    def pressed(theta, x):
        calls[0] += 1
        if at <= calls[0] < at + times:
            os.kill(os.getpid(), signal.SIGINT)
        return energy(theta, x)

    return sosmc.Model(pressed, grad_theta, theta0=np.zeros(2), dim_x=2)


def test_ctrl_c_gives_the_result_of_a_run_of_that_length(pair):
    before = signal.getsignal(signal.SIGINT)
    r = sosmc.minimize(interrupting(60), sosmc.mmle(), iterations=100000, optimiser={"type": "adam", "rate": 0.02}, **SETTINGS)
    assert signal.getsignal(signal.SIGINT) is before
    assert 1 <= r.nit < 100000 and not r.success and "stopped by Ctrl-C" in r.message
    whole = sosmc.Sampler(pair, sosmc.mmle(), optimiser={"type": "adam", "rate": 0.02}, **SETTINGS)
    whole.run(r.nit)
    assert whole.hash() == r.hash
    assert np.array_equal(whole.particles, r.particles)


def test_ctrl_c_between_iterations_of_machine_code():
    model = sosmc.models.hierarchical(np.arange(50.0))
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    r = sosmc.minimize(model, sosmc.mmle(), iterations=10**7, **SETTINGS)
    assert r.stopped == "Ctrl-C" and r.nit < 10**7


def test_a_second_ctrl_c_raises():
    with pytest.raises(KeyboardInterrupt):
        sosmc.minimize(interrupting(60, times=2), sosmc.mmle(), iterations=100000, **SETTINGS)


def test_ctrl_c_in_the_solver():
    r = sosmc.minimize(interrupting(40), sosmc.mmle())
    assert r.stopped == "Ctrl-C" and not r.success and r.verdict != "converged"


def test_a_background_job_keeps_ctrl_c_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        r = sosmc.minimize(interrupting(60), sosmc.mmle(), iterations=100, callback=lambda s: None, **SETTINGS)
        assert r.nit == 100 and not r.stopped and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("entry, keywords", [("energy", SETTINGS), ("grad_theta", {}), ("scores", {}), ("see", {"callback": lambda s: None, **SETTINGS}),
                                             ("see_solver", {}), ("draw", {"init": sosmc.Law(lambda rng, n: rng.normal(size=(n, 2)))})])
def test_the_exception_of_a_signal_handler_arrives_before_the_try_of_a_callable(entry, keywords, capfd):
    """Python runs a handler where a function begins: here where C has just called, which no `try` of the package encloses."""
    calls = [0]

    def rings(frame, event, argument):
        calls[0] += frame.f_code.co_name == "sosmc_py_" + entry
        if calls[0] == 3:
            calls[0] += 1
            raise TimeoutError("the alarm rang")

    scores = (lambda theta, x: theta - x) if entry == "scores" else None
    model = sosmc.Model(energy, None if scores else grad_theta, theta0=np.zeros(2), dim_x=2, scores=scores)
    before = sys.gettrace()
    sys.settrace(rings)
    try:
        with pytest.raises(TimeoutError, match="the alarm rang"):
            sosmc.minimize(model, sosmc.mmle(), **keywords)
    finally:
        sys.settrace(before)
    assert calls[0] >= 4 and capfd.readouterr().err == ""


def test_the_exception_of_a_signal_handler_in_a_run_file(tmp_path, capfd):
    def rings(frame, event, argument):
        if frame.f_code.co_name == "sosmc_py_progress":
            raise TimeoutError("the alarm rang")

    file = {"model": {"type": "hierarchical_gaussian", "y": [0.3, 1.9, 2.4]}, "objective": {"type": "mmle"}, "iterations": 10}
    before = sys.gettrace()
    sys.settrace(rings)
    try:
        with pytest.raises(TimeoutError, match="the alarm rang"):
            sosmc.run_file(file, out=tmp_path / "run", progress=False)
    finally:
        sys.settrace(before)
    assert capfd.readouterr().err == ""


def test_an_exception_arrives_as_itself_and_the_engine_goes_on(pair):
    calls, broken = [0], [True]

    def failing(theta, x):
        calls[0] += 1
        if calls[0] == 30 and broken[0]:
            raise ZeroDivisionError("my own words")
        return energy(theta, x)

    s = sosmc.Sampler(sosmc.Model(failing, grad_theta, theta0=np.zeros(2), dim_x=2), sosmc.mmle(), **SETTINGS)
    with pytest.raises(ZeroDivisionError, match="my own words") as caught:
        s.run(100)
    assert any("sosmc: iteration" in note and "energy" in note for note in caught.value.__notes__)
    assert caught.traceback[-1].name == "failing"
    broken[0] = False
    s.run(100 - s.iteration)
    whole = sosmc.Sampler(pair, sosmc.mmle(), **SETTINGS)
    whole.run(100)
    assert whole.hash() == s.hash()


def test_exceptions_of_every_kind_of_callable(pair):
    def raise_(*_):
        raise LookupError("here")

    run = {"iterations": 5, **SETTINGS}
    for model, objective, keywords in [
        (pair, sosmc.reward(raise_, beta=1.0), {}),
        (pair, sosmc.mmle(), {"init": sosmc.Law(raise_)}),
        (pair, sosmc.mmle(), {"init": sosmc.Law(lambda g, n: g.normal(size=(n, 2)), raise_)}),
        (pair, sosmc.mmle(), {"callback": raise_}),
        (sosmc.Model(energy, raise_, theta0=np.zeros(2), dim_x=2), sosmc.mmle(), {}),
    ]:
        with pytest.raises(LookupError, match="here"):
            sosmc.minimize(model, objective, **run, **keywords)
    with pytest.raises(LookupError, match="here"):
        sosmc.minimize(sosmc.Model(energy, raise_, theta0=np.zeros(2), dim_x=2))
    with pytest.raises(LookupError, match="here"):
        sosmc.check(sosmc.Model(raise_, grad_theta, theta0=np.zeros(2), dim_x=2))


def test_a_callable_that_uses_its_engine_is_refused(pair):
    s = None

    def inside(theta, x):
        if s is not None:
            s.step()
        return energy(theta, x)

    made = sosmc.Sampler(sosmc.Model(inside, grad_theta, theta0=np.zeros(2), dim_x=2), sosmc.mmle(), **SETTINGS)
    s = made
    with pytest.raises(ValueError):
        made.run(3)


def test_callback_stops_a_run(pair):
    r = sosmc.minimize(pair, sosmc.mmle(), iterations=100, callback=lambda s: s.iteration == 7, **SETTINGS)
    assert r.nit == 7 and r.stopped == "the callback" and len(r.trace["ess"]) == 7


def test_iterate(pair):
    seen = []
    for s in sosmc.iterate(pair, sosmc.mmle(), iterations=50, **SETTINGS):
        seen.append(s.info.iteration)
        if s.iteration == 20:
            s.stop()
    assert seen == list(range(20)) and s.trace["iteration"].tolist() == seen


def test_save_and_load_go_on_with_the_same_bits(pair, tmp_path):
    a = sosmc.Sampler(pair, sosmc.mmle(), **SETTINGS)
    a.run(10)
    a.save(tmp_path / "state")
    a.run(10)
    b = sosmc.Sampler(pair, sosmc.mmle(), **SETTINGS)
    b.load(tmp_path / "state")
    b.run(10)
    assert a.hash() == b.hash()
    with pytest.raises(OSError):
        b.load(tmp_path / "nothing")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fork(pair):
    s = sosmc.Sampler(pair, sosmc.mmle(), **SETTINGS)
    s.run(5)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            s.run(5)
            os.write(writer, s.hash().encode())
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    s.run(5)
    assert os.read(reader, 100).decode() == s.hash()


def test_two_engines_in_two_threads(pair):
    def alone(seed):
        s = sosmc.Sampler(pair, sosmc.mmle(), **{**SETTINGS, "seed": seed})
        s.run(200)
        return s.hash()

    expected, found = [alone(1), alone(2)], [None, None]
    threads = [threading.Thread(target=lambda k=k: found.__setitem__(k, alone(k + 1))) for k in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == expected


def test_an_array_that_was_kept_does_not_outlive_its_memory():
    kept = []

    def keeping(theta, x):
        kept.extend([theta, x])
        return energy(theta, x)

    s = sosmc.Sampler(sosmc.Model(keeping, grad_theta, theta0=np.zeros(2), dim_x=2), sosmc.mmle(), **SETTINGS)
    s.run(3)
    r = s.result()
    last = [np.array(a) for a in kept]
    del s, r
    gc.collect()
    noise = [np.full(4096, np.nan) for _ in range(500)]
    assert all(np.array_equal(a, b) for a, b in zip(kept, last))
    assert not kept[1].flags.writeable and not kept[0].flags.writeable
    del noise
    kept.clear()
    sosmc.minimize(sosmc.Model(keeping, grad_theta, theta0=np.zeros(2), dim_x=2))
    gc.collect()
    assert all(np.isfinite(a).all() for a in kept)


def test_engines_are_freed_at_once(pair):
    from sosmc import _calls

    def owners():
        return sum(isinstance(o, _calls.Owner) for o in gc.get_objects())

    gc.collect()
    before = owners()
    gc.disable()
    try:
        for _ in range(5):
            sosmc.minimize(pair, sosmc.mmle(), iterations=3, **SETTINGS)
            sosmc.Sampler(pair, sosmc.mmle(), **SETTINGS).run(2)
            with pytest.raises(KeyboardInterrupt):
                sosmc.minimize(interrupting(5, times=2), sosmc.mmle(), iterations=1000, **SETTINGS)
        assert owners() == before
    finally:
        gc.enable()


def test_python_models_run_on_one_thread_and_say_so(pair):
    with pytest.warns(RuntimeWarning, match="threads is 2"):
        two = sosmc.minimize(pair, sosmc.mmle(), iterations=10, threads=2, **SETTINGS)
    assert two.hash == sosmc.minimize(pair, sosmc.mmle(), iterations=10, **SETTINGS).hash
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        built_in = sosmc.models.hierarchical(np.arange(4.0))
        one = sosmc.minimize(built_in, sosmc.mmle(), iterations=10, **SETTINGS)
        assert one.hash == sosmc.minimize(built_in, sosmc.mmle(), iterations=10, threads=2, **SETTINGS).hash


@pytest.mark.parametrize("keywords", [{"particles": 128, "limits": {"evaluations": 20000}},
                                      {"kernel": "mala", "particles": 64, "iterations": 20, "optimiser": {"type": "adam", "rate": 0.02}}])
def test_machine_code_on_several_threads_has_the_bits_of_one(keywords):
    def released(theta, x):
        before = x.copy()
        time.sleep(1e-5)  # other threads go on
        assert np.array_equal(x, before)
        return energy(theta, before)

    def scores(theta, x):
        time.sleep(1e-5)
        return theta - x

    model = sosmc.Model(released, None, theta0=np.zeros(2), dim_x=2, scores=scores, tile=8, machine_code=True)
    one, three = (sosmc.minimize(model, sosmc.mmle(), seed=3, threads=threads, **keywords) for threads in (1, 3))
    assert np.array_equal(one.theta, three.theta) and one.hash == three.hash


def test_no_progress_in_a_pipe_and_a_line_on_a_terminal():
    code = "import sosmc; sosmc.minimize(sosmc.models.hierarchical([1.0, 2.0]), iterations=20000)"
    piped = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert piped.stdout == b"" and piped.stderr == b""
    pty = pytest.importorskip("pty")
    leader, follower = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", code], stderr=follower, stdout=follower) as p:
        os.close(follower)
        shown = b""
        while True:
            try:
                more = os.read(leader, 4096)
            except OSError:
                break
            if not more:
                break
            shown += more
        assert p.wait() == 0
    assert b"iteration" in shown and b"of 20000" in shown


def test_the_library_shows_no_symbols_and_prints_nothing(capfd, pair):
    sosmc.minimize(pair)
    out, err = capfd.readouterr()
    assert out == "" and err == ""
