//! Tests resident kernels with the device header and its host side, on a device with four multiprocessors.

mod serial;

use std::error::Error;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kernel_registry::cudarc::driver::{CudaContext, CudaStream, DevicePtr, DevicePtrMut, sys};
use kernel_registry::types::Float3;
use kernel_registry::{DeviceAddress, PointerTo, warm_all};
use kernel_registry_resident::{Control, Mapped, Queue};
use kernel_registry_resident::{Ended, Presence, QueueFull};
use kernel_registry_sim::{Config, races};
use kernels::waiting::{Task, set_flag, spin_until_flag, stay_together, worker};
use serial::Turn;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

type Device = (Arc<CudaContext>, Arc<CudaStream>, WithoutRaces);

/// A turn with the device in which nothing races.
struct WithoutRaces(#[expect(dead_code, reason = "it's held")] Turn);

impl Drop for WithoutRaces {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(races(), []);
        }
    }
}

/// A time limit that nothing here reaches unless it hangs.
const LONG: Duration = Duration::from_secs(60);

const PROCESSORS: u32 = 4;

/// Bytes of shared memory of a block of `stay_together`, so that few blocks fill the device.
const SHARED: u32 = 48 * 1024;

/// Returns a context with warm kernels, a stream, and a turn with the device. Other tests must not run, because freeing
/// memory waits for their kernels.
fn device() -> Outcome<Device> {
    let turn = serial::take();
    // Another test may have installed the driver already.
    let _ = Config::default().processors(PROCESSORS).races(true).install();
    let context = kernel_registry::context(0)?;
    warm_all(&context)?;
    Ok((context.clone(), context.new_stream()?, WithoutRaces(turn)))
}

#[test]
fn ten_thousand_tasks_pass_through_four_slots() -> Outcome {
    const TASKS: u64 = 10_000;
    let (context, stream, _turn) = device()?;
    let x = stream.clone_htod(&[1.0_f32; 4])?;
    let mut y = stream.clone_htod(&[0.0_f32; 4])?;
    stream.synchronize()?;
    let (x_at, y_at) = (x.device_ptr(&stream).0, y.device_ptr_mut(&stream).0);
    let (control, mut queue) = (Control::new(&context, 1)?, Queue::new(&context, 4)?);
    control.limit(LONG);
    // SAFETY: the vectors outlive the kernel, and freeing control block and queue waits for it.
    unsafe { worker::launch(&stream, worker::config(1).block(4), &control, &queue)? };

    let begun = Instant::now();
    let mut was_full = false;
    while queue.pushed() < TASKS {
        // If a task were lost, done twice or done out of order, the result would differ.
        let a = if queue.pushed() % 2 == 0 { 1.0 } else { 2.0 };
        match queue.push(Task { x: x_at as *const f32, y: y_at as *mut f32, a, n: 4 }) {
            Ok(_) => assert!(queue.pushed() - queue.done() <= 4),
            Err(QueueFull { capacity, .. }) => {
                was_full = true;
                assert_eq!((capacity, begun.elapsed() < LONG), (4, true));
            }
        }
    }
    queue.wait(&control, LONG)?;
    assert_eq!((queue.done(), queue.room(), was_full), (TASKS, 4, true));
    control.stop();
    stream.synchronize()?;
    assert_eq!(control.presence(), Presence::Ended(Ended::Stopped));
    assert_eq!(stream.clone_dtoh(&y)?, [15_000.0; 4]);
    Ok(())
}

