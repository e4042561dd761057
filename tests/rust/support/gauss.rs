//! Opens gauss files from memory with the same sequence of reads as an HTTP reader.

use zstn_core::Result;
use zstn_core::bytes::part;
use zstn_core::container::foreign::gauss::{GaussIndex, IndexedTensor, ParsedIndex, decode};
use zstn_core::engine::Engine;

/// The folder of the gauss vectors.
pub const FOLDER: &str = "gauss";

/// Parses the index of a file, first with `have` bytes and then with the lengths that
/// the parser requests. Returns the index and the number of reads.
pub fn open(file: &[u8], mut have: usize) -> Result<(GaussIndex, usize)> {
    let mut reads = 1;
    loop {
        match GaussIndex::parse(&file[..have], file.len() as u64)? {
            ParsedIndex::Complete(index) => return Ok((index, reads)),
            ParsedIndex::Needs(bytes) => {
                let bytes = usize::try_from(bytes).expect("in memory");
                assert!(bytes > have && bytes <= file.len(), "asks for {bytes}");
                (have, reads) = (bytes, reads + 1);
            }
        }
    }
}

/// Decodes all tensors of a file.
pub fn read_all(engine: &impl Engine, file: &[u8]) -> Result<Vec<(IndexedTensor, Vec<u8>)>> {
    let (index, _) = open(file, file.len())?;
    let mut all = Vec::new();
    for tensor in index.tensors {
        let bytes = decode(engine, &tensor, part(file, tensor.stored.clone()))?.into_owned();
        all.push((tensor, bytes));
    }
    Ok(all)
}
