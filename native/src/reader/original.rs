//! Opens the file that a packed file restores, inside the packed file
//! (docs/formats/zstn-virtual-header.md 6).

use std::borrow::Cow;
use std::ops::Range;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use zstn_core::bytes::buffer;
use zstn_core::catalog::{FileCatalog, FileKind};
use zstn_core::model::{Model, ModelBuilder};
use zstn_core::{ErrorKind, Rule};

use super::external::{self, Beside, PackedFiles};
use super::{Files, Reader, View};
use crate::catalog::open_restored;
use crate::safetensors_view::UnpackedRanges;
use crate::source::{FileId, Input, Source};
use crate::{Engine, Error, Result};

/// The most bytes of decoded tensors that are cached for further reads of the original.
pub(super) const CACHE_BYTES: u64 = 64 << 20;

impl Reader {
    /// Opens the file that a packed file restores, without restoring it: its bytes are
    /// decoded when they are read. This reader has the metadata of that file, and all of
    /// its tensors.
    ///
    /// Returns `None` unless the model is a single packed file that was not packed from
    /// safetensors, and for a delta without its base.
    ///
    /// # Errors
    /// A restored file that is refused, such as one that was packed as bytes; the errors
    /// of reading.
    pub fn original(&self) -> Result<Option<Self>> {
        self.try_original()?.transpose()
    }

    /// Opens the original like [`Reader::original`]. Returns `None` as well if the original
    /// is refused although the packed file restores it without an error, such as one that
    /// was packed as bytes.
    ///
    /// # Errors
    /// The errors of reading the packed file.
    pub(super) fn readable_original(&self) -> Result<Option<Self>> {
        Ok(self.try_original()?.and_then(Result::ok))
    }

    /// Opens the original like [`Reader::original`]. The inner error is a refusal of the
    /// original, whose bytes were restored without an error.
    ///
    /// # Errors
    /// The errors of reading the packed file.
    fn try_original(&self) -> Result<Option<Result<Self>>> {
        let [file] = self.model.files() else {
            return Ok(None);
        };
        let Some(kind) = file.original_kind() else {
            return Ok(None);
        };
        if file.needs_base() && self.base.is_none() {
            return Ok(None);
        }
        let source = self.restored(file, CACHE_BYTES)?;
        source.ranges.set_listing(true);
        let catalog = open_restored(&self.engine, &source, kind).and_then(|catalog| {
            self.check_restored(&catalog)?;
            Ok(catalog)
        });
        source.ranges.set_listing(false);
        let catalog = match catalog {
            Ok(catalog) => catalog,
            Err(error) if source.has_failed.load(Ordering::Relaxed) => return Err(error),
            Err(error) => return Ok(Some(Err(error))),
        };
        self.with_files_beside(catalog, source).map(Some)
    }

    /// Returns a reader of the `restored` file with this `catalog`, and of the other files
    /// that contain values of its tensors. The inner error is a refusal of its tensors.
    ///
    /// # Errors
    /// A failed request for another file.
    fn with_files_beside(&self, catalog: FileCatalog, restored: Restored) -> Result<Result<Self>> {
        let Beside { location, http } = &self.files.beside;
        let mut catalogs = vec![catalog];
        let locations = slice::from_ref(location);
        let found = external::open(&self.engine, http, &mut catalogs, locations)?;
        let mut sources: Vec<Box<dyn Source>> = Vec::new();
        let packed = restored.packed.clone();
        sources.push(Box::new(restored));
        let packed_files = PackedFiles::add(found, &mut sources, &mut catalogs);
        let mut model = match self.model_of(catalogs) {
            Ok(model) => model,
            Err(error) => return Ok(Err(error)),
        };
        let shares = packed_files.set_stored_shares(&mut model);
        shares.map_err(Error::place(self.name()))?;
        let shares = model.take_stored_shares(0, packed.model());
        shares.map_err(Error::place(self.name()))?;
        Ok(Ok(self.inside(model, sources, packed)))
    }

    /// Returns the file that this model, a packed `file`, restores. Decoded tensors that are
    /// cached for further reads take up to `cache_bytes`.
    fn restored(&self, file: &FileCatalog, cache_bytes: u64) -> Result<Restored> {
        let model = match file.needs_base() {
            // The model of a delta lists the entries, and has the base's digests.
            true => Arc::clone(&self.model),
            false => Arc::new(self.model_of(vec![file.clone().entries()])?),
        };
        let packed = Self {
            model,
            bands: Arc::default(),
            ..self.clone()
        };
        let ranges = UnpackedRanges::new(&packed, cache_bytes)?;
        Ok(Restored::new(packed, ranges))
    }

