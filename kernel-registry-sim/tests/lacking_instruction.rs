//! Tests that a kernel with an instruction that the interpreter lacks is refused at its launch, and that other kernels
//! of its module run.

mod child;
mod device;

use device::*;

/// An image of two kernels. `texel` reads a texture, which is not simulated.
const TEXT: &str = "\
.version 8.0
.target sm_80
.address_size 64
.visible .entry five(.param .u64 to) {
    .reg .b64 %rd;
    ld.param.u64 %rd, [to];
    st.global.u32 [%rd], 5;
    ret;
}
.visible .entry texel(.param .u64 to) {
    .reg .f32 %f<5>; .reg .b64 %rd;
    ld.param.u64 %rd, [to];
    tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd, {%f1, %f2}];
    ret;
}
\0";

fn function(module: usize, name: &std::ffi::CStr) -> usize {
    get("cuModuleGetFunction", &[module, place(&mut *name.to_bytes_with_nul().to_vec())])
}

#[test]
fn other_kernels_of_the_module_run() {
    if on_a_gpu() {
        return;
    }
    let printed = child::run("refused_at_launch", &[]);
    let expected = "simulated CUDA driver: the launch of `texel` is not simulated: the interpreter does not have \
        `tex.2d.v4.f32.f32` (line 13 of the PTX: `tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd, {%f1, %f2}];`), \
        and returns CUDA_ERROR_NOT_SUPPORTED\n";
    assert_eq!(printed.matches(expected).count(), 1, "{printed}");
}

#[test]
#[ignore = "runs in a child process, whose output is read"]
fn refused_at_launch() {
    context(0);
    let module = get("cuModuleLoadData", &[place(&mut *TEXT.as_bytes().to_vec())]);
    let (stream, result) = (stream(), memory(4));
    let mut argument = result;
    let mut arguments = [place(&mut argument)];
    let texel = [function(module, c"texel"), 1, 1, 1, 1, 1, 1, 0, stream, place(&mut arguments), 0];
    for _ in 0..2 {
        assert_eq!(call("cuLaunchKernel", &texel), NOT_SUPPORTED);
    }
    // The error is not sticky.
    launch(function(module, c"five"), stream, &[result as u64]);
    ok("cuStreamSynchronize", &[stream]);
    assert_eq!(words(result, 1), [5]);
}
