//! Verifies checkpoints.

use zstn_core::catalog::{Kind, recognise};
use zstn_core::limits::HEAD_LEN_BYTES;

use super::tensors::verify_tensors;
use crate::delta::BaseFile;
use crate::report::VerifyReport;
use crate::shards::{BASES, Context, PACKED, PLAIN, Shard, Shards, verify_shards};
use crate::source::{HttpOptions, Input, Location, Source};
use crate::verify::{verify_delta, verify_file};
use crate::{Engine, Error, Progress, Reader, Result, View};

/// Options for [`verify`](crate::verify()).
#[derive(Clone)]
#[must_use]
pub struct VerifyOptions<'a> {
    bases: Vec<Input>,
    original: Option<Input>,
    http: HttpOptions,
    view: View,
    memory_bytes: u64,
    progress: &'a dyn Progress,
}

impl Default for VerifyOptions<'_> {
    fn default() -> Self {
        Self {
            bases: Vec::new(),
            original: None,
            http: HttpOptions::default(),
            view: View::default(),
            memory_bytes: u64::MAX,
            progress: &(),
        }
    }
}

impl<'a> VerifyOptions<'a> {
    /// Reads a delta with the base that it was packed against, plain or packed. If the
    /// base is a delta itself, the next call adds the base's own base, and so on.
    pub fn base(mut self, base: impl Into<Input>) -> Self {
        self.bases.push(base.into());
        self
    }

    /// Compares every byte with `original`: the file that a packed file restores, or
    /// for other formats a model with the same tensors.
    pub fn original(mut self, original: impl Into<Input>) -> Self {
        self.original = Some(original.into());
        self
    }

    /// Selects how weights that are stored in several tensors are read; the default is
    /// [`View::Dense`].
    pub fn view(mut self, view: View) -> Self {
        self.view = view;
        self
    }

    /// Sets the approximate limit for memory in bytes; a single tensor may exceed it.
    /// The default is no limit: every thread decodes a tensor.
    pub fn memory_bytes(mut self, memory_bytes: u64) -> Self {
        self.memory_bytes = memory_bytes;
        self
    }

    /// Sets time limits, retries and headers for requests to addresses: of the input,
    /// of its bases, of the original and of their other files.
    pub fn http(mut self, http: HttpOptions) -> Self {
        self.http = http;
        self
    }

    /// Sets the progress that watches the work.
    pub fn progress<'b>(self, progress: &'b dyn Progress) -> VerifyOptions<'b>
    where
        'a: 'b,
    {
        VerifyOptions { progress, ..self }
    }
}

/// Verifies a checkpoint of any supported format, in one file or several: decodes all
/// of it and discards the decoded bytes.
///
/// Every byte is compared with the digests in the files, and with the original if
/// [`VerifyOptions::original`] was called. A packed file without digests is only
/// decoded if there is no original; damage inside stored planes then stays undetected.
///
/// Files that were copied into a packed folder have no digests. They are compared if
/// the original is a folder too, and are listed in [`VerifyReport::unchecked_files`]
/// otherwise.
///
/// # Errors
/// Damage; [`Error::Differs`] if the original differs; [`Error::NeedsBase`] for a delta
/// without its base; every error of opening the input.
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
/// use zstn::{Engine, VerifyOptions};
///
/// let engine = Engine::default();
/// let options = VerifyOptions::default().original("model.safetensors");
/// let report = zstn::verify(&engine, "model.zstn", &options)?;
/// assert!(report.compared && report.has_digests());
/// # Ok(())
/// # }
/// ```
pub fn verify(
    engine: &Engine,
    input: impl Into<Input>,
    options: &VerifyOptions,
) -> Result<VerifyReport> {
    let work = Work { engine, options };
    work.verify(&input.into())
}

struct Work<'a> {
    engine: &'a Engine,
    options: &'a VerifyOptions<'a>,
}

