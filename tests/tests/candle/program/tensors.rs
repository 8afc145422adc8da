//! Random tensors: numbers, shapes and layouts; and the comparison of results.

use std::error::Error;
use std::ops::Range;
use std::sync::Arc;

use kernel_registry::cudarc::driver::{CudaSlice, CudaStream, DeviceRepr};
use kernel_registry::{DynArg, KernelParam, LaunchConfig, find_symbol, launch_dyn};

pub type Outcome = Result<(), Box<dyn Error>>;

/// A launch of a kernel, and the comparison of what it computes.
pub type Check = Box<dyn Fn(&mut Try<'_>) -> Outcome>;

/// Error of kernels that compute in single precision, as a fraction; and of none.
pub const FLOAT: f64 = 2e-5;
pub const EXACT: f64 = 0.0;

/// Numbers for kernels that take any.
pub fn all() -> Range<f64> {
    -20.0..20.0
}

/// A number of a tensor. A `u16` is the bits of a half.
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
        // Below 2^-14 they are multiples of 2^-24.
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

/// The sizes of a tensor's dimensions, and how far apart in memory their elements are.
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

    /// How much memory it spans.
    pub fn span(&self) -> usize {
        1 + self.dims.iter().zip(&self.strides).map(|(dim, stride)| (dim - 1) * stride).sum::<usize>()
    }

    /// The place of an element, of which the number and not the indices are given.
    pub fn place(&self, mut number: usize) -> usize {
        let mut place = 0;
        for (dim, stride) in self.dims.iter().zip(&self.strides).rev() {
            place += number % dim * stride;
            number /= dim;
        }
        place
    }

    /// The place of an element by its indices.
    pub fn at(&self, indices: &[usize]) -> usize {
        indices.iter().zip(&self.strides).map(|(index, stride)| index * stride).sum()
    }
}

/// The dimensions that layouts share, and the strides of each, as candle's kernels take them.
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

    /// A shape of some hundred elements.
    pub fn dims(&mut self) -> Vec<usize> {
        let count = self.up_to(4);
        (0..count).map(|_| self.up_to([600, 30, 9, 6][count - 1])).collect()
    }

    /// A layout for a shape: contiguous; or its dimensions in another order, or with gaps, or one of them the same element again and again.
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

    /// Blocks of any size, as many as are enough for a thread per element.
    pub fn threads(&mut self, count: usize) -> LaunchConfig {
        let block = [32, 33, 64, 100, 128, 256][self.random.usize(0..6)];
        LaunchConfig::new([count.div_ceil(block as usize) as u32, 1, 1], [block, 1, 1])
    }

    /// Fewer, if threads take several elements each.
    pub fn looping(&mut self, count: usize) -> LaunchConfig {
        let config = self.threads(count);
        let blocks = self.up_to(config.grid[0] as usize) as u32;
        config.grid([blocks, 1, 1])
    }

    pub fn launch<'a>(&'a self, config: LaunchConfig, args: impl IntoIterator<Item = DynArg<'a>>) -> Outcome {
        // SAFETY: the arguments are as long as the shapes say, and are read back, which waits, before they end.
        unsafe { launch_dyn(find_symbol(self.symbol)?, self.stream, config, args)? };
        Ok(())
    }

    /// Compares results. The tolerance is a fraction of what is expected, or of 1 if that is less.
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