    /// Returns a reader of `model`, whose files are read from `sources`. The first one is
    /// the file that `packed` restores.
    fn inside(&self, model: Model, sources: Vec<Box<dyn Source>>, packed: Self) -> Self {
        Self {
            model: Arc::new(model),
            files: Arc::new(Files {
                name: self.name().into(),
                sources,
                data_shards: Vec::new(),
                packed: Some(packed),
                merged: Vec::new(),
                beside: Beside::default(),
            }),
            engine: self.engine.clone(),
            base: None,
            bands: Arc::default(),
        }
    }

    /// Returns a reader of the tensors that `delta` refers to, in the file that this model
    /// is or restores, if the target of the delta is not a safetensors file
    /// (docs/formats/zstn-delta.md 6). Otherwise returns this model.
    ///
    /// # Errors
    /// A base that is not the one of the delta, or is a model in several files that are not
    /// safetensors.
    pub(super) fn into_base_of(self, delta: &Model) -> Result<Self> {
        let [delta] = delta.files() else {
            return Ok(self);
        };
        if delta.original_kind().is_none() {
            return Ok(self);
        }
        let unfit = || {
            Error::Usage(format!(
                "{} cannot be the base of a file that is not safetensors: give the file that it \
                 was made against, plain or packed",
                self.name()
            ))
        };
        let model = |len_bytes| {
            let catalog = delta.referenced_base(len_bytes);
            let catalog = catalog.map_err(Error::place(self.name()))?;
            catalog
                .map(|catalog| self.model_of(vec![catalog]))
                .transpose()
        };
        if self.model.needs_base() && self.base.is_none() {
            return Err(Error::needs_base(self.name()));
        }
        let restored = match self.model.files() {
            [file] if file.original_kind().is_some() => self.restored(file, CACHE_BYTES)?,
            [file] if matches!(file.kind(), FileKind::Zstn | FileKind::Delta) => {
                let restored = Restored::of_model(self.clone())?;
                if !restored.ranges.is_original() {
                    return Err(unfit());
                }
                restored
            }
            [_] => {
                let source = self.sources().first().ok_or_else(unfit)?;
                let model = model(source.len_bytes())?;
                return Ok(match model {
                    Some(model) => Self {
                        model: Arc::new(model),
                        base: None,
                        bands: Arc::default(),
                        ..self
                    },
                    None => self,
                });
            }
            files => {
                let safetensors = FileKind::Safetensors.name();
                if files
                    .iter()
                    .any(|file| file.delta_format() != Some(safetensors))
                {
                    return Err(unfit());
                }
                let data = UnpackedRanges::of_joined_data(&self, CACHE_BYTES)?;
                Restored::new(self.clone(), data)
            }
        };
        let Some(model) = model(restored.len_bytes())? else {
            return Ok(self);
        };
        let packed = restored.packed.clone();
        Ok(self.inside(model, vec![Box::new(restored)], packed))
    }

    /// Returns a reader of the entries as which the only file of this model is packed.
    /// Returns this reader if the file is already packed or is a safetensors file, and for a
    /// model in several files.
    ///
    /// # Errors
    /// A file with too many tensors for a virtual header.
    pub(crate) fn into_entries_to_pack(self) -> Result<Self> {
        let [file] = self.model.files() else {
            return Ok(self);
        };
        if matches!(
            file.kind(),
            FileKind::Safetensors | FileKind::Zstn | FileKind::Delta
        ) {
            return Ok(self);
        }
        let entries = file.entries_to_pack().map_err(Error::place(self.name()))?;
        Ok(Self {
            model: Arc::new(self.model_of(vec![entries])?),
            bands: Arc::default(),
            ..self
        })
    }

    /// Refuses an original that is packed itself.
    fn check_restored(&self, catalog: &FileCatalog) -> Result<()> {
        if !matches!(catalog.kind(), FileKind::Zstn | FileKind::Delta) {
            return Ok(());
        }
        let detail = "the file restores a packed file: unpack it, and open that file";
        let refusal = zstn_core::Error::malformed(Rule::ZstnVirtualHeader, detail);
        Err(Error::place(self.name())(refusal))
    }

    /// Returns the reader of the packed file, if this reader was opened inside it
    /// ([`Reader::original`]). The model of this reader is that of the restored file, and
    /// the tensors of the packed file fill that file ([`View::Stored`](crate::View)).
    #[must_use]
    pub fn packed(&self) -> Option<&Self> {
        self.files.packed.as_ref()
    }

    /// Returns the catalog of the packed file, if this reader was opened inside it
    /// ([`Reader::packed`]).
    #[must_use]
    pub fn packed_file(&self) -> Option<&FileCatalog> {
        self.packed()?.model().files().first()
    }

