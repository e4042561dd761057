//! The catalog of a zTensor file. Its manifest is at the end; where exactly
//! is said by the last bytes.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use super::known::Known;
use super::{Catalog, Contents, Tensor};
use crate::container::ztensor::{self, Element, FOOTER_BYTES, Footer, Layout, Manifest};
use crate::limits::HEAD_LEN_BYTES;
use crate::{Error, Result};

/// What is missing, first of the end of the file and then of the manifest.
/// As much is asked for at the end as at the start: it holds the manifest of
/// a few hundred tensors.
pub(super) fn needs(known: &Known) -> Result<Option<Range<u64>>> {
    let (len_bytes, head_end) = (known.len_bytes(), known.head().len() as u64);
    let Some(footer) = footer(known) else {
        let guess = len_bytes.saturating_sub(HEAD_LEN_BYTES);
        return Ok(Some(guess.max(head_end)..len_bytes));
    };
    let manifest = footer?.manifest;
    if known.part(manifest.clone()).is_some() {
        return Ok(None);
    }
    Ok(Some(
        manifest.start.max(head_end)..manifest.end.min(known.tail_start()),
    ))
}

/// Adds what [`needs`] has asked for.
pub(super) fn supply(known: &mut Known, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
    let is_wanted = needs(known)?.is_some_and(|range| {
        range.start == offset_bytes && range.end - range.start == bytes.len() as u64
    });
    let end = offset_bytes.saturating_add(bytes.len() as u64);
    if is_wanted && offset_bytes != known.head().len() as u64 && end != known.tail_start() {
        // The manifest of version 2 may lie anywhere.
        known.supply_window(offset_bytes, bytes);
        return Ok(());
    }
    known.supply(offset_bytes, bytes)
}

/// `None` as long as the end of the file is not known.
fn footer(known: &Known) -> Option<Result<Footer>> {
    let len_bytes = known.len_bytes();
    let tail = known.part(len_bytes.saturating_sub(FOOTER_BYTES)..len_bytes)?;
    Some(Footer::parse(known.head(), &tail, len_bytes))
}

/// The catalog, once nothing is missing.
pub(super) fn finish(known: &Known) -> Result<Catalog> {
    let missing = || Error::invalid_input("bytes of the file are still missing");
    let footer = footer(known).ok_or_else(missing)??;
    let manifest = known.part(footer.manifest.clone()).ok_or_else(missing)?;
    Catalog::ztensor(Manifest::parse(&manifest, &footer)?, known.len_bytes())
}

impl Catalog {
    fn ztensor(manifest: Manifest, file_len_bytes: u64) -> Result<Self> {
        let mut owners: BTreeMap<(u64, u64), usize> = BTreeMap::new();
        let mut end = 0u64;
        let mut tensors = Vec::new();
        for (number, tensor) in manifest.tensors.iter().enumerate() {
            let start = end;
            end = start.checked_add(tensor.len_bytes()).ok_or_else(|| {
                Error::limit("the tensors have more bytes than 64 bits can count")
                    .tensor(&tensor.name)
            })?;
            let stored = tensor.stored();
            let owner = (!stored.is_empty())
                .then(|| *owners.entry((stored.start, stored.end)).or_insert(number))
                .filter(|&owner| owner != number && are_tied(tensor, &manifest.tensors[owner]));
            let mut shape = tensor.shape.clone();
            if tensor.element() == Element::Complex128 {
                // There is no such dtype: real and imaginary parts by turns.
                shape.push(2);
            }
            tensors.push(Tensor {
                name: tensor.name.clone(),
                dtype: tensor.element().dtype(),
                shape,
                span: start..end,
                stored,
                base: None,
                shared_with: owner,
            });
        }
        let mut texts = BTreeMap::new();
        for field in &manifest.attributes {
            if let Some(text) = field.text() {
                texts.insert(field.name().into(), text.into());
            }
        }
        Self::new(
            Contents::ZTensor(manifest.tensors),
            file_len_bytes,
            end,
            None,
            texts,
            tensors,
        )
    }

    /// Layout, parts and fields of tensor `number` of a zTensor file, for
    /// those who want its stored parts; `None` for other files.
    #[must_use]
    pub fn ztensor_tensor(&self, number: usize) -> Option<&ztensor::Tensor> {
        match &self.contents {
            Contents::ZTensor(tensors) => tensors.get(number),
            _ => None,
        }
    }
}

fn are_tied(a: &ztensor::Tensor, b: &ztensor::Tensor) -> bool {
    a.layout == Layout::Dense && b.layout == Layout::Dense && a.parts == b.parts
}
