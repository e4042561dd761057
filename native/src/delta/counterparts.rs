//! Finds the bytes of a base, a file of any format, that the entries of a file that is not
//! safetensors are compared with (docs/formats/zstn-delta.md 6).

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use zstn_core::catalog::{FileCatalog, FileKind, FileTensor};
use zstn_core::container::model_delta::BaseHeader;
use zstn_core::container::safetensors::HeaderTensor;
use zstn_core::dtype::Dtype;
use zstn_core::engine::Engine as _;
use zstn_core::sketch::{MIN_COUNTERPART_BYTES, SketchedTensor, runs, similar};

use crate::catalog::{open_catalog, open_restored};
use crate::source::{Local, Source as _};
use crate::{Error, Job, Result};

/// Returns the file that a delta of `target` refers to, which is `base` or its data, and the
/// bytes of that file that the entries `tensors` are compared with.
///
/// # Errors
/// A base that is refused, or is not a model file; I/O errors.
pub(super) fn base_of_original(
    job: &Job,
    (target, tensors): (&Local, &[HeaderTensor]),
    base: &Arc<Local>,
) -> Result<(Arc<Local>, BaseHeader)> {
    let opened = match base.stated_format() {
        Some(format) => open_restored(&job.engine, &**base, format)?,
        None => open_catalog(&job.engine, &**base)?,
    };
    let opened = match opened.kind() {
        FileKind::Safetensors => opened,
        _ => opened
            .entries_to_pack()
            .map_err(Error::place(base.name()))?,
    };
    let same = |tensor: &HeaderTensor| {
        let number = opened.find(&tensor.name).ok()?;
        let found = opened.tensors().get(number)?;
        (key_of(found) == key(tensor)).then(|| found.stored.clone())
    };
    let mut found: Vec<(&HeaderTensor, Range<u64>)> = Vec::with_capacity(tensors.len());
    let mut nameless = Vec::new();
    for tensor in tensors {
        match same(tensor) {
            Some(range) => found.push((tensor, range)),
            None => nameless.push(tensor),
        }
    }
    found.extend(by_samples(job, (target, nameless), (base, &opened))?);
    let file = base.joined_data().map_or_else(|| base.clone(), Arc::new);
    let skipped = base.len_bytes() - file.len_bytes();
    let found = found.into_iter();
    let found = found.map(|(tensor, range)| (tensor, range.start - skipped..range.end - skipped));
    let header = BaseHeader::of_counterparts(found, file.len_bytes());
    Ok((file, header))
}

fn key(tensor: &HeaderTensor) -> (Dtype, u64) {
    (tensor.dtype, tensor.span.end - tensor.span.start)
}

fn key_of(tensor: &FileTensor) -> (Dtype, u64) {
    (tensor.dtype, tensor.len_bytes())
}

/// Finds tensors of the base for the tensors `nameless` of the target, by samples of both.
fn by_samples<'t>(
    job: &Job,
    (target, mut nameless): (&Local, Vec<&'t HeaderTensor>),
    (base, opened): (&Local, &FileCatalog),
) -> Result<Vec<(&'t HeaderTensor, Range<u64>)>> {
    let in_base: BTreeSet<_> = opened.tensors().iter().map(key_of).collect();
    nameless.retain(|tensor| {
        let (_, len_bytes) = key(tensor);
        len_bytes >= MIN_COUNTERPART_BYTES && in_base.contains(&key(tensor))
    });
    let wanted: BTreeSet<_> = nameless.iter().map(|tensor| key(tensor)).collect();
    let candidates = opened.tensors().iter();
    let mut candidates: Vec<&FileTensor> = candidates
        .filter(|tensor| wanted.contains(&key_of(tensor)))
        .collect();
    // Tensors at similar places in both lists are compared.
    nameless.sort_by(|a, b| a.name.cmp(&b.name));
    candidates.sort_by(|a, b| a.name.cmp(&b.name));
    let of_target = job.engine.map(nameless.clone(), |tensor| {
        let HeaderTensor {
            dtype, shape, span, ..
        } = tensor;
        sampled(target, (&tensor.name, *dtype, shape), span)
    });
    let of_base = job.engine.map(candidates.clone(), |tensor| {
        let layout = (&*tensor.name, tensor.dtype, &*tensor.shape);
        sampled(base, layout, &tensor.stored)
    });
    let of_target = of_target.into_iter().collect::<Result<Vec<_>>>()?;
    let of_base = of_base.into_iter().collect::<Result<Vec<_>>>()?;
    let found = similar(
        &of_target.iter().collect::<Vec<_>>(),
        &of_base.iter().collect::<Vec<_>>(),
    );
    let found = nameless.into_iter().zip(found);
    let found = found.filter_map(|(tensor, number)| {
        let stored = candidates.get(number?)?.stored.clone();
        Some((tensor, stored))
    });
    Ok(found.collect())
}

/// Returns the samples of a tensor, whose bytes are at `range` of the file.
fn sampled(
    file: &Local,
    (name, dtype, shape): (&str, Dtype, &[u64]),
    range: &Range<u64>,
) -> Result<SketchedTensor> {
    let mut samples = Vec::new();
    for run in runs(dtype, range.end - range.start) {
        samples.extend_from_slice(&file.read(range.start + run.start..range.start + run.end)?);
    }
    SketchedTensor::new(name.into(), dtype, shape.to_vec(), None, samples)
        .map_err(Error::place(file.name()))
}
