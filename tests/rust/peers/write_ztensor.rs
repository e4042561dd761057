//! Writes the tensors of a safetensors file as zTensor 0.1, for comparison with other
//! implementations: `ztensor IN.safetensors OUT.zt plain|raw|big|zstd`. All modes
//! except `plain` add a checksum and a custom key.

use std::error::Error;
use std::{env, fs};

use zstn::{Engine, Reader};
use zstn_core::container::foreign::ztensor::{
    self, ByteOrder, DigestKind, Field, PartStorage, SourceTensor,
};
use zstn_core::engine::ZstdCoding;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [input, output, storage] = &arguments[..] else {
        return Err("three arguments: IN.safetensors OUT.zt plain|raw|big|zstd".into());
    };
    let is_plain = storage == "plain";
    let storage = match storage.as_str() {
        "plain" | "raw" => PartStorage::Raw(ByteOrder::Little),
        "big" => PartStorage::Raw(ByteOrder::Big),
        "zstd" => PartStorage::Zstd(ZstdCoding::Search(3)),
        other => return Err(format!("no way to store: {other}").into()),
    };
    let reader = Reader::open(input)?;
    let tensors = reader.names().map(|name| reader.read(name));
    let tensors = tensors.collect::<zstn::Result<Vec<_>>>()?;
    let fields = [Field::from_text("note", "kept")];
    let entries: Vec<(SourceTensor, &[u8])> = tensors
        .iter()
        .map(|tensor| {
            let entry = SourceTensor {
                storage,
                checksum: (!is_plain).then_some(DigestKind::Crc32c),
                fields: if is_plain { &[] } else { &fields },
                ..SourceTensor::dense(&tensor.name, tensor.dtype, &tensor.shape)
            };
            (entry, &tensor.bytes[..])
        })
        .collect();
    fs::write(output, ztensor::write(&Engine::new(1)?, &entries)?)?;
    Ok(())
}
