//! What both examples share: three requests, in one of five modes, and what is measured.

use std::error::Error;
use std::time::{Duration, Instant};

use candle_core::cuda_backend::cudarc::driver::result;
use candle_core::{DType, Device, Result, Tensor};
use candle_kernels as kernels;

/// A model that answers requests.
pub trait Model: Sized {
    /// Makes what a real program would have as a file. Its time does not count.
    fn prepare() -> Result<()> {
        Ok(())
    }

    fn new(device: &Device) -> Result<Self>;

    /// Begins a request.
    fn begin(&mut self) -> Result<()>;

    /// Returns the scores of all tokens after these. `at` tokens came before.
    fn scores(&mut self, tokens: &Tensor, at: usize) -> Result<Tensor>;
}

/// How candle's kernels get ready.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    /// candle loads each module at its first use.
    Alone,
    /// The program asks candle for all modules, one after the other.
    ByHand,
    Registry,
    /// The registry, with kernels for the types of the model only.
    RegistryTypes,
    /// The registry, with a forward pass.
    RegistryForward,
}

const MODES: [(&str, Mode); 5] = [
    ("alone", Mode::Alone),
    ("by-hand", Mode::ByHand),
    ("registry", Mode::Registry),
    ("registry-types", Mode::RegistryTypes),
    ("registry-forward", Mode::RegistryForward),
];

/// All modules of candle, each with one of its kernels.
const MODULES: [(&str, kernels::Module); kernels::ALL_IDS.len()] = [
    ("affine_f32", kernels::AFFINE),
    ("badd_f32", kernels::BINARY),
    ("cast_f32_f16", kernels::CAST),
    ("im2col_f32", kernels::CONV),
    ("fill_f32", kernels::FILL),
    ("is_u32_f32", kernels::INDEXING),
    ("dequantize_block_q8_0_f32", kernels::QUANTIZED),
    ("fast_sum_f32", kernels::REDUCE),
    ("asort_asc_f32", kernels::SORT),
    ("where_u32_f32", kernels::TERNARY),
    ("uexp_f32", kernels::UNARY),
];

const REQUESTS: u32 = 3;
const TOKENS: usize = 16;
const PROMPT: u32 = 12;
/// Tokens of the models.
pub const VOCABULARY: usize = 4096;

pub fn run<M: Model>() -> std::result::Result<(), Box<dyn Error>> {
    let name = std::env::args().nth(1).unwrap_or_default();
    let Some((_, mode)) = MODES.iter().find(|(mode, _)| *mode == name) else {
        let modes: Vec<_> = MODES.iter().map(|(mode, _)| *mode).collect();
        return Err(format!("name a mode: {}", modes.join(", ")).into());
    };
    M::prepare()?;
    let begun = Instant::now();
    let device = Device::new_cuda(0)?;
    let device_in = begun.elapsed();
    let warming = Instant::now();
    let mut model = warm::<M>(*mode, &device)?;
    let warmed_in = if *mode == Mode::Alone { Duration::ZERO } else { warming.elapsed() };
    let loading = Instant::now();
    let mut model = match model.take() {
        Some(model) => model,
        None => M::new(&device)?,
    };
    let loaded_in = loading.elapsed();
    let mut firsts = Vec::new();
    let mut start = Duration::ZERO;
    for request in 0..REQUESTS {
        let prompt: Vec<u32> = (1..=PROMPT).map(|token| request * 100 + token).collect();
        let asked = Instant::now();
        let mut tokens = Vec::new();
        answer(&mut model, &device, prompt, TOKENS, |token| {
            if tokens.is_empty() {
                firsts.push(milliseconds(asked.elapsed()));
                if request == 0 {
                    start = begun.elapsed();
                }
            }
            tokens.push(token.to_string());
        })?;
        println!("{}", tokens.join(" "));
    }
    let (free, total) = result::mem_get_info()?;
    eprintln!(
        "{{\"mode\": \"{name}\", \"start_to_first_token_ms\": {}, \"device_ms\": {}, \"warm_up_ms\": {}, \"model_ms\": {}, \
         \"first_token_ms\": [{}], \"device_memory_mib\": {}}}",
        milliseconds(start),
        milliseconds(device_in),
        milliseconds(warmed_in),
        milliseconds(loaded_in),
        firsts.join(", "),
        (total - free) >> 20
    );
    Ok(())
}

/// Makes candle's kernels ready. Returns the model if that has needed it.
fn warm<M: Model>(mode: Mode, device: &Device) -> std::result::Result<Option<M>, Box<dyn Error>> {
    let mut model = None;
    let report = match mode {
        Mode::Alone => return Ok(None),
        Mode::ByHand => {
            for (kernel, module) in &MODULES {
                device.as_cuda_device()?.get_or_load_func(kernel, module)?;
            }
            return Ok(None);
        }
        Mode::Registry => kernel_registry_candle::warm_all(device)?,
        Mode::RegistryTypes => {
            kernel_registry_candle::Warmup::new().dtypes(&[DType::BF16, DType::F32]).warm(device)?
        }
        Mode::RegistryForward => {
            let forward = |device: &Device| {
                let mut new = M::new(device)?;
                answer(&mut new, device, (1..=PROMPT).collect(), 2, |_| {})?;
                model = Some(new);
                Ok(())
            };
            kernel_registry_candle::Warmup::new().hook(forward).warm(device)?
        }
    };
    if std::env::var_os("REPORT").is_some() {
        eprintln!("{report}");
    }
    Ok(model)
}

/// Answers a request with so many tokens, always the most probable one.
fn answer<M: Model>(
    model: &mut M,
    device: &Device,
    prompt: Vec<u32>,
    count: usize,
    mut each: impl FnMut(u32),
) -> Result<()> {
    model.begin()?;
    let (mut tokens, mut at) = (prompt, 0);
    for _ in 0..count {
        let input = Tensor::new(&*tokens, device)?.unsqueeze(0)?;
        let scores = model.scores(&input, at)?.to_dtype(DType::F32)?.flatten_all()?;
        let token = scores.argmax(0)?.to_scalar::<u32>()?;
        each(token);
        at += tokens.len();
        tokens = vec![token];
    }
    Ok(())
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1000.0)
}

/// Numbers that look random, the same ones each time.
pub struct Numbers(u64);

impl Numbers {
    pub fn new() -> Self {
        Numbers(42)
    }

    /// Makes a tensor on the CPU, with numbers between `-scale` and `scale`.
    pub fn tensor(&mut self, shape: &[usize], scale: f32) -> Result<Tensor> {
        let count = shape.iter().product();
        let numbers = (0..count).map(|_| {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            scale * ((self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0)
        });
        Tensor::from_vec(numbers.collect::<Vec<f32>>(), shape, &Device::Cpu)
    }
}
