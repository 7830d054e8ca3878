"""The choice between kernels and twins: modules of kernels exist, and plain() holds for its own thread alone."""

import ast
import asyncio
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from threading import Event, Thread

import pytest
import torch

from pna.kernels.selection import is_plain, plain
from pna.places import repository


def modules():
    """Every module that is named in a call of kernels_for, with the file that names it."""
    for path in sorted((repository() / "pna").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "kernels_for":
                yield pytest.param(node.args[0].value, id=f"{path.stem}-{node.lineno}")


@pytest.mark.parametrize("module", [*modules()])
def test_every_module_of_kernels_that_is_asked_for_exists_and_says_what_it_supports(module):
    pytest.importorskip("triton")
    assert callable(import_module(module).supports)


# ---- plain() ----


def in_order(*steps):
    """A thread that takes these steps, each when its turn comes: (turn, function)."""
    thread = Thread(target=lambda: [turn.wait(60) and function() for turn, function in steps])
    thread.start()
    return thread


def test_two_threads_that_leave_in_the_order_in_which_they_entered_leave_nothing_behind():
    """The first enters, the second enters, the first leaves, the second leaves: not as brackets do."""
    turns, states, contexts = [Event() for _ in range(4)], {}, (plain(), plain())

    def enter(k):
        contexts[k].__enter__()
        states[f"{k} inside"] = is_plain()
        turns[k + 1].set()

    def leave(k):
        contexts[k].__exit__(None, None, None)
        states[f"{k} after"] = is_plain()
        turns[3].set()

    threads = [in_order((turns[k], lambda k=k: enter(k)), (turns[k + 2], lambda k=k: leave(k))) for k in range(2)]
    turns[0].set()
    for thread in threads:
        thread.join(60)
    assert states == {"0 inside": True, "1 inside": True, "0 after": False, "1 after": False}
    assert not is_plain()


def test_another_thread_keeps_its_kernels():
    with plain(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(is_plain).result() is False
        assert is_plain()


def test_tasks_of_one_loop_do_not_disturb_one_another():
    async def inside():
        with plain():
            await asyncio.sleep(0)
            return is_plain()

    async def outside():
        await asyncio.sleep(0)
        return is_plain()

    async def both():
        return await asyncio.gather(inside(), outside(), inside())

    assert asyncio.run(both()) == [True, False, True]


def test_it_nests_and_an_error_ends_it():
    with plain():
        with plain():
            pass
        assert is_plain()
    with pytest.raises(ZeroDivisionError), plain():
        raise ZeroDivisionError
    assert not is_plain()


def test_a_compiled_function_reads_it_without_a_graph_break():
    def function(x):
        return x + 1 if is_plain() else x * 3

    with plain():
        assert torch.compile(function, fullgraph=True, backend="eager")(torch.ones(1)).item() == 2
    torch.compiler.reset()
    assert torch.compile(function, fullgraph=True, backend="eager")(torch.ones(1)).item() == 3


def test_no_backward_pass_asks_for_it():
    """Autograd's threads do not have the context of the forward pass, so that decides for both."""
    askers = []
    for path in sorted((repository() / "pna").rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef) and "backward" in function.name:
                calls = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
                names = {getattr(call, "id", getattr(call, "attr", "")) for call in calls}
                askers += [
                    (path.name, function.name) for _ in names & {"usable", "kernels_for", "is_plain", "supports"}
                ]
    assert askers == []
