"""The start of ./run_all.sh: it looks for something to do before the imports, which take seconds."""

import os
import signal
import sys

import stamp

STOPPED = "\nStopped. The same command goes on where this one was."


def main(arguments: list[str]) -> int:
    """Run the workflow, unless nothing has changed since the last run; return the exit code."""
    words = None if "--" in arguments else stamp.up_to_date(arguments)
    if words is not None:
        print(f"Nothing has changed since the last run: nothing to do.\n{words}")
        return 0
    print("Looking for what is to be done: a few seconds.", flush=True)
    import run

    return run.main(arguments)


def _stop(number: int, frame: object) -> None:
    """End at once on Ctrl-C: an import in which an exception is raised may catch it and fail later, elsewhere."""
    os.write(2, f"{STOPPED}\n".encode())
    os._exit(130)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, _stop)
    try:
        code = main(sys.argv[1:])
    except KeyboardInterrupt:
        print(STOPPED, file=sys.stderr)
        code = 130
    sys.stdout.flush()
    os._exit(code)  # to unload every import takes a second, in which Ctrl-C would be a failure
