//! Launches every kernel of the sample crate once, and compares its result with the host's.

use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;

use kernel_registry::cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut, DeviceRepr};
use kernel_registry::{DeviceAddress, DynArg, KernelInfo, LaunchConfig, find, launch_dyn};
use kernel_registry_cuda::device_header::LAYOUT;
use kernel_registry_resident::{Control, Queue};
use kernels::particles::{Float4, Step};
use kernels::waiting::Task;

type Done = Result<(), Box<dyn Error>>;

/// The value in a control block that tells the kernel to end.
const STOPPED: u32 = 1;

/// A kernel's path below `kernels::`, and a function that launches it.
pub(crate) type Sample = (&'static str, fn(&Arc<CudaStream>) -> Done);

pub(crate) const ALL: &[Sample] = &[
    ("blas1::saxpy", |stream| axpy("saxpy", stream, 2.0_f32, [1.0, 2.0], 4.0)),
    ("blas1::daxpy", |stream| axpy("daxpy", stream, 2.0_f64, [1.0, 2.0], 4.0)),
    ("blas1::sscal", |stream| scal("sscal", stream, 3.0_f32, 2.0, 6.0)),
    ("blas1::dscal", |stream| scal("dscal", stream, 3.0_f64, 2.0, 6.0)),
    ("blas1::sdot", |stream| dot("sdot", stream, [2.0_f32, 3.0], 0.0, 6.0 * N as f32)),
    ("blas1::ddot", |stream| dot("ddot", stream, [2.0_f64, 3.0], 0.0, 6.0 * N as f64)),
    ("blas1::snrm2", |stream| nrm2("snrm2", stream, 2.0_f32, 0.0, 4.0 * N as f32)),
    ("blas1::dnrm2", |stream| nrm2("dnrm2", stream, 2.0_f64, 0.0, 4.0 * N as f64)),
    ("templates::reduce::<f32, 128>", |stream| reduce("reduce::<f32, 128>", stream, 1.0_f32, 0.0, N as f32)),
    ("templates::reduce::<f32, 256>", |stream| reduce("reduce::<f32, 256>", stream, 1.0_f32, 0.0, N as f32)),
    ("templates::reduce::<f64, 256>", |stream| reduce("reduce::<f64, 256>", stream, 1.0_f64, 0.0, N as f64)),
    ("templates::transpose::<f32, 32>", |stream| transpose("transpose::<f32, 32>", stream, 32, |n| n as f32)),
    ("templates::transpose::<f64, 16>", |stream| transpose("transpose::<f64, 16>", stream, 16, |n| n as f64)),
    ("memory::histogram", histogram),
    ("memory::pair_sum", pair_sum),
    ("memory::shuffle", shuffle),
    ("particles::advance", advance),
    ("diagnose::report_nan", |stream| diagnose("report_nan", stream)),
    ("diagnose::check_finite", |stream| diagnose("check_finite", stream)),
    ("diagnose::row_medians", row_medians),
    ("waiting::worker", worker),
    ("waiting::smooth", smooth),
    ("waiting::stay_together", stay_together),
    ("waiting::set_flag", set_flag),
    ("waiting::touch", touch),
];

const N: u32 = 10_000;

fn kernel(name: &str) -> Result<&'static KernelInfo, kernel_registry::RegistryError> {
    find(&format!("kernels::{name}"))
}

fn launch<'a>(
    kernel: &'static KernelInfo,
    stream: &'a Arc<CudaStream>,
    config: LaunchConfig,
    args: impl IntoIterator<Item = DynArg<'a>>,
) -> Done {
    // SAFETY: each caller passes the declared arguments, with as many elements as the kernel works on, and
    // reads a result back before the memory is freed.
    unsafe { launch_dyn(kernel, stream, config, args)? };
    Ok(())
}

/// Waits for the result, and compares each element with the wanted value.
fn expect<T: DeviceRepr + PartialEq + Debug>(
    stream: &Arc<CudaStream>,
    got: &CudaSlice<T>,
    wanted: impl Fn(usize) -> T,
) -> Done {
    let got = stream.clone_dtoh(got)?;
    match got.iter().enumerate().find(|(index, value)| **value != wanted(*index)) {
        Some((index, value)) => {
            Err(format!("element {index} is {value:?} and not {:?}", wanted(index)).into())
        }
        None => Ok(()),
    }
}

