//! Reads a compressed-tensors model: `config.json` and its safetensors file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zstn_fuzz::{model, pair, read, speak};

fuzz_target!(|input: &[u8]| {
    let Some((config, file)) = pair(input) else {
        return;
    };
    match model(file, Some(config)) {
        Ok(model) => read(&model, &[file], true),
        Err(error) => speak(&error),
    }
});
zstn_fuzz::keep_lengths!();
