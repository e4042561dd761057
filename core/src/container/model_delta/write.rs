//! A checkpoint as its difference from a base
//! (docs/formats/z4ai-containers.md 4.2).

use alloc::vec::Vec;

use super::record::write_head;
use super::seal::Seal;
use super::{Base, MAGIC, VERSION};
use crate::bytes::part;
use crate::container::safetensors::{self, Header, Tensor};
use crate::engine::PackEngine;
use crate::frame::delta;
use crate::frame::select::{self, Effort};
use crate::{Error, Result};

/// Packs the safetensors file `target` against `base`. A target that breaks
/// the official rules is refused: the format has no room for bytes that
/// belong to no tensor.
pub fn pack<E: PackEngine>(
    engine: &E,
    target: &[u8],
    base: &Base,
    effort: Effort,
) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    write(engine, target, base, effort, &mut |bytes| {
        out.extend_from_slice(bytes);
        Ok(())
    })?;
    Ok(out)
}

/// As [`pack`], handing the bytes to `sink` in order.
pub fn write<E: PackEngine, X: From<Error>>(
    engine: &E,
    target: &[u8],
    base: &Base,
    effort: Effort,
    sink: &mut dyn FnMut(&[u8]) -> Result<(), X>,
) -> Result<(), X> {
    let header_len = safetensors::header_len_bytes(target, target.len() as u64)?;
    let start = safetensors::PREFIX_BYTES + header_len;
    let json = part(target, safetensors::PREFIX_BYTES..start);
    let data = part(target, start..target.len() as u64);
    let tensors = Header::parse(json, data.len() as u64)?.tensors;
    let count = u32::try_from(tensors.len())
        .map_err(|_| Error::invalid_input("a delta holds at most 2^32 tensors"))?;

    let mut head = MAGIC.to_vec();
    head.push(VERSION);
    head.extend_from_slice(&header_len.to_le_bytes());
    head.extend_from_slice(json);
    head.extend_from_slice(&(data.len() as u64).to_le_bytes());
    head.extend_from_slice(&base.digest());
    head.extend_from_slice(&count.to_le_bytes());
    sink(&head)?;

    for batch in tensors.chunk_by(same_batch()) {
        let coded = engine.map(batch.iter().collect(), |tensor: &Tensor| {
            code(
                engine,
                tensor,
                part(data, tensor.span.clone()),
                base,
                effort,
            )
        });
        for record in coded {
            sink(&record?)?;
        }
    }
    let seal = Seal {
        base_table: base.table_digest(),
        target: *blake3::hash(target).as_bytes(),
    };
    sink(&seal.to_bytes())
}

/// Tensors that are coded at the same time: up to this many bytes together.
const BATCH_BYTES: u64 = 256 << 20;

fn same_batch() -> impl FnMut(&Tensor, &Tensor) -> bool {
    let mut start = 0;
    move |_, next| {
        let together = next.span.end - start <= BATCH_BYTES;
        if !together {
            start = next.span.start;
        }
        together
    }
}

/// One record: the smallest of a copy, a delta and a frame.
fn code<E: PackEngine>(
    engine: &E,
    tensor: &Tensor,
    bytes: &[u8],
    base: &Base,
    effort: Effort,
) -> Result<Vec<u8>> {
    let dtype = Some(tensor.dtype);
    let reference = base
        .tensor(&tensor.name)
        .filter(|(other, reference)| {
            other.dtype.as_deref() == Some(tensor.dtype.name()) && reference.len() == bytes.len()
        })
        .map(|(_, reference)| reference);
    let mut out = Vec::new();
    if reference == Some(bytes) {
        write_head(&mut out, &tensor.name, &tensor.span, None)?;
        return Ok(out);
    }
    let full = select::encode(engine, bytes, dtype, effort);
    let delta = reference
        .map(|reference| delta::encode(engine, bytes, reference, dtype, effort))
        .transpose()?
        .filter(|delta| delta.len() < full.len());
    let (is_delta, payload) = match delta {
        Some(delta) => (true, delta),
        None => (false, full),
    };
    let head = Some((is_delta, payload.len() as u64));
    write_head(&mut out, &tensor.name, &tensor.span, head)?;
    out.extend_from_slice(&payload);
    Ok(out)
}