fn vector<T: DeviceRepr + Clone>(stream: &Arc<CudaStream>, value: T) -> Result<CudaSlice<T>, Box<dyn Error>> {
    Ok(stream.clone_htod(&vec![value; N as usize])?)
}

/// The traits of a number that the kernels of both precisions need.
trait Number: kernel_registry::KernelParam + DeviceRepr + PartialEq + Debug {}
impl Number for f32 {}
impl Number for f64 {}

fn axpy<T: Number>(name: &str, stream: &Arc<CudaStream>, a: T, [x, y]: [T; 2], wanted: T) -> Done {
    let kernel = kernel(&format!("blas1::{name}"))?;
    let (x, mut y) = (vector(stream, x)?, vector(stream, y)?);
    let args = [DynArg::value(&N), DynArg::value(&a), DynArg::slice(&x), DynArg::slice_mut(&mut y)];
    launch(kernel, stream, kernel.over(N), args)?;
    expect(stream, &y, |_| wanted)
}

fn scal<T: Number>(name: &str, stream: &Arc<CudaStream>, a: T, x: T, wanted: T) -> Done {
    let kernel = kernel(&format!("blas1::{name}"))?;
    let mut x = vector(stream, x)?;
    launch(
        kernel,
        stream,
        kernel.over(N),
        [DynArg::value(&N), DynArg::value(&a), DynArg::slice_mut(&mut x)],
    )?;
    expect(stream, &x, |_| wanted)
}

fn dot<T: Number>(name: &str, stream: &Arc<CudaStream>, [x, y]: [T; 2], zero: T, wanted: T) -> Done {
    let kernel = kernel(&format!("blas1::{name}"))?;
    let (x, y, mut out) = (vector(stream, x)?, vector(stream, y)?, stream.clone_htod(&[zero])?);
    let args = [DynArg::value(&N), DynArg::slice(&x), DynArg::slice(&y), DynArg::slice_mut(&mut out)];
    launch(kernel, stream, kernel.over(N), args)?;
    expect(stream, &out, |_| wanted)
}

fn nrm2<T: Number>(name: &str, stream: &Arc<CudaStream>, x: T, zero: T, wanted: T) -> Done {
    let kernel = kernel(&format!("blas1::{name}"))?;
    let (x, mut out) = (vector(stream, x)?, stream.clone_htod(&[zero])?);
    launch(
        kernel,
        stream,
        kernel.over(N),
        [DynArg::value(&N), DynArg::slice(&x), DynArg::slice_mut(&mut out)],
    )?;
    expect(stream, &out, |_| wanted)
}

fn reduce<T: Number>(name: &str, stream: &Arc<CudaStream>, x: T, zero: T, wanted: T) -> Done {
    let kernel = kernel(&format!("templates::{name}"))?;
    let (x, mut out) = (vector(stream, x)?, stream.clone_htod(&[zero])?);
    launch(
        kernel,
        stream,
        kernel.config(1),
        [DynArg::slice(&x), DynArg::slice_mut(&mut out), DynArg::value(&N)],
    )?;
    expect(stream, &out, |_| wanted)
}

fn transpose<T: Number>(name: &str, stream: &Arc<CudaStream>, tile: u32, element: fn(u32) -> T) -> Done {
    let kernel = kernel(&format!("templates::{name}"))?;
    let (rows, columns) = (3 * tile + 1, 2 * tile + 5);
    let matrix = stream.clone_htod(&(0..rows * columns).map(element).collect::<Vec<_>>())?;
    let mut out = stream.clone_htod(&vec![element(0); (rows * columns) as usize])?;
    let args =
        [DynArg::slice(&matrix), DynArg::slice_mut(&mut out), DynArg::value(&rows), DynArg::value(&columns)];
    launch(kernel, stream, kernel.config((columns.div_ceil(tile), rows.div_ceil(tile))), args)?;
    expect(stream, &out, |index| element(index as u32 % rows * columns + index as u32 / rows))
}

fn histogram(stream: &Arc<CudaStream>) -> Done {
    const BINS: u32 = 25_000;
    let kernel = kernel("memory::histogram")?;
    let values = stream.clone_htod(&(0..N).map(|n| 2 * n).collect::<Vec<_>>())?;
    let mut bins = stream.alloc_zeros::<u32>(BINS as usize)?;
    let args =
        [DynArg::value(&N), DynArg::slice(&values), DynArg::value(&BINS), DynArg::slice_mut(&mut bins)];
    launch(kernel, stream, kernel.config(2), args)?;
    expect(stream, &bins, |bin| u32::from(bin % 2 == 0 && bin < 2 * N as usize))
}

