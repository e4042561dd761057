//! Packs a checkpoint and restores it: `cargo run --example pack_file -- model.safetensors`.

use std::env;
use std::path::PathBuf;

use zstn::{Error, Job, PackOptions, UnpackOptions, VerifyOptions};

fn main() -> zstn::Result<()> {
    let Some(input) = env::args_os().nth(1).map(PathBuf::from) else {
        return Err(Error::Usage("name a safetensors file or a folder".into()));
    };
    let packed = input.with_extension("zstn");
    let restored = input.with_extension("restored.safetensors");
    let job = Job::new(); // a thread for each core

    let report = zstn::pack(&job, &input, &packed, &PackOptions::default())?;
    for file in &report.files {
        println!("{} bytes became {}", file.original_bytes, file.packed_bytes);
    }

    // Decodes every tensor and compares all checksums, and the bytes with the original.
    let against_original = VerifyOptions::default().original(&input);
    zstn::verify(&job, &packed, &against_original)?;
    zstn::unpack(&job, &packed, &restored, &UnpackOptions::default())?;
    println!("{} is identical to {}", restored.display(), input.display());
    Ok(())
}
