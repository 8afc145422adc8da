//! Tests `cuLinkCreate` and related functions, called as numba calls them: several PTX images become one.

mod device;

use std::ffi::CStr;

use device::*;

/// A PTX text that calls a function of the other text.
const CALLER: &str = ".version 8.0
.target sm_75
.address_size 64
.extern .func (.param .b32 r) twice(.param .b32 x);
.extern .global .u32 more;
.visible .entry k(.param .u64 to) {
    .reg .b32 %r<4>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [to];
    {
        .param .b32 x; .param .b32 r;
        st.param.b32 [x], 20;
        call (r), twice, (x);
        ld.param.b32 %r1, [r];
    }
    ld.global.u32 %r2, [more]; add.u32 %r1, %r1, %r2;
    st.global.u32 [%rd1], %r1;
    ret;
}
";

const CALLED: &str = ".version 8.1
.target sm_80
.address_size 64
.visible .global .u32 more = 2;
.visible .func (.param .b32 r) twice(.param .b32 x) {
    .reg .b32 %r<2>;
    ld.param.b32 %r1, [x]; add.u32 %r1, %r1, %r1; st.param.b32 [r], %r1;
    ret;
}
";

const PTX: usize = 1;
const INVALID_PTX: u32 = 218;

fn add(link: usize, kind: usize, text: &str) -> u32 {
    // A zero byte at the end is included, as CUDA's documentation requires.
    let mut bytes = [text.as_bytes(), &[0]].concat();
    let name = c"a.ptx".as_ptr().expose_provenance();
    call("cuLinkAddData_v2", &[link, kind, place(&mut *bytes), bytes.len(), name, 0, 0, 0])
}

/// Completes a link. Returns the error code, and address and size of the linked image.
fn complete(link: usize) -> (u32, [usize; 2]) {
    let mut image = [0; 2];
    let [address, size] = &mut image;
    (call("cuLinkComplete", &[link, place(address), place(size)]), image)
}

#[test]
fn several_texts_become_one_image() {
    install();
    context(0);
    let path = std::env::temp_dir().join(format!("link-{}.ptx", std::process::id()));
    std::fs::write(&path, CALLED).unwrap();
    let mut name = path.to_str().unwrap().as_bytes().to_vec();
    name.push(0);

    let link = last("cuLinkCreate_v2", &[0, 0, 0]);
    expect_eq!(add(link, PTX, CALLER), 0);
    expect_eq!(call("cuLinkAddFile_v2", &[link, PTX, place(&mut *name), 0, 0, 0]), 0);
    std::fs::remove_file(&path).unwrap();
    let (code, [image, size]) = complete(link);
    expect_eq!(code, 0);
    assert!(image != 0 && size > 0);
    let entry = c"k".as_ptr().expose_provenance();
    let module = get("cuModuleLoadData", &[image]);
    let library = get("cuLibraryLoadData", &[image, 0, 0, 0, 0, 0, 0]);
    ok("cuLinkDestroy", &[link]);
    if !on_a_gpu() {
        // NVIDIA's driver would free the link twice.
        assert_eq!(call("cuLinkDestroy", &[link]), INVALID_HANDLE);
    }

    let (stream, to) = (stream(), memory(4));
    for kernel in [get("cuModuleGetFunction", &[module, entry]), get("cuLibraryGetKernel", &[library, entry])]
    {
        launch(kernel, stream, &[to as u64]);
        ok("cuStreamSynchronize", &[stream]);
        expect_eq!(words(to, 1), [42]);
    }
}

#[test]
fn errors_are_in_the_callers_log() {
    install();
    context(0);
    const LOG: u32 = 5;
    const LOG_SIZE: u32 = 6;
    let mut log = [0_u8; 200];
    let (mut options, mut values) = ([LOG, LOG_SIZE], [place(&mut log), 200]);
    let link = last("cuLinkCreate_v2", &[2, place(&mut options), place(&mut values)]);
    expect_eq!(
        add(link, PTX, ".version 8.0 .target sm_80 .address_size 64 .entry k() { wibble"),
        INVALID_PTX
    );
    if !on_a_gpu() {
        let log = CStr::from_bytes_until_nul(&log).unwrap().to_str().unwrap();
        assert!(log.contains("line 1"), "{log}");
    }
    ok("cuLinkDestroy", &[link]);
}

/// Only PTX texts without names in common can be linked.
#[test]
fn links_that_are_not_simulated_are_refused() {
    if on_a_gpu() {
        return;
    }
    install();
    context(0);
    const CUBIN: usize = 0;
    let link = last("cuLinkCreate_v2", &[0, 0, 0]);
    assert_eq!(add(link, CUBIN, "no cubin"), NOT_SUPPORTED);
    assert_eq!((add(link, PTX, CALLED), add(link, PTX, CALLED)), (0, 0));
    assert_eq!(complete(link).0, NOT_SUPPORTED);
    ok("cuLinkDestroy", &[link]);
}
