//! From the first bytes of a file to its [`FileCatalog`], by way of as few reads
//! as possible: two round trips for most kinds, whatever the size of the model,
//! and no request that counts from the end of the file, which browsers do not
//! allow without a preflight.

use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use super::FileCatalog;
use super::delta_opener::DeltaOpener;
use super::fetched::FetchedRanges;
#[cfg(feature = "gauss")]
use super::gauss_opener;
use super::zstn_opener;
#[cfg(feature = "ztensor")]
use super::ztensor_opener;
use crate::container::{model_delta, safetensors, zstn};
use crate::engine::Engine;
use crate::frame::{self, Family};
use crate::limits::HEAD_LEN_BYTES;
use crate::{Error, Result, Rule};

/// What the first bytes of a file say about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recognised {
    /// A ZSTN container.
    Zstn,
    /// A safetensors file.
    Safetensors,
    /// A checkpoint's difference from a base, `Z4DM`.
    Delta,
    /// A zTensor file of any version.
    #[cfg(feature = "ztensor")]
    ZTensor,
    /// A Gauss file of any version.
    #[cfg(feature = "gauss")]
    Gauss,
}

/// Whether a file with these first bytes can be read, but not by this build,
/// which leaves out its format.
#[must_use]
pub fn is_left_out(head: &[u8]) -> bool {
    let formats: [(&[u8], bool); 3] = [
        (b"ZTEN", cfg!(feature = "ztensor")),
        (b"\x89ZT2\r\n", cfg!(feature = "ztensor")),
        (b"GAUSS00", cfg!(feature = "gauss")),
    ];
    let mut formats = formats.iter();
    formats.any(|(magic, is_in)| !is_in && head.starts_with(magic))
}

/// Tells the kind of a file of `file_len_bytes` from its first bytes, or says
/// what it looks like instead.
pub fn recognise(head: &[u8], file_len_bytes: u64) -> Result<Recognised> {
    if head.starts_with(&zstn::MAGIC) {
        return Ok(Recognised::Zstn);
    }
    if let Some(family) = Family::recognise(head) {
        return Err(Error::unsupported(format!(
            "this is a single compressed frame ({}), not a checkpoint of tensors: decompress it",
            family.name()
        )));
    }
    if head.starts_with(&model_delta::MAGIC) {
        return Ok(Recognised::Delta);
    }
    #[cfg(feature = "ztensor")]
    if crate::container::ztensor::is_ztensor(head) {
        return Ok(Recognised::ZTensor);
    }
    #[cfg(feature = "gauss")]
    if head.starts_with(&crate::container::gauss::MAGIC) {
        return Ok(Recognised::Gauss);
    }
    if is_left_out(head) {
        return Err(Error::unsupported(
            "this build of the reader leaves out the format of this file",
        ));
    }
    if head.starts_with(&frame::delta::MAGIC) {
        return Err(Error::unsupported(
            "this is the difference of two buffers (Z4DL), not a checkpoint of tensors: \
             decompress it with its base",
        ));
    }
    if head.starts_with(b"GGUF") {
        return Err(Error::unsupported("a GGUF file: not supported yet"));
    }
    // A cut container must not pass for an odd safetensors file.
    let looks_like_json = |byte: Option<&u8>| byte.is_none_or(|b| b"{ \t\r\n".contains(b));
    if head.len() >= 8 && looks_like_json(head.get(8)) {
        safetensors::header_len_bytes(head, file_len_bytes)?;
        return Ok(Recognised::Safetensors);
    }
    let detail = match head.trim_ascii_start() {
        [] => "the file is empty".into(),
        text if text.starts_with(b"<") => {
            "this is a web page, not a model file; check the address".into()
        }
        text if text.starts_with(b"{") => "this is a JSON file, not a model file".into(),
        _ => format!(
            "this is no ZSTN, Z4DM, zTensor, Gauss or safetensors file: its first bytes are {}",
            frame::printable(&head[..head.len().min(8)])
        ),
    };
    Err(Error::malformed(Rule::Recognised, detail).at(0))
}

