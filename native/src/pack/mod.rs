//! Packs safetensors files into ZSTN containers and deltas, in bounded memory.
//!
//! As many tensors as fit into the allowed memory are coded at the same time
//! (`pipeline`), as frames (`frames`) or as deltas from a base (`crate::delta`). A tensor
//! that is too large for this is coded plane by plane (`large`). The resulting bytes are
//! the same in both cases, and for any number of threads.

use std::ops::Deref;
use std::sync::Arc;

use zstn_core::Rule;
use zstn_core::catalog::{self, FileKind};
use zstn_core::container::safetensors;
use zstn_core::container::zstn;
use zstn_core::limits::HEAD_LEN_BYTES;

use crate::delta::{self, BaseFile};
use crate::report::{PackReport, PackedFile, PackedOriginal, Storage};
use crate::shards::{PLAIN, Shards, pack_shards};
use crate::source::{Arriving, Begun, Input, Local, Source};
use crate::unpack::{check_unchanged, files};
use crate::{Error, Job, Output, Progress as _, Result, Sink};

mod aliases;
mod arrivals;
mod frames;
mod hashing;
mod large_tensor;
mod options;
mod original;
pub(crate) mod pipeline;
mod tensor_data;

pub(crate) use aliases::Aliases;
pub(crate) use frames::{FrameCoder, content};
pub(crate) use options::LEAST_MEMORY_BYTES;
pub use options::PackOptions;
pub(crate) use original::pack as pack_original;
pub(crate) use tensor_data::Data;

/// Packs a safetensors checkpoint without losing a bit: a file into a ZSTN container,
/// or with [`PackOptions::base`] into the delta from that base. A file that breaks the
/// rules of safetensors is packed as a whole, without a base.
///
/// A file of another format is packed into a container that restores it
/// (docs/formats/zstn-virtual-header.md). If zstn reads the format, the tensors can be
/// read from the container; otherwise the file is packed as bytes. With a base, which may
/// have any format, it becomes a delta (docs/formats/zstn-delta.md 6).
///
/// A sharded checkpoint, given by its folder or index, becomes a folder of containers
/// or deltas with an index (docs/formats/sharded.md). If a folder is packed, its other
/// files and subfolders are copied; if an index is packed, the `config.json` in its
/// folder is.
///
/// The result depends on the input and the options alone, not on the job.
///
/// # Errors
/// A safetensors file that is cut off; a file that is called `.safetensors` and is none;
/// an input that is already packed; an index that does not match its files; a base that does not match; a sink that cannot take the
/// result; [`Error::Changed`] if the input was written to meanwhile;
/// [`Error::Cancelled`]; I/O errors. After an error, nothing of the output is left.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # std::env::set_current_dir(&folder)?;
/// # let header = br#"{"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}"#;
/// # let len = (header.len() as u64).to_le_bytes();
/// # std::fs::write("model.safetensors", [&len[..], header, &[1, 2, 3]].concat())?;
/// # std::fs::write("tuned.safetensors", [&len[..], header, &[1, 2, 4]].concat())?;
/// use zstn::{Effort, Job, PackOptions};
///
/// let job = Job::new();
/// let options = PackOptions::default().effort(Effort::Max);
/// let report = zstn::pack(&job, "model.safetensors", "model.zstn", &options)?;
/// println!("{} bytes of {}", report.packed_bytes(), report.original_bytes());
///
/// // A fine-tune as its difference from the model.
/// let options = PackOptions::default().base("model.zstn");
/// zstn::pack(&job, "tuned.safetensors", "tuned.z4dm", &options)?;
/// # Ok(())
/// # }
/// ```
pub fn pack<'s>(
    job: &Job,
    input: impl Into<Input>,
    sink: impl Into<Sink<'s>>,
    options: &PackOptions,
) -> Result<PackReport> {
    let (input, sink) = (input.into(), sink.into());
    let job = job.clone().or_default_memory();
    job.run(|job| {
        options.check(job)?;
        if let Some(shards) = Shards::open_input(&input, PLAIN, &job.http)? {
            options.check_several(&shards)?;
            return pack_shards(job, &shards, &sink.folder()?, options);
        }
        let output = sink.file(&job.http)?;
        let feed = match options.can_arrive() {
            true => input.feed(&job.http)?,
            false => None,
        };
        let fetching = |so_far, len| job.fetching(so_far, len);
        let begun = feed.map(|feed| Arriving::begin(feed, check_file, &fetching));
        let fetched: Arc<Local>;
        let begun = begun.transpose()?;
        let plain = match &begun {
            Some(Begun::Arriving(arriving)) => Plain {
                input: arriving.input(),
                arriving: Some(arriving),
            },
            Some(Begun::Whole(local)) => Plain::of(local),
            None => {
                fetched = input.fetch(&job.http, job)?;
                let first = fetched.head(HEAD_LEN_BYTES)?;
                check_file(fetched.name(), &first, Some(fetched.len_bytes()))?;
                Plain::of(&fetched)
            }
        };
        // A stream without bytes is more likely a mistake than a file without content.
        if plain.input.len_bytes() == 0 && input.is_read_once() {
            catalog::recognise(&[], 0).map_err(Error::place(plain.input.name()))?;
        }
        let is_other_format = plain.arriving.is_none() && is_of_another_format(plain.input)?;
        options.check_format(plain.input.name(), is_other_format)?;
        if is_other_format {
            let file = original::pack(job, plain.input, &options.bases, output, options)?;
            return Ok(PackReport {
                files: vec![file],
                folder: None,
            });
        }
        let base = match options.bases.is_empty() || breaks_rules(plain.input)? {
            true => None,
            false => {
                let is_extended = options.container.encode.is_extended();
                BaseFile::for_packing(job, plain.input, &options.bases, is_extended)?
            }
        };
        let file = pack_file(job, plain, base.as_ref(), output, options);
        Ok(PackReport {
            files: vec![file?],
            folder: None,
        })
    })
}

