"""What ./run_all.sh starts: it looks for something to do before it imports what doing it needs, which takes seconds."""

import sys

import stamp


def main(arguments: list[str]) -> int:
    """Ends at once if the last run left nothing to do, and otherwise runs the workflow; returns the exit code."""
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
