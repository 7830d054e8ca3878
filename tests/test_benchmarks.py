"""The benchmarks' own arithmetic, and that every script can be called; no times are compared."""

import importlib
import json
import math
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from benchmarks import compile_gpu, counters
from benchmarks.crew import Job, _Worker, shared_out
from benchmarks.machine import keep
from benchmarks.training import ROWS, Epoch, epochs_of, in_figures
from pna.experiments import PROFILES, Cell

SCRIPTS = sorted(path.stem for path in (Path(__file__).parents[1] / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_can_be_imported(name):
    importlib.import_module(f"benchmarks.{name}")


def test_the_hours_of_replicas_that_leave_are_those_of_every_epoch():
    """An epoch of R replicas takes 2 + 3 R seconds: three replicas leave after 1, 2 and 5 epochs."""
    epoch = Epoch.through((10, 32.0), (4, 14.0))
    assert epoch == Epoch(2.0, 3.0)
    assert epoch.seconds([1, 5, 2]) == (2 + 9) + (2 + 6) + 3 * (2 + 3)


@pytest.mark.parametrize(("few", "expected"), [(1.0, (0.0, 3.2)), (40.0, (32.0, 0.0))])
def test_noise_gives_no_negative_time(few, expected):
    assert Epoch.through((10, 32.0), (4, few)) == Epoch(*expected)


def test_epochs_are_recorded_or_assumed():
    epochs, recorded = epochs_of(Cell.parse("multitask/released/pna/16"), 10)
    assert recorded
    assert (len(epochs), max(epochs)) == (10, 10_000)
    assert epochs_of(Cell.parse("multitask/released/pna/24"), 3) == ([4_000] * 3, False)


def test_the_figures_have_74_cells():
    assert len(in_figures()) == len(set(in_figures())) == 74
    assert all(Cell.parse(name) for name in ROWS)


def test_jobs_that_share_kernels_share_a_process():
    jobs = [Job(str(cell), 10) for cell in in_figures()]
    shares = shared_out(jobs, 16)
    assert sorted(job.cell for jobs in shares for job in jobs) == sorted(job.cell for job in jobs)
    of = {job.cell: k for k, jobs in enumerate(shares) for job in jobs}
    assert len({of[f"{t}/described/gin/16"] for t in ("multitask", "extrapolation", "single-task")}) == 1
    sizes = [len({(c.split("/")[0] == "standard", *c.split("/")[1:]) for c in of if of[c] == k}) for k in range(16)]
    assert max(sizes) - min(sizes) <= 2  # kernels to compile


def test_a_worker_prepares_times_and_goes_on_after_a_failure():
    jobs = [Job("multitask/released/gcn/8", 3, 2), Job("multitask/released/gcn/9", 3)]
    worker = _Worker(jobs, PROFILES["smoke"], "cpu")
    ready, failed = worker.prepare(math.inf)
    assert ready == jobs[:1]
    assert list(failed) == jobs[1:]
    assert "multiple of 4" in failed[jobs[1]]
    (many, one), (few, other) = worker.time(jobs[0], 1)
    assert (many, few) == (3, 2)
    assert min(one, other, worker.together(jobs[0], 0.0, 0.0) + 1) > 0
    assert worker.prepare(math.inf) == ([], {})


@st.composite
def measured(draw):
    """A benchmark's line: a name of three, and any facts, with rows or without."""
    facts = st.dictionaries(st.sampled_from(["rows", "ms", "machine"]), st.lists(st.integers()) | st.floats(0, 9))
    return {"benchmark": draw(st.sampled_from("abc"))} | draw(facts)


@given(st.lists(measured()), st.lists(measured(), min_size=1))
def test_whatever_lines_hold_those_of_the_same_benchmarks_go_and_the_others_stay(tmp_path_factory, old, new):
    path = tmp_path_factory.getbasetemp() / "kept.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in old))
    names = {line["benchmark"] for line in new}
    for _ in range(2):  # what is kept twice is there once
        keep(new, path=path)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert lines == [*(line for line in old if line["benchmark"] not in names), *new]


def test_newer_lines_take_the_place_of_older_ones(tmp_path):
    path, same = tmp_path / "results.jsonl", ("model", "replicas")
    rows = [{"model": model, "replicas": count, "ms": 1} for model in ("pna", "gcn") for count in (10, 40)]
    old = [
        {"benchmark": "training", "rows": rows},
        {"benchmark": "training --all", "rows": []},
        {"benchmark": "curves"},
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in old))
    new = {"benchmark": "training", "rows": [{"model": "pna", "replicas": 10, "ms": 2}]}
    keep([new], same, path)
    assert [json.loads(line) for line in path.read_text().splitlines()] == [old[0] | {"rows": rows[1:]}, *old[1:], new]
    keep([{"benchmark": "training --all", "rows": [1]}], None, path)
    assert [json.loads(line)["benchmark"] for line in path.read_text().splitlines()].count("training --all") == 1


def test_the_floor_of_compiling_is_what_it_adds_to_a_linear_map():
    times = {"linear, called": 0.25, "linear, compiled": 0.75, "linear, reduce-overhead": 0.625}
    assert compile_gpu.floor(times).startswith("floor: compiling adds 0.500 ms to a linear map alone")
    assert "takes 0.625 ms with reduce-overhead" in compile_gpu.floor(times)


# ---- the GPU's counters ----


def ncu(*kernels: tuple[str, str, float, float]) -> str:
    """The text that Nsight Compute prints for launches: a kernel's name, unit of time, time and use of memory."""
    header = ["ID", "Process ID", "Kernel Name", "Metric Name", "Metric Unit", "Metric Value"]
    rows = [header]
    for k, (name, unit, time, memory) in enumerate(kernels):
        values = dict.fromkeys((*counters.SHARES.values(), counters.WARPS), ("%", "20")) | {
            counters.TIME: (unit, f"{time:,}"),
            counters.SHARES["memory"]: ("%", str(memory)),
        }
        rows += [[str(k), "7", name, metric, *value] for metric, value in values.items()]
    said = ["==PROF== Connected to process 7", "counting", "==PROF== Disconnected"]
    return "\n".join([*said, *(",".join(f'"{word}"' for word in row) for row in rows)])


def test_a_kernel_is_limited_by_what_it_uses_most_if_that_is_over_half():
    text = ncu(("products", "ns", 3_000, 30.0), ("products", "us", 1, 70.0), ("sums", "us", 4, 90.0))
    launches = counters.launches(text)
    assert [launch.time for launch in launches] == [3e3, 1e3, 4e3]
    assert [launch.limit for launch in launches] == [counters.WAITS, "memory", "memory"]
    assert counters.limits(launches) == {"memory": 5 / 8, counters.WAITS: 3 / 8}


def test_launches_of_a_kernel_are_one_row_whose_shares_are_weighted_by_time():
    text = ncu(("products", "ns", 3_000, 30.0), ("products", "us", 1, 70.0), ("sums", "us", 5, 90.0))
    sums, products = counters.by_kernel(counters.launches(text), steps=2)
    assert (sums["kernel"], sums["launches"], sums["microseconds"], sums["memory"]) == ("sums", 0.5, 2.5, 90.0)
    assert (products["launches"], products["microseconds"], products["memory"]) == (1.0, 2.0, 40.0)
    assert products["warps"] == 20.0


def test_a_count_without_a_launch_repeats_ncus_last_words():
    with pytest.raises(ValueError, match=r"counted nothing; its last words: .*ERR_NVGPUCTRPERM"):
        counters.launches("==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM - no permission")
