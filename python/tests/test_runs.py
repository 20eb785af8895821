"""Runs: the solver's answers, objectives with known optima, results, folders, and the same bits as the program."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading

import numpy as np
import pytest

import sosmc
from conftest import SOURCE, Y

EXAMPLES = sorted(p.name for p in (SOURCE / "examples").glob("*.yaml"))


def test_the_solver_finds_theta_with_its_errors(pair):
    r = sosmc.minimize(pair, sosmc.mmle())
    assert r.success and r.automatic and r.verdict == "converged" and r.message == "converged"
    assert np.all(np.abs(r.theta - Y) < 5 * r.mc_error) and np.allclose(r.stderr, np.sqrt(2), rtol=0.01)
    assert abs(r.logz.value - np.log(np.pi)) < 4 * r.logz.error and r.fun.value == -r.logz.value
    low, high = r.conf_int
    assert np.all(low < Y) and np.all(Y < high)
    assert "settings: automatic" in r.settings


def test_any_keyword_of_an_explicit_run_makes_it_one(pair):
    assert sosmc.minimize(pair, seed=3, particles=256).automatic
    for keywords in [{"kernel": "ula"}, {"iterations": 10}, {"scheme": "sosmc"}, {"optimiser": {"rate": 0.1}}]:
        r = sosmc.minimize(pair, **{"iterations": 10, **keywords})
        assert not r.automatic and "settings: explicit" in r.settings


def test_an_explicit_run_is_judged(pair):
    r = sosmc.minimize(pair, sosmc.mmle(), iterations=400, kernel={"type": "mala", "step": 0.3}, seed=1)
    assert r.success and np.all(np.abs(r.theta - Y) < 5 * r.mc_error)
    assert abs(r.logz.value - np.log(np.pi)) < 4 * r.logz.error
    none = sosmc.minimize(pair, sosmc.mmle(), iterations=20, judge="none")
    assert none.verdict == "not judged" and none.mc_error is None and np.isnan(none.fun.value) and not none.success


def test_a_limit_ends_the_solver_and_the_verdict_says_so(pair):
    r = sosmc.minimize(pair, limits={"evaluations": 3000})
    assert not r.success and r.verdict == "not converged" and r.reasons


def test_rewards_of_every_kind_agree():
    model = sosmc.models.mixture([[-3.0, 0.0], [3.0, 0.0]], variance=0.5)
    for R in ["x1 > 0", {"type": "half_plane", "normal": [1, 0]}, lambda x: (x[:, 0] > 0).astype(float)]:
        r = sosmc.minimize(model, sosmc.reward(R, beta=0.5))
        assert r.success and np.allclose(r.theta, [-1, 1], atol=0.01)  # sigmoid(2) is the best share
        assert abs(r.reward.value - 1 / (1 + np.exp(-2))) < 4 * r.reward.error


def test_forward_and_reverse_references(pair):
    rng = np.random.default_rng(0)
    gaussian = sosmc.Model(lambda t, x: (0.5 * ((x - t) ** 2).sum(1), x - t), lambda t, x, c: c @ (t - x), theta0=np.zeros(2), dim_x=2)
    draws = rng.normal(size=(4000, 2))
    for objective in [sosmc.reward(lambda x: x[:, 0], beta=1.0, kl="forward", reference=draws),
                      sosmc.reward(lambda x: x[:, 0], beta=1.0, kl="forward", reference=sosmc.Law(lambda g, n: g.normal(size=(n, 2)))),
                      sosmc.reward(lambda x: x[:, 0], beta=1.0),
                      sosmc.reward(lambda x: x[:, 0], beta=1.0, reference=np.zeros(2))]:
        r = sosmc.minimize(gaussian, objective, iterations=600, kernel={"type": "mala", "step": 0.5}, particles=1000)
        assert np.allclose(r.theta, [1, 0], atol=0.12), objective.kind
    moved = sosmc.minimize(gaussian, sosmc.reward(lambda x: x[:, 0], beta=1.0, reference=np.array([2.0, 1.0])))
    assert moved.success and np.allclose(moved.theta, [3, 1], atol=0.02)


def test_laws_and_arrays_as_initial_law(pair):
    law = sosmc.Law(lambda g, n: g.normal(1.0, 2.0, size=(n, 2)), lambda x: -((x - 1) ** 2).sum(1) / 8 - np.log(8 * np.pi))
    settings = {"iterations": 300, "kernel": {"type": "mala", "step": 0.3}}
    r = sosmc.minimize(pair, init=law, **settings)
    assert np.allclose(r.theta, Y, atol=0.2) and abs(r.trace["logz"][0] - pair_log_z(np.zeros(2))) < 0.2
    again = sosmc.minimize(pair, init=law, **settings)
    assert again.hash == r.hash
    cloud = np.random.default_rng(0).normal(size=(1000, 2))
    assert sosmc.minimize(pair, init=cloud, scheme="unweighted", **settings).nit == 300
    assert sosmc.minimize(pair, init={"type": "normal", "sd": 2.0}, **settings).nit == 300
    with pytest.raises(ValueError, match="init.mean has 3 numbers; expected 2, the dimension of the model"):
        sosmc.minimize(pair, init={"type": "normal", "mean": [0, 0, 0]}, **settings)
    with pytest.raises(ValueError, match="init has points of 3 numbers"):
        sosmc.minimize(pair, init=np.zeros((1000, 3)), **settings)


def pair_log_z(theta):
    return np.log(np.pi) - ((theta - Y) ** 2).sum() / 4


def test_data_by_law_and_by_file(tmp_path):
    gaussian = sosmc.Model(lambda t, x: (0.5 * ((x - t) ** 2).sum(1), x - t), lambda t, x, c: c @ (t - x), theta0=np.zeros(2), dim_x=2)
    data = np.random.default_rng(3).normal([1, 2], 1, size=(300, 2))
    np.save(tmp_path / "data.npy", data)
    a = sosmc.minimize(gaussian, sosmc.likelihood(data), iterations=200)
    b = sosmc.minimize(gaussian, sosmc.likelihood(str(tmp_path / "data.npy")), iterations=200)
    assert a.hash == b.hash and np.allclose(a.theta, data.mean(0), atol=0.15)
    drawn = sosmc.likelihood(sosmc.Law(lambda g, n: g.normal([1, 2], 1, size=(n, 2))), batch=200)
    assert np.allclose(sosmc.minimize(gaussian, drawn, iterations=300).theta, [1, 2], atol=0.2)


def test_built_in_models():
    h = sosmc.minimize(sosmc.models.hierarchical([0.3, 1.9, 2.4]))
    explicit = sosmc.minimize(sosmc.models.hierarchical([0.3, 1.9, 2.4]), iterations=200)
    assert np.isfinite(h.judgement.bic) and np.isfinite(explicit.judgement.bic)  # the library knows how many observations there are
    assert isinstance(h.theta, float) and abs(h.theta - 4.6 / 3) < 1e-3
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    labels = (rng.random(200) < 1 / (1 + np.exp(-x.sum(1)))).astype(float)
    logistic = sosmc.minimize(sosmc.models.logistic_regression(x, labels))
    assert logistic.success and 0.5 < logistic.theta < 2
    with pytest.raises(ValueError, match="labels has values other than 0 and 1"):
        sosmc.models.logistic_regression(x, x[:, 0])
    mlp = sosmc.minimize(sosmc.models.mlp(2, (8, 8), base="gaussian", base_sd=2.0), sosmc.likelihood({"type": "two_moons", "points": 100}),
                         iterations=5, init="base", particles=50)
    assert mlp.theta.shape == (8 * 3 + 8 * 9 + 9,)
    penalised = sosmc.likelihood({"type": "two_moons", "points": 100}, gradient_penalty=0.1)
    assert np.isfinite(sosmc.minimize(sosmc.models.mlp(2, (8, 8), base="gaussian", base_sd=2.0), penalised, iterations=3, init="base",
                                      particles=50).trace["penalty"]).all()
    with pytest.raises(ValueError, match="model.means"):
        sosmc.models.from_keys(type="gaussian_mixture")


def test_result_has_what_it_says(pair, tmp_path):
    r = sosmc.minimize(pair, iterations=200, kernel="mala", particles=128)
    assert list(r.trace)[:4] == ["iteration", "updates", "gradient_updates", "ess"] and len(r.trace["theta_2"]) == 200
    assert r.particles.shape == (128, 2) and abs(r.weights.sum() - 1) < 1e-12
    assert r.draws(10).shape == (10, 2) and np.array_equal(r.draws(10, seed=1), r.draws(10, seed=1))
    mean = r.weights @ r.particles
    assert np.allclose(r.draws(20000).mean(0), mean, atol=0.01)
    assert "theta_1" in r.summary() and "verdict: " in r.summary() and "<table>" in r._repr_html_()
    assert "converged" in repr(r)


def test_figures_and_frames(pair):
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    pytest.importorskip("matplotlib.pyplot")
    matplotlib.pyplot.switch_backend("agg")
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    for r in [sosmc.minimize(pair), sosmc.minimize(pair, iterations=150)]:
        axes = r.plot()
        assert axes.shape == (2, 2) and all(a.lines or a.collections or a.patches for a in axes.flat)
        assert matplotlib.pyplot.gcf() is axes[0, 0].figure  # so that plt.show() and plt.savefig() find it
        matplotlib.pyplot.close()
        frame = r.to_pandas()
        assert isinstance(frame, pandas.DataFrame) and len(frame) == len(r.trace["ess"])


def test_arviz(pair):
    pytest.importorskip("arviz", reason="ArviZ is not installed")
    r = sosmc.minimize(pair, iterations=20)
    data = r.to_arviz(n=500)
    assert data["posterior"]["x"].shape == (1, 500, 2) and data["optimisation"]["ess"].shape == (20,)


def test_folders_that_the_program_reports(pair, tmp_path, program):
    for name, r in [("solver", sosmc.minimize(pair)), ("explicit", sosmc.minimize(pair, iterations=150))]:
        r.save(tmp_path / name)
        (tmp_path / name / "report.html").unlink()
        subprocess.run([program, "report", str(tmp_path / name)], check=True, capture_output=True)
        page = (tmp_path / name / "report.html").read_text()
        assert "theta_2" in page
        again = sosmc.load_run(tmp_path / name)
        assert again.hash == r.hash and np.array_equal(again.theta, r.theta) and again.verdict == r.verdict
        assert again.fun == r.fun and np.array_equal(again.particles, r.particles) and again.settings == r.settings
        for column in r.trace:
            if column != "seconds":
                assert np.array_equal(again.trace[column], r.trace[column], equal_nan=True)
        with pytest.raises(FileExistsError):
            r.save(tmp_path / name)
        r.save(tmp_path / name, overwrite=True, report=False)
    refused = subprocess.run([program, "run", str(tmp_path / "solver" / "run.yaml"), "--out", str(tmp_path / "x")], capture_output=True, text=True)
    assert refused.returncode != 0 and "model.type is own" in refused.stderr
    with pytest.raises(OSError, match="no such folder"):
        sosmc.load_run(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(OSError, match="run.yaml is missing"):
        sosmc.load_run(tmp_path / "empty")


def test_saving_leaves_folders_of_others_alone(pair, tmp_path):
    r = sosmc.minimize(pair, iterations=20)
    for name in ("trace.csv", "figures/mine.png"):
        file = tmp_path / name.split(".")[0].replace("/", "_") / name
        file.parent.mkdir(parents=True)
        file.write_text("mine")
        folder = tmp_path / name.split(".")[0].replace("/", "_")
        before = sorted(folder.rglob("*"))
        with pytest.raises(FileExistsError, match=f"{name.split('/')[0]} is there, and no run made it"):
            r.save(folder, overwrite=True)
        assert sorted(folder.rglob("*")) == before and file.read_text() == "mine"
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    r.save(folder, overwrite=True)
    r.save(folder, overwrite=True)
    assert (folder / "notes.txt").read_text() == "mine" and sosmc.load_run(folder).hash == r.hash
    assert not (folder / ".sosmc.lock").exists()


def test_saving_waits_for_no_other_writer(pair, tmp_path):
    fcntl = pytest.importorskip("fcntl")
    r = sosmc.minimize(pair, iterations=20)
    r.save(tmp_path / "run")
    with open(tmp_path / "run" / ".sosmc.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = (tmp_path / "run" / "summary.json").stat().st_mtime_ns
        with pytest.raises(sosmc.FileError, match="is being written by"):
            r.save(tmp_path / "run", overwrite=True)
        assert (tmp_path / "run" / "summary.json").stat().st_mtime_ns == before


@pytest.mark.parametrize("keywords", [{}, {"kernel": {"type": "ula", "step": 0.05}}, {"kernel": {"type": "ula", "step": 0.9}}])
def test_a_check_says_what_the_program_says(keywords, tmp_path, program):
    y = [1.1, 2.2, 3.7, 0.8, 2.5, 1.9, 4.0, -0.3, 2.1, 2.4]
    report = sosmc.check(sosmc.models.hierarchical(y), **keywords)
    (tmp_path / "run.yaml").write_text(json.dumps({"model": {"type": "hierarchical_gaussian", "y": y}, "objective": "mmle", **keywords}))
    said = subprocess.run([program, "check", str(tmp_path / "run.yaml")], capture_output=True, text=True).stdout
    for item in report.items:
        if item.name not in ("threads", "step"):  # the program names the step as run files do
            assert f"{item.verdict}  " in said and f"{item.name}: {item.sentence}" in said
    assert report["verdict" if not keywords else "weights"].verdict == ("not known" if "0.9" in str(keywords) else "ok")
    assert report.ok


def test_settings_write_the_run_file_back(pair, tmp_path):
    model = sosmc.models.mixture([[-3.0, 0.0], [3.0, 0.0]], variance=0.5)
    r = sosmc.minimize(model, sosmc.reward("x1 > 0", beta=0.5), iterations=30, kernel={"type": "ula", "step": 0.1}, seed=5)
    (tmp_path / "back.yaml").write_text(r.settings)
    run = sosmc.run_file(tmp_path / "back.yaml", out=tmp_path / "back", **{"output.report": False})
    assert run.hash == r.hash and run.values["kernel"]["step"] == 0.1


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_have_the_bytes_of_the_program(name, program, tmp_path):
    """Every example whose files are in the repository, cut short."""
    small = {"output.report": False, "threads": 1}
    text = (SOURCE / "examples" / name).read_text()
    values = sosmc.files.RunFile(path=str(SOURCE / "examples" / name)).values()
    if values["objective"]["type"] == "temper":
        small["particles"] = 128
    elif values["settings"] == "automatic":
        small["limits.evaluations"] = 20000
    else:
        small |= {"iterations": 3, "particles": min(values["particles"], 64), "judge": "none"}
        if values.get("evaluate", {}).get("every"):
            small["evaluate.every"] = 0
    try:
        run = sosmc.run_file(SOURCE / "examples" / name, out=tmp_path / "ours", **small)
    except OSError as e:
        pytest.skip(f"it reads a file that is not here: {e}")
    changes = [a for k, v in small.items() for a in ("--set", f"{k}={json.dumps(v) if not isinstance(v, str) else v}")]
    subprocess.run([program, "run", str(SOURCE / "examples" / name), "--out", str(tmp_path / "theirs"), "--quiet", *changes], check=True,
                   capture_output=True)
    theirs = json.loads((tmp_path / "theirs" / "summary.json").read_text())
    assert run.hash == theirs["state_hash"]
    for file in ["trace.csv", "run.yaml"]:
        assert (tmp_path / "ours" / file).read_bytes() == (tmp_path / "theirs" / file).read_bytes()
    assert text  # the example is there


def test_ctrl_c_stops_run_file_with_everything_saved(tmp_path):
    keys = {"model": {"type": "hierarchical_gaussian", "y": list(range(40))}, "objective": "mmle", "iterations": 10**7,
            "output": {"report": False}}
    threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt, match="stopped"):
        sosmc.run_file(keys, out=tmp_path / "x")
    assert (tmp_path / "x" / "checkpoint").exists()


def test_run_file_refuses_with_a_sentence(tmp_path):
    with pytest.raises(ValueError, match="unknown key 'modell'"):
        sosmc.run_file({"modell": {}}, out=tmp_path / "x")
    with pytest.raises(OSError, match="nothing.yaml"):
        sosmc.run_file(tmp_path / "nothing.yaml", out=tmp_path / "x")
    sosmc.run_file({"model": {"type": "hierarchical_gaussian", "y": [1]}, "objective": "mmle", "iterations": 3, "output": {"report": False}},
                   out=tmp_path / "x")
    with pytest.raises(ValueError, match="already holds a run"):
        sosmc.run_file({"model": {"type": "hierarchical_gaussian", "y": [1]}, "objective": "mmle", "iterations": 3}, out=tmp_path / "x")
