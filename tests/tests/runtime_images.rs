//! Tests images that are made at run time: their kernels are registered, warmed, listed and launched like those of compile time.

use std::error::Error;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::thread;

use kernel_registry::cudarc::driver::{CudaContext, result, sys};
use kernel_registry::{
    DynArg, Late, LaunchError, MachineCode, RecheckError, RuntimeImage, WarmContext, Warmup, find,
    launch_dyn, warm_all, warmup,
};

/// The PTX of a C++ source, as a compiler at run time returns it.
const BLAS: &str = include_str!("../../kernels/prebuilt/cuda__blas1.cu.ptx");

/// PTX without C++ names, from which only the size of an address parameter is known.
const PLAIN: &str = ".version 8.0 .target sm_75 .address_size 64
    .visible .entry add(.param .u64 x, .param .u32 n, .param .f32 a) .reqntid 64
    {
        .reg .pred %p; .reg .u32 %t, %n; .reg .u64 %x, %o; .reg .f32 %f, %a;
        mov.u32 %t, %tid.x;
        ld.param.u32 %n, [n];
        setp.ge.u32 %p, %t, %n;
        @%p ret;
        ld.param.u64 %x, [x];
        cvta.to.global.u64 %x, %x;
        mul.wide.u32 %o, %t, 4;
        add.u64 %x, %x, %o;
        ld.param.f32 %a, [a];
        ld.global.f32 %f, [%x];
        add.f32 %f, %f, %a;
        st.global.f32 [%x], %f;
        ret;
    }
    .visible .entry large(.param .u64 out)
    {
        .local .align 4 .b8 frame[4096];
        .reg .u32 %r; .reg .u64 %a, %o;
        mov.u32 %r, %tid.x;
        mul.wide.u32 %a, %r, 4;
        mov.u64 %o, frame;
        add.u64 %o, %o, %a;
        st.local.u32 [%o], %r;
        ld.local.u32 %r, [%o];
        ld.param.u64 %a, [out];
        cvta.to.global.u64 %a, %a;
        st.global.u32 [%a], %r;
        ret;
    }\0";

/// A lock on warming. One test takes it alone, so that no other test warms kernels between the steps of that test.
static WARMING: RwLock<()> = RwLock::new(());

fn warming() -> RwLockReadGuard<'static, ()> {
    WARMING.read().unwrap_or_else(PoisonError::into_inner)
}

fn context() -> Result<Arc<CudaContext>, Box<dyn Error>> {
    kernel_registry_sim::install()?;
    Ok(kernel_registry::context(0)?)
}

/// Creates a context, for a test that sets a policy.
fn other_context() -> Result<Arc<CudaContext>, Box<dyn Error>> {
    context()?;
    let device = result::device::get(0)?;
    let mut context = ptr::null_mut();
    // SAFETY: the context is new, and the `CudaContext` owns it from here on.
    unsafe {
        sys::cuCtxCreate_v4(&mut context, ptr::null_mut(), 0, device).result()?;
        Ok(CudaContext::from_raw_context(0, device, context)?)
    }
}

#[test]
fn kernels_of_a_runtime_image_are_warmed_found_and_launched() -> Result<(), Box<dyn Error>> {
    let _warming = warming();
    let context = context()?;
    let line = line!() + 1;
    let kernels = RuntimeImage::new("made.ptx", BLAS).block("saxpy", 128).register()?;
    let again = RuntimeImage::new("made.ptx", BLAS).block("saxpy", 128).register()?;
    assert_eq!(kernels, again, "the same image gives the same kernels");
    let warm = warm_all(&context)?;
    for kernel in &kernels {
        assert!(kernel.path().starts_with("made.ptx::"));
        let row = warm.report().kernels.iter().find(|row| row.path == kernel.path());
        assert_eq!(row.map(|row| (row.image, row.code)), Some(("made.ptx", MachineCode::Compiled)));
    }
    warm.recheck()?;

    let saxpy = find("made.ptx::saxpy")?;
    assert_eq!(saxpy.location().to_string(), format!("{}:{line}", file!()));
    assert_eq!(
        saxpy.signature().to_string(),
        "saxpy(p0: unsigned int, p1: float, p2: const float*, p3: float*)"
    );
    let stream = context.new_stream()?;
    let x = stream.clone_htod(&[1.0_f32; 1000])?;
    let mut y = stream.clone_htod(&[2.0_f32; 1000])?;
    let args =
        [DynArg::value(&1000_u32), DynArg::value(&0.5_f32), DynArg::slice(&x), DynArg::slice_mut(&mut y)];
    // SAFETY: both vectors have 1000 elements.
    unsafe { launch_dyn(saxpy, &stream, saxpy.over(1000), args)? };
    assert_eq!(stream.clone_dtoh(&y)?, [2.5; 1000]);
    Ok(())
}