#[test]
fn a_grid_of_workers_shares_the_tasks_of_one_queue() -> Outcome {
    const BLOCKS: u32 = 6;
    const TASKS: usize = 600;
    let (context, stream, _turn) = device()?;
    let x = stream.clone_htod(&[1.0_f32; TASKS])?;
    let mut y = stream.clone_htod(&[0.0_f32; TASKS])?;
    stream.synchronize()?;
    let (x_at, y_at) = (x.device_ptr(&stream).0 as *const f32, y.device_ptr_mut(&stream).0 as *mut f32);
    let (control, mut queue) = (Control::new(&context, BLOCKS)?, Queue::for_blocks(&context, BLOCKS, 2)?);
    assert_eq!(queue.room(), 12);
    control.limit(LONG);
    // SAFETY: the vectors outlive the kernel, and freeing control block and queue waits for it.
    unsafe { worker::launch(&stream, worker::config(BLOCKS).block(32), &control, &queue)? };

    let begun = Instant::now();
    let mut pushed = Vec::new();
    while pushed.len() < TASKS {
        // Each task writes its own element, because blocks run at the same time.
        let index = pushed.len();
        let (x, y) = (x_at.wrapping_add(index), y_at.wrapping_add(index));
        match queue.push(Task { x, y, a: 1.0 + index as f32, n: 1 }) {
            Ok(value) => pushed.push(value),
            Err(full) => assert_eq!((full.capacity, begun.elapsed() < LONG), (12, true)),
        }
    }
    queue.wait(&control, LONG)?;
    assert!(pushed.iter().all(|value| queue.is_done(*value)));
    let of_lane = |lane| pushed.iter().filter(|value| value.lane == lane).count();
    // The first values are given to all blocks in turn.
    assert!((0..BLOCKS).all(|lane| of_lane(lane) >= 2), "{pushed:?}");
    assert_eq!((queue.done(), queue.room()), (TASKS as u64, 12));
    control.stop();
    stream.synchronize()?;
    let expected: Vec<f32> = (0..TASKS).map(|index| 1.0 + index as f32).collect();
    assert_eq!(stream.clone_dtoh(&y)?, expected);
    Ok(())
}

#[test]
fn values_go_to_the_block_with_the_fewest_values() -> Outcome {
    let (context, stream, _turn) = device()?;
    let mut queue = Queue::<Task>::for_blocks(&context, 3, 2)?;
    let task = Task { x: ptr::null(), y: ptr::null_mut(), a: 0.0, n: 0 };
    let first = queue.push(task)?;
    let lanes: Vec<_> = (0..5).map(|_| queue.push(task).map(|value| value.lane)).collect();
    assert_eq!((first.lane, lanes), (0, [1, 2, 0, 1, 2].map(Ok).to_vec()));
    assert_eq!(queue.push(task).map_err(|full| full.capacity), Err(6));
    assert!(!queue.is_done(first));

    // Acts as if the second block had done its values. The lanes begin after the first cache line, and each lane takes
    // two cache lines.
    let done = PointerTo::<Queue<Task>>::address(&queue) as usize + 64 + 128 + 64;
    // SAFETY: the address is that of an aligned word in the queue, and no kernel runs.
    let done = unsafe { AtomicU64::from_ptr(ptr::with_exposed_provenance_mut(done)) };
    done.store(2, Ordering::Release);
    let lanes: Vec<_> = (0..2).map(|_| queue.push(task).map(|value| value.lane)).collect();
    let full = queue.push(task).map_err(|full| full.capacity);
    assert_eq!((lanes, full), ([Ok(1); 2].to_vec(), Err(6)));

    let control = Control::new(&context, 3)?;
    control.limit(LONG);
    control.stop();
    // SAFETY: freeing control block and queue waits for the kernel.
    unsafe { worker::launch(&stream, worker::config(3).block(32), &control, &queue)? };
    stream.synchronize()?;
    assert_eq!((queue.done(), queue.room(), queue.is_done(first)), (8, 6, true));
    Ok(())
}

#[test]
#[should_panic = "there is no lane 2 among 2"]
fn a_value_of_a_larger_queue_is_refused_by_a_smaller_one() {
    let (context, _stream, _turn) = device().expect("the simulated device");
    let queue = |blocks| Queue::<u32>::for_blocks(&context, blocks, 1).expect("memory");
    let (mut three, two) = (queue(3), queue(2));
    let last = (0..3).map(|value| three.push(value).expect("room")).last();
    two.is_done(last.expect("three values"));
}

/// The grid has more blocks than there is room for. Some blocks begin after others have ended, and after the stop.
#[test]
fn waiting_for_a_stopped_grid_waits_for_all_of_its_values() -> Outcome {
    const BLOCKS: u32 = 200;
    let (context, stream, _turn) = device()?;
    let mut y = stream.clone_htod(&[0.0_f32; BLOCKS as usize])?;
    let y_at = y.device_ptr_mut(&stream).0;
    stream.synchronize()?;
    let (control, mut queue) = (Control::new(&context, BLOCKS)?, Queue::for_blocks(&context, BLOCKS, 1)?);
    control.limit(LONG);
    for number in 0..u64::from(BLOCKS) {
        // Blocks that use the same memory would race.
        let own = y_at + 4 * number;
        queue.push(Task { x: own as *const f32, y: own as *mut f32, a: 0.0, n: 1 })?;
    }
    control.stop();
    // SAFETY: the vector outlives the kernel, and freeing control block and queue waits for it.
    unsafe { worker::launch(&stream, worker::config(BLOCKS).block(128), &control, &queue)? };
    queue.wait(&control, LONG)?;
    assert_eq!(control.wait_for_end(LONG), Presence::Ended(Ended::Stopped));
    assert_eq!((queue.done(), queue.room()), (200, 200));
    stream.synchronize()?;
    Ok(())
}

