# The program with the languages that Debian packages. Inside a container, measure only what is deployed
# in one: its network and file system add layers.
#   docker build -t speedwell . && docker run --rm -v "$PWD:/work" speedwell run examples/node
FROM rust:1.90-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY Cargo.toml Cargo.lock ./
COPY crates crates
COPY xtask xtask
RUN cargo build --release --locked --package speedwell --features postgres

FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates g++ nodejs python3 \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /source/target/release/speedwell /usr/local/bin/speedwell
WORKDIR /work
ENTRYPOINT ["speedwell"]
