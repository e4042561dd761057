//! A packed file that has been opened.

use std::borrow::Cow;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use headers::ETag;
use zstn_core::model::{Model, ModelBuilder, Unpacked};

use crate::reader::open_catalog;
use crate::serve::file::Version;
use crate::source::Source;
use crate::{Error, Native, Result};

/// A packed file and the one it restores.
pub(super) struct Packed {
    id: u64,
    source: Opened,
    model: Model,
    layout: Unpacked,
}

impl Packed {
    /// Opens the file at `path`; `id` is for it alone.
    pub(super) fn open(engine: &Native, path: &Path, id: u64) -> Result<Self> {
        let source = Opened::new(path)?;
        let refuse = Error::place(source.name().to_owned());
        let catalog = open_catalog(engine, &source)?;
        let model = ModelBuilder::new(vec![catalog], None, None);
        let model = model
            .and_then(|model| model.finish(engine))
            .map_err(&refuse)?;
        if model.needs_base() {
            let detail = "it is a difference from another checkpoint, which is not known here";
            return Err(refuse(zstn_core::Error::unsupported(detail)));
        }
        let layout = model.unpacked().map_err(&refuse)?;
        Ok(Self {
            id,
            source,
            model,
            layout,
        })
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn layout(&self) -> &Unpacked {
        &self.layout
    }

    pub(super) fn version(&self) -> Version {
        self.source.version
    }

    /// The SHA-256 of the file it restores, where that is told and every
    /// tensor can be compared; model hubs know files by it, too.
    pub(super) fn tag(&self) -> ETag {
        let integrity = self.model.files()[0].integrity();
        let sha256 = integrity
            .filter(|integrity| integrity.is_complete() && self.layout.is_original())
            .and_then(|integrity| integrity.original_sha256());
        let Some(sha256) = sha256 else {
            return self.version().tag("u");
        };
        let hex: String = sha256.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("\"{hex}\"")
            .parse()
            .expect("hex digits make an ETag")
    }

    pub(super) fn tensor_len_bytes(&self, number: usize) -> u64 {
        self.model.tensors()[number].len_bytes()
    }

    /// Reads and decodes tensor `number`.
    pub(super) fn decode(&self, engine: &Native, number: usize) -> Result<Vec<u8>> {
        let parts = &self.model.tensors()[number].parts;
        let stored = parts
            .iter()
            .map(|part| self.source.read(part.stored.clone()));
        let stored = stored.collect::<Result<Vec<_>>>()?;
        let stored: Vec<&[u8]> = stored.iter().map(|part| &**part).collect();
        let tensor = self.model.decode(engine, number, &stored, None);
        Ok(tensor
            .map_err(Error::place(self.source.name()))?
            .into_owned())
    }
}

/// An open file. Not a map: a server outlives what people do to its files, and
/// a map of a file that is cut short ends the process.
struct Opened {
    name: String,
    version: Version,
    file: Mutex<File>,
}

impl Opened {
    fn new(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::file("open", path))?;
        let metadata = file.metadata().map_err(Error::file("look at", path))?;
        let name = path.file_name().unwrap_or_default();
        Ok(Self {
            name: name.to_string_lossy().into_owned(),
            version: Version::of(&metadata),
            file: Mutex::new(file),
        })
    }
}

impl Source for Opened {
    fn name(&self) -> &str {
        &self.name
    }

    fn len_bytes(&self) -> u64 {
        self.version.len_bytes
    }

    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        let fail = |error| Error::io(format!("read {}", self.name), error);
        let mut bytes = zstn_core::bytes::buffer(range.end - range.start)?;
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(range.start)).map_err(fail)?;
        file.read_exact(&mut bytes).map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        if Version::of(&metadata) != self.version {
            let detail = format!("{} was changed while it was being read", self.name);
            return Err(Error::Differs { detail });
        }
        Ok(Cow::Owned(bytes))
    }
}
