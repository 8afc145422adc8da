#!/bin/bash
# Builds the program with nvcc, and runs it cold and warmed; with `--build`, only builds it. Uses the nvcc of CUDA_HOME, or the one on the
# path, and looks for the shared runtime library in the folder CUDART, or beside nvcc.
set -eu
cd "$(dirname "$0")"
root=${CUDA_HOME:-$(dirname "$(dirname "$(command -v nvcc)")")}
export PATH=$root/bin:$PATH NVCC=$root/bin/nvcc CUDA_HOME=$root CUDA_COMPUTE_CAP=${CUDA_COMPUTE_CAP:-90}
# Without this variable, risc0-sys compiles for the GPU of this machine, and the machine may have no GPU.
export NVCC_PREPEND_FLAGS=${NVCC_PREPEND_FLAGS:--Wno-deprecated-gpu-targets}
# risc0-sys depends on cust, which links the driver's library. Nothing here calls the library through cust, so a stub is enough.
export CUDA_LIBRARY_PATH=$root
stubs=${CARGO_TARGET_DIR:-target}/stubs
mkdir -p "$stubs"
stubs=$(cd "$stubs" && pwd)
cc -shared -x c /dev/null -Wl,-soname,libcuda.so.1 -o "$stubs/libcuda.so"
export RUSTFLAGS="-L native=${CUDART:-$root/lib64} -L native=$root/lib64 -L native=$root/lib -L native=$stubs -C link-arg=-Wl,-rpath,\$ORIGIN"
cargo build --release
[ "${1:-}" = --build ] && exit
program=${CARGO_TARGET_DIR:-target}/release/linked-crates
"$program" --cold || echo "exit code $?"
"$program"
