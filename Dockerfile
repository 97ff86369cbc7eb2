# The command in an image. GPUs come from the machine it runs on:
#   docker build -t locus --build-arg VERSION=v0.1.0 .
#   docker run --rm --gpus all locus devices
# For NVIDIA's libraries beside the driver, give a base that has them:
#   --build-arg BASE=nvidia/cuda:13.0.0-cudnn-runtime-ubuntu24.04
ARG BASE=debian:stable-slim

FROM golang:1.26 AS build
ARG VERSION=
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath \
    -ldflags "-s -w -buildid= -X github.com/locusml/locus/cmd/locus/internal/cli.Release=${VERSION}" \
    -o /locus ./cmd/locus

FROM ${BASE}
COPY --from=build /locus /usr/local/bin/locus
COPY LICENSE /usr/share/doc/locus/LICENSE
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
RUN useradd --create-home locus
USER locus
WORKDIR /home/locus
ENTRYPOINT ["locus"]
CMD ["--help"]
