# The course with everything installed, and JupyterLab on port 8888. With a GPU, or without one (docs/docker.md):
#
#   docker build -t mobilenetv2-course .
#   docker build -t mobilenetv2-course:gpu --build-arg COURSE_GPU=1 .
#
# An image for GPUs holds CUDA's libraries from wheels; the driver comes from the machine (docker run --gpus all).
FROM python:3.12-slim-bookworm

# g++ compiles kernels for the simulator. Debian's release fixes its version.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ git make \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 learner \
    && install -d -o learner -g learner /course \
    && install -d /usr/local/etc/jupyter \
    && echo '{"ServerApp": {"ip": "0.0.0.0"}}' > /usr/local/etc/jupyter/jupyter_server_config.json

WORKDIR /course
USER 1000
COPY --chown=learner:learner . .

# 0: without the packages for GPUs, 1: with them. The choice stays, so that `make` finds everything set up.
ARG COURSE_GPU=0
ARG COURSE_CUPY=cupy-cuda12x
ENV COURSE_GPU=$COURSE_GPU \
    COURSE_CUPY=$COURSE_CUPY \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    PIP_NO_CACHE_DIR=1

# work/ belongs to the learner, and so does a volume that is mounted there
RUN python bootstrap.py && mkdir -p work

EXPOSE 8888
CMD [".venv/bin/python", "-m", "common", "lab", "--no-browser"]
