//! Saving tensors in memory to a file or to bytes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use zstn::internals::Output;
use zstn::zstn_core::container::safetensors::{self, HeaderTensor};
use zstn::zstn_core::dtype::Dtype;
use zstn::{Input, Job, PackOptions, Progress as _, Result, Sink, Source};

use crate::arguments::{self, Destination, buffered};
use crate::engine::{self, Threads};
use crate::error::{to_python, zstn_error};
use crate::interrupt::run;
use crate::object::Memory;
use crate::progress::{Lease, Watch};

/// Name of the input in error messages.
const NAME: &str = "tensors in memory";

/// Number of bytes written at a time. An exception waits until they have been written.
const PIECE_BYTES: usize = 8 << 20;

/// A tensor: name, dtype, shape and memory.
type Given<'py> = (String, String, Vec<u64>, Bound<'py, PyAny>);

/// A safetensors file that consists of a header and the memory of Python objects.
struct File {
    /// The parts and their offsets in the file. No part is empty.
    parts: Vec<(u64, Part)>,
    len_bytes: u64,
    /// The permission to read, if it can be revoked; reads then return copies.
    lease: Option<Lease>,
}

enum Part {
    Head(Vec<u8>),
    Tensor(Memory),
}

impl Part {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Head(head) => head,
            Self::Tensor(memory) => memory.as_slice(),
        }
    }
}

impl File {
    fn new(
        py: Python<'_>,
        tensors: Vec<Given<'_>>,
        metadata: Option<&BTreeMap<String, String>>,
    ) -> PyResult<Self> {
        let mut given = Vec::with_capacity(tensors.len());
        for (name, dtype, shape, memory) in tensors {
            let dtype = Dtype::from_name(&dtype).ok_or_else(|| {
                let detail = format!("tensor `{name}`: safetensors has no dtype {dtype}");
                zstn_error(py, detail, "unsupported")
            })?;
            given.push((name, dtype, shape, Memory::new(&memory)?));
        }
        // This is the order of safetensors' own writer, which keeps tensors aligned.
        given.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let mut end = 0;
        let entries: Vec<HeaderTensor> = given
            .iter()
            .map(|(name, dtype, shape, memory)| {
                let start = end;
                end += memory.as_slice().len() as u64;
                HeaderTensor {
                    name: name.clone(),
                    dtype: *dtype,
                    shape: shape.clone(),
                    span: start..end,
                }
            })
            .collect();
        let head = safetensors::head_of(metadata, &entries)
            .map_err(|error| to_python(py, error.into()))?;
        let head_len = head.len() as u64;
        let mut parts = vec![(0, Part::Head(head))];
        let tensors = entries.into_iter().zip(given);
        let tensors = tensors.filter(|(entry, _)| !entry.span.is_empty());
        parts.extend(
            tensors
                .map(|(entry, (.., memory))| (head_len + entry.span.start, Part::Tensor(memory))),
        );
        Ok(Self {
            parts,
            len_bytes: head_len + end,
            lease: None,
        })
    }

    fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.parts.iter().map(|(_, part)| part.as_slice())
    }
}

impl Source for File {
    fn name(&self) -> &str {
        NAME
    }

    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        let Some(lease) = &self.lease else {
            return Ok(self.borrow(range));
        };
        let _held = lease.hold()?;
        Ok(Cow::Owned(self.borrow(range).into_owned()))
    }
}

impl File {
    fn borrow(&self, range: Range<u64>) -> Cow<'_, [u8]> {
        let first = self
            .parts
            .partition_point(|(start, _)| *start <= range.start);
        let parts = &self.parts[first.saturating_sub(1)..];
        let cut = |start: u64, bytes: &'_ [u8]| -> Range<usize> {
            let len = bytes.len() as u64;
            let from = range.start.saturating_sub(start).min(len);
            let to = range.end.saturating_sub(start).min(len);
            zstn::zstn_core::bytes::index(from)..zstn::zstn_core::bytes::index(to)
        };
        let Some((start, part)) = parts.first() else {
            return Cow::Borrowed(&[]);
        };
        let bytes = part.as_slice();
        if range.end <= start + bytes.len() as u64 {
            return Cow::Borrowed(&bytes[cut(*start, bytes)]);
        }
        let mut all = Vec::new();
        for (start, part) in parts {
            if *start >= range.end {
                break;
            }
            let bytes = part.as_slice();
            all.extend_from_slice(&bytes[cut(*start, bytes)]);
        }
        Cow::Owned(all)
    }
}

