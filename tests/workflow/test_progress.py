"""The lines that the workflow prints about itself."""

import logging
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from snakemake.common import NOTHING_TO_BE_DONE_MSG
from snakemake_interface_logger_plugins.common import LogEvent

sys.path.insert(0, str(Path(__file__).parents[2] / "workflow"))

import snakemake_logger_plugin_progress as plugin
from snakemake_logger_plugin_progress import LogHandler, _time, _title, interrupt


def record(event, **facts):
    made = logging.makeLogRecord({"levelno": logging.INFO, "msg": "message"})
    for key, value in {"event": event, **facts}.items():
        setattr(made, key, value)
    return made


@pytest.fixture
def handler():
    made = LogHandler(SimpleNamespace(dryrun=True), None)
    made.dry = False
    return made


def test_counts_titles_failures_and_time(handler, capsys, tmp_path):
    log = tmp_path / "logs" / "train" / "multitask" / "released" / "pna" / "16.log"
    log.parent.mkdir(parents=True)
    log.write_text("epoch 7 of at most 450: best validation 0.1, 2 of 2 replicas running, 12 s left\n")
    handler.emit(record(LogEvent.RUN_INFO, stats={"train_0": 1, "notebook_figure4": 1, "all": 1, "total": 3}))
    handler.emit(record(LogEvent.JOB_INFO, jobid=1, rule_name="train_0", log=[str(log)]))
    handler.emit(record(LogEvent.JOB_STARTED, jobs=[1]))
    assert (
        handler._line()
        == "[0/2] time left: not known yet; running: training multitask/released/pna/16 (epoch 7 of 450)"
    )
    handler.emit(record(LogEvent.JOB_FINISHED, job_id=1))
    handler.emit(record(LogEvent.JOB_INFO, jobid=2, rule_name="notebook_figure4", log=["b/logs/notebooks/figure4.log"]))
    handler.emit(record(LogEvent.JOB_STARTED, jobs=[2]))
    handler.emit(record(LogEvent.JOB_ERROR, jobid=2, rule_name="notebook_figure4"))
    said = capsys.readouterr().err
    assert "2 steps: 1 x train, 1 x notebook" in said
    assert "[1/2] done: training multitask/released/pna/16 (0 s); about 0 s left" in said
    assert "FAILED: notebook figure4; see b/logs/notebooks/figure4.log" in said
    assert "1 failed" in handler._line()


def test_a_log_that_is_no_text_is_read_all_the_same(tmp_path):
    log = tmp_path / "logs" / "train" / "x.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"epoch 7 of at most 450: \xce\nepoch 8 of at most 450: at most 9 s left\n")
    assert _title("train_0", log, epochs=True) == "training x (epoch 8 of 450)"


def test_one_step_is_no_steps(handler, capsys):
    handler.emit(record(LogEvent.RUN_INFO, stats={"notebook_figure1": 1, "all": 1, "total": 2}))
    assert capsys.readouterr().err.strip() == "1 step: 1 x notebook"


def test_a_run_without_a_step_says_so(handler, capsys):
    made = record(None)
    made.msg = NOTHING_TO_BE_DONE_MSG
    handler.emit(made)
    assert capsys.readouterr().err.strip() == "nothing to do"


def test_an_event_that_cannot_be_read_ends_nothing(handler, monkeypatch):
    monkeypatch.setattr(logging, "raiseExceptions", False)
    before = handler._line()
    handler.emit(record(LogEvent.JOB_FINISHED))
    assert handler._line() == before


def test_errors_of_snakemake_are_passed_on(handler, capsys):
    made = record(None)
    made.levelno = logging.ERROR
    handler.emit(made)
    assert "message" in capsys.readouterr().err


def test_after_an_interrupt_nothing_is_called_failed(handler, monkeypatch, capsys):
    monkeypatch.setattr(plugin, "_interrupted", [])
    handler.emit(record(LogEvent.RUN_INFO, stats={"notebook_figure4": 1, "notebook_depth": 1}))
    for number, name in enumerate(("figure4", "depth")):
        log = [f"b/logs/notebooks/{name}.log"]
        handler.emit(record(LogEvent.JOB_INFO, jobid=number, rule_name=f"notebook_{name}", log=log))
        handler.emit(record(LogEvent.JOB_STARTED, jobs=[number]))
    capsys.readouterr()
    with pytest.raises(KeyboardInterrupt):
        interrupt(signal.SIGINT, None)
    handler.emit(record(LogEvent.JOB_ERROR, jobid=0, rule_name="notebook_figure4"))
    handler.emit(record(None, levelno=logging.ERROR))
    assert capsys.readouterr().err == ""
    assert handler._line() == "[0/2] stopping; still running: notebook depth"


def test_the_same_interrupt_by_another_way_changes_nothing_and_a_later_one_counts(monkeypatch):
    clock = iter((100.0, 101.0, 100.1 + plugin.GRACE))
    monkeypatch.setattr(plugin, "_interrupted", [])
    monkeypatch.setattr(plugin.time, "monotonic", lambda: next(clock))
    with pytest.raises(KeyboardInterrupt):
        interrupt(signal.SIGINT, None)
    interrupt(signal.SIGINT, None)
    with pytest.raises(KeyboardInterrupt):
        interrupt(signal.SIGINT, None)
    assert len(plugin._interrupted) == 2


@pytest.mark.parametrize(("seconds", "text"), [(3.4, "3 s"), (100, "2 min"), (7200, "2.0 h")])
def test_times(seconds, text):
    assert _time(seconds) == text


def test_titles():
    assert _title("notebook_x", Path("b/logs/notebooks/x.log")) == "notebook x"
    assert _title("data", Path("b/logs/data/multitask.released.log")) == "data multitask.released"
    assert _title("report", Path("b/logs/report.log")) == "report"
