//! Opens Gauss and zTensor files from memory with the same sequence of reads as an HTTP
//! reader.

use zstn_core::Result;
use zstn_core::bytes::part;
use zstn_core::catalog::{FileCatalog, FileOpener};
use zstn_core::container::foreign::gauss::{GaussIndex, IndexedTensor, ParsedIndex, decode};
use zstn_core::container::foreign::ztensor::{FOOTER_BYTES, Manifest, ZTensorFooter};
use zstn_core::engine::Engine;
use zstn_core::pure::Pure;

use crate::cases;

/// The folder of the gauss vectors.
pub const GAUSS_FOLDER: &str = "gauss";

/// Parses the index of a file, first with `have` bytes and then with the lengths that
/// the parser requests. Returns the index and the number of reads.
pub fn open_gauss(file: &[u8], mut have: usize) -> Result<(GaussIndex, usize)> {
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
pub fn read_gauss(engine: &impl Engine, file: &[u8]) -> Result<Vec<(IndexedTensor, Vec<u8>)>> {
    let (index, _) = open_gauss(file, file.len())?;
    let mut all = Vec::new();
    for tensor in index.tensors {
        let bytes = decode(engine, &tensor, part(file, tensor.stored.clone()))?.into_owned();
        all.push((tensor, bytes));
    }
    Ok(all)
}

/// Returns the bytes of `tests/vectors/ztensor/name`.
pub fn vector(name: &str) -> Vec<u8> {
    cases::read("ztensor", name)
}

/// Opens a file as an HTTP reader does, and returns the number of round trips with it.
pub fn open_ztensor(file: &[u8]) -> Result<(FileCatalog, usize)> {
    let len = file.len() as u64;
    let head = part(file, 0..FileOpener::head_len_bytes(len)).to_vec();
    let mut opening = FileOpener::new(len, head)?;
    let mut trips = 1;
    loop {
        let needs = opening.needs()?;
        if needs.is_empty() {
            return Ok((opening.finish(&Pure)?, trips));
        }
        trips += 1;
        assert!(trips < 5, "the opening goes on and on");
        for range in needs {
            opening.supply(range.start, part(file, range))?;
        }
    }
}

/// Decodes every tensor of a file in catalog order.
pub fn read_ztensor(engine: &impl Engine, file: &[u8]) -> Result<Vec<Vec<u8>>> {
    let (catalog, _) = open_ztensor(file)?;
    let tensors = catalog.tensors().iter().enumerate();
    tensors
        .map(|(number, tensor)| {
            let stored = part(file, tensor.stored.clone());
            let bytes = catalog.decode(engine, number, stored)?.into_owned();
            assert_eq!(bytes.len() as u64, tensor.len_bytes());
            Ok(bytes)
        })
        .collect()
}

/// Parses the manifest of a complete file.
pub fn manifest(file: &[u8]) -> Result<Manifest> {
    let len = file.len() as u64;
    let tail = part(file, len.saturating_sub(FOOTER_BYTES)..len);
    let footer = ZTensorFooter::parse(file, tail, len)?;
    Manifest::parse(part(file, footer.manifest.clone()), &footer)
}
