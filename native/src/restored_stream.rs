//! Restores a packed file in order, without storing it: for pipes, writers and uploads, and
//! for the SHA-256 of the restored file.

use std::sync::Arc;
use std::thread;

use zstn_core::container::model_delta::RestoredCheck;
use zstn_core::container::zstn::integrity::{FileCheck, OriginalHash};

use crate::buffers::Buffer;
use crate::container::Container;
use crate::delta::{BaseFile, Checked};
use crate::digest_thread::{DigestThread, Digests};
use crate::source::{Input, Local, Source};
use crate::unpack::{check_unchanged, files};
use crate::{Error, Job, Output, Result, UnpackOptions};

/// Returns the SHA-256 of the file that `input` restores, computed from the decoded bytes.
/// Everything that [`unpack`](crate::unpack()) compares is compared, and nothing is
/// written, except for a base that has to be restored, and for a delta whose tensors
/// share bytes.
///
/// # Errors
/// The errors of [`unpack`](crate::unpack()) for a single file.
pub fn restored_sha256(
    job: &Job,
    input: impl Into<Input>,
    options: &UnpackOptions,
) -> Result<[u8; 32]> {
    let input = input.into();
    job.run(|job| {
        let local = input.fetch_packed(&job.http, job)?;
        let base = BaseFile::of_delta(job, &local, &options.bases)?;
        let inputs = files([Some(&*local), base.as_deref()]);
        let packed = Packed::parse(job, &local, base.as_deref());
        let digest = packed.and_then(|packed| packed.sha256(job));
        // If an input has changed, the change is reported: it may have caused any other
        // error.
        check_unchanged(&inputs).and(digest)
    })
}

/// Restores `input`, with the `base` of a delta, to an output that cannot be revised.
/// Returns the length of the restored file.
///
/// Every tensor is compared with its digest before the output receives its bytes. The
/// last byte follows once the digest of the whole file has been compared, too, so the
/// receiver never gets a complete file that is wrong.
pub(crate) fn write(
    job: &Job,
    input: &Local,
    base: Option<&Local>,
    output: &mut Output,
) -> Result<u64> {
    let packed = Packed::parse(job, input, base)?;
    let len_bytes = packed.original_len_bytes();
    output.expect(len_bytes);
    if let Packed::Delta { delta, .. } = &packed
        && !delta.is_tiled()
    {
        delta.restore(job, output)?;
        return Ok(len_bytes);
    }
    let inputs = files([Some(input), base]);
    let sink = &mut |bytes: &[u8]| output.write_final(bytes);
    packed.stream(job, packed.digests(), sink, &|| check_unchanged(&inputs))?;
    Ok(len_bytes)
}

/// A packed file whose frames or records have been checked as far as possible without
/// decoding.
enum Packed<'a> {
    Container(Container<'a>),
    Delta { delta: Checked<'a>, name: &'a str },
}

impl<'a> Packed<'a> {
    fn parse(job: &Job, input: &'a Local, base: Option<&'a Local>) -> Result<Self> {
        Ok(match base {
            None => Self::Container(Container::parse(job, input)?),
            Some(base) => Self::Delta {
                delta: Checked::parse(job, input, base)?,
                name: input.name(),
            },
        })
    }

    fn original_len_bytes(&self) -> u64 {
        match self {
            Self::Container(container) => container.original_len_bytes(),
            Self::Delta { delta, .. } => delta.table.original_len_bytes(),
        }
    }

    /// Returns the digests of the whole file that are compared with the packed file.
    fn digests(&self) -> FileDigests<'_> {
        match self {
            Self::Container(container) => FileDigests {
                container: container.file_check(),
                ..FileDigests::default()
            },
            Self::Delta { delta, .. } => FileDigests {
                delta: delta.table.restored_check(),
                ..FileDigests::default()
            },
        }
    }

    /// Returns the SHA-256 of the restored file.
    fn sha256(&self, job: &Job) -> Result<[u8; 32]> {
        if let Self::Delta { delta, .. } = self
            && !delta.is_tiled()
        {
            let output = Output::temporary()?;
            delta.restore(job, &output)?;
            let restored = output.written()?;
            let mut sha256 = OriginalHash::default();
            job.feed(&restored, 0..restored.len_bytes(), &mut |piece| {
                sha256.update(piece);
                Ok(())
            })?;
            return Ok(sha256.finish());
        }
        let mut digests = self.digests();
        if digests.container.is_none() {
            digests.sha256 = Some(OriginalHash::default());
        }
        let digest = self.stream(job, digests, &mut |_| Ok(()), &|| Ok(()))?;
        Ok(digest.unwrap_or_default())
    }

    /// Decodes the file and passes it to `sink` in order, on this thread. `digests` are
    /// computed on another thread and compared. The last byte is passed on after that,
    /// and after `check_last`. Returns the SHA-256 if it is one of the digests.
    fn stream(
        &self,
        job: &Job,
        digests: FileDigests<'_>,
        sink: &mut dyn FnMut(&[u8]) -> Result<()>,
        check_last: &dyn Fn() -> Result<()>,
    ) -> Result<Option<[u8; 32]>> {
        let len_bytes = self.original_len_bytes();
        thread::scope(|scope| {
            let mut digests = DigestThread::begin(scope, job, len_bytes, digests);
            let (mut so_far_bytes, mut last) = (0, None);
            let mut pass = |piece: Buffer<'a>| {
                let piece = Arc::new(piece);
                so_far_bytes += piece.len() as u64;
                digests.add(job, &piece)?;
                let mut bytes = &piece[..];
                if so_far_bytes == len_bytes
                    && let Some((byte, before)) = bytes.split_last()
                {
                    (last, bytes) = (Some(*byte), before);
                }
                sink(bytes)?;
                digests.settle();
                Ok(())
            };
            pass(self.head()?.into())?;
            match self {
                Self::Container(container) => container.decode_sorted(job, pass)?,
                Self::Delta { delta, .. } => delta.decode_sorted(job, pass)?,
            }
            let compared = digests.finish()?.finish();
            let sha256 = compared.map_err(Error::place(self.name()))?;
            check_last()?;
            sink(last.as_slice())?;
            Ok(sha256)
        })
    }

    /// Returns the bytes of the original before its data.
    fn head(&self) -> Result<Vec<u8>> {
        match self {
            Self::Container(container) => container.original_head(),
            Self::Delta { delta, .. } => Ok(delta.table.original_head()),
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Container(container) => container.name(),
            Self::Delta { name, .. } => name,
        }
    }
}

/// Digests of the restored file.
#[derive(Default)]
struct FileDigests<'a> {
    container: Option<FileCheck<'a>>,
    delta: Option<RestoredCheck>,
    /// A SHA-256 with which nothing is compared.
    sha256: Option<OriginalHash>,
}

impl Digests for FileDigests<'_> {
    fn update(&mut self, bytes: &[u8]) {
        self.container = self.container.take().map(|check| check.with(bytes));
        self.delta = self.delta.take().map(|check| check.with(bytes));
        if let Some(sha256) = &mut self.sha256 {
            sha256.update(bytes);
        }
    }
}

impl FileDigests<'_> {
    /// Compares the digests, and returns the SHA-256 if it is one of them.
    fn finish(self) -> zstn_core::Result<Option<[u8; 32]>> {
        self.delta.map_or(Ok(()), RestoredCheck::finish)?;
        let compared = self.container.map(FileCheck::digest).transpose()?;
        Ok(compared.or(self.sha256.map(OriginalHash::finish)))
    }
}
