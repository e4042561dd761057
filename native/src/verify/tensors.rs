//! Verifies a model of any supported format tensor by tensor.

use zstn_core::catalog::FileCatalog;
use zstn_core::container::foreign::gauss;
use zstn_core::container::zstn::integrity::Integrity;

use crate::finished_tensor;
use crate::report::VerifiedFile;
use crate::source::Source;
use crate::{Error, Job, Progress as _, Reader, Result, Tensor};

/// The number of bytes that are read at once to compare them with a checksum.
const PIECE_BYTES: u64 = 4 << 20;

/// Reads every tensor of `input`; with `original`, a model of any format with the same
/// tensors, also compares every byte. Tensors with a checksum are always compared with
/// it, and so are the weights of a Keras model. A weight that cannot be read is an error here.
///
/// The errors of tensors that a Gauss file stores lossily must be within the bound that
/// the file states: half a quantisation step, plus rounding to the dtype
/// (docs/formats/gauss.md 5).
pub(super) fn verify_tensors(
    job: &Job,
    input: &Reader,
    original: Option<&Reader>,
) -> Result<VerifiedFile> {
    let model = input.model();
    if let Some((name, refusal)) = model.refused().next() {
        return Err(Error::place(input.name())(refusal.clone().tensor(name)));
    }
    if let Some(original) = original
        && original.tensors().len() != input.tensors().len()
    {
        return Err(Error::Differs {
            detail: format!(
                "{} has {} tensors, {} has {}",
                input.name(),
                input.tensors().len(),
                original.name(),
                original.tensors().len()
            ),
        });
    }
    for shard in input.data_shards() {
        shard.verify(|| job.ensure_running())?;
    }
    for (file, source) in model.files().iter().zip(input.sources()) {
        compare_weights(job, file, &**source)?;
    }
    job.begin(model.tensors().iter().map(|t| t.len_bytes()).sum());
    let mut max_error: Option<f64> = None;
    for tensor in model.tensors() {
        job.ensure_running()?;
        let read = input.read(&tensor.name)?;
        if let Some(original) = original {
            let part = &tensor.parts[0];
            let lossy = model.files()[part.file].gauss_tensor(part.number);
            let lossy = lossy.filter(|lossy| !lossy.shards().is_empty());
            let error = compare(input, &read, original, lossy)?;
            max_error = error.map_or(max_error, |e| Some(max_error.map_or(e, |m| m.max(e))));
        }
        job.advance(tensor.len_bytes());
        if job.wants_tensors() {
            job.tensor(&finished_tensor::read(input, tensor));
        }
    }
    Ok(VerifiedFile {
        name: input.name().into(),
        kind: model.kind(),
        packed_bytes: model.len_bytes(),
        original_bytes: model.original_len_bytes(),
        frames: model.tensors().len(),
        has_digests: model.files().iter().all(|file| {
            let integrity = file.integrity();
            integrity.is_some_and(Integrity::is_complete)
        }),
        has_file_digest: false,
        max_error,
        is_confirmed: false,
    })
}

/// Compares the weights of a Keras model with their checksum in its archive. Files of other
/// formats have none.
fn compare_weights(job: &Job, file: &FileCatalog, source: &dyn Source) -> Result<()> {
    let Some(mut checksum) = file.weights_checksum() else {
        return Ok(());
    };
    let range = checksum.range();
    let mut start = range.start;
    while start < range.end {
        job.ensure_running()?;
        let end = range.end.min(start + PIECE_BYTES);
        checksum.update(&source.read(start..end)?);
        start = end;
    }
    checksum.finish().map_err(Error::place(source.name()))
}

/// Compares a tensor with the original, and returns the largest error if the tensor is
/// stored lossily.
fn compare(
    input: &Reader,
    read: &Tensor,
    original: &Reader,
    lossy: Option<&gauss::IndexedTensor>,
) -> Result<Option<f64>> {
    let expected = original.read(&read.name)?;
    let differs = |how: String| Error::Differs {
        detail: format!(
            "{} differs from {} in the tensor {}{how}",
            input.name(),
            original.name(),
            read.name
        ),
    };
    if (read.dtype, &read.shape) != (expected.dtype, &expected.shape) {
        return Err(differs(format!(
            ": {} {:?} instead of {} {:?}",
            read.dtype, read.shape, expected.dtype, expected.shape
        )));
    }
    let Some(lossy) = lossy else {
        return match read.bytes == expected.bytes {
            true => Ok(None),
            false => Err(differs(String::new())),
        };
    };
    let errors = gauss::errors(lossy, &expected.bytes, &read.bytes).map_err(Error::Core)?;
    match errors.beyond {
        None => Ok(Some(errors.max)),
        Some(element) => Err(differs(format!(
            ": element {element} is further away than the file promises"
        ))),
    }
}