#[test]
fn a_queue_for_another_grid_ends_the_kernel() -> Outcome {
    let (context, stream, _turn) = device()?;
    // The grid is larger than the control block allows. The grid's last block has no lane either, but the first reason
    // is kept.
    let (control, queue) = (Control::new(&context, 3)?, Queue::<Task>::for_blocks(&context, 3, 1)?);
    control.limit(LONG);
    // SAFETY: freeing control block and queue waits for the kernel.
    unsafe { worker::launch(&stream, worker::config(4).block(32), &control, &queue)? };
    stream.synchronize()?;
    assert_eq!(control.presence(), Presence::Ended(Ended::OtherGrid));

    for (blocks, lanes) in [(4, 3), (2, 3), (2, 1)] {
        let (control, mut queue) = (Control::new(&context, blocks)?, Queue::for_blocks(&context, lanes, 1)?);
        control.limit(LONG);
        // SAFETY: freeing control block and queue waits for the kernel.
        unsafe { worker::launch(&stream, worker::config(blocks).block(32), &control, &queue)? };
        assert_eq!(control.wait_for_end(LONG), Presence::Ended(Ended::OtherLanes));
        stream.synchronize()?;
        queue.push(Task { x: ptr::null(), y: ptr::null_mut(), a: 0.0, n: 0 })?;
        let said = queue.wait(&control, LONG).expect_err("nobody takes it").to_string();
        assert!(said.contains("make it by `Queue::for_blocks`"), "{said}");
    }
    Ok(())
}

#[test]
fn a_stopped_worker_does_what_was_pushed_before_and_the_next_launch_goes_on() -> Outcome {
    let (context, stream, _turn) = device()?;
    let mut y = stream.clone_htod(&[0.0_f32; 8])?;
    let y_at = y.device_ptr_mut(&stream).0;
    stream.synchronize()?;
    let task = Task { x: y_at as *const f32, y: y_at as *mut f32, a: 0.0, n: 8 };
    let (mut control, mut queue) = (Control::new(&context, 1)?, Queue::new(&context, 3)?);
    control.limit(LONG);
    for round in 1..=3 {
        queue.push(task)?;
        queue.push(task)?;
        control.stop();
        assert_eq!(control.presence(), Presence::Absent);
        // SAFETY: the vector outlives the kernel, and freeing control block and queue waits for it.
        unsafe { worker::launch(&stream, worker::config(1).block(64), &control, &queue)? };
        stream.synchronize()?;
        assert_eq!((queue.done(), control.presence()), (2 * round, Presence::Ended(Ended::Stopped)));
        control.reset();
    }
    Ok(())
}

#[test]
fn a_limit_ends_a_worker_and_who_waits_for_it() -> Outcome {
    let (context, stream, _turn) = device()?;
    let (control, mut queue) = (Control::new(&context, 1)?, Queue::<Task>::new(&context, 1)?);
    control.limit(Duration::from_millis(20));
    // SAFETY: freeing control block and queue waits for the kernel.
    unsafe { worker::launch(&stream, worker::config(1).block(32), &control, &queue)? };
    assert_eq!(control.wait_for_end(LONG), Presence::Ended(Ended::Limit));
    stream.synchronize()?;
    queue.push(Task { x: ptr::null(), y: ptr::null_mut(), a: 0.0, n: 0 })?;
    let unfinished = queue.wait(&control, LONG);
    assert_eq!(
        unfinished.map_err(|left| (left.done, left.pushed, left.ended)),
        Err((0, 1, Some(Ended::Limit)))
    );
    // A stop after the end changes nothing.
    control.stop();
    assert_eq!(control.presence(), Presence::Ended(Ended::Limit));
    Ok(())
}