/// Saves tensors as a safetensors file, or as a ZSTN file if an effort is given.
#[pyfunction]
pub fn save<'py>(
    py: Python<'py>,
    tensors: Vec<Given<'py>>,
    metadata: Option<BTreeMap<String, String>>,
    effort: Option<&str>,
    threads: Threads,
) -> PyResult<Bound<'py, PyBytes>> {
    let mut file = File::new(py, tensors, metadata.as_ref())?;
    let Some(effort) = effort.map(arguments::effort).transpose()? else {
        let len = zstn::zstn_core::bytes::index(file.len_bytes);
        return PyBytes::new_with(py, len, |mut out| {
            for slice in file.slices() {
                let (to, rest) = out.split_at_mut(slice.len());
                to.copy_from_slice(slice);
                out = rest;
            }
            Ok(())
        });
    };
    let watch = Watch::none();
    file.lease = Some(watch.lease());
    let packed = run(py, &watch, move |watch| {
        let options = PackOptions::default().effort(effort);
        let mut packed = Vec::new();
        let sink = Sink::writer(&mut packed);
        zstn::pack(&job(threads, watch)?, Input::source(file), sink, &options)?;
        Ok(packed)
    })?;
    Ok(PyBytes::new(py, &packed))
}

/// Returns the job of a call that packs.
fn job(threads: Threads, watch: &Watch) -> Result<Job<'_>> {
    let job = Job::new().engine(&engine::with_threads(threads)?);
    Ok(job.progress(watch).cancel_token(watch.token()))
}

/// Saves tensors to a safetensors file, or to a ZSTN file if an effort is given. With
/// bases, nearest first, the packed file is a delta.
#[pyfunction]
#[pyo3(signature = (tensors, filename, metadata, effort, threads, bases=Vec::new()))]
pub fn save_file(
    py: Python<'_>,
    tensors: Vec<Given<'_>>,
    filename: &Bound<'_, PyAny>,
    metadata: Option<BTreeMap<String, String>>,
    effort: Option<&str>,
    threads: Threads,
    bases: Vec<PathBuf>,
) -> PyResult<()> {
    let mut file = File::new(py, tensors, metadata.as_ref())?;
    let effort = effort.map(arguments::effort).transpose()?;
    let destination = Destination::new(filename)?;
    let mut watch = Watch::none().making_output();
    match destination.is_file() && effort.is_none() {
        true => watch = watch.borrowing(true),
        // Work that may wait forever or compresses must not delay an exception.
        false => file.lease = Some(watch.lease()),
    }
    run(py, &watch, move |watch| {
        if let Some(effort) = effort {
            let options = PackOptions::default().effort(effort);
            let options = bases.into_iter().fold(options, PackOptions::base);
            let sink = destination.sink(true, watch);
            let job = job(threads, watch)?;
            return zstn::pack(&job, Input::source(file), sink, &options).map(drop);
        }
        let mut output = match destination {
            Destination::Path(path) => Output::create(&path)?,
            Destination::Url(url) => Output::to_url(&url, true, &Default::default())?,
            Destination::Object(object) => Output::to_writer(buffered(object, watch))?,
        };
        for start in (0..file.len_bytes).step_by(PIECE_BYTES) {
            watch.check()?;
            let end = file.len_bytes.min(start + PIECE_BYTES as u64);
            output.write(&file.read(start..end)?)?;
        }
        output.complete(watch).map(drop)
    })
}
