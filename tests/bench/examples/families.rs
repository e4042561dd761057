//! Times the choice of bases among many checkpoints, as `python -m zstn_hub plan --base
//! auto` makes it. The checkpoints are synthetic: families of 20, interleaved, each a
//! base and fine-tunes of it. Their sketches are made when they are needed, so the times
//! include that instead of reading them from a store.
//!
//! ```sh
//! cargo run --release -p zstn-bench --example families -- --checkpoints 100000
//! ```

use std::fs;
use std::time::{Duration, Instant};

use zstn::Engine;
use zstn::family::{Candidate, Sketch, bases};
use zstn_core::dtype::Dtype;
use zstn_core::engine::Engine as _;
use zstn_core::sketch::{SketchedTensor, runs};
use zstn_tests::rng::Rng;

/// The number of checkpoints in a family.
const FAMILY: usize = 20;
/// The number of tensors in a checkpoint, and of elements in a tensor.
const TENSORS: u64 = 40;
const ELEMENTS: u64 = 1 << 20;

fn main() {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--checkpoints");
    let count: usize = arguments
        .nth(1)
        .map_or(100_000, |value| value.parse().expect("a number"));
    let engine = Engine::default();
    let families = count.div_ceil(FAMILY);
    let start = Instant::now();
    let candidates: Vec<Candidate> = engine.map((0..count).collect(), |number| {
        Candidate::new(&sketch(number, families))
    });
    let signed = start.elapsed();
    let start = Instant::now();
    let chosen = bases(
        &engine,
        &candidates,
        |number| Ok(sketch(number, families)),
        false,
    );
    let chosen = chosen.expect("bases");
    let searched = start.elapsed();
    let right = chosen
        .iter()
        .enumerate()
        .filter(|(number, bases)| {
            bases
                .iter()
                .any(|base| base % families == number % families)
        })
        .count();
    println!(
        "{count} checkpoints in {families} families, {} bytes per sketch",
        sketch(0, families).to_bytes(&engine).len()
    );
    println!("signatures     {} per checkpoint", each(signed, count));
    println!("choosing bases {} per checkpoint", each(searched, count));
    println!(
        "with a base    {}, of their own family {right}, of {} fine-tunes",
        chosen.iter().flatten().count(),
        count - families
    );
    if let Some(peak) = peak_memory() {
        println!("peak memory    {peak}");
    }
}

/// Returns the time for each of `count` checkpoints, in milliseconds.
fn each(time: Duration, count: usize) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3 / count as f64)
}

/// Returns the sketch of a checkpoint, which belongs to the family with the remainder of
/// its number. The first one of each family is the base.
#[allow(clippy::cast_possible_truncation)] // Only the low bits are wanted.
fn sketch(number: usize, families: usize) -> Sketch {
    let (family, member) = ((number % families) as u64, (number / families) as u64);
    let tensors = (0..TENSORS).map(|tensor| {
        let mut base = Rng(1 + family * TENSORS + tensor);
        let mut change = Rng(number as u64 * TENSORS + tensor);
        let len: u64 = runs(Dtype::Bf16, 2 * ELEMENTS)
            .iter()
            .map(|run| run.end - run.start)
            .sum();
        let elements = (0..len / 2).flat_map(|_| {
            let random = base.next_u64();
            // The exponents of weights are distributed like the number of zeros in front
            // of a random number.
            let exponent = 121 - random.leading_zeros().min(20);
            let word = (random as u16 & 0x807f) | (exponent as u16) << 7;
            let step = match member {
                0 => 0,
                // A third of the elements of a fine-tune have random last two bits.
                _ if change.next_u64().is_multiple_of(3) => change.next_u64() as u16 & 3,
                _ => 0,
            };
            (word ^ step).to_le_bytes()
        });
        let name = format!("layers.{tensor}.weight");
        let shape = vec![1 << 10, ELEMENTS >> 10];
        SketchedTensor::new(name, Dtype::Bf16, shape, None, elements.collect()).expect("a tensor")
    });
    let len = TENSORS * 2 * ELEMENTS;
    Sketch::new(len, None, tensors.collect()).expect("a sketch")
}

/// Returns the largest amount of memory that the process has used (Linux).
fn peak_memory() -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
    Some(line.split_once(':')?.1.trim().into())
}