/// Launches `spin_until_flag` with this many blocks, and waits until it has ended.
fn ended(control: &Control, stream: &Arc<CudaStream>, blocks: u32) -> Outcome<Presence> {
    let flag = Mapped::<AtomicU32>::zeroed(stream.context(), 1)?;
    // SAFETY: freeing the flag waits for the kernel.
    unsafe { spin_until_flag::launch(stream, spin_until_flag::config(blocks), &flag, control)? };
    stream.synchronize()?;
    Ok(control.presence())
}

#[test]
fn a_kernel_without_a_limit_or_with_another_grid_ends_at_once() -> Outcome {
    let (context, stream, _turn) = device()?;
    let mut control = Control::new(&context, 3)?;
    assert_eq!(ended(&control, &stream, 3)?, Presence::Ended(Ended::NoLimit));
    control.reset();
    control.limit(Duration::ZERO);
    assert_eq!(ended(&control, &stream, 3)?, Presence::Ended(Ended::Limit));
    control.reset();
    control.unlimited();
    assert_eq!(ended(&control, &stream, 2)?, Presence::Ended(Ended::OtherGrid));
    control.reset();
    assert_eq!(ended(&control, &stream, 4)?, Presence::Ended(Ended::OtherGrid));
    control.reset();
    // The word of the layout version follows the word of the end.
    let layout = PointerTo::<Control>::address(&control) as usize + 4;
    // SAFETY: the address is that of an aligned word in the control block, and no kernel runs.
    let layout = unsafe { AtomicU32::from_ptr(ptr::with_exposed_provenance_mut(layout)) };
    layout.store(99, Ordering::Release);
    assert_eq!(ended(&control, &stream, 3)?, Presence::Ended(Ended::OtherLayout));
    // A queue would then have another layout too, so the kernel does not read it.
    let queue = Queue::<u32>::new(&context, 1)?;
    let address = DeviceAddress(PointerTo::<Queue<u32>>::address(&queue));
    control.reset();
    // SAFETY: freeing control block and queue waits for the kernel.
    unsafe { worker::launch(&stream, worker::config(3).block(32), &control, address)? };
    stream.synchronize()?;
    assert_eq!(control.presence(), Presence::Ended(Ended::OtherLayout));
    // The same holds if the kernel was stopped before it began.
    control.reset();
    control.stop();
    assert_eq!(ended(&control, &stream, 3)?, Presence::Ended(Ended::OtherLayout));
    Ok(())
}

#[test]
fn values_of_another_size_end_the_kernel() -> Outcome {
    let (context, stream, _turn) = device()?;
    let (control, mut queue) = (Control::new(&context, 1)?, Queue::<u32>::new(&context, 4)?);
    control.limit(LONG);
    queue.push(1)?;
    let address = DeviceAddress(PointerTo::<Queue<u32>>::address(&queue));
    // SAFETY: the kernel checks the size of values before it reads one.
    unsafe { worker::launch(&stream, worker::config(1).block(32), &control, address)? };
    let unfinished = queue.wait(&control, LONG);
    assert_eq!(
        unfinished.map_err(|left| (left.done, left.pushed, left.ended)),
        Err((0, 1, Some(Ended::OtherType)))
    );
    Ok(())
}

#[test]
fn a_flag_releases_a_kernel_of_several_blocks() -> Outcome {
    let (context, stream, _turn) = device()?;
    let other = context.new_stream()?;
    let (flag, control) = (Mapped::<AtomicU32>::zeroed(&context, 1)?, Control::new(&context, 6)?);
    control.unlimited();
    assert_eq!(control.wait_for_blocks(Duration::ZERO).map_err(|missing| missing.arrived), Err(0));
    // SAFETY: freeing the flag and the control block waits for the kernels.
    unsafe { spin_until_flag::launch(&stream, spin_until_flag::config(6), &flag, &control)? };
    control.wait_for_blocks(LONG)?;
    assert_eq!(control.presence(), Presence::There);
    // SAFETY: freeing the flag waits for the kernels.
    unsafe { set_flag::launch(&other, set_flag::config(1), &flag, 1)? };
    assert_eq!(control.wait_for_end(LONG), Presence::Ended(Ended::ByItself));
    stream.synchronize()?;
    Ok(())
}

