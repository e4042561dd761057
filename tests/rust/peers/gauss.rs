//! Encodes and decodes Gauss files on one thread, for comparison with gauss-compress,
//! and prints the seconds from memory to memory:
//!
//! - `gauss encode IN.safetensors OUT.gauss COMPONENTS`
//! - `gauss decode IN.gauss OUT.safetensors`

use std::error::Error;
use std::time::Instant;
use std::{env, fs};

use zstn_core::bytes::part;
use zstn_core::container::foreign::compressed_tensors::TensorSpec;
use zstn_core::container::foreign::gauss::{
    self, Components, GaussIndex, GaussOptions, ParsedIndex,
};
use zstn_core::pure::Pure;
use zstn_tests::checkpoints::{self, Checkpoint};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (out, bytes, seconds) = match arguments[..] {
        ["encode", input, output, components] => {
            let (bytes, seconds) = encode(&fs::read(input)?, components.parse()?)?;
            (output, bytes, seconds)
        }
        ["decode", input, output] => {
            let (bytes, seconds) = decode(&fs::read(input)?)?;
            (output, bytes, seconds)
        }
        _ => return Err("encode IN OUT COMPONENTS, or decode IN OUT".into()),
    };
    fs::write(out, bytes)?;
    println!("{seconds}");
    Ok(())
}

fn encode(checkpoint: &[u8], components: u32) -> Result<(Vec<u8>, f64), Box<dyn Error>> {
    let checkpoint = Checkpoint::parse(checkpoint);
    let options = GaussOptions {
        components: Components::Exactly(components),
        ..GaussOptions::default()
    };
    let started = Instant::now();
    let mut file = Vec::new();
    gauss::encode(&Pure, &checkpoint.sources(), &options, |bytes: &[u8]| {
        file.extend_from_slice(bytes);
        Ok::<(), zstn_core::Error>(())
    })?;
    Ok((file, started.elapsed().as_secs_f64()))
}

fn decode(file: &[u8]) -> Result<(Vec<u8>, f64), Box<dyn Error>> {
    let started = Instant::now();
    let ParsedIndex::Complete(index) = GaussIndex::parse(file, file.len() as u64)? else {
        return Err("the file ends within its index".into());
    };
    let mut tensors = Vec::new();
    for tensor in &index.tensors {
        let bytes = gauss::decode(&Pure, tensor, part(file, tensor.stored.clone()))?;
        let stored = TensorSpec {
            name: tensor.name.clone(),
            dtype: tensor.dtype,
            shape: tensor.shape.clone(),
        };
        tensors.push((stored, bytes));
    }
    let seconds = started.elapsed().as_secs_f64();
    let tensors = tensors.iter().map(|(stored, bytes)| (stored, &bytes[..]));
    Ok((checkpoints::safetensors(tensors), seconds))
}