fn pair_sum(stream: &Arc<CudaStream>) -> Done {
    let kernel = kernel("memory::pair_sum")?;
    let (x, mut out) = (vector(stream, 1.0_f32)?, stream.alloc_zeros::<f32>(1)?);
    launch(
        kernel,
        stream,
        kernel.config(2),
        [DynArg::value(&N), DynArg::slice(&x), DynArg::slice_mut(&mut out)],
    )?;
    expect(stream, &out, |_| N as f32)
}

fn shuffle(stream: &Arc<CudaStream>) -> Done {
    let kernel = kernel("memory::shuffle")?;
    let seeds: Vec<u32> = (0..N).collect();
    let (device_seeds, mut firsts) = (stream.clone_htod(&seeds)?, stream.alloc_zeros::<u32>(N as usize)?);
    let args = [DynArg::value(&N), DynArg::slice(&device_seeds), DynArg::slice_mut(&mut firsts)];
    launch(kernel, stream, kernel.over(N), args)?;
    expect(stream, &firsts, |thread| {
        let (mut deck, mut random) = ([0_u32; 512], seeds[thread]);
        for i in 1..512 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let j = (random >> 16) as usize % (i + 1);
            deck[i] = i as u32;
            deck.swap(i, j);
        }
        deck[0]
    })
}

fn advance(stream: &Arc<CudaStream>) -> Done {
    let kernel = kernel("particles::advance")?;
    let step = Step { dt: 0.5, damping: 0.25, n: 4 };
    let (mut positions, mut velocities) =
        (stream.clone_htod(&[1.0_f32; 16])?, stream.clone_htod(&[2.0_f32; 16])?);
    // SAFETY: each slice has room for four vectors of four floats.
    let views = unsafe { (positions.transmute_mut::<Float4>(4), velocities.transmute_mut::<Float4>(4)) };
    let (Some(mut p), Some(mut v)) = views else { return Err("the slices are too short".into()) };
    launch(
        kernel,
        stream,
        kernel.over(4),
        [DynArg::value(&step), DynArg::slice_mut(&mut p), DynArg::slice_mut(&mut v)],
    )?;
    // The fourth component doesn't change.
    expect(stream, &positions, |index| if index % 4 == 3 { 1.0 } else { 2.0 })?;
    expect(stream, &velocities, |index| if index % 4 == 3 { 2.0 } else { 0.5 })
}

fn diagnose(name: &str, stream: &Arc<CudaStream>) -> Done {
    let kernel = kernel(&format!("diagnose::{name}"))?;
    let x = vector(stream, 1.0_f32)?;
    launch(kernel, stream, kernel.over(N), [DynArg::value(&N), DynArg::slice(&x)])?;
    expect(stream, &x, |_| 1.0)
}

fn row_medians(stream: &Arc<CudaStream>) -> Done {
    let kernel = kernel("diagnose::row_medians")?;
    let (rows, columns) = (64_u32, 9_u32);
    let x: Vec<f32> = (0..rows * columns).map(|n| (n * 7 % 9 + n / 9) as f32).collect();
    let (x, mut medians) = (stream.clone_htod(&x)?, stream.alloc_zeros::<f32>(rows as usize)?);
    let args =
        [DynArg::value(&rows), DynArg::value(&columns), DynArg::slice(&x), DynArg::slice_mut(&mut medians)];
    launch(kernel, stream, kernel.over(rows), args)?;
    expect(stream, &medians, |row| (4 + row) as f32)
}

/// Returns a control block for a grid of this many blocks. `end` can tell it to end at once; otherwise it
/// ends by itself after two seconds.
fn control(stream: &Arc<CudaStream>, blocks: usize, end: u32) -> Result<CudaSlice<u32>, Box<dyn Error>> {
    let mut words = [end, LAYOUT, blocks as u32, 0, 2_000_000_000, 0].to_vec();
    words.resize(16 + blocks, 0);
    Ok(stream.clone_htod(&words)?)
}