#[test]
fn arguments_are_compared_as_far_as_the_image_tells() -> Result<(), Box<dyn Error>> {
    let _warming = warming();
    let context = context()?;
    let of_blas = RuntimeImage::new("compared.ptx", BLAS).register()?;
    let of_plain = RuntimeImage::new("plain.ptx", PLAIN).register()?;
    warm_all(&context)?;
    let stream = context.new_stream()?;
    let doubles = stream.clone_htod(&[1.0_f64; 64])?;
    let mut y = stream.clone_htod(&[2.0_f32; 64])?;

    let saxpy = of_blas.iter().find(|kernel| kernel.symbol().contains("saxpy")).ok_or("no saxpy")?;
    let config = saxpy.over(64).block(64);
    let args = [DynArg::value(&64_u32), DynArg::value(&0.5_f32), DynArg::slice(&doubles), DynArg::null()];
    // SAFETY: the launch is refused.
    let refused = unsafe { launch_dyn(saxpy, &stream, config, args) };
    let refused = refused.expect_err("the elements have another size").to_string();
    assert!(
        refused.ends_with(
            "argument 2 is a slice of values of 8 bytes, and `p2: const float*` takes a pointer to values of 4"
        ),
        "{refused}"
    );

    let add = of_plain[0];
    // Any value of 8 bytes may be the address, but the number has to be an `f32`.
    let args = [DynArg::value(&64_u32), DynArg::value(&64_u32), DynArg::value(&1.0_f32)];
    // SAFETY: the launch is refused.
    let refused = unsafe { launch_dyn(add, &stream, add.over(64), args) };
    let refused = refused.expect_err("no address").to_string();
    assert!(
        refused.ends_with(
            "argument 0 is a value of 4 bytes, and `p0: .u64` takes a pointer, a slice or 8 bytes"
        ),
        "{refused}"
    );
    let args = [DynArg::slice_mut(&mut y), DynArg::value(&60_u32), DynArg::value(&1.0_f32)];
    // SAFETY: the vector has 64 elements.
    unsafe { launch_dyn(add, &stream, add.over(64), args)? };
    assert_eq!(stream.clone_dtoh(&y)?[..], [[3.0; 60].as_slice(), &[2.0; 4]].concat());
    Ok(())
}

#[test]
fn an_image_that_is_registered_after_the_warm_up_is_late() -> Result<(), Box<dyn Error>> {
    let _alone = WARMING.write().unwrap_or_else(PoisonError::into_inner);
    let context = other_context()?;
    Warmup::new().late(Late::Deny).warm(&context)?;
    let late = RuntimeImage::new("late.ptx", PLAIN).stack("large", 8192).register()?;
    let stream = context.new_stream()?;
    let mut y = stream.clone_htod(&[2.0_f32; 64])?;
    let mut launch = || {
        let args = [DynArg::slice_mut(&mut y), DynArg::value(&60_u32), DynArg::value(&1.0_f32)];
        // SAFETY: the vector has 64 elements.
        unsafe { launch_dyn(late[0], &stream, late[0].over(64), args) }
    };
    assert_eq!(launch(), Err(LaunchError::RegisteredLater { kernel: late[0] }));
    let warm = warm_all(&context)?;
    launch()?;
    let row = warm.report().kernels.iter().find(|row| row.path == "late.ptx::large").ok_or("no row")?;
    assert_eq!(row.stack, 8192);
    Ok(())
}

#[test]
fn a_recheck_beside_a_warm_up_sees_either_state() -> Result<(), Box<dyn Error>> {
    let _warming = warming();
    let context = other_context()?;
    let warm = warm_all(&context)?;
    let rechecks = thread::scope(|scope| {
        let warming = scope.spawn(|| {
            for number in 0..40 {
                let image = RuntimeImage::new(format!("larger-{number}.ptx"), PLAIN);
                let larger = image.stack("large", 12 * 1024 + number * 128).register();
                larger.expect("a stack of at most 17 KiB");
                warm_all(&context).expect("nothing keeps the device busy");
            }
        });
        let mut rechecks = Vec::new();
        while !warming.is_finished() {
            rechecks.push(warm.recheck());
        }
        rechecks
    });
    let unexpected = rechecks.iter().find(|result| !matches!(result, Ok(()) | Err(RecheckError::Warming)));
    assert_eq!(unexpected, None);
    Ok(())
}

