#!/usr/bin/env bash
# Set up what is missing, then run the project. See --help.
set -euo pipefail
CDPATH="" cd -- "$(dirname "${BASH_SOURCE[0]}")"

usage() {
    cat <<'TXT'
usage: ./run_all.sh [--profile smoke|quick|paper|planned] [--only FIGURE] [--slurm] [--cpu] [--from-results]
                    [--cores N] [--dry-run] [-- SNAKEMAKE ARGUMENTS]
       ./run_all.sh test     run every test: lint, tests/ and verification/
       ./run_all.sh docs     build the documentation, build/site/index.html; a broken link is an error
       ./run_all.sh --help   print this text

Trains what is not recorded yet, executes the notebooks, draws the figures and writes the report, figures/report.html.

  --profile P      the budget: smoke (seconds a cell), quick (minutes), paper (section 4 of the paper) or planned (the
                   paper's, with the new seeds of results/plan.json).
                   Default: paper on a machine with a GPU; on one without, quick, with each figure drawn from the
                   fullest budget recorded for it. smoke and quick, if given, write to build/P/ and not to figures/.
  --only FIGURE    only this figure and what it needs; several are separated by commas: figure1 to figure6, benchmark,
                   moments, graph-types, standard, single-task, parameters, theory, depth, tuning, real-graphs,
                   introduction, pna-from-scratch, collide-yourself, explore, choose-a-layer
  --slurm          run the trainings as jobs on a Slurm cluster, each with one GPU (--gres gpu:h100:1 asks for another
                   kind), in slices (--slice-minutes N, default 240). Small trainings share a job: --cells-per-job N,
                   default by their estimated times
  --cpu            train on CPUs, here or on the cluster
  --from-results   draw from recorded runs, train nothing
  --cores N        run N steps side by side (default: all cores)
  --dry-run        say what would be done

You can stop it at any time, even with kill -9: the same command resumes, and finished work is not repeated. A failed
training does not stop the others; it is named at the end, and the exit code is 1.

Needs Python 3.11, 3.12 or 3.13 with pip and venv. If the active environment already has the versions in requirements.lock,
it is used as it is; otherwise they are installed into .venv, once.
TXT
}

unknown() { echo "run_all.sh: unknown argument '$1'; see ./run_all.sh --help" >&2; exit 2; }
job=all
words=("$@")
while [ $# -gt 0 ]; do
    case "$1" in
        -h | --help) usage; exit 0 ;;
        test | docs) job=$1; shift ;;
        --profile | --only | --cores | --slice-minutes | --gres | --cells-per-job)
            [ $# -gt 1 ] || { echo "run_all.sh: $1 needs a value" >&2; exit 2; }
            shift 2 ;;
        --slurm | --cpu | --from-results | --dry-run) shift ;;
        --profile=?* | --only=?* | --cores=?* | --slice-minutes=?* | --gres=?* | --cells-per-job=?*) shift ;;
        --) break ;;
        *) unknown "$1" ;;
    esac
done
if [ "$job" != all ] && [ ${#words[@]} -gt 1 ]; then
    echo "run_all.sh: $job takes no other argument" >&2
    exit 2
fi

supported() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; }

satisfies_lock() {  # does the interpreter $1 hold exactly the versions of requirements.lock?
    supported "$1" && "$1" - <<'PY' 2>/dev/null
import sys
from importlib.metadata import version
for line in open("requirements.lock", encoding="utf-8"):
    if "==" in line and not line.startswith("#"):
        requirement, _, marker = line.partition(";")  # the only marker is that of packages for Linux
        if marker and sys.platform != "linux":
            continue
        name, wanted = requirement.split("==")
        if version(name.strip()).split("+")[0] != wanted.strip():
            sys.exit(1)
PY
}

make_venv() {
    local python
    for python in python3 python3.13 python3.12 python3.11; do supported "$python" && break; python=; done
    if [ -z "$python" ]; then
        echo "run_all.sh: needs Python 3.11, 3.12 or 3.13 as python3 or python3.11 to python3.13 on the PATH" >&2
        exit 1
    fi
    if [ -e .venv ] && [ ! -e .venv/made_by_run_all ]; then
        echo "run_all.sh: .venv is there but was not made by this script; move it away, or activate what satisfies the lock" >&2
        exit 1
    fi
    python=$("$python" -c 'import sys; print(sys._base_executable)') # python3 may be the .venv that goes now
    echo "Installing the versions of requirements.lock into .venv with $("$python" --version): once, a few minutes."
    [ -w . ] || { echo "run_all.sh: $PWD cannot be written to, and .venv has to go there" >&2; exit 1; }
    rm -rf .venv
    mkdir .venv && touch .venv/made_by_run_all
    "$python" -m venv .venv || {
        echo "run_all.sh: '$python -m venv' failed; on Debian and Ubuntu: apt install python3-venv" >&2
        exit 1
    }
    .venv/bin/python -m pip install --disable-pip-version-check --requirement requirements.lock
    .venv/bin/python -m pip install --disable-pip-version-check --no-deps --editable .
    cksum <requirements.lock >.venv/lock.cksum # written last: a set-up cut short is made anew
}

if satisfies_lock python3; then
    python=$(command -v python3)
else
    [ "$(cat .venv/lock.cksum 2>/dev/null)" = "$(cksum <requirements.lock)" ] && .venv/bin/python -c '' || make_venv
    python=$PWD/.venv/bin/python
fi
export PATH="$(dirname "$python"):$PATH" PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"

[ "$job" = all ] && exec "$python" workflow/start.py ${words[@]+"${words[@]}"}
if [ "$job" = docs ]; then
    NO_MKDOCS_2_WARNING=1 "$python" -m mkdocs build --strict --quiet
    echo "The documentation is in $PWD/build/site/index.html"
    exit
fi

failed=()
step() { # step TITLE COMMAND...: runs the command; a failure is kept for the end and does not stop the others
    echo; echo "== $1"
    "${@:2}" || failed+=("$1")
}
step "lint" "$python" -m ruff check .
step "format" "$python" -m ruff format --check .
step "tests and verification" "$python" -m pytest -q -n auto --dist worksteal
echo
if [ ${#failed[@]} -gt 0 ]; then
    printf 'FAILED: %s\n' "${failed[@]}" >&2
    exit 1
fi
echo "All steps above succeeded."
