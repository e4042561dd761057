//! Restores packed checkpoints.

use crate::delta::{BaseFile, unpack_delta};
use crate::report::UnpackReport;
use crate::shards::{BASES, Context, PACKED, Shards, unpack_shards};
use crate::source::{HttpOptions, Input};
use crate::unpack::unpack_file;
use crate::{Engine, Progress, Result, Sink};

/// Options for [`unpack`](crate::unpack()).
#[derive(Clone)]
#[must_use]
pub struct UnpackOptions<'a> {
    bases: Vec<Input>,
    http: HttpOptions,
    memory_bytes: u64,
    progress: &'a dyn Progress,
}

impl Default for UnpackOptions<'_> {
    fn default() -> Self {
        Self {
            bases: Vec::new(),
            http: HttpOptions::default(),
            memory_bytes: u64::MAX,
            progress: &(),
        }
    }
}

impl<'a> UnpackOptions<'a> {
    /// Restores a delta with the base that it was packed against, plain or packed. If
    /// the base is a delta itself, the next call adds the base's own base, and so on.
    pub fn base(mut self, base: impl Into<Input>) -> Self {
        self.bases.push(base.into());
        self
    }

    /// Sets the approximate limit for memory in bytes; a single tensor may exceed it.
    /// The default is no limit: every thread decodes a tensor.
    pub fn memory_bytes(mut self, memory_bytes: u64) -> Self {
        self.memory_bytes = memory_bytes;
        self
    }

    /// Sets time limits, retries and headers for requests to addresses: of the input,
    /// of its bases and of their other files.
    pub fn http(mut self, http: HttpOptions) -> Self {
        self.http = http;
        self
    }

    /// Sets the progress that watches the work.
    pub fn progress<'b>(self, progress: &'b dyn Progress) -> UnpackOptions<'b>
    where
        'a: 'b,
    {
        UnpackOptions { progress, ..self }
    }
}

/// Restores the output of [`pack`](crate::pack()) byte for byte: a single file, or a
/// folder if the input is a folder or an index of packed shards. The digests in the
/// packed file are compared before the output gets its name.
///
/// # Errors
/// An input that is not packed or is damaged;
/// [`Error::NeedsBase`](crate::Error::NeedsBase) for a delta without its base; a base
/// that is not the one it was packed against; a sink that cannot take the result;
/// [`Error::Changed`](crate::Error::Changed) if the input was written to meanwhile; I/O
/// errors. After an error, nothing of the output is left.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # std::env::set_current_dir(&folder)?;
/// # let header = br#"{"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}"#;
/// # let len = (header.len() as u64).to_le_bytes();
/// # std::fs::write("model.safetensors", [&len[..], header, &[1, 2, 3]].concat())?;
/// # let engine = zstn::Engine::default();
/// # zstn::pack(&engine, "model.safetensors", "model.zstn", &Default::default())?;
/// use zstn::{Engine, UnpackOptions};
///
/// let engine = Engine::default();
/// zstn::unpack(&engine, "model.zstn", "restored.safetensors", &UnpackOptions::default())?;
/// assert_eq!(std::fs::read("restored.safetensors")?, std::fs::read("model.safetensors")?);
/// # Ok(())
/// # }
/// ```
pub fn unpack<'s>(
    engine: &Engine,
    input: impl Into<Input>,
    sink: impl Into<Sink<'s>>,
    options: &UnpackOptions,
) -> Result<UnpackReport> {
    unpack_input(engine, &input.into(), sink.into(), options)
}

fn unpack_input(
    engine: &Engine,
    input: &Input,
    sink: Sink,
    options: &UnpackOptions,
) -> Result<UnpackReport> {
    let UnpackOptions {
        bases,
        http,
        memory_bytes,
        progress,
    } = options;
    let (memory_bytes, progress) = (*memory_bytes, *progress);
    if let Some(shards) = Shards::open_input(input, PACKED, http)? {
        let bases = Shards::open_counterparts(bases, BASES, http)?;
        let folder = sink.folder()?;
        let context = Context {
            engine,
            http,
            memory_bytes,
            progress,
        };
        return unpack_shards(context, &shards, &bases, &folder);
    }
    let output = sink.file(http)?;
    let local = input.fetch(http, progress)?;
    let file = match BaseFile::open_for(engine, &local, bases, http, memory_bytes, progress)? {
        Some(base) => unpack_delta(engine, &local, &base, output, memory_bytes, progress),
        None => unpack_file(engine, &local, output, memory_bytes, progress),
    };
    Ok(UnpackReport {
        files: vec![file?],
        folder: None,
    })
}