#[test]
fn a_file_that_is_no_image_is_refused_with_a_reason() {
    let refused = |image: RuntimeImage| image.register().expect_err("it is no image").to_string();
    assert_eq!(
        refused(RuntimeImage::new("text", "hello")),
        "image `text`, made at run time: not a kernel image: neither PTX text nor a cubin nor a fatbin"
    );
    assert_eq!(
        refused(RuntimeImage::new("none.ptx", ".version 8.0 .target sm_75")),
        "image `none.ptx`, made at run time: it contains no kernels"
    );
    assert_eq!(
        refused(RuntimeImage::new("blas.ptx", BLAS).shared("saxby", 1024)),
        "image `blas.ptx`, made at run time: no kernel `saxby` in `blas.ptx`: did you mean `saxpy` or `daxpy`?"
    );
    let cubin = include_bytes!("../../kernel-registry-image/tests/images/spin.sm_90.cubin");
    let cut = &cubin[..cubin.len() - 1];
    assert_eq!(
        refused(RuntimeImage::new("cut.cubin", cut)),
        "image `cut.cubin`, made at run time: the image is cut off: the cubin should have 7608 bytes, but 7607 are there"
    );
}

/// Reports and errors show the name, and a terminal obeys nothing of it.
#[test]
fn a_name_with_control_characters_is_refused() {
    for name in ["\u{1b}[31mred.ptx", "two\nlines.ptx", "\u{202e}xtp.esrever", "zero\0.ptx"] {
        let refused = RuntimeImage::new(name, PLAIN).register().expect_err("it is obeyed").to_string();
        assert!(refused.ends_with("which a terminal may obey: leave it out"), "{refused}");
        let unknown = find(name).expect_err("it was refused").to_string();
        for said in [refused, unknown] {
            assert!(!said.contains(['\u{1b}', '\u{202e}', '\0']), "{said}");
        }
    }
}

#[test]
fn a_name_is_that_of_one_image() -> Result<(), Box<dyn Error>> {
    let first = RuntimeImage::new("twice.ptx", PLAIN).register()?;
    // The driver reads PTX only up to the first zero byte.
    let longer = format!("{PLAIN}.entry hidden() {{ ret; }}");
    assert_eq!(RuntimeImage::new("twice.ptx", longer).register()?, first);
    for other in
        [RuntimeImage::new("twice.ptx", BLAS), RuntimeImage::new("twice.ptx", PLAIN).block("large", 64)]
    {
        let refused = other.register().expect_err("the name is taken").to_string();
        assert!(
            refused.ends_with("another image is registered under this name: give each its own"),
            "{refused}"
        );
    }
    Ok(())
}

#[test]
fn blocks_and_sizes_that_no_device_has_are_refused() {
    let refused = |image: RuntimeImage| image.register().expect_err("it is too much").to_string();
    let image = || RuntimeImage::new("limits.ptx", PLAIN);
    assert!(refused(image().block("add", 2000)).ends_with("and not the 2000 x 1 x 1 of `add`"));
    assert!(refused(image().block("add", 0)).contains("1 to 1024 threads"));
    assert!(
        refused(image().shared("add", u32::MAX)).ends_with("the 4294967295 bytes of shared memory of `add`")
    );
    assert!(refused(image().stack("add", u32::MAX)).contains("a stack of 524288 bytes"));
}

/// The number of kernels that the hook preloaded.
static PRELOADED: AtomicUsize = AtomicUsize::new(0);

/// Preloads the kernels of a `CUlibrary` that was loaded without this crate.
#[warmup]
fn library(warm: &WarmContext<'_>) -> Result<(), Box<dyn Error>> {
    let mut library = ptr::null_mut();
    let image = PLAIN.as_ptr().cast();
    // SAFETY: the text ends with a zero byte, and the library is never unloaded.
    let count = unsafe {
        sys::cuLibraryLoadData(
            &mut library,
            image,
            ptr::null_mut(),
            ptr::null_mut(),
            0,
            ptr::null_mut(),
            ptr::null_mut(),
            0,
        )
        .result()?;
        warm.load_library(library)?
    };
    PRELOADED.fetch_max(count, Ordering::Relaxed);
    Ok(())
}

#[test]
fn kernels_of_other_libraries_are_preloaded() -> Result<(), Box<dyn Error>> {
    let _warming = warming();
    let warm = warm_all(&context()?)?;
    assert_eq!(PRELOADED.load(Ordering::Relaxed), 2);
    assert!(warm.report().stack >= 4096);
    Ok(())
}
