# docker build --target gpu -t staract:gpu .
# docker run --gpus all --shm-size 16g -v "$PWD/checkpoints:/staract/checkpoints" -v "$PWD/trajectories:/staract/trajectories" staract:gpu train RECIPE accelerate=ddp
#
# docker build --target cpu -t staract:cpu .
# docker run staract:cpu run recipes/atlas/quickstart.yaml
#
# What is installed, and in which version, is said by the Makefile targets that .ci/run calls as well; Java comes with
# them as a package. The user has the id 10001: folders that are mounted must let it write. Keys are given when a
# container is run (-e OPENAI_API_KEY), never built in.

FROM ubuntu:24.04 AS cpu
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates make python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 10001 --create-home staract \
    && install --directory --owner staract --group staract /staract
WORKDIR /staract
USER 10001
# The builds of torch for processors carry a local version (+cpu), which pip takes to be the newer.
ENV PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu \
    PIP_NO_CACHE_DIR=1 \
    PATH=/staract/.venv/bin:$PATH
# What is installed follows from these files: a change of the code alone installs nothing again.
COPY --chown=10001 Makefile pyproject.toml constraints.txt README.md LICENSE ./
COPY --chown=10001 pipeline/__init__.py pipeline/
RUN make install
COPY --chown=10001 . .
RUN mkdir --parents trajectories checkpoints
ENTRYPOINT ["staract"]
CMD ["--help"]

FROM nvidia/cuda:13.0.2-runtime-ubuntu24.04 AS gpu
# A compiler and Python's headers: Triton builds its launchers when they are first used.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates gcc g++ make python3 python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 10001 --create-home staract \
    && install --directory --owner staract --group staract /staract
WORKDIR /staract
USER 10001
ENV PIP_NO_CACHE_DIR=1 \
    PATH=/staract/.venv/bin:$PATH
COPY --chown=10001 Makefile pyproject.toml constraints.txt README.md LICENSE ./
COPY --chown=10001 pipeline/__init__.py pipeline/
RUN make install
RUN make sharding
COPY --chown=10001 . .
RUN mkdir --parents trajectories checkpoints
ENTRYPOINT ["staract"]
CMD ["--help"]
