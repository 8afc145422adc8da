//! Makes random sequences of calls, with valid, stale, foreign and invented handles.

#[path = "../../../kernel-registry-ptx/tests/differential/random.rs"]
mod numbers;

use numbers::Random;

use super::bad::Addresses;
use super::signatures::{self, Argument, Kind};
use super::world::World;
use super::{device, driver};

/// Returns a random number that makes no call slow, as a grid of a million blocks or a huge copy would.
fn number(random: &mut Random, argument: &Argument) -> usize {
    const HUGE: usize = usize::MAX;
    random.of(match argument.name.as_str() {
        "bytes" | "count" | "room" => &[0, 1, 64, 4096, 1 << 16, 1 << 40, HUGE],
        "grid_x" | "grid_y" | "grid_z" => &[0, 1, 1, 1, 2, HUGE],
        "block_x" | "block_y" | "block_z" => &[0, 1, 1, 1, 33, 1025, HUGE],
        _ => &[0, 0, 0, 1, 1, 2, 3, 8, 16, 1 << 31, HUGE],
    })
}

pub fn run(seed: u64, calls: usize) {
    driver::install();
    let (nowhere, mut random) = (Addresses::new(), Random::new(seed));
    let mut world = World::new();
    let mut functions = signatures::simulated();
    // These functions would wait for ever, because no call writes the word.
    functions.retain(|function| !function.name.starts_with("cuStreamWaitValue"));
    let mut made = world.handles();
    let (mut contexts, mut succeeded) = (Vec::new(), 0);
    for call in 0..calls {
        if call % 200 == 0 {
            // Destroys the contexts that were made, because each takes device memory.
            for context in contexts.drain(..) {
                device::call("cuCtxDestroy_v2", &[context]);
            }
            world.renew();
            made.truncate(100);
            made.extend(world.handles());
        }
        let function = &functions[random.below(functions.len() as u64) as usize];
        let mut words = world.valid(function);
        for (word, argument) in words.iter_mut().zip(&function.arguments) {
            let address = || [nowhere.all(), vec![0]].concat();
            match (&argument.kind, random.below(10)) {
                (Kind::Handle | Kind::Size, 0) => *word = random.of(&world.stale),
                (Kind::Handle, 1..4) => *word = random.of(&made),
                (Kind::Size | Kind::Number, 2..6) => *word = number(&mut random, argument),
                (Kind::Number, _) => {}
                (_, 9) => *word = random.of(&address()),
                _ => {}
            }
        }
        let code = driver::call(&function.name, &words);
        assert!(driver::knows(code), "{} returned {code}", function.name);
        succeeded += usize::from(code == 0);
        let makes = function.arguments.first().is_some_and(|first| {
            const MADE: [&str; 13] = [
                "link",
                "pool",
                "context",
                "stream",
                "event",
                "module",
                "function",
                "library",
                "kernel",
                "graph",
                "executable",
                "pointer",
                "made",
            ];
            first.kind == Kind::Out && MADE.contains(&first.name.as_str())
        });
        if code == 0 && makes && words[0] != 0 {
            let handle = World::handle_at(words[0]);
            made.push(handle);
            if function.name.starts_with("cuCtxCreate") {
                contexts.push(handle);
            }
        }
    }
    assert!(succeeded > calls / 5, "{succeeded} of {calls} succeeded");
}
