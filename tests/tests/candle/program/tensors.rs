//! Makes random tensors, launches kernels on them, and compares the results.

use std::error::Error;
use std::ops::Range;
use std::sync::Arc;

use kernel_registry::cudarc::driver::{CudaSlice, CudaStream, DeviceRepr};
use kernel_registry::{DynArg, KernelParam, LaunchConfig, find_symbol, launch_dyn};

/// Lists the arguments of a launch: `x` is a value, `&x` a slice, `&mut x` a slice that the kernel writes.
macro_rules! args {
    (@[$($done:expr,)*]) => { [$($done),*] };
    (@[$($done:tt)*] &mut $slice:ident $(, $($rest:tt)+)?) => {
        args!(@[$($done)* kernel_registry::DynArg::slice_mut(&mut $slice),] $($($rest)+)?)
    };
    (@[$($done:tt)*] &$slice:ident $(, $($rest:tt)+)?) => {
        args!(@[$($done)* kernel_registry::DynArg::slice(&$slice),] $($($rest)+)?)
    };
    (@[$($done:tt)*] $value:expr $(, $($rest:tt)+)?) => {
        args!(@[$($done)* kernel_registry::DynArg::value(&$value),] $($($rest)+)?)
    };
    ($($args:tt)+) => { args!(@[] $($args)+) };
}

pub type Outcome = Result<(), Box<dyn Error>>;

/// A function that launches a kernel, and compares the kernel's result with the CPU's.
pub type Check = Box<dyn Fn(&mut Try<'_>) -> Outcome>;

/// The relative error of kernels that compute in single precision, and of exact kernels.
pub const FLOAT: f64 = 2e-5;
pub const EXACT: f64 = 0.0;

/// Returns the range of numbers for kernels that accept any number.
pub fn all() -> Range<f64> {
    -20.0..20.0
}

/// A type of a tensor's numbers. A `u16` holds the bits of a number in half precision.
pub trait Number: KernelParam + DeviceRepr + Default + Copy {
    fn new(value: f64) -> Self;
    fn get(self) -> f64;
}

macro_rules! numbers {
    ($($name:ty)*) => {
        $(impl Number for $name {
            fn new(value: f64) -> Self {
                value as $name
            }

            fn get(self) -> f64 {
                self as f64
            }
        })*
    };
}

numbers! { f32 f64 u8 u32 i64 }

impl Number for u16 {
    fn new(value: f64) -> Self {
        let bits = (value as f32).to_bits();
        let (sign, rest) = ((bits >> 16 & 0x8000) as u16, bits & 0x7fff_ffff);
        // Numbers below 2^-14 in half precision are multiples of 2^-24.
        let small = || (f64::from(f32::from_bits(rest)) * f64::from(1 << 24)).round_ties_even() as u16;
        let rounded = rest + 0xfff + (rest >> 13 & 1);
        sign | if rest < 0x3880_0000 { small() } else { ((rounded - (112 << 23)) >> 13).min(0x7c00) as u16 }
    }

    fn get(self) -> f64 {
        let (exponent, fraction) = (i32::from(self >> 10 & 31), f64::from(self & 0x3ff));
        let size = if exponent == 0 {
            fraction * 2_f64.powi(-24)
        } else {
            (1.0 + fraction / 1024.0) * 2_f64.powi(exponent - 15)
        };
        if self >> 15 == 1 { -size } else { size }
    }
}

/// The sizes and the strides of a tensor's dimensions.
#[derive(Clone)]
pub struct Layout {
    pub dims: Vec<usize>,
    pub strides: Vec<usize>,
}

impl Layout {
    pub fn contiguous(dims: &[usize]) -> Self {
        let stride = |dim: usize| dims[dim + 1..].iter().product();
        Layout { dims: dims.to_vec(), strides: (0..dims.len()).map(stride).collect() }
    }

    pub fn count(&self) -> usize {
        self.dims.iter().product()
    }

    /// Returns the number of elements of memory that the tensor spans.
    pub fn span(&self) -> usize {
        1 + self.dims.iter().zip(&self.strides).map(|(dim, stride)| (dim - 1) * stride).sum::<usize>()
    }

    /// Returns the offset in memory of the element with this number in row-major order.
    pub fn place(&self, mut number: usize) -> usize {
        let mut place = 0;
        for (dim, stride) in self.dims.iter().zip(&self.strides).rev() {
            place += number % dim * stride;
            number /= dim;
        }
        place
    }

    /// Returns the offset in memory of the element with these indices.
    pub fn at(&self, indices: &[usize]) -> usize {
        indices.iter().zip(&self.strides).map(|(index, stride)| index * stride).sum()
    }
}

/// Returns the dimensions that layouts share, followed by the strides of each layout, as candle's kernels take them.
pub fn info(layouts: &[&Layout]) -> Vec<usize> {
    let strides = layouts.iter().flat_map(|layout| &layout.strides);
    layouts[0].dims.iter().chain(strides).copied().collect()
}

/// One launch of a kernel with random arguments.
pub struct Try<'t> {
    pub stream: &'t Arc<CudaStream>,
    pub symbol: &'t str,
    pub random: fastrand::Rng,
}

