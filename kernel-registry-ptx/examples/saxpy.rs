//! Runs a PTX kernel on the CPU: `cargo run -p kernel-registry-ptx --example saxpy`.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use kernel_registry_ptx::{Grid, LaunchParameters, Memory, MemoryFault, Module, Program, Status};

const PTX: &str = "\
.version 8.0
.target sm_80
.address_size 64
.visible .entry saxpy(.param .u32 n, .param .f32 a, .param .u64 x, .param .u64 y) {
    .reg .pred %p; .reg .b32 %r<5>; .reg .f32 %f<4>; .reg .b64 %rd<6>;
    ld.param.u32 %r0, [n]; ld.param.f32 %f0, [a]; ld.param.u64 %rd0, [x]; ld.param.u64 %rd1, [y];
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    setp.ge.u32 %p, %r4, %r0;
    @%p bra DONE;
    mul.wide.u32 %rd2, %r4, 4;
    add.u64 %rd3, %rd0, %rd2; add.u64 %rd4, %rd1, %rd2;
    ld.global.f32 %f1, [%rd3]; ld.global.f32 %f2, [%rd4];
    fma.rn.f32 %f3, %f0, %f1, %f2;
    st.global.f32 [%rd4], %f3;
DONE:
    ret;
}";

/// The arrays that the kernel may use.
struct Arrays<'a> {
    arrays: [&'a [AtomicU32]; 2],
    begun: Instant,
}

// SAFETY: `check` returns pointers into an array of atomics, which outlives the grid. A pointer has the
// requested address, so its alignment is also that of the address.
unsafe impl Memory for Arrays<'_> {
    fn check(&self, address: u64, size: u64) -> Result<*mut u8, MemoryFault> {
        let found = self.arrays.iter().find_map(|array| {
            let offset = address.checked_sub(address_of(array))?;
            let fits = offset.checked_add(size)? <= size_of_val(*array) as u64;
            fits.then(|| array[0].as_ptr().cast::<u8>().wrapping_add(offset as usize))
        });
        found.ok_or(MemoryFault::Unallocated)
    }

    fn malloc(&self, _size: u64) -> u64 {
        0
    }

    fn free(&self, _address: u64) -> Result<(), MemoryFault> {
        Err(MemoryFault::Unallocated)
    }

    fn print(&self, text: &str) {
        print!("{text}");
    }

    fn now(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }
}

fn address_of(array: &[AtomicU32]) -> u64 {
    array.as_ptr().expose_provenance() as u64
}

fn main() -> Result<(), Box<dyn Error>> {
    const N: u32 = 1000;
    let array = |value: f32| -> Vec<_> { (0..N).map(|_| AtomicU32::new(value.to_bits())).collect() };
    let (x, y) = (array(2.0), array(1.0));
    let memory = Arrays { arrays: [&x, &y], begun: Instant::now() };

    // A module needs an address for each variable of the program. This program has no variables.
    let module = Arc::new(Module::new(Arc::new(Program::load(PTX)?), Vec::new()));
    let mut arguments = Vec::new();
    arguments.extend(N.to_le_bytes());
    arguments.extend(3_f32.to_le_bytes());
    arguments.extend(address_of(&x).to_le_bytes());
    arguments.extend(address_of(&y).to_le_bytes());
    let launch = LaunchParameters {
        grid: [N.div_ceil(128), 1, 1],
        block: [128, 1, 1],
        cluster: None,
        dynamic_shared: 0,
        stack: 1024,
        resident: 8,
        barrier: 0,
        arguments,
    };
    let mut grid = Grid::new(&module, "saxpy", launch)?;
    loop {
        match grid.step(100_000, &memory) {
            Status::Done => break,
            Status::Fault(fault) => return Err(fault),
            Status::Running { .. } => {}
        }
    }
    let result: Vec<f32> = y.iter().map(|bits| f32::from_bits(bits.load(Ordering::Relaxed))).collect();
    println!("3 * 2 + 1 = {}, {} times", result[0], result.iter().filter(|value| **value == 7.0).count());
    Ok(())
}