/// Launches `stay_together` with as many blocks as the control block has.
fn gather(control: &Control, stream: &Arc<CudaStream>, limit: Duration) -> Outcome {
    let config = stay_together::config(control.blocks()).block(64).shared(SHARED);
    // SAFETY: freeing the control block waits for the kernel.
    unsafe { stay_together::launch(stream, config, control, limit.as_nanos() as u64)? };
    Ok(())
}

#[test]
fn blocks_that_find_no_room_are_named() -> Outcome {
    let (context, stream, _turn) = device()?;
    let at_once = room(&context)?;
    let of = at_once + 2;
    let mut control = Control::new(&context, of)?;
    control.unlimited();
    gather(&control, &stream, LONG)?;
    let missing = control.wait_for_blocks(Duration::from_millis(300)).expect_err("the grid is too large");
    assert_eq!((missing.arrived, missing.of), (at_once, of));
    assert_eq!(missing.blocks, [at_once, at_once + 1]);
    let said = missing.to_string();
    let expected =
        format!("{at_once} of {of} blocks are on the device, and not {at_once}, {}: ", at_once + 1);
    assert!(said.starts_with(&expected), "{said}");
    assert_eq!(control.presence(), Presence::There);
    control.stop();
    stream.synchronize()?;
    // Blocks that began after the other blocks had ended were never on the device together with them.
    assert_eq!(control.arrived(), Err(missing.clone()));

    // Now the kernel itself notices that blocks are missing, and ends.
    control.reset();
    gather(&control, &stream, Duration::from_millis(20))?;
    assert_eq!(control.wait_for_blocks(LONG), Err(missing));
    stream.synchronize()?;
    assert_eq!(control.presence(), Presence::Ended(Ended::Missing));
    Ok(())
}

/// Returns how many blocks of `stay_together` the device has room for at once.
fn room(context: &Arc<CudaContext>) -> Outcome<u32> {
    let (function, mut blocks) = (stay_together::INFO.cu_function(context)?, 0);
    context.bind_to_thread()?;
    // SAFETY: the function is of this context, which is current.
    unsafe {
        sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, function, 64, SHARED as usize)
            .result()?
    };
    Ok(PROCESSORS * blocks.unsigned_abs())
}

#[test]
fn blocks_that_fit_arrive_and_stay_until_they_are_stopped() -> Outcome {
    let (context, stream, _turn) = device()?;
    let control = Control::new(&context, 4)?;
    control.limit(LONG);
    gather(&control, &stream, LONG)?;
    control.wait_for_blocks(LONG)?;
    assert_eq!(control.presence(), Presence::There);
    control.stop();
    assert_eq!(control.wait_for_end(LONG), Presence::Ended(Ended::Stopped));
    stream.synchronize()?;
    assert_eq!(control.arrived(), Ok(()));
    Ok(())
}

#[test]
fn mapped_values_are_read_and_written() -> Outcome {
    let (context, _stream, _turn) = device()?;
    let mut values = Mapped::new(&context, &[Float3::new(1.0, 2.0, 3.0); 5])?;
    values.write(4, Float3::default());
    assert_eq!((values.count(), values.read(3).y, values.read(4).y), (5, 2.0, 0.0));
    assert_eq!(values.place(1).addr() as u64, PointerTo::<Float3>::address(&values) + 12);
    let words = Mapped::<AtomicU64>::zeroed(&context, 3)?;
    words[2].store(7, Ordering::Release);
    assert_eq!(words.iter().map(|word| word.load(Ordering::Acquire)).sum::<u64>(), 7);
    assert_eq!(Mapped::<AtomicI64>::zeroed(&context, 0)?.len(), 0);
    Ok(())
}

#[test]
fn a_queue_that_is_too_large_is_refused_with_a_remedy() -> Outcome {
    let (context, _stream, _turn) = device()?;
    let error = Queue::<[u64; 100_000]>::new(&context, u32::MAX).expect_err("these are 3 PB");
    assert!(
        error
            .to_string()
            .ends_with("the host has too little memory for the driver; ask for less, or free some"),
        "{error}"
    );
    Ok(())
}

#[test]
#[should_panic = "there is no value 5 among 5"]
fn mapped_values_have_bounds() {
    let (context, _stream, _turn) = device().expect("the simulated device");
    Mapped::new(&context, &[0_u32; 5]).expect("memory").read(5);
}
