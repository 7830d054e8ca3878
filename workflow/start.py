"""The start of ./run_all.sh: it looks for something to do before the imports, which take seconds."""

import sys

import stamp


def main(arguments: list[str]) -> int:
    """Run the workflow, unless nothing has changed since the last run; return the exit code."""
    words = None if "--" in arguments else stamp.up_to_date(arguments)
    if words is not None:
        print(f"Nothing has changed since the last run: nothing to do.\n{words}")
        return 0
    print("Looking for what is to be done: a few seconds.", flush=True)
    import run

    return run.main(arguments)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        print("\nStopped. The same command goes on where this one was.", file=sys.stderr)
        sys.exit(130)