/// A file to pack that [`check_kind`] has accepted.
#[derive(Clone, Copy)]
pub(crate) struct Plain<'a> {
    pub(crate) input: &'a Local,
    /// Fetches the file, if it is still arriving.
    pub(crate) arriving: Option<&'a Arriving>,
}

impl<'a> Plain<'a> {
    /// Returns a file that is completely on this machine.
    pub(crate) fn of(input: &'a Local) -> Self {
        Self {
            input,
            arriving: None,
        }
    }
}

/// The length, the number of tensors and the storage of a file that has been packed.
pub(crate) struct Packed {
    pub(crate) len_bytes: u64,
    pub(crate) tensors: usize,
    pub(crate) storage: Storage,
}

/// Packs one file into a container or, if there is a `base`, into the delta from it.
/// This function does not use the bases in `options`.
///
/// # Errors
/// An output that is an input; a file that is cut off; [`Error::Changed`] if an input
/// was written to meanwhile; the errors of fetching the file; I/O errors. After an
/// error, nothing of the output is left.
pub(crate) fn pack_file(
    job: &Job,
    plain: Plain<'_>,
    base: Option<&BaseFile>,
    mut output: Output,
    options: &PackOptions,
) -> Result<PackedFile> {
    let input = plain.input;
    let inputs = files([Some(input), base.map(Deref::deref)]);
    check_other(input, base)?;
    output.check_inputs(&inputs)?;
    output.expect(max_packed_bytes(input));
    let packed = match base {
        Some(base) => delta::write(job, plain, base, &mut output, options),
        None => data_start(input).and_then(|start| {
            let data = Data::new(job, input, start).arriving(plain.arriving);
            FrameCoder::new(job, data, options.container).write_container(&mut output)
        }),
    };
    finish(
        job,
        input,
        output,
        check_unchanged(&inputs).and(packed),
        None,
    )
}

/// Refuses a file as its own base: without the file, nothing could restore the delta.
fn check_other(input: &Local, base: Option<&BaseFile>) -> Result<()> {
    let mut ids = base.map_or(&[][..], |base| base.file_ids()).iter();
    match ids.any(|id| input.file_ids().contains(id)) {
        true => Err(Error::Usage(format!(
            "{} is its own base; name another file, or pack without a base",
            input.name()
        ))),
        false => Ok(()),
    }
}

/// Completes the output of a file that has been `packed`. If an input has changed, that
/// is the error: the change may have caused any other one. `original` describes a file
/// that is not safetensors.
fn finish(
    job: &Job,
    input: &Local,
    output: Output,
    packed: Result<Packed>,
    original: Option<PackedOriginal>,
) -> Result<PackedFile> {
    let packed = match packed {
        Ok(packed) => packed,
        Err(error) => return Err(output.give_up(error)),
    };
    Ok(PackedFile {
        input: input.name().into(),
        output: output.path(),
        original_bytes: input.len_bytes(),
        packed_bytes: packed.len_bytes,
        tensors: packed.tensors,
        storage: packed.storage,
        original,
        upload: output.complete(job)?,
    })
}

