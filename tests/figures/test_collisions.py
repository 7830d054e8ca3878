import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jupyter_client.manager import start_new_kernel

from pna.figures.plots.collisions import COLLIDING, EXACT, picture, same
from verification.counterexamples import PNA_FAILS

ROOT = Path(__file__).parents[2]
VALUES = st.lists(st.integers(0, 60), min_size=5, max_size=5).map(lambda row: tuple(v / 10 for v in row))


def test_the_sliders_begin_at_a_collision_of_the_four():
    assert COLLIDING == tuple(tuple(map(float, multiset)) for multiset in PNA_FAILS)
    assert [name for name, alike in same(*COLLIDING).items() if alike] == ["mean", "std", "max", "min", "sum"]


@given(VALUES, st.permutations(range(5)))
def test_one_multiset_in_another_order_is_the_same(x, order):
    assert all(same(x, [x[k] for k in order]).values())


@given(VALUES, VALUES)
def test_exact_where_floats_would_round(x, y):
    tenths = [[Fraction(round(10 * v), 10) for v in row] for row in (x, y)]
    assert same(x, y) == {name: g(tenths[0]) == g(tenths[1]) for name, g in EXACT.items()}


@pytest.mark.parametrize(
    ("y", "said"),
    [
        ((5, 4.1, 2.8, 2.1, 1), "one multiset"),
        ((0, 0, 0, 0, 0), "6 of 6 aggregators notice: every aggregator tells"),
        ((1, 1.9, 3.2, 4.0, 5), "4 of 6 aggregators notice; X and Y collide under max, min"),
    ],
)
def test_the_picture_says_what_collides(y, said):
    assert said in picture(COLLIDING[0], y).axes[0].get_title()


# ---- with a kernel ----


class Kernel:
    """A kernel without a browser: what it shows after each message, as a browser would get it."""

    def __init__(self, client):
        self.client = client

    def execute(self, code):
        return self._shown(self.client.execute(code))

    def drag(self, model, value):
        """What a browser sends while a slider is dragged."""
        content = {"comm_id": model, "data": {"method": "update", "state": {"value": value}}}
        message = self.client.session.msg("comm_msg", content)
        self.client.shell_channel.send(message)
        return self._shown(message["header"]["msg_id"])

    def press(self, model):
        """What a browser sends when a button is pressed."""
        content = {"comm_id": model, "data": {"method": "custom", "content": {"event": "click"}}}
        message = self.client.session.msg("comm_msg", content)
        self.client.shell_channel.send(message)
        return self._shown(message["header"]["msg_id"])

    def _shown(self, request):
        """All that comes back before the kernel is idle again."""
        found = []
        while True:
            message = self.client.get_iopub_msg(timeout=300)
            if message["parent_header"].get("msg_id") != request:
                continue
            assert message["msg_type"] != "error", message["content"]["traceback"]
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return found
            found.append(message)


def pictures(messages):
    shown = [m["content"]["data"] for m in messages if m["msg_type"] == "display_data"]
    return [data["image/png"] for data in shown if "image/png" in data]


@pytest.fixture
def kernel():
    manager, client = start_new_kernel(startup_timeout=300, kernel_name="python3", cwd=str(ROOT))
    yield Kernel(client)
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_the_notebooks_sliders_move_its_picture(kernel):
    cells = json.loads((ROOT / "notebooks" / "collide_yourself.ipynb").read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    kernel.execute(code[0])
    began = kernel.execute(code[1])
    opened = [m["content"] for m in began if m["msg_type"] == "comm_open"]
    models = {c["data"]["state"].get("description"): c["comm_id"] for c in opened}
    sliders = [models[f"neighbour {k}"] for k in range(1, 6)]
    (first,) = pictures(began)
    (moved,) = pictures(kernel.drag(sliders[0], 0.9))
    (more,) = pictures(kernel.drag(sliders[1], 2.2))
    same = "display(picture(X, (0.9, 1.9, 3.2, 3.9, 5)), picture(X, (0.9, 2.2, 3.2, 3.9, 5)))"
    assert pictures(kernel.execute(same)) == [moved, more]
    assert pictures(kernel.press(models["back to the collision"]))[-1] == first
    assert len({first, moved, more}) == 3


def test_the_notebooks_piece_can_be_stretched(kernel):
    cells = json.loads((ROOT / "notebooks" / "collide_yourself.ipynb").read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    kernel.execute("from IPython.display import display")
    kernel.execute(code[0])
    began = kernel.execute(next(cell for cell in code if "drag_piece" in cell))
    opened = [m["content"] for m in began if m["msg_type"] == "comm_open"]
    models = {c["data"]["state"].get("description"): c["comm_id"] for c in opened}
    (first,) = pictures(began)
    (fewer,) = pictures(kernel.drag(models["channels"], 16))
    (stretched,) = pictures(kernel.drag(models["stretch"], 2.0))
    same = "display(piece_picture(256, 0.9), piece_picture(16, 0.9), piece_picture(16, 2.0))"
    assert pictures(kernel.execute(same)) == [first, fewer, stretched]
    assert len({first, fewer, stretched}) == 3
