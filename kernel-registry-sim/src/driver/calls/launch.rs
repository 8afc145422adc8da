//! Defines the functions that launch kernels.

use crate::driver::caller::arguments::{Arguments, In, Packed};
use crate::driver::handles::Handle;
use crate::driver::launch::shape::Shape;
use crate::driver::report::failures::not_simulated;
use crate::driver::result::Answer;
use crate::driver::state::launch::launch;
use crate::driver::state::simulator::begin_with;

/// A `CUlaunchConfig`, the driver's configuration of a launch.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Config {
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    stream: Handle,
    attributes: *const Attribute,
    count: u32,
}

/// A `CUlaunchAttribute`, one attribute of a launch.
#[derive(Clone, Copy)]
#[repr(C)]
struct Attribute {
    id: u32,
    padding: u32,
    value: [u32; 16],
}

impl Config {
    /// Returns threads of a block, dynamic shared memory of a block, and blocks of a cluster.
    pub(crate) fn blocks_and_cluster(&self) -> Answer<(usize, usize, usize)> {
        let product = |sizes: [u32; 3]| {
            sizes.iter().fold(1, |product: usize, size| product.saturating_mul(*size as usize))
        };
        let shape = self.shape()?;
        Ok((product(shape.block), shape.shared as usize, shape.cluster.map_or(1, product)))
    }

    fn shape(&self) -> Answer<Shape> {
        let Config { grid, block, shared, attributes, count, .. } = *self;
        let mut shape = Shape { grid, block, cluster: None, shared, cooperative: false };
        for attribute in In::from(attributes).read_all(count as usize)? {
            shape.apply(attribute)?;
        }
        Ok(shape)
    }
}

const IGNORE: u32 = 0;
const COOPERATIVE: u32 = 2;
const CLUSTER_DIMENSION: u32 = 4;
const CLUSTER_SCHEDULING: u32 = 5;
const PRIORITY: u32 = 8;

impl Shape {
    fn apply(&mut self, Attribute { id, value, .. }: Attribute) -> Answer {
        match id {
            COOPERATIVE => self.cooperative = value[0] != 0,
            CLUSTER_DIMENSION => self.cluster = Some([value[0], value[1], value[2]]),
            // Scheduling hints do not change results.
            IGNORE | CLUSTER_SCHEDULING | PRIORITY => {}
            _ => {
                return not_simulated(
                    "cuLaunchKernelEx with an attribute other than clusters and cooperation",
                );
            }
        }
        Ok(())
    }
}

/// Refuses a launch whose arguments are packed in one buffer. Only an array of pointers to arguments is simulated.
pub(crate) fn not_packed(packed: &Packed) -> Answer {
    if packed.is_null() {
        return Ok(());
    }
    not_simulated("a launch with all arguments in one buffer")
}

fn submit(function: Handle, stream: Handle, shape: Shape, arguments: &Arguments) -> Answer {
    let (state, stream) = begin_with(stream)?;
    launch(state, function, stream, shape, |kernel| arguments.get(&kernel.parameters)).map(drop)
}

calls! {
    4000 fn cuLaunchKernel(
        function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
        shared: u32, stream: Handle, arguments: Arguments, packed: Packed,
    ) = {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let shape = Shape { grid, block, cluster: None, shared, cooperative: false };
        not_packed(&packed)?;
        submit(function, stream, shape, &arguments)
    };

    9000 fn cuLaunchCooperativeKernel(
        function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
        shared: u32, stream: Handle, arguments: Arguments,
    ) = {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let shape = Shape { grid, block, cluster: None, shared, cooperative: true };
        submit(function, stream, shape, &arguments)
    };

    11060 fn cuLaunchKernelEx(config: In<Config>, function: Handle, arguments: Arguments, packed: Packed) = {
        let config = config.get()?;
        not_packed(&packed)?;
        submit(function, config.stream, config.shape()?, &arguments)
    };
}
