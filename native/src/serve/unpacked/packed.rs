//! A packed file that has been opened.

use std::sync::Arc;

use zstn_core::model::Unpacked;

use crate::source::Input;
#[cfg(feature = "gateway")]
use crate::source::Source;
use crate::{Engine, Error, Reader, Result};

/// A packed file and the one it restores.
pub(crate) struct Packed {
    id: u64,
    reader: Reader,
    layout: Arc<Unpacked>,
    on_failure: Option<OnFailure>,
}

/// Called when a tensor cannot be read.
pub(crate) type OnFailure = Arc<dyn Fn() + Send + Sync>;

impl Packed {
    /// Opens a packed file; `id` is for it alone.
    ///
    /// # Errors
    /// Those of [`Reader::open`], and a refusal of the kind
    /// [`Unsupported`](zstn_core::ErrorKind::Unsupported) for a file that does not
    /// restore a safetensors file by itself.
    pub(crate) fn open(engine: &Engine, input: impl Into<Input>, id: u64) -> Result<Self> {
        let reader = Reader::options().engine(engine).open(input)?;
        let refuse = Error::place(reader.name().to_owned());
        if reader.model().needs_base() {
            let detail = "it is a difference from another checkpoint, which is not known here";
            return Err(refuse(zstn_core::Error::unsupported(detail)));
        }
        let layout = reader.model().unpacked().map_err(&refuse)?;
        Ok(Self {
            id,
            reader,
            layout: Arc::new(layout),
            on_failure: None,
        })
    }

    /// Returns the same file, whose bytes are read from `source`. `on_failure` is
    /// called when a tensor cannot be decoded from them.
    #[cfg(feature = "gateway")]
    pub(crate) fn with_source(&self, source: Box<dyn Source>, on_failure: OnFailure) -> Self {
        Self {
            id: self.id,
            reader: self.reader.with_sources(vec![source]),
            layout: Arc::clone(&self.layout),
            on_failure: Some(on_failure),
        }
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Returns the layout of the file it restores.
    pub(crate) fn layout(&self) -> &Unpacked {
        &self.layout
    }

    /// Returns the SHA-256 of the file it restores in hexadecimal digits, if the
    /// container has it and every tensor can be compared; model hubs know files by
    /// it, too.
    pub(crate) fn sha256(&self) -> Option<String> {
        let integrity = self.reader.model().files()[0].integrity();
        let sha256 = integrity
            .filter(|integrity| integrity.is_complete() && self.layout.is_original())
            .and_then(|integrity| integrity.original_sha256())?;
        Some(sha256.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    pub(super) fn tensor_len_bytes(&self, number: usize) -> u64 {
        self.reader.model().tensors()[number].len_bytes()
    }

    /// Reads and decodes tensor `number`.
    pub(super) fn read(&self, number: usize) -> Result<Vec<u8>> {
        let name = &self.reader.tensors()[number].name;
        let read = self.reader.read(name).inspect_err(|_| {
            if let Some(on_failure) = &self.on_failure {
                on_failure();
            }
        });
        Ok(read?.bytes)
    }
}
