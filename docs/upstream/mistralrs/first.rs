//! Loads a text model from a folder, answers three requests, and prints how long each took, as one line of JSON on standard error.
use std::io::Write;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use mistralrs::{
    MemoryGpuConfig, ModelBuilder, ModelDType, PagedAttentionMetaBuilder, RequestBuilder, Response, TextMessageRole,
};

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // START: when the process was started, in seconds since 1970. PAGED=0: without paged attention. CPU=1: without a GPU.
    let start = std::env::var("START").ok().and_then(|text| text.parse().ok()).unwrap_or_else(now);
    let set = |name: &str, value: &str| std::env::var(name).is_ok_and(|other| other == value);
    let folder = std::env::args().nth(1).expect("the folder of a model");
    let tokens = std::env::args().nth(2).map_or(16, |text| text.parse().expect("a number of tokens"));

    let mut builder = ModelBuilder::new(folder).with_dtype(ModelDType::BF16).with_prefix_cache_n(None);
    if std::env::var_os("LOG").is_some() {
        builder = builder.with_logging();
    }
    if set("CPU", "1") {
        builder = builder.with_force_cpu().with_dtype(ModelDType::F32);
    } else if !set("PAGED", "0") {
        let config = PagedAttentionMetaBuilder::default().with_gpu_memory(MemoryGpuConfig::ContextSize(4096));
        builder = builder.with_paged_attn(config.build()?);
    }
    let model = builder.build().await?;
    let ready = now() - start;

    let (mut first_token, mut whole, mut to_first_token) = (Vec::new(), Vec::new(), 0.0);
    for question in 0..3 {
        let request = RequestBuilder::new()
            .set_deterministic_sampler()
            .set_sampler_max_len(tokens)
            .add_message(TextMessageRole::User, format!("Question {question}: what is the answer?"));
        let begin = Instant::now();
        let mut stream = model.stream_chat_request(request).await?;
        let mut text = String::new();
        while let Some(response) = stream.next().await {
            match response {
                Response::Chunk(chunk) => {
                    for choice in &chunk.choices {
                        if let Some(content) = &choice.delta.content {
                            if text.is_empty() && !content.is_empty() {
                                first_token.push(begin.elapsed().as_secs_f64() * 1e3);
                                if question == 0 {
                                    to_first_token = now() - start;
                                }
                            }
                            text += content;
                        }
                    }
                }
                Response::Done(_) => break,
                other => anyhow::bail!("request {question}: {}", other.as_result().err().map_or_else(|| "another response".into(), |error| error.to_string())),
            }
        }
        whole.push(begin.elapsed().as_secs_f64() * 1e3);
        println!("{question}: {text}");
    }
    std::io::stdout().flush()?;
    eprintln!(
        "{{\"ready_ms\": {:.1}, \"start_to_first_token_ms\": {:.1}, \"first_token_ms\": {first_token:?}, \"request_ms\": {whole:?}}}",
        ready * 1e3,
        to_first_token * 1e3,
    );
    Ok(())
}
