//! Decoding everything without keeping it, and comparing with the original.

use std::ops::Range;

use zstn_core::bytes::{index, part};
use zstn_core::catalog::{Catalog, Kind};
use zstn_core::container::ztensor::is_ztensor;

use crate::delta::Checked;
use crate::reader::open_catalog;
use crate::source::{Map, Source};
use crate::unpack::Container;
use crate::{Error, Native, Output, Progress, Result};

/// What was verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyReport {
    /// What kind of file it is.
    pub kind: Kind,
    /// Length of the container.
    pub packed_bytes: u64,
    /// Length of the file it restores; of a zTensor file, of its tensors.
    pub original_bytes: u64,
    /// Frames, records or tensors decoded.
    pub frames: usize,
    /// Whether every byte was compared with the original.
    pub compared: bool,
}

/// Decodes every frame of `input`; with `original`, compares every byte.
/// Without, damage inside stored planes stays unseen: the format has no
/// checksum of its own.
///
/// Of a zTensor file every tensor is decoded and compared with its checksum,
/// where it has one. The `original` may then be any file of the same tensors.
pub fn verify(
    engine: &Native,
    input: &Map,
    original: Option<&Map>,
    progress: &dyn Progress,
) -> Result<VerifyReport> {
    if is_ztensor(input) {
        return verify_tensors(engine, input, original, progress);
    }
    let container = Container::parse(engine, input)?;
    let truth = Truth::new(input, original, container.header());
    truth.check_header(container.original_len_bytes())?;
    container.decode(engine, progress, |span, bytes| truth.check(&span, bytes))?;
    Ok(VerifyReport {
        kind: Kind::Zstn,
        packed_bytes: input.len_bytes(),
        original_bytes: container.original_len_bytes(),
        frames: container.frame_count(),
        compared: original.is_some(),
    })
}

/// Restores every tensor of the delta `input` against `base`; with
/// `original`, compares every byte. A sealed delta is compared with its
/// digests in any case.
pub fn verify_delta(
    engine: &Native,
    input: &Map,
    base: &Map,
    original: Option<&Map>,
    progress: &dyn Progress,
) -> Result<VerifyReport> {
    let checked = Checked::parse(engine, input, base)?;
    let delta = &checked.delta;
    let truth = Truth::new(input, original, delta.header());
    truth.check_header(delta.original_len_bytes())?;
    if !delta.overlapping().is_empty() || (delta.is_sealed() && !delta.has_tensor_digests()) {
        // Only the whole shows whether its parts agree.
        checked.restore(engine, &Output::temporary()?, &())?;
    }
    checked.decode(engine, progress, |span, bytes| truth.check(&span, bytes))?;
    Ok(VerifyReport {
        kind: Kind::Delta,
        packed_bytes: input.len_bytes(),
        original_bytes: delta.original_len_bytes(),
        frames: delta.records().len(),
        compared: original.is_some(),
    })
}

fn verify_tensors(
    engine: &Native,
    input: &Map,
    original: Option<&Map>,
    progress: &dyn Progress,
) -> Result<VerifyReport> {
    let catalog = open_catalog(input)?;
    let truth = original.map(open_catalog_of).transpose()?;
    if let Some((original, truth)) = &truth
        && truth.tensors().len() != catalog.tensors().len()
    {
        return Err(Error::Differs {
            detail: format!(
                "{} has {} tensors, {} has {}",
                input.name(),
                catalog.tensors().len(),
                original.name(),
                truth.tensors().len()
            ),
        });
    }
    progress.begin(catalog.original_len_bytes());
    for (number, tensor) in catalog.tensors().iter().enumerate() {
        let bytes = catalog
            .decode(engine, number, part(input, tensor.stored.clone()))
            .map_err(Error::place(input.name()))?;
        if let Some((original, truth)) = &truth {
            let refuse = Error::place(original.name());
            let twin = truth.find(&tensor.name).map_err(&refuse)?;
            let place = &truth.tensors()[twin];
            let expected = truth
                .decode(engine, twin, part(original, place.stored.clone()))
                .map_err(&refuse)?;
            if (tensor.dtype, &tensor.shape) != (place.dtype, &place.shape) || bytes != expected {
                return Err(Error::Differs {
                    detail: format!(
                        "{} differs from {} in the tensor {}",
                        input.name(),
                        original.name(),
                        tensor.name
                    ),
                });
            }
        }
        progress.advance(tensor.len_bytes());
        input.release(index(tensor.stored.start)..index(tensor.stored.end));
    }
    Ok(VerifyReport {
        kind: Kind::ZTensor,
        packed_bytes: input.len_bytes(),
        original_bytes: catalog.original_len_bytes(),
        frames: catalog.tensors().len(),
        compared: original.is_some(),
    })
}

fn open_catalog_of(original: &Map) -> Result<(&Map, Catalog)> {
    Ok((original, open_catalog(original)?))
}

/// The original, if there is one to compare with.
struct Truth<'a> {
    name: &'a str,
    original: Option<&'a Map>,
    header: &'a [u8],
}

impl<'a> Truth<'a> {
    fn new(input: &'a Map, original: Option<&'a Map>, header: &'a [u8]) -> Self {
        Self {
            name: input.name(),
            original,
            header,
        }
    }

    fn data_start(&self) -> u64 {
        8 + self.header.len() as u64
    }

    fn check_header(&self, original_len_bytes: u64) -> Result<()> {
        let (Some(original), name) = (self.original, self.name) else {
            return Ok(());
        };
        let differs = |detail| Error::Differs { detail };
        if original.len_bytes() != original_len_bytes {
            return Err(differs(format!(
                "{name} restores {original_len_bytes} bytes, {} has {}",
                original.name(),
                original.len_bytes()
            )));
        }
        if part(original, 8..self.data_start()) != self.header
            || original[..8] != (self.header.len() as u64).to_le_bytes()
        {
            return Err(differs(format!(
                "the header in {name} differs from that of {}",
                original.name()
            )));
        }
        Ok(())
    }

    fn check(&self, span: &Range<u64>, bytes: &[u8]) -> Result<()> {
        let Some(original) = self.original else {
            return Ok(());
        };
        let start = self.data_start() + span.start;
        let end = self.data_start() + span.end;
        let truth = part(original, start..end);
        let found = truth.iter().zip(bytes).position(|(a, b)| a != b);
        original.release(index(start)..index(end));
        match found {
            None => Ok(()),
            Some(at) => Err(Error::Differs {
                detail: format!(
                    "{} differs from {} at byte {} of the original",
                    self.name,
                    original.name(),
                    start + at as u64
                ),
            }),
        }
    }
}
