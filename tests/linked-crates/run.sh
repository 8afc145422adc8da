#!/bin/bash
# Builds the program with nvcc, and runs it cold and warmed. `--build` only builds. nvcc is that of CUDA_HOME, or that on the path; the
# shared runtime library is looked for in CUDART, or where nvcc is.
set -eu
cd "$(dirname "$0")"
root=${CUDA_HOME:-$(dirname "$(dirname "$(command -v nvcc)")")}
export PATH=$root/bin:$PATH NVCC=$root/bin/nvcc CUDA_HOME=$root CUDA_COMPUTE_CAP=${CUDA_COMPUTE_CAP:-90}
export RUSTFLAGS="-L native=${CUDART:-$root/lib64} -L native=$root/lib64 -L native=$root/lib -C link-arg=-Wl,-rpath,\$ORIGIN"
cargo build --release
[ "${1:-}" = --build ] && exit
program=${CARGO_TARGET_DIR:-target}/release/linked-crates
"$program" --cold || echo "exit code $?"
"$program"
