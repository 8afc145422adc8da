//! A small Llama with random weights of type bf16, which answers three requests.

mod common;

use std::collections::HashMap;
use std::sync::OnceLock;

use candle_core::{DType, Device, Result, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::llama::{Cache, Config, Llama};
use common::{Model, Numbers, VOCABULARY};

const TYPE: DType = DType::BF16;
const HIDDEN: usize = 512;
const INNER: usize = 1376;
const LAYERS: usize = 4;
const HEADS: usize = 8;
const KEY_HEADS: usize = 4;

/// The weights, on the CPU.
static WEIGHTS: OnceLock<Vec<(String, Tensor)>> = OnceLock::new();

struct Small {
    llama: Llama,
    config: Config,
    device: Device,
    cache: Cache,
}

impl Model for Small {
    fn prepare() -> Result<()> {
        let weights = weights()?;
        WEIGHTS.get_or_init(|| weights);
        Ok(())
    }

    fn new(device: &Device) -> Result<Self> {
        let config = Config {
            hidden_size: HIDDEN,
            intermediate_size: INNER,
            vocab_size: VOCABULARY,
            num_hidden_layers: LAYERS,
            num_attention_heads: HEADS,
            num_key_value_heads: KEY_HEADS,
            use_flash_attn: false,
            rms_norm_eps: 1e-5,
            rope_theta: 10_000.0,
            bos_token_id: None,
            eos_token_id: None,
            rope_scaling: None,
            max_position_embeddings: 512,
            tie_word_embeddings: false,
        };
        let weights = WEIGHTS.get().into_iter().flatten();
        let weights = weights.map(|(name, tensor)| Ok((name.clone(), tensor.to_device(device)?)));
        let weights: HashMap<_, _> = weights.collect::<Result<_>>()?;
        let weights = VarBuilder::from_tensors(weights, TYPE, device);
        let llama = Llama::load(weights, &config)?;
        let cache = Cache::new(true, TYPE, &config, device)?;
        Ok(Small { llama, config, device: device.clone(), cache })
    }

    fn begin(&mut self) -> Result<()> {
        self.cache = Cache::new(true, TYPE, &self.config, &self.device)?;
        Ok(())
    }

    fn scores(&mut self, tokens: &Tensor, at: usize) -> Result<Tensor> {
        self.llama.forward(tokens, at, &mut self.cache)
    }
}

fn weights() -> Result<Vec<(String, Tensor)>> {
    let key = HIDDEN / HEADS * KEY_HEADS;
    let mut shapes = vec![
        ("model.embed_tokens.weight".to_owned(), vec![VOCABULARY, HIDDEN]),
        ("lm_head.weight".to_owned(), vec![VOCABULARY, HIDDEN]),
        ("model.norm.weight".to_owned(), vec![HIDDEN]),
    ];
    for layer in 0..LAYERS {
        let of_layer: [(&str, &[usize]); 9] = [
            ("self_attn.q_proj", &[HIDDEN, HIDDEN]),
            ("self_attn.k_proj", &[key, HIDDEN]),
            ("self_attn.v_proj", &[key, HIDDEN]),
            ("self_attn.o_proj", &[HIDDEN, HIDDEN]),
            ("mlp.gate_proj", &[INNER, HIDDEN]),
            ("mlp.up_proj", &[INNER, HIDDEN]),
            ("mlp.down_proj", &[HIDDEN, INNER]),
            ("input_layernorm", &[HIDDEN]),
            ("post_attention_layernorm", &[HIDDEN]),
        ];
        let name = |name: &str| format!("model.layers.{layer}.{name}.weight");
        shapes.extend(of_layer.map(|(weight, shape)| (name(weight), shape.to_vec())));
    }
    let mut numbers = Numbers::new();
    let weights = shapes.into_iter().map(|(name, shape)| {
        let tensor = match &shape[..] {
            [_] => Tensor::ones(&*shape, DType::F32, &Device::Cpu)?,
            _ => numbers.tensor(&shape, 0.1)?,
        };
        Ok((name, tensor.to_dtype(TYPE)?))
    });
    weights.collect()
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    common::run::<Small>()
}
