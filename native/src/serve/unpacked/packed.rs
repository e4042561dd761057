//! A packed file that has been opened.

use std::path::Path;

use headers::ETag;
use zstn_core::model::Unpacked;

use crate::serve::file::Version;
use crate::source::FileSource;
use crate::{Engine, Error, Reader, Result};

/// A packed file and the one it restores.
pub(super) struct Packed {
    id: u64,
    version: Version,
    reader: Reader,
    layout: Unpacked,
}

impl Packed {
    /// Opens the file at `path`; `id` is for it alone.
    pub(super) fn open(engine: &Engine, path: &Path, id: u64) -> Result<Self> {
        // Clients see the name of the file, not its path.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let source = FileSource::open(path)?.with_name(name);
        let version = Version::of_source(&source);
        let options = Reader::options().engine(engine);
        let reader = options.open(source)?;
        let refuse = Error::place(reader.name().to_owned());
        if reader.model().needs_base() {
            let detail = "it is a difference from another checkpoint, which is not known here";
            return Err(refuse(zstn_core::Error::unsupported(detail)));
        }
        let layout = reader.model().unpacked().map_err(&refuse)?;
        Ok(Self {
            id,
            version,
            reader,
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
        self.version
    }

    /// Returns the SHA-256 of the file it restores, if the container has it and every
    /// tensor can be compared; model hubs know files by it, too.
    pub(super) fn tag(&self) -> ETag {
        let integrity = self.reader.model().files()[0].integrity();
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
        self.reader.model().tensors()[number].len_bytes()
    }

    /// Reads and decodes tensor `number`.
    pub(super) fn read(&self, number: usize) -> Result<Vec<u8>> {
        let name = &self.reader.tensors()[number].name;
        Ok(self.reader.read(name)?.bytes)
    }
}