/// A file being opened: it has a head, perhaps a tail, and knows what is
/// missing.
#[derive(Debug, Clone)]
pub struct FileOpener {
    kind: Recognised,
    fetched: FetchedRanges,
    /// For a delta alone.
    delta: DeltaOpener,
}

impl FileOpener {
    /// Bytes of the head that [`FileOpener::new`] wants, less for a shorter file.
    #[must_use]
    pub fn head_len_bytes(file_len_bytes: u64) -> u64 {
        file_len_bytes.min(HEAD_LEN_BYTES)
    }

    /// Starts from the first bytes of a file of `file_len_bytes`.
    pub fn new(file_len_bytes: u64, head: Vec<u8>) -> Result<Self> {
        if (head.len() as u64) < Self::head_len_bytes(file_len_bytes) {
            return Err(Error::invalid_input("the head of the file is too short"));
        }
        let mut opener = Self {
            kind: recognise(&head, file_len_bytes)?,
            fetched: FetchedRanges::new(file_len_bytes, head),
            delta: DeltaOpener::default(),
        };
        opener.advance()?;
        Ok(opener)
    }

    /// Byte ranges still missing; empty once [`FileOpener::finish`] can work.
    /// They do not overlap and may be read at the same time. Supplying them
    /// again and again comes to an end: for a delta without a seal after as
    /// many rounds as its header lists tensors, for a Gauss file as often as
    /// its index can be doubled, for other files after three.
    pub fn needs(&self) -> Result<Vec<Range<u64>>> {
        let fetched = &self.fetched;
        match self.kind {
            Recognised::Safetensors => {
                let end = 8 + safetensors::header_len_bytes(fetched.head(), fetched.len_bytes())?;
                Ok(fetched.missing_head(end).into_iter().collect())
            }
            Recognised::Zstn => zstn_opener::needs(fetched),
            Recognised::Delta => self.delta.needs(fetched),
            #[cfg(feature = "ztensor")]
            Recognised::ZTensor => Ok(ztensor_opener::needs(fetched)?.into_iter().collect()),
            #[cfg(feature = "gauss")]
            Recognised::Gauss => Ok(gauss_opener::needs(fetched)?.into_iter().collect()),
        }
    }

    /// Adds bytes that [`FileOpener::needs`] has asked for.
    pub fn supply(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        match self.kind {
            Recognised::Delta if self.delta.is_walking_at(offset_bytes) => {
                self.fetched.supply_window(offset_bytes, bytes);
            }
            #[cfg(feature = "ztensor")]
            Recognised::ZTensor => {
                ztensor_opener::supply(&mut self.fetched, offset_bytes, bytes)?;
            }
            _ => self.fetched.supply(offset_bytes, bytes)?,
        }
        self.advance()
    }

    fn advance(&mut self) -> Result<()> {
        match self.kind {
            Recognised::Delta => self.delta.advance(&self.fetched),
            _ => Ok(()),
        }
    }

    /// The catalog. Offsets in errors count from the start of the file.
    pub fn finish<E: Engine>(self, engine: &E) -> Result<FileCatalog> {
        if !self.needs()?.is_empty() {
            return Err(Error::invalid_input("bytes of the file are still missing"));
        }
        let fetched = &self.fetched;
        match self.kind {
            Recognised::Delta => self.delta.finish(fetched),
            #[cfg(feature = "ztensor")]
            Recognised::ZTensor => ztensor_opener::finish(fetched),
            #[cfg(feature = "gauss")]
            Recognised::Gauss => gauss_opener::finish(fetched),
            Recognised::Safetensors => {
                let len_bytes = fetched.len_bytes();
                let end = 8 + safetensors::header_len_bytes(fetched.head(), len_bytes)?;
                FileCatalog::safetensors(&fetched.have(8..end), len_bytes)
            }
            Recognised::Zstn => zstn_opener::finish(fetched, engine),
        }
    }
}