/// Launches `worker` with one task in its queue. The control block tells the kernel to stop after that. Both
/// are in device memory, because freeing that doesn't wait for a resident kernel.
fn worker(stream: &Arc<CudaStream>) -> Done {
    let kernel = kernel("waiting::worker")?;
    let (x, mut y) = (vector(stream, 1.0_f32)?, vector(stream, 2.0_f32)?);
    let (x_at, y_at) = (x.device_ptr(stream).0, y.device_ptr_mut(stream).0);
    const _: () = assert!(size_of::<Task>() == 24);
    // The queue has one lane of one value of 24 bytes: the number of pushed tasks, the number of done tasks,
    // and the task.
    let mut queue = [0_u64; 27];
    queue[..2].copy_from_slice(&[1 | 1 << 32, 24]);
    queue[8] = 1;
    queue[24..].copy_from_slice(&[x_at, y_at, u64::from(3.0_f32.to_bits()) | u64::from(N) << 32]);
    let (mut control, mut queue) = (control(stream, 1, STOPPED)?, stream.clone_htod(&queue)?);
    let (control_at, queue_at) = (control.device_ptr_mut(stream).0, queue.device_ptr_mut(stream).0);
    let args = [
        DynArg::pointer::<Control>(DeviceAddress(control_at)),
        DynArg::pointer::<Queue<Task>>(DeviceAddress(queue_at)),
    ];
    launch(kernel, stream, LaunchConfig::new([1, 1, 1], [128, 1, 1]), args)?;
    expect(stream, &y, |_| 5.0)?;
    let done = stream.clone_dtoh(&queue)?[16];
    if done == 1 { Ok(()) } else { Err(format!("{done} tasks are done").into()) }
}

/// Launches `stay_together`, whose blocks all arrive, find that they have to end, and report that.
fn stay_together(stream: &Arc<CudaStream>) -> Done {
    let kernel = kernel("waiting::stay_together")?;
    let mut control = control(stream, 4, STOPPED)?;
    let address = control.device_ptr_mut(stream).0;
    let args = [DynArg::pointer::<Control>(DeviceAddress(address)), DynArg::value(&1_000_000_000_u64)];
    launch(kernel, stream, LaunchConfig::new([4, 1, 1], [32, 1, 1]), args)?;
    const LATE_AND_LEFT: u32 = 4;
    let words = stream.clone_dtoh(&control)?;
    if words[16..] == [LATE_AND_LEFT; 4] {
        Ok(())
    } else {
        Err(format!("the blocks say {:?}", &words[16..]).into())
    }
}

fn smooth(stream: &Arc<CudaStream>) -> Done {
    let kernel = kernel("waiting::smooth")?;
    let mut spike = vec![0.0_f32; 8];
    spike[4] = 4.0;
    let (mut x, mut scratch) = (stream.clone_htod(&spike)?, stream.clone_htod(&spike)?);
    let (mut arrivals, mut status) = (stream.alloc_zeros::<u32>(1)?, stream.alloc_zeros::<u32>(1)?);
    let args = [
        DynArg::value(&8_u32),
        DynArg::value(&2_u32),
        DynArg::slice_mut(&mut x),
        DynArg::slice_mut(&mut scratch),
        DynArg::slice_mut(&mut arrivals),
        DynArg::slice_mut(&mut status),
        DynArg::value(&2_000_000_000_u64),
    ];
    launch(kernel, stream, LaunchConfig::new([4, 1, 1], [32, 1, 1]).cooperative(), args)?;
    expect(stream, &status, |_| 1)?;
    expect(stream, &x, |index| [0.0, 0.0, 1.0, 0.0, 2.0, 0.0, 1.0, 0.0][index])
}

fn set_flag(stream: &Arc<CudaStream>) -> Done {
    let kernel = kernel("waiting::set_flag")?;
    let mut flag = stream.alloc_zeros::<u32>(1)?;
    let address = flag.device_ptr_mut(stream).0;
    launch(
        kernel,
        stream,
        kernel.over(1),
        [DynArg::pointer::<u32>(DeviceAddress(address)), DynArg::value(&7_u32)],
    )?;
    expect(stream, &flag, |_| 7)
}

fn touch(stream: &Arc<CudaStream>) -> Done {
    let kernel = kernel("waiting::touch")?;
    let mut count = stream.alloc_zeros::<u32>(1)?;
    let address = count.device_ptr_mut(stream).0;
    launch(kernel, stream, kernel.over(1), [DynArg::pointer::<u32>(DeviceAddress(address))])?;
    expect(stream, &count, |_| 1)
}
