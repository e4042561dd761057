//! Restores packed checkpoints byte for byte.

use std::ops::Range;

use zstn_core::catalog::{FileKind, kind_of_name};
use zstn_core::container::zstn::{MAGIC, has_virtual_header};
use zstn_core::limits::HEAD_LEN_BYTES;

use crate::container::Container;
use crate::delta::{BaseFile, Checked};
use crate::report::{UnpackReport, UnpackedFile};
use crate::shards::{BASES, PACKED, Shards, unpack_shards};
use crate::source::{Input, Local, Source};
use crate::{Error, Job, Output, Result, Sink, restored_stream};

/// Options for [`unpack`].
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct UnpackOptions {
    pub(crate) bases: Vec<Input>,
}

impl UnpackOptions {
    /// Restores a delta with the base that it was packed against, plain or packed. If
    /// the base is a delta itself, the next call adds the base's own base, and so on. If it was
    /// packed against several bases, the next call adds the next of them.
    pub fn base(mut self, base: impl Into<Input>) -> Self {
        self.bases.push(base.into());
        self
    }
}

/// Restores the output of [`pack`](crate::pack()) byte for byte: a single file, or a
/// folder if the input is a folder or an index of packed shards. The digests in the
/// packed file are compared before the output gets its name.
///
/// A pipe, a writer and an object store receive the file while it is restored
/// ([`Sink::writer`]).
///
/// # Errors
/// An input that is not packed or is damaged;
/// [`Error::NeedsBase`](crate::Error::NeedsBase) for a delta without its base; a base
/// that is not the one it was packed against; a sink that cannot take the result, or is
/// called `.safetensors` although the restored file is none; [`Error::Changed`](crate::Error::Changed) if the input was written to meanwhile; I/O
/// errors. After an error, nothing of the output is left.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # std::env::set_current_dir(&folder)?;
/// # let header = br#"{"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}"#;
/// # let len = (header.len() as u64).to_le_bytes();
/// # std::fs::write("model.safetensors", [&len[..], header, &[1, 2, 3]].concat())?;
/// # zstn::pack(&zstn::Job::new(), "model.safetensors", "model.zstn", &Default::default())?;
/// use zstn::{Job, UnpackOptions};
///
/// zstn::unpack(&Job::new(), "model.zstn", "restored.safetensors", &UnpackOptions::default())?;
/// assert_eq!(std::fs::read("restored.safetensors")?, std::fs::read("model.safetensors")?);
/// # Ok(())
/// # }
/// ```
pub fn unpack<'s>(
    job: &Job,
    input: impl Into<Input>,
    sink: impl Into<Sink<'s>>,
    options: &UnpackOptions,
) -> Result<UnpackReport> {
    let (input, sink) = (input.into(), sink.into());
    job.run(|job| {
        if let Some(shards) = Shards::open_input(&input, PACKED, &job.http)? {
            let bases = Shards::open_counterparts(&options.bases, BASES, &job.http)?;
            return unpack_shards(job, &shards, &bases, &sink.folder()?);
        }
        let output = sink.file(&job.http)?;
        let local = input.fetch_packed(&job.http, job)?;
        let base = BaseFile::of_delta(job, &local, &options.bases)?;
        Ok(UnpackReport {
            files: vec![unpack_file(job, &local, base.as_deref(), output)?],
            folder: None,
        })
    })
}

/// Restores the file that `input` was packed from, with the `base` of a delta. The output
/// gets its name only after everything that `verify` compares has been compared: header,
/// frames, tensors, statistics, block tables and the SHA-256 of the whole file. A stream
/// receives each tensor once that has been compared.
pub(crate) fn unpack_file(
    job: &Job,
    input: &Local,
    base: Option<&Local>,
    mut output: Output,
) -> Result<UnpackedFile> {
    let inputs = files([Some(input), base]);
    output.check_inputs(&inputs)?;
    let head = input.head(HEAD_LEN_BYTES)?;
    check_name(
        input,
        &output,
        head.starts_with(&MAGIC) && has_virtual_header(&head),
    )?;
    let restored = match base {
        _ if output.takes_early() => restored_stream::write(job, input, base, &mut output),
        Some(base) => Checked::parse(job, input, base).and_then(|delta| {
            check_name(input, &output, delta.table.has_virtual_header())?;
            delta.restore(job, &output)?;
            Ok(delta.table.original_len_bytes())
        }),
        None => restore(job, input, &output),
    };
    // If an input has changed, the change is reported: it may have caused any other
    // error.
    let original_bytes = match check_unchanged(&inputs).and(restored) {
        Ok(len_bytes) => len_bytes,
        Err(error) => return Err(output.give_up(error)),
    };
    Ok(UnpackedFile {
        input: input.name().into(),
        output: output.path(),
        packed_bytes: input.len_bytes(),
        original_bytes,
        upload: output.complete(job)?,
    })
}

/// Refuses an output that is called `.safetensors` if a file of another format is restored:
/// a default name of an address or in an index does not depend on the packed file's
/// content.
fn check_name(input: &Local, output: &Output, restores_other: bool) -> Result<()> {
    match output.path() {
        Some(path)
            if restores_other
                && kind_of_name(&path.to_string_lossy()) == Some(FileKind::Safetensors) =>
        {
            Err(Error::Usage(format!(
                "{} restores a file that is not safetensors: restore it by itself, under \
                 another name than {}",
                input.name(),
                path.display()
            )))
        }
        _ => Ok(()),
    }
}

/// Returns the files that are `Some`, as sources.
pub(crate) fn files<const N: usize>(files: [Option<&Local>; N]) -> Vec<&dyn Source> {
    let files = files.into_iter().flatten();
    files.map(|file| file as &dyn Source).collect()
}

/// Checks that no file was written to meanwhile.
pub(crate) fn check_unchanged(files: &[&dyn Source]) -> Result<()> {
    files.iter().try_for_each(|file| file.check_unchanged())
}

/// Writes the original file of a container, compares it with the stored digests and
/// returns its length.
pub(crate) fn restore(job: &Job, input: &Local, output: &Output) -> Result<u64> {
    let container = Container::parse(job, input)?;
    let len_bytes = container.original_len_bytes();
    let head = container.original_head()?;
    // Nothing in a remote file has justified its length yet.
    if !input.is_remote() {
        output.reserve(len_bytes)?;
    }
    output.write_at(&head, 0)?;
    let data_start = head.len() as u64;
    let write = |span: Range<u64>, bytes: &[u8]| output.write_at(bytes, data_start + span.start);
    container.decode(job, false, write)?;
    Ok(container.original_len_bytes())
}

/// Begins a file of `len_bytes` bytes with `head`, the bytes before its data; returns the
/// offset at which its data start.
pub(crate) fn begin(output: &Output, head: &[u8], len_bytes: u64) -> Result<u64> {
    output.reserve(len_bytes)?;
    output.write_at(head, 0)?;
    Ok(head.len() as u64)
}