impl Work<'_> {
    fn verify(&self, input: &Input) -> Result<VerifyReport> {
        if let Some(shards) = self.packed_shards(input)? {
            return self.shards(&shards);
        }
        let is_several = |location: &Location| location.is_folder() || location.is_index();
        if input.location().is_some_and(is_several) {
            return self.model(input);
        }
        let http = &self.options.http;
        let input = &input.rewindable(http)?;
        // A packed file is fetched completely; other files are read by range.
        match is_packed(&*input.open(http)?)? {
            true => self.file(input),
            false => self.model(input),
        }
    }

    /// Opens the input if it is a packed, sharded checkpoint. In a folder of packed
    /// files, a plain index that is broken or whose files are missing may be one that
    /// could not be packed; the folder is then opened by its packed files.
    fn packed_shards(&self, input: &Input) -> Result<Option<Shards>> {
        let http = &self.options.http;
        let kinds = [PACKED, Kind::FILES].concat();
        let found = Shards::open_input(input, &kinds, http);
        let is_there = |file: &Shard| match &file.location {
            Location::Path(path) => path.is_file(),
            _ => true,
        };
        match &found {
            Ok(Some(shards)) if shards.is_packed() => return found,
            Ok(Some(found)) if !found.is_folder() || found.files().iter().all(is_there) => {
                return Ok(None);
            }
            Ok(None) => return Ok(None),
            Ok(Some(_)) | Err(_) => {}
        }
        match Shards::open_input(input, PACKED, http) {
            Ok(Some(packed)) if packed.is_packed() => Ok(Some(packed)),
            _ => found.map(|_| None),
        }
    }

    fn shards(&self, input: &Shards) -> Result<VerifyReport> {
        let options = self.options;
        let http = &options.http;
        let original = options.original.as_ref();
        let original = original.map(|original| Shards::open_counterpart(original, PLAIN, http));
        let bases = Shards::open_counterparts(&options.bases, BASES, http)?;
        let context = Context {
            engine: self.engine,
            http,
            memory_bytes: options.memory_bytes,
            progress: options.progress,
        };
        verify_shards(context, input, &bases, original.transpose()?.as_ref())
    }

    /// Verifies a file that restores another file byte for byte.
    fn file(&self, input: &Input) -> Result<VerifyReport> {
        let VerifyOptions {
            bases,
            http,
            memory_bytes,
            progress,
            ..
        } = self.options;
        let (engine, memory_bytes, progress) = (self.engine, *memory_bytes, *progress);
        let local = input.fetch(http, progress)?;
        let original = self.options.original.as_ref();
        let original = original
            .map(|original| original.fetch(http, progress))
            .transpose()?;
        let original = original.as_deref();
        let file = match BaseFile::open_for(engine, &local, bases, http, memory_bytes, progress)? {
            Some(base) => verify_delta(engine, &local, &base, original, memory_bytes, progress),
            None => verify_file(engine, &local, original, progress),
        };
        Ok(VerifyReport {
            files: vec![file?],
            compared: original.is_some(),
            identical: original.is_some(),
            indexed_tensors: 0,
            missing_tensors: Vec::new(),
            unchecked_files: Vec::new(),
        })
    }

    /// Verifies the tensors of a model in another format.
    fn model(&self, input: &Input) -> Result<VerifyReport> {
        let reading = Reader::options()
            .engine(self.engine)
            .view(self.options.view)
            .http(self.options.http.clone());
        let original = self.options.original.as_ref();
        let original = original
            .map(|original| reading.open(original))
            .transpose()?;
        let bases = self.options.bases.iter();
        let reader = bases
            .fold(reading, |reading, base| reading.base(base))
            .open(input)?;
        let file = verify_tensors(&reader, original.as_ref(), self.options.progress)?;
        Ok(VerifyReport {
            files: vec![file],
            compared: original.is_some(),
            // The headers and formats of the files may differ.
            identical: false,
            indexed_tensors: 0,
            missing_tensors: Vec::new(),
            unchecked_files: Vec::new(),
        })
    }
}

/// Returns whether the file restores another file byte for byte.
fn is_packed(source: &dyn Source) -> Result<bool> {
    let len = source.len_bytes();
    let head = source.read(0..len.min(HEAD_LEN_BYTES))?;
    let kind = recognise(&head, len).map_err(Error::place(source.name()))?;
    Ok(matches!(kind, Kind::Zstn | Kind::Delta))
}
