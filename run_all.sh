#!/usr/bin/env bash
# Sets up what is missing, then runs the project. See --help.
set -euo pipefail
CDPATH="" cd -- "$(dirname "${BASH_SOURCE[0]}")"

usage() {
    cat <<'TXT'
usage: ./run_all.sh          regenerate everything the project can make so far
       ./run_all.sh test     run every test: lint, tests/ and verification/
       ./run_all.sh --help   this text

Needs Python 3.11 or 3.12 with pip and venv. If the active environment already holds the versions of
requirements.lock it is used as it is; otherwise they are installed into .venv, once.
TXT
}

job=all
for word in "$@"; do
    case "$word" in
        -h | --help) usage; exit 0 ;;
        test) job=test ;;
        *) echo "run_all.sh: unknown argument '$word'; allowed: test, --help" >&2; usage >&2; exit 2 ;;
    esac
done

supported() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null; }

satisfies_lock() {  # does the interpreter $1 hold exactly the versions of requirements.lock?
    supported "$1" && "$1" - <<'PY' 2>/dev/null
import sys
from importlib.metadata import version
for line in open("requirements.lock", encoding="utf-8"):
    if "==" in line and not line.startswith("#"):
        name, wanted = line.split("==")
        if version(name.strip()).split("+")[0] != wanted.strip():
            sys.exit(1)
PY
}

make_venv() {
    local python
    for python in python3 python3.12 python3.11; do supported "$python" && break; python=; done
    if [ -z "$python" ]; then
        echo "run_all.sh: needs Python 3.11 or 3.12 as python3, python3.12 or python3.11 on the PATH" >&2
        exit 1
    fi
    if [ -e .venv ] && [ ! -e .venv/made_by_run_all ]; then
        echo "run_all.sh: .venv is there but was not made by this script; move it away, or activate what satisfies the lock" >&2
        exit 1
    fi
    python=$("$python" -c 'import sys; print(sys._base_executable)') # python3 may be the .venv that goes now
    echo "Installing the versions of requirements.lock into .venv with $("$python" --version): once, a few minutes."
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

failed=()
step() { # step TITLE COMMAND...: runs the command; a failure is kept for the end and does not stop the others
    echo; echo "== $1"
    "${@:2}" || failed+=("$1")
}

if [ "$job" = test ]; then
    step "lint" "$python" -m ruff check .
    step "format" "$python" -m ruff format --check .
    step "tests and verification" "$python" -m pytest -n auto
else
    step "theory: figures" "$python" -m verification figures
    step "theory: certificates re-checked by independent code" "$python" -m verification check
    step "theory: every statement checked, verification/report.html" "$python" -m verification report
    for spec in described released; do
        step "multi-task benchmark as $spec, figures/families_$spec.png" \
            "$python" -m pna multitask show --spec "$spec" --gallery "figures/families_$spec.png"
        step "multi-task benchmark as $spec: baseline" "$python" -m pna multitask baseline --spec "$spec"
    done
    step "models of the paper" "$python" -m pna models
    scratch=$(mktemp -d)
    step "training, smallest budget: PNA" \
        env PNA_RESULTS="$scratch" PNA_DATA="$scratch" "$python" -m pna train multitask/described/pna/16 --profile smoke
    rm -rf "$scratch"
    step "recorded trainings: the paper's data and seeds, 300 epochs" "$python" -m pna results --epochs 300
    step "the layer beside PyTorch Geometric's" "$python" -m benchmarks.layer_cpu --repeats 1
    echo
    echo "Not part of the project yet, so not made: figures 4 to 6 and the appendix's at the paper's budget, the notebooks,"
    echo "the report that sets them beside the published ones, the real-world benchmarks."
fi

echo
if [ ${#failed[@]} -gt 0 ]; then
    printf 'FAILED: %s\n' "${failed[@]}" >&2
    exit 1
fi
echo "All steps above succeeded."