/// Returns the offset of the data in a safetensors file.
fn data_start(input: &Local) -> Result<u64> {
    let start = input.head(HEAD_LEN_BYTES)?;
    let header_len = match safetensors::unreadable_header_len_bytes(&start, input.len_bytes()) {
        Some(len) => len,
        None => safetensors::header_len_bytes(&start, input.len_bytes())
            .map_err(Error::place(input.name()))?,
    };
    Ok(safetensors::PREFIX_BYTES + header_len)
}

/// Returns an upper bound for the length of the packed file: data that cannot be
/// compressed grow by the heads of the frames and by the index.
pub(crate) fn max_packed_bytes(input: &Local) -> u64 {
    let len_bytes = input.len_bytes();
    len_bytes.saturating_add(len_bytes / 8)
}

/// Refuses a file that is not safetensors, according to its first bytes and, if it is
/// known, its length. A file whose header no reader accepts, because of its length or a
/// byte order mark, is accepted: it can be packed as a whole.
pub(crate) fn check_kind(head: &Local, len_bytes: Option<u64>) -> Result<()> {
    let first = head.head(HEAD_LEN_BYTES)?;
    check_head(head.name(), &first, len_bytes)
}

/// Refuses a file that cannot be packed, according to its first bytes.
pub(crate) fn check_packable(file: &dyn Source) -> Result<()> {
    let len_bytes = file.len_bytes();
    let first = file.read(0..len_bytes.min(HEAD_LEN_BYTES))?;
    check_head(file.name(), &first, Some(len_bytes))
}

/// Returns whether a packable file breaks the rules of safetensors. Such a file is
/// packed as a whole, so a base has no effect. A file that is cut off does not count.
pub(crate) fn breaks_rules(file: &Local) -> Result<bool> {
    let len_bytes = file.len_bytes();
    let start = file.head(HEAD_LEN_BYTES)?;
    if safetensors::unreadable_header_len_bytes(&start, len_bytes).is_some() {
        return Ok(true);
    }
    let Ok(header_len) = safetensors::header_len_bytes(&start, len_bytes) else {
        return Ok(false);
    };
    let data_start = safetensors::PREFIX_BYTES + header_len;
    let header = file.read(safetensors::PREFIX_BYTES..data_start)?;
    let parsed = safetensors::Header::parse(&header, len_bytes - data_start);
    Ok(parsed.is_err_and(|error| error.rule() != Some(Rule::SafetensorsTruncated)))
}

/// Refuses a file that is already packed or is cut off, according to its first bytes.
fn check_file(name: &str, first: &[u8], len_bytes: Option<u64>) -> Result<()> {
    match is_foreign(name, first, len_bytes) {
        true => Ok(()),
        false => check_head(name, first, len_bytes),
    }
}

/// Returns whether a file that [`check_file`] has accepted is not a safetensors file.
fn is_of_another_format(file: &Local) -> Result<bool> {
    let first = file.head(HEAD_LEN_BYTES)?;
    Ok(is_foreign(file.name(), &first, Some(file.len_bytes())))
}

/// Returns whether a file with this name and these first bytes is neither packed nor
/// safetensors, not even a damaged one.
pub(crate) fn is_foreign(name: &str, first: &[u8], len_bytes: Option<u64>) -> bool {
    catalog::is_other_format(name, first, len_bytes.unwrap_or(u64::MAX))
}

fn check_head(name: &str, first: &[u8], len_bytes: Option<u64>) -> Result<()> {
    if first.starts_with(&zstn::MAGIC) {
        return Err(Error::Usage(format!("{name} is already packed")));
    }
    let len_bytes = len_bytes.unwrap_or(u64::MAX);
    if safetensors::unreadable_header_len_bytes(first, len_bytes).is_some() {
        return Ok(());
    }
    match catalog::recognise_named(name, first, len_bytes).map_err(Error::place(name))? {
        FileKind::Safetensors => Ok(()),
        FileKind::Delta => Err(Error::Usage(format!(
            "{name} is already packed, as a delta from another checkpoint"
        ))),
        kind => Err(Error::Usage(catalog::misnamed(name, kind))),
    }
}
