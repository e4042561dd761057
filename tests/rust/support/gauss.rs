//! Gauss files, opened as a reader over HTTP opens them.

use zstn_core::Result;
use zstn_core::bytes::part;
use zstn_core::container::foreign::gauss::{Index, Parsed, Tensor, decode};
use zstn_core::engine::Engine;

/// The folder of the vectors.
pub const FOLDER: &str = "gauss";

/// Opens a file as a reader over HTTP does, and counts its reads.
pub fn open(file: &[u8], mut have: usize) -> Result<(Index, usize)> {
    let mut reads = 1;
    loop {
        match Index::parse(&file[..have], file.len() as u64)? {
            Parsed::Complete(index) => return Ok((index, reads)),
            Parsed::Needs(bytes) => {
                let bytes = usize::try_from(bytes).expect("in memory");
                assert!(bytes > have && bytes <= file.len(), "asks for {bytes}");
                (have, reads) = (bytes, reads + 1);
            }
        }
    }
}

/// Reads all tensors of a file.
pub fn read_all(engine: &impl Engine, file: &[u8]) -> Result<Vec<(Tensor, Vec<u8>)>> {
    let (index, _) = open(file, file.len())?;
    let mut all = Vec::new();
    for tensor in index.tensors {
        let bytes = decode(engine, &tensor, part(file, tensor.stored.clone()))?.into_owned();
        all.push((tensor, bytes));
    }
    Ok(all)
}
