//! A test device, which uses host memory, and helpers that run kernels on it.
#![allow(dead_code)] // Each program of tests uses only some of the helpers.

use std::fmt::Write;
use std::sync::{Arc, Mutex};

use kernel_registry_ptx::{
    Fault, Grid, LaunchParameters, LoadError, Memory, MemoryFault, Module, Program, Status,
};

/// The memory that kernels may use: slices that a test lends, and a heap for the kernels' `malloc`.
#[derive(Default)]
pub struct Device {
    lent: Mutex<Vec<(u64, u64)>>,
    heap: Mutex<Vec<Box<[u64]>>>,
    pub printed: Mutex<String>,
    pub now: Mutex<u64>,
}

// SAFETY: `check` returns pointers into slices that tests keep until the grid has ended, or into the heap,
// which is kept as long.
unsafe impl Memory for Device {
    fn check(&self, address: u64, size: u64) -> Result<*mut u8, MemoryFault> {
        let inside = |start: u64, length: u64| address >= start && address - start + size <= length;
        let lent = self.lent.lock().unwrap().iter().any(|&(start, length)| inside(start, length));
        let owned = self.heap.lock().unwrap().iter().any(|b| inside(b.as_ptr() as u64, 8 * b.len() as u64));
        if lent || owned { Ok(address as *mut u8) } else { Err(MemoryFault::Unallocated) }
    }

    fn malloc(&self, size: u64) -> u64 {
        let block = vec![0u64; size.div_ceil(8) as usize].into_boxed_slice();
        let address = block.as_ptr() as u64;
        self.heap.lock().unwrap().push(block);
        address
    }

    fn free(&self, address: u64) -> Result<(), MemoryFault> {
        let mut heap = self.heap.lock().unwrap();
        let found = heap.iter().position(|block| block.as_ptr() as u64 == address);
        heap.remove(found.ok_or(MemoryFault::Unallocated)?);
        Ok(())
    }

    fn print(&self, text: &str) {
        self.printed.lock().unwrap().write_str(text).unwrap();
    }

    fn now(&self) -> u64 {
        let mut now = self.now.lock().unwrap();
        *now += 100;
        *now
    }
}

impl Device {
    /// Lets kernels use a slice, and returns its address.
    pub fn lend<T>(&self, data: &mut [T]) -> u64 {
        let address = data.as_mut_ptr() as u64;
        self.lent.lock().unwrap().push((address, size_of_val(data) as u64));
        address
    }

    pub fn allocations(&self) -> usize {
        self.heap.lock().unwrap().len()
    }

    /// Loads a program, and allocates its variables in this device's heap.
    pub fn load(&self, text: &str) -> Result<Arc<Module>, LoadError> {
        let program = Arc::new(Program::load(text)?);
        let addresses: Vec<u64> =
            program.variables().iter().map(|variable| self.malloc(variable.size().max(1))).collect();
        let module = Module::new(program, addresses.clone());
        for (index, address) in addresses.into_iter().enumerate() {
            let mut heap = self.heap.lock().unwrap();
            let block = heap.iter_mut().find(|block| block.as_ptr() as u64 == address).unwrap();
            for (offset, byte) in module.initial(index).into_iter().enumerate() {
                block[offset / 8] |= u64::from(byte) << (offset % 8 * 8);
            }
        }
        Ok(Arc::new(module))
    }
}

pub fn launch(grid: u32, block: u32, arguments: Vec<u8>) -> LaunchParameters {
    LaunchParameters {
        grid: [grid, 1, 1],
        block: [block, 1, 1],
        cluster: None,
        dynamic_shared: 0,
        stack: 1024,
        resident: 8,
        barrier: 0,
        arguments,
    }
}

/// The bytes of a kernel's arguments, each aligned to its size.
#[derive(Default)]
pub struct Arguments(Vec<u8>);

impl Arguments {
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.resize(self.0.len().next_multiple_of(bytes.len().min(8)), 0);
        self.0.extend(bytes);
        self
    }
    pub fn u32(self, value: u32) -> Self {
        self.bytes(&value.to_le_bytes())
    }
    pub fn u64(self, value: u64) -> Self {
        self.bytes(&value.to_le_bytes())
    }
    pub fn f32(self, value: f32) -> Self {
        self.bytes(&value.to_le_bytes())
    }
    pub fn done(self) -> Vec<u8> {
        self.0
    }
}

/// Runs a grid to its end.
pub fn finish(grid: &mut Grid, device: &Device) -> Result<(), Box<Fault>> {
    for _ in 0..100_000 {
        match grid.step(100_000, device) {
            Status::Done => return Ok(()),
            Status::Fault(fault) => return Err(fault),
            Status::Running { .. } => {}
        }
    }
    panic!("the grid does not end");
}

pub fn run(
    device: &Device,
    module: &Arc<Module>,
    kernel: &str,
    launch: LaunchParameters,
) -> Result<(), Box<Fault>> {
    finish(&mut Grid::new(module, kernel, launch).unwrap(), device)
}

/// Returns the PTX of a kernel with this body. `%r0` holds the thread's index, and `%rd0` the address of 16
/// bytes for the thread's results. Registers of each kind are declared.
pub fn kernel(body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out) {{\n\
         .reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<9>, %f<9>; .reg .b64 %rd<9>, %d<9>;\n\
         mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r0, 16; add.s64 %rd0, %rd0, %rd1;\n\
         {body}\nret; }}"
    )
}

/// Runs a kernel with this body in one block, and returns 16 bytes of results for each thread.
pub fn results(body: &str, threads: u32) -> Result<Vec<[u64; 2]>, String> {
    let device = Device::default();
    let mut out = vec![[0u64; 2]; threads as usize];
    let arguments = Arguments::default().u64(device.lend(&mut out)).done();
    let module = device.load(&kernel(body)).map_err(|error| error.to_string())?;
    if let Some(lacking) = module.program().lacking("k") {
        return Err(lacking.to_string());
    }
    run(&device, &module, "k", launch(1, threads, arguments)).map_err(|fault| fault.to_string())?;
    Ok(out)
}
