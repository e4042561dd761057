//! A base computed from other checkpoints when it is read (docs/formats/zstn-delta.md 9).

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use zstn_core::bytes::{buffer, index, part};
use zstn_core::container::model_delta::{BaseHeader, MixedBase, MixedTensor};
use zstn_core::container::safetensors::{PREFIX_BYTES, header_len_bytes};

use super::version::FileId;
use super::{Source, check_inside};
use crate::{Error, Result};

/// The file of the base, and the checkpoints that it is computed from.
pub(crate) struct Mixed {
    name: String,
    base: MixedBase,
    sources: Vec<Arc<dyn Source>>,
    file_ids: Vec<FileId>,
}

impl fmt::Debug for Mixed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Mixed").field(&self.name).finish()
    }
}

/// The number of bytes that are computed at a time.
const PIECE_BYTES: u64 = 4 << 20;

/// The length of the longest element. Pieces begin and end at multiples of it, or at the
/// ends of a tensor.
const ELEMENT_BYTES: u64 = 8;

impl Mixed {
    /// Computes `base` from `sources`, safetensors files in the order of its weights.
    pub(crate) fn new(base: MixedBase, sources: Vec<Arc<dyn Source>>) -> Self {
        let names: Vec<&str> = sources.iter().map(|source| source.name()).collect();
        let ids = sources.iter().flat_map(|source| source.file_ids());
        Self {
            name: names.join(" and "),
            file_ids: ids.cloned().collect(),
            base,
            sources,
        }
    }

    /// Computes the bytes of `tensor` from the offset `start`, which is a multiple of the
    /// length of an element.
    fn compute(&self, tensor: &MixedTensor, start: u64, out: &mut [u8]) -> Result<()> {
        if let ([place], true) = (&tensor.places[..], tensor.mix.is_copy())
            && place.float == tensor.float
        {
            return self.sources[place.source].read_into(place.range.start + start, out);
        }
        let (_, places) = tensor.elements(start..start + out.len() as u64);
        let parts = places.into_iter().map(|(source, range)| {
            let mut part = buffer(range.end - range.start)?;
            self.sources[source].read_into(range.start, &mut part)?;
            Ok(part)
        });
        let parts: Vec<Vec<u8>> = parts.collect::<Result<_>>()?;
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let computed = tensor.compute(&parts, out);
        computed.map_err(Error::place(&self.name))
    }

    /// Fills `out` with the bytes of `tensor` from the offset `start`.
    fn read_tensor(&self, tensor: &MixedTensor, start: u64, out: &mut [u8]) -> Result<()> {
        let len_bytes = tensor.range.end - tensor.range.start;
        let end = start + out.len() as u64;
        let mut at = start;
        while at < end {
            let first = at - at % ELEMENT_BYTES;
            let last = len_bytes.min(first + PIECE_BYTES);
            let to = end.min(last);
            let dest = &mut out[index(at - start)..index(to - start)];
            if (first, last) == (at, to) {
                self.compute(tensor, first, dest)?;
            } else {
                let last = len_bytes.min(to.next_multiple_of(ELEMENT_BYTES));
                let mut piece = buffer(last - first)?;
                self.compute(tensor, first, &mut piece)?;
                dest.copy_from_slice(part(&piece, at - first..to - first));
            }
            at = to;
        }
        Ok(())
    }
}

impl Source for Mixed {
    fn name(&self) -> &str {
        &self.name
    }

    fn len_bytes(&self) -> u64 {
        self.base.len_bytes()
    }

    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        check_inside(self, &range)?;
        let mut bytes = buffer(range.end - range.start)?;
        self.read_into(range.start, &mut bytes)?;
        Ok(Cow::Owned(bytes))
    }

    fn read_into(&self, start: u64, mut out: &mut [u8]) -> Result<()> {
        check_inside(self, &(start..start.saturating_add(out.len() as u64)))?;
        let mut at = start;
        let head = self.base.head.get(index(at)..).unwrap_or_default();
        let (of_head, rest) = out.split_at_mut(out.len().min(head.len()));
        of_head.copy_from_slice(&head[..of_head.len()]);
        at += of_head.len() as u64;
        out = rest;
        let tensors = &self.base.tensors;
        let first = tensors.partition_point(|tensor| tensor.range.end <= at);
        for tensor in &tensors[first..] {
            if out.is_empty() {
                break;
            }
            let len = (tensor.range.end - at).min(out.len() as u64);
            let (of_tensor, rest) = out.split_at_mut(index(len));
            self.read_tensor(tensor, at - tensor.range.start, of_tensor)?;
            at += len;
            out = rest;
        }
        Ok(())
    }

    fn is_remote(&self) -> bool {
        self.sources.iter().any(|source| source.is_remote())
    }

    fn file_ids(&self) -> &[FileId] {
        &self.file_ids
    }

    fn check_unchanged(&self) -> Result<()> {
        let mut sources = self.sources.iter();
        sources.try_for_each(|source| source.check_unchanged())
    }
}

/// Reads the header of a safetensors file that is a base or one of its sources.
///
/// # Errors
/// A file that is not safetensors; I/O errors.
pub(crate) fn source_header(source: &dyn Source) -> Result<BaseHeader> {
    let len_bytes = source.len_bytes();
    let start = source.read(0..len_bytes.min(PREFIX_BYTES))?;
    let head = match header_len_bytes(&start, len_bytes) {
        Ok(header_len) => source.read(0..PREFIX_BYTES + header_len)?,
        // The header is refused below.
        Err(_) => start,
    };
    BaseHeader::parse(&head, len_bytes).map_err(Error::place(source.name()))
}
