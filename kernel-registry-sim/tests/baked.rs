//! Baked code: machine code of PTX images from a file. The simulated driver executes PTX, so what stands for machine code here is a
//! fatbin with a cubin for the device, beside the PTX: of that it compiles nothing.

mod child;
mod serial;

use std::error::Error;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;

use kernel_registry::cudarc::driver::{CudaContext, sys};
use kernel_registry::{
    DynArg, KernelInfo, Late, LaunchConfig, MachineCode, NotBaked, Warm, WarmError, Warmup, launch_dyn,
};
use kernel_registry_cuda::fatbin::{self, Kind, Part};
use kernel_registry_files::sha256;
use kernel_registry_format::baked::{self, Code};
use kernel_registry_sim::{Config, Fault};
use pieces::separate;
use serial::Turn;
use tempfile::TempDir;

type Outcome = Result<(), Box<dyn Error>>;

/// Any machine code for the simulated device.
const CUBIN: &[u8] = include_bytes!("../../kernel-registry-image/tests/images/blas1.sm_90.cubin");

const KERNELS: &[&KernelInfo] = &[separate::increment::INFO, separate::double::INFO, separate::square::INFO];

fn image() -> Result<&'static [u8], Box<dyn Error>> {
    Ok(KERNELS[0].image().ok_or("there is an image")?.bytes())
}

/// A file of baked code in a folder of its own: the image's code, for this architecture.
fn file(arch: &str, code: Option<&[u8]>) -> Result<(TempDir, PathBuf), Box<dyn Error>> {
    let image = image()?;
    let whole = fatbin::write(&[
        Part { kind: Kind::Cubin, sm: 90, flags: 0, bytes: CUBIN },
        Part { kind: Kind::Ptx, sm: 75, flags: 0, bytes: baked::text(image) },
    ]);
    let key = sha256(&baked::key_parts(baked::text(image), ""));
    let code = Code { key, arch, compiler: "a test", code: code.unwrap_or(&whole) };
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("app.baked");
    fs::write(&path, baked::write(&[code], sha256))?;
    Ok((folder, path))
}

/// A new context of the simulated device, which is an sm_90.
fn context() -> Result<(Turn, Arc<CudaContext>), Box<dyn Error>> {
    let turn = serial::take();
    Config::default().contained(true).install()?;
    kernel_registry::context(0)?;
    // SAFETY: the context is new, and from here on that of the `CudaContext`.
    let context = unsafe {
        let mut context = ptr::null_mut();
        sys::cuCtxCreate_v4(&mut context, ptr::null_mut(), 0, 0).result()?;
        CudaContext::from_raw_context(0, 0, context)?
    };
    Ok((turn, context))
}

fn only() -> Warmup<'static> {
    Warmup::new().only(|kernel| KERNELS.contains(&kernel))
}

/// Where the kernels' code came from, if from one place.
fn code(warm: &Warm) -> Option<MachineCode> {
    let mut codes = warm.report().kernels.iter().map(|kernel| kernel.code);
    let first = codes.next()?;
    codes.all(|code| code == first).then_some(first)
}

fn results(context: &Arc<CudaContext>) -> Result<Vec<u32>, Box<dyn Error>> {
    let stream = context.new_stream()?;
    let run = |kernel: &&'static KernelInfo| {
        let mut numbers = stream.clone_htod(&[7])?;
        let one = LaunchConfig::new([1; 3], [1; 3]);
        // SAFETY: each kernel reads and writes the number that its only parameter points to.
        unsafe { launch_dyn(kernel, &stream, one, [DynArg::slice_mut(&mut numbers)])? };
        Ok(stream.clone_dtoh(&numbers)?[0])
    };
    KERNELS.iter().map(run).collect()
}

#[test]
fn nothing_is_compiled() -> Outcome {
    let (_turn, context) = context()?;
    let (_folder, path) = file("sm_90", None)?;
    let recording = kernel_registry_sim::record_calls();
    let warm = only().baked(&path).warm(&context)?;
    assert!(recording.calls().iter().all(|call| call.name != "cuLibraryLoadData"));
    let report = warm.report();
    assert_eq!((code(&warm), report.images_loaded), (Some(MachineCode::Baked), 1), "{report}");
    assert_eq!((report.baked.as_deref(), &report.not_baked[..]), (path.to_str(), &[][..]));
    assert_eq!(results(&context)?, [8, 14, 49]);
    // Of a warm-up with nothing to load, the code still is what it was.
    assert_eq!(code(&only().warm(&context)?), Some(MachineCode::Baked));
    Ok(())
}

#[test]
fn a_late_load_takes_it_too() -> Outcome {
    let (_turn, context) = context()?;
    let (_folder, path) = file("sm_90", None)?;
    Warmup::new().only(|_| false).late(Late::Allow).baked(&path).warm(&context)?;
    let recording = kernel_registry_sim::record_calls();
    assert_eq!(results(&context)?, [8, 14, 49]);
    assert!(recording.calls().iter().all(|call| call.name != "cuLibraryLoadData"));
    Ok(())
}

/// Warms with the file, whose code is not to be used, and returns why it was not.
fn compiled(path: &Path) -> Result<Vec<NotBaked>, Box<dyn Error>> {
    let (_turn, context) = context()?;
    compiled_in(&context, path)
}

