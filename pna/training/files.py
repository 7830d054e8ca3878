"""Files that are whole or not there: tensors as safetensors, facts as JSON, written beside their place and renamed."""

import json
from pathlib import Path

from torch import Tensor

from pna.atomic import write_whole

__all__ = ["read_json", "read_tensors", "write_json", "write_tensors"]


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict) -> None:
    """Tensors with a JSON object beside them, in one safetensors file."""
    from safetensors.torch import save

    data = save({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, {"pna": json.dumps(metadata)})
    write_whole(path, lambda file: file.write(data))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict]:
    """What write_tensors wrote."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata = json.loads((file.metadata() or {})["pna"])
            return {name: file.get_tensor(name) for name in file.keys()}, metadata  # noqa: SIM118 (not a dict)
    except (SafetensorError, KeyError, ValueError) as error:
        raise ValueError(
            f"{path} is not a file that this package wrote whole ({error}); remove it to start anew"
        ) from error


def write_json(path: Path, facts: dict) -> None:
    """A JSON object, one key a line at the top, so that differences are readable."""
    lines = (f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in facts.items())
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    write_whole(path, lambda file: file.write(text.encode()))


def read_json(path: Path) -> dict:
    """What write_json wrote."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} does not hold a JSON object: {error}") from error
    if not isinstance(facts, dict):
        raise ValueError(f"{path} does not hold a JSON object")
    return facts