impl<'t> Try<'t> {
    pub fn new(stream: &'t Arc<CudaStream>, symbol: &'t str, seed: u64) -> Self {
        Try { stream, symbol, random: fastrand::Rng::with_seed(seed) }
    }

    pub fn up_to(&mut self, most: usize) -> usize {
        self.random.usize(1..=most)
    }

    pub fn numbers<T: Number>(&mut self, count: usize, range: Range<f64>) -> Vec<T> {
        let number = |_| T::new(range.start + self.random.f64() * (range.end - range.start));
        (0..count).map(number).collect()
    }

    /// Returns a random shape of some hundred elements.
    pub fn dims(&mut self) -> Vec<usize> {
        let count = self.up_to(4);
        (0..count).map(|_| self.up_to([600, 30, 9, 6][count - 1])).collect()
    }

    /// Returns a random layout for a shape: contiguous, with permuted dimensions, with gaps, or with one dimension of stride 0.
    pub fn layout(&mut self, dims: &[usize]) -> Layout {
        let mut layout = Layout::contiguous(dims);
        if self.random.u8(0..3) == 0 {
            return layout;
        }
        let mut order: Vec<usize> = (0..dims.len()).collect();
        self.random.shuffle(&mut order);
        let mut stride = self.up_to(3);
        for dim in order {
            layout.strides[dim] = stride;
            stride *= dims[dim];
        }
        if self.random.u8(0..4) == 0 {
            layout.strides[self.random.usize(0..dims.len())] = 0;
        }
        layout
    }

    pub fn copy<T: DeviceRepr>(&self, numbers: &[T]) -> Result<CudaSlice<T>, Box<dyn Error>> {
        Ok(self.stream.clone_htod(numbers)?)
    }

    /// Returns a configuration with a block of random size, and enough blocks for one thread per element.
    pub fn threads(&mut self, count: usize) -> LaunchConfig {
        let block = [32, 33, 64, 100, 128, 256][self.random.usize(0..6)];
        LaunchConfig::new([count.div_ceil(block as usize) as u32, 1, 1], [block, 1, 1])
    }

    /// Returns a configuration for a kernel whose threads loop over elements. It may have fewer threads than elements.
    pub fn looping(&mut self, count: usize) -> LaunchConfig {
        let config = self.threads(count);
        let blocks = self.up_to(config.grid[0] as usize) as u32;
        config.grid([blocks, 1, 1])
    }

    pub fn launch<'a>(&'a self, config: LaunchConfig, args: impl IntoIterator<Item = DynArg<'a>>) -> Outcome {
        // SAFETY: the arguments are as long as the shapes say. Reading results back waits for the kernel before the arguments are freed.
        unsafe { launch_dyn(find_symbol(self.symbol)?, self.stream, config, args)? };
        Ok(())
    }

    /// Compares results. The tolerance is relative to the expected number, or to 1 if the number is less.
    pub fn compare<T: Number>(
        &self,
        found: &CudaSlice<T>,
        expected: impl IntoIterator<Item = f64>,
        tolerance: f64,
    ) -> Outcome {
        let (found, expected) = (self.stream.clone_dtoh(found)?, expected.into_iter().collect::<Vec<_>>());
        if found.len() != expected.len() {
            return Err(format!("{} results, and {} are expected", found.len(), expected.len()).into());
        }
        for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
            let found = found.get();
            let equal = found == expected || (found - expected).abs() <= tolerance * expected.abs().max(1.0);
            if !equal {
                return Err(format!("element {place} is {found}, and {expected} is expected").into());
            }
        }
        Ok(())
    }
}
