# The environment of requirements.lock. Your clone is mounted, so that results and figures stay there:
#   docker build --tag pna .
#   docker run --rm --gpus all --volume "$PWD:/pna" pna                  # ./run_all.sh
#   docker run --rm --gpus all --volume "$PWD:/pna" pna ./run_all.sh test
# Without a GPU leave out --gpus all. NVIDIA's MPS, for several trainings on one GPU, needs --ipc=host as well.
FROM python:3.12-slim-bookworm

# g++ compiles kernels at run time, and git says which commit a result is of.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ git \
    && rm -rf /var/lib/apt/lists/*

COPY requirements.lock /opt/pna/requirements.lock
RUN python -m pip install --no-cache-dir --requirement /opt/pna/requirements.lock \
    && git config --system --add safe.directory /pna

WORKDIR /pna
CMD ["./run_all.sh"]
