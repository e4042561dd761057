//! Converts models of compressed-tensors for comparison with the Python package:
//!
//! - `compressed write DENSE.safetensors FOLDER FORMAT`
//! - `compressed read FOLDER DENSE.safetensors`

use std::error::Error;
use std::path::Path;
use std::{env, fs};

use zstn::Reader;
use zstn_core::container::foreign::compressed_tensors::{SparseWriter, TensorSpec, WeightFormat};
use zstn_tests::checkpoints::{self, Checkpoint};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["write", dense, folder, "sparse-bitmask"] => {
            write(dense, folder.as_ref(), WeightFormat::SparseBitmask)
        }
        ["write", dense, folder, "sparse-24-bitmask"] => {
            write(dense, folder.as_ref(), WeightFormat::Sparse24Bitmask)
        }
        ["read", folder, dense] => read(folder, dense),
        _ => Err("write DENSE FOLDER FORMAT, or read FOLDER DENSE".into()),
    }
}

/// Writes a sparse model, and prints how many tensors became sparse.
fn write(dense: &str, folder: &Path, format: WeightFormat) -> Result<(), Box<dyn Error>> {
    let file = fs::read(dense)?;
    let checkpoint = Checkpoint::parse(&file);
    let mut writer = SparseWriter::new(format)?;
    let mut tensors = Vec::new();
    let mut sparse = 0;
    for tensor in &checkpoint.header.tensors {
        let (_, bytes) = checkpoint.tensor(&tensor.name);
        let stored = TensorSpec::from(tensor);
        match writer.write(&stored, bytes)? {
            Some(parts) => {
                sparse += 1;
                tensors.extend(parts);
            }
            None => tensors.push((stored, bytes.to_vec())),
        }
    }
    let config = writer.quantization_config();
    let config = format!(r#"{{"quantization_config": {config}}}"#);
    fs::write(folder.join("config.json"), config)?;
    save(&folder.join("model.safetensors"), &tensors)?;
    println!("{sparse}");
    Ok(())
}

fn read(folder: &str, dense: &str) -> Result<(), Box<dyn Error>> {
    let model = Reader::open(folder)?;
    let mut tensors = Vec::new();
    for name in model.names() {
        let tensor = model.read(name)?;
        let stored = TensorSpec {
            name: tensor.name,
            dtype: tensor.dtype,
            shape: tensor.shape,
        };
        tensors.push((stored, tensor.bytes));
    }
    save(dense.as_ref(), &tensors)
}

fn save(path: &Path, tensors: &[(TensorSpec, Vec<u8>)]) -> Result<(), Box<dyn Error>> {
    let tensors = tensors.iter().map(|(stored, bytes)| (stored, &bytes[..]));
    Ok(fs::write(path, checkpoints::safetensors(tensors))?)
}
