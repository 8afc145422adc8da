//! Generates the kernels' CUDA C++.

use std::fmt::Write;

use first_launches::{LAUNCH, N, RECUR};

use crate::kernels::{Cluster, Frame, Kernel, Recursion};

/// The source of the resident kernel.
pub(crate) const RESIDENT: &str = include_str!("../../../census/cuda/resident.cu");

/// The text at the head of every generated source.
const HEAD: &str = r#"#include <cassert>
#include <cstdio>

// Reports in mapped host memory, which the host polls, that a kernel ran.
__device__ inline void tell(volatile unsigned int* done) {
    *done = 1;
    __threadfence_system();
}

// The indices are only known at run time, so the array can't live in registers. It's the frame.
template <unsigned int WORDS>
__device__ __forceinline__ unsigned int frame(unsigned int n) {
    unsigned int words[WORDS];
    for (unsigned int i = 0; i < n; ++i) words[i * 7 % WORDS] = i;
    unsigned int sum = 0;
    for (unsigned int i = 0; i < n; ++i) sum += words[i * 13 % WORDS];
    return sum;
}

template <unsigned int WORDS>
__device__ __noinline__ unsigned int called_frame(unsigned int n) {
    return frame<WORDS>(n);
}

template <unsigned int WORDS>
__device__ __noinline__ unsigned int recursion(unsigned int depth, unsigned int n, const unsigned int* words) {
    unsigned int own[WORDS];
    for (unsigned int i = 0; i < n; ++i) own[i * 7 % WORDS] = words[i & 1] + i;
    if (depth == 0) return own[n % WORDS];
    return recursion<WORDS>(depth - 1, n, own) + own[n * 3 % WORDS];
}
"#;

/// Returns a source with these kernels. The source begins with the directive that chooses the architecture.
pub(crate) fn source(directive: &str, kernels: &[&Kernel]) -> String {
    let mut text = format!("// Generated.\n{directive}{HEAD}");
    for kernel in kernels {
        text += &definition(kernel);
    }
    text
}

fn definition(kernel: &Kernel) -> String {
    let name = kernel.name();
    let mut text = String::new();
    if let Some(bytes) = kernel.child_frame {
        text += &format!(
            "\n__global__ void child_{name}(volatile unsigned int* done, unsigned int n) {{\n    \
             if (frame<{}>(n) == 0xffffffffu) *done = 2;\n    tell(done);\n}}\n",
            bytes / 4
        );
    }
    let clusters = match kernel.cluster {
        Some(Cluster { blocks, at_launch: false }) => format!("__cluster_dims__({blocks}, 1, 1) "),
        _ => String::new(),
    };
    text += &format!(
        "\n// {kernel}\n__global__ void {clusters}{name}(volatile unsigned int* done, unsigned int n, \
         unsigned int really) {{\n    unsigned int sum = 0;\n"
    );
    let mut line = |words: &str| writeln!(text, "    {words}").expect("a string takes all");
    if let Some(Frame { bytes, called }) = kernel.frame {
        let function = if called { "called_frame" } else { "frame" };
        line(&format!("sum += {function}<{}>(n);", bytes / 4));
    }
    if let Some(Recursion { frame, depth, .. }) = kernel.recursion {
        line("const unsigned int words[2] = {n, n + 1};");
        // The compiler must not know the depth.
        let call = format!("recursion<{}>(n / {N} * {depth}, n, words)", frame / 4);
        line(&format!("if ((really & {RECUR}) != 0) sum += {call};"));
    }
    if kernel.printf {
        line(&format!("if (threadIdx.x == 0 && blockIdx.x == 0) printf(\"{name} printed this\\n\");"));
    }
    if kernel.malloc {
        line("volatile unsigned int* memory = (unsigned int*)malloc(64);");
        line("if (memory != nullptr) {");
        line("    *memory = n;");
        line("    sum += *memory;");
        line("    free((void*)memory);");
        line("}");
    }
    if kernel.assert {
        line(&format!("assert(n == {N});"));
    }
    if kernel.static_shared > 0 {
        let words = kernel.static_shared / 4;
        line(&format!("__shared__ unsigned int fixed[{words}];"));
        line(&format!("fixed[threadIdx.x * n % {words}] = n;"));
        line("__syncthreads();");
        line("sum += fixed[0];");
    }
    if kernel.dynamic_shared > 0 {
        let words = kernel.dynamic_shared / 4;
        line("extern __shared__ unsigned int dynamic[];");
        line(&format!("dynamic[{words} - 1 - threadIdx.x % {words}] = n;"));
        line("__syncthreads();");
        line(&format!("sum += dynamic[{words} - 1];"));
    }
    if kernel.cluster.is_some() {
        line("__cluster_barrier_arrive();");
        line("__cluster_barrier_wait();");
    }
    if kernel.child_frame.is_some() {
        line(&format!("if ((really & {LAUNCH}) != 0 && threadIdx.x == 0 && blockIdx.x == 0) {{"));
        line(&format!("    child_{name}<<<1, 32>>>(done + 1, n);"));
        line("}");
    }
    // Never true, but the compiler can't know that.
    line("if (sum == 0xffffffffu) *done = 2;");
    line("tell(done);");
    text + "}\n"
}