fn compiled_in(context: &Arc<CudaContext>, path: &Path) -> Result<Vec<NotBaked>, Box<dyn Error>> {
    let warm = only().baked(path).warm(context)?;
    let report = warm.report();
    assert_eq!(code(&warm), Some(MachineCode::Compiled), "{report}");
    assert_eq!(results(context)?, [8, 14, 49]);
    for why in &report.not_baked {
        assert!(report.to_string().contains(&format!("\nNOT BAKED: {why}\n")), "{report}");
    }
    Ok(report.not_baked.clone())
}

#[test]
fn code_for_another_architecture_is_left_alone() -> Outcome {
    for arch in ["sm_80", "sm_100", "sm_100a", "no architecture"] {
        assert_eq!(compiled(&file(arch, None)?.1)?, [], "{arch}");
    }
    Ok(())
}

#[test]
fn what_is_damaged_is_not_used() -> Outcome {
    let (_folder, path) = file("sm_90", None)?;
    let whole = fs::read(&path)?;
    let last = whole.len() - 1;
    let places = [
        (0, "not a file of baked code"),
        (8, "its version is"),
        (60, "index is damaged"),
        (last, "code in it is"),
    ];
    for (place, words) in places {
        let mut damaged = whole.clone();
        damaged[place] ^= 1;
        fs::write(&path, damaged)?;
        let why = compiled(&path)?;
        let [NotBaked::Damaged { reason, .. }] = &why[..] else { return Err(format!("{why:?}").into()) };
        assert!(reason.contains(words), "{reason}");
    }
    fs::write(&path, &whole[..last])?;
    assert!(matches!(compiled(&path)?[..], [NotBaked::Damaged { .. }]));
    Ok(())
}

#[test]
fn what_others_can_write_is_not_used() -> Outcome {
    let (folder, path) = file("sm_90", None)?;
    fs::set_permissions(&path, Permissions::from_mode(0o646))?;
    let of = |path: &Path| path.display().to_string();
    assert_eq!(compiled(&path)?, [NotBaked::Writable { path: of(&path) }]);
    fs::set_permissions(&path, Permissions::from_mode(0o644))?;
    let folder = folder.path().canonicalize()?;
    fs::set_permissions(&folder, Permissions::from_mode(0o777))?;
    assert_eq!(compiled(&path)?, [NotBaked::Writable { path: of(&folder) }]);
    fs::set_permissions(&folder, Permissions::from_mode(0o755))?;
    // A group that isn't the user's private one is other users.
    fs::set_permissions(&path, Permissions::from_mode(0o664))?;
    if chown(&path, None, Some(12_345)).is_ok() {
        assert_eq!(compiled(&path)?, [NotBaked::Writable { path: of(&path) }]);
    }
    fs::set_permissions(&path, Permissions::from_mode(0o644))?;
    // Only root can give a file to another user.
    match chown(&path, Some(12_345), None) {
        Ok(()) => assert_eq!(compiled(&path)?, [NotBaked::OtherUser { path: of(&path), user: 12_345 }]),
        Err(_) => eprintln!("left out: a file of another user, which only root can make"),
    }
    Ok(())
}

#[test]
fn what_the_driver_refuses_it_compiles() -> Outcome {
    let (_folder, path) = file("sm_90", Some(b"\x7fELF, and no more"))?;
    let why = compiled(&path)?;
    assert!(matches!(why[..], [NotBaked::Refused { .. }]), "{why:?}");
    Ok(())
}

/// A driver that loads lazily may tell only when a kernel is resolved.
#[test]
fn what_the_driver_refuses_late_it_compiles() -> Outcome {
    let (_turn, context) = context()?;
    let (_folder, path) = file("sm_90", None)?;
    let _injected = "cuModuleGetFunction:1=CUDA_ERROR_INVALID_IMAGE".parse::<Fault>()?.inject()?;
    let why = compiled_in(&context, &path)?;
    assert!(matches!(why[..], [NotBaked::Refused { .. }]), "{why:?}");
    Ok(())
}

#[test]
fn a_file_that_is_named_must_be_there() -> Outcome {
    let (_turn, context) = context()?;
    let missing = only().baked("/no/such/file").warm(&context).expect_err("there is none");
    assert!(matches!(missing, WarmError::NoBakedFile { .. }), "{missing}");
    Ok(())
}

/// What the variable and the file beside the program do.
#[test]
fn the_file_is_found() -> Outcome {
    let (_folder, path) = file("sm_90", None)?;
    let mut beside = std::env::current_exe()?.into_os_string();
    beside.push(".baked");
    let found = |value: Option<&str>| {
        let variables: Vec<_> = value.map(|value| ("KERNEL_REGISTRY_BAKED", value)).into_iter().collect();
        child::run("prints_where_code_came_from", &variables)
    };
    let named = path.to_str().ok_or("a temporary path is text")?;
    assert!(found(None).contains("Some(Compiled) []"));
    assert!(found(Some(named)).contains("Some(Baked) []"));
    assert!(found(Some("/no/such/file")).contains("Some(Compiled) [Unreadable"));
    let _turn = serial::take();
    fs::copy(&path, &beside)?;
    let outputs = [None, Some("0"), Some("")].map(found);
    fs::remove_file(&beside)?;
    assert!(outputs[0].contains("Some(Baked) []"), "{}", outputs[0]);
    assert!(outputs[1..].iter().all(|output| output.contains("Some(Compiled) []")), "{outputs:?}");
    Ok(())
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn prints_where_code_came_from() -> Outcome {
    let (_turn, context) = context()?;
    let warm = only().warm(&context)?;
    println!("{:?} {:?}", code(&warm), warm.report().not_baked);
    Ok(())
}
