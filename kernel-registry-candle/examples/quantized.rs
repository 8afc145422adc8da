//! A small Llama with random weights that are quantized to four bits, read from a GGUF file in memory, which answers three requests.

mod common;

use std::io::Cursor;
use std::sync::OnceLock;

use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Result, Tensor};
use candle_transformers::models::quantized_llama::ModelWeights;
use common::{Model, Numbers, VOCABULARY};

const HIDDEN: usize = 512;
const INNER: usize = 1536;
const LAYERS: u32 = 4;
const HEADS: u32 = 8;
const KEY_HEADS: u32 = 4;

struct Small(ModelWeights);

static FILE: OnceLock<Vec<u8>> = OnceLock::new();

impl Model for Small {
    fn prepare() -> Result<()> {
        let file = file()?;
        FILE.get_or_init(|| file);
        Ok(())
    }

    fn new(device: &Device) -> Result<Self> {
        let mut file = Cursor::new(FILE.get().map_or(&[][..], Vec::as_slice));
        let content = gguf_file::Content::read(&mut file)?;
        Ok(Small(ModelWeights::from_gguf(content, &mut file, device)?))
    }

    fn begin(&mut self) -> Result<()> {
        Ok(())
    }

    fn scores(&mut self, tokens: &Tensor, at: usize) -> Result<Tensor> {
        self.0.forward(tokens, at)
    }
}

/// Makes the file.
fn file() -> Result<Vec<u8>> {
    let key = HIDDEN / HEADS as usize * KEY_HEADS as usize;
    let mut shapes = vec![
        ("token_embd.weight".to_owned(), vec![VOCABULARY, HIDDEN]),
        ("output.weight".to_owned(), vec![VOCABULARY, HIDDEN]),
        ("output_norm.weight".to_owned(), vec![HIDDEN]),
    ];
    for layer in 0..LAYERS {
        let of_layer: [(&str, &[usize]); 9] = [
            ("attn_q", &[HIDDEN, HIDDEN]),
            ("attn_k", &[key, HIDDEN]),
            ("attn_v", &[key, HIDDEN]),
            ("attn_output", &[HIDDEN, HIDDEN]),
            ("ffn_gate", &[INNER, HIDDEN]),
            ("ffn_up", &[INNER, HIDDEN]),
            ("ffn_down", &[HIDDEN, INNER]),
            ("attn_norm", &[HIDDEN]),
            ("ffn_norm", &[HIDDEN]),
        ];
        let name = |name: &str| format!("blk.{layer}.{name}.weight");
        shapes.extend(of_layer.map(|(weight, shape)| (name(weight), shape.to_vec())));
    }
    let mut numbers = Numbers::new();
    let mut tensors = Vec::new();
    for (name, shape) in shapes {
        let tensor = match &shape[..] {
            [_] => QTensor::quantize(&Tensor::ones(&*shape, DType::F32, &Device::Cpu)?, GgmlDType::F32)?,
            _ => QTensor::quantize(&numbers.tensor(&shape, 0.1)?, GgmlDType::Q4K)?,
        };
        tensors.push((name, tensor));
    }
    let metadata = [
        ("general.architecture", Value::String("llama".to_owned())),
        ("llama.attention.head_count", Value::U32(HEADS)),
        ("llama.attention.head_count_kv", Value::U32(KEY_HEADS)),
        ("llama.block_count", Value::U32(LAYERS)),
        ("llama.embedding_length", Value::U32(HIDDEN as u32)),
        ("llama.rope.dimension_count", Value::U32(HIDDEN as u32 / HEADS)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
    ];
    let metadata: Vec<_> = metadata.iter().map(|(name, value)| (*name, value)).collect();
    let tensors: Vec<_> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    let mut file = Cursor::new(Vec::new());
    gguf_file::write(&mut file, &metadata, &tensors)?;
    Ok(file.into_inner())
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    common::run::<Small>()
}