    /// Returns the original of a packed file, which has the metadata and all tensors, or
    /// this reader if there is no original or it is of an unknown format.
    ///
    /// # Errors
    /// An original that was packed as bytes; the errors of reading.
    pub(crate) fn into_original(self) -> Result<Self> {
        match self.try_original()? {
            Some(Ok(original)) => Ok(original),
            Some(Err(refusal)) if self.tensors().is_empty() => Err(refusal),
            // The tensors that the header lists can be read without the original. If there
            // are others, this reader has a refusal for them.
            Some(Err(_)) | None => Ok(self),
        }
    }

    pub(super) fn model_of(&self, catalogs: Vec<FileCatalog>) -> Result<Model> {
        let builder = ModelBuilder::new(catalogs, None, None);
        let model = builder.and_then(|builder| builder.finish(&self.engine));
        model.map_err(Error::place(self.name()))
    }

    /// Returns the original if this reader does not list all of its tensors, otherwise
    /// this reader. It remains as it is, with a refusal of the other tensors, if the
    /// original is refused although it was restored without an error.
    ///
    /// # Errors
    /// The errors of reading the packed file.
    pub(super) fn with_all_tensors(self) -> Result<Self> {
        if self
            .model
            .files()
            .iter()
            .all(FileCatalog::is_original_complete)
        {
            return Ok(self);
        }
        let original = self.readable_original()?;
        Ok(original.unwrap_or(self))
    }
}

/// The file that a packed file restores.
pub(super) struct Restored {
    packed: Reader,
    ranges: UnpackedRanges,
    /// The identities of the packed files, not including those of their bases.
    file_ids: Vec<FileId>,
    /// True once the packed file could not be read. An error of opening the original is
    /// then an error of the packed file, and not a property of the original.
    has_failed: AtomicBool,
}

impl Restored {
    /// Opens the file that the packed file in `source` restores, without parsing it.
    /// Decoded tensors that are cached for further reads take up to `cache_bytes`.
    ///
    /// # Errors
    /// A file that is not packed, or restores a safetensors file; a delta; the errors of
    /// reading.
    pub(super) fn open(engine: &Engine, source: Box<dyn Source>, cache_bytes: u64) -> Result<Self> {
        // A source has no location, so no other file is opened.
        let input = Input::source(Arc::<dyn Source>::from(source));
        let options = Reader::options().view(View::Stored);
        let reader = options.open_alone(engine, &input)?;
        match reader.model().files() {
            [file] if file.original_kind().is_some() && !file.needs_base() => {
                reader.restored(file, cache_bytes)
            }
            _ => {
                let detail = "this is not the packed file of a file beside a model; pack that \
                              file with `zstn pack`, or put it there as it is";
                let refusal = zstn_core::Error::malformed(Rule::ZstnVirtualHeader, detail);
                Err(Error::place(reader.name())(refusal))
            }
        }
    }

    /// Uses a model as the safetensors file that it is or was packed from.
    pub(super) fn of_model(model: Reader) -> Result<Self> {
        let ranges = UnpackedRanges::new(&model, CACHE_BYTES)?;
        Ok(Self::new(model, ranges))
    }

    fn new(packed: Reader, ranges: UnpackedRanges) -> Self {
        let ids = packed.sources().iter().flat_map(|source| source.file_ids());
        Self {
            file_ids: ids.cloned().collect(),
            packed,
            ranges,
            has_failed: AtomicBool::new(false),
        }
    }

    /// Returns the model of the entries that fill the restored file.
    pub(super) fn entries(&self) -> Arc<Model> {
        Arc::clone(&self.packed.model)
    }
}

impl Source for Restored {
    fn name(&self) -> &str {
        self.packed.name()
    }

    fn len_bytes(&self) -> u64 {
        self.ranges.len_bytes()
    }

    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        self.ranges.check(&self.packed, &range)?;
        let mut out = buffer(range.end - range.start)?;
        self.read_into(range.start, &mut out)?;
        Ok(Cow::Owned(out))
    }

    fn read_into(&self, start: u64, out: &mut [u8]) -> Result<()> {
        let read = self.ranges.read_into(&self.packed, start, out);
        read.inspect_err(|error| {
            // A limit is no failure: the packed file can still be read.
            let is_limit = matches!(
                error,
                Error::Format { source, .. } if source.kind() == ErrorKind::Limit
            );
            self.has_failed.fetch_or(!is_limit, Ordering::Relaxed);
        })
    }

    fn is_remote(&self) -> bool {
        self.packed.all_sources().any(Source::is_remote)
    }

    fn file_ids(&self) -> &[FileId] {
        &self.file_ids
    }

    fn check_unchanged(&self) -> Result<()> {
        self.packed
            .all_sources()
            .try_for_each(Source::check_unchanged)
    }
}
