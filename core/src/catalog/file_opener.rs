//! Opens a file: from its first bytes to its [`FileCatalog`] in as few reads as
//! possible. Most kinds take two round trips, whatever the size of the model,
//! and no request is relative to the end of the file, which browsers do not
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

/// The kind of a file, judged by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recognised {
    /// A ZSTN container.
    Zstn,
    /// A safetensors file.
    Safetensors,
    /// The difference of a checkpoint from a base, `Z4DM`.
    Delta,
    /// A zTensor file of any version.
    #[cfg(feature = "ztensor")]
    ZTensor,
    /// A Gauss file of any version.
    #[cfg(feature = "gauss")]
    Gauss,
}

/// Returns whether a file with these first bytes has a format that this library
/// supports but this build leaves out.
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

/// Recognises the kind of a file of `file_len_bytes` by its first bytes; the
/// error says what the file looks like instead.
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
    if crate::container::foreign::ztensor::is_ztensor(head) {
        return Ok(Recognised::ZTensor);
    }
    #[cfg(feature = "gauss")]
    if head.starts_with(&crate::container::foreign::gauss::MAGIC) {
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
    // A truncated container must not pass for a malformed safetensors file.
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

/// A file being opened, which knows the byte ranges that are still missing.
#[derive(Debug, Clone)]
pub struct FileOpener {
    kind: Recognised,
    fetched: FetchedRanges,
    /// Used for deltas only.
    delta: DeltaOpener,
}

impl FileOpener {
    /// Returns the number of bytes that [`FileOpener::new`] needs; fewer for a
    /// shorter file.
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

    /// Returns the byte ranges that are still missing; empty once
    /// [`FileOpener::finish`] can be called. They do not overlap and may be
    /// read concurrently. The number of rounds is bounded: for a delta without
    /// a trailer by the number of tensors in its header, for a Gauss file by
    /// the number of times that its index can be doubled, for other files by
    /// three.
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

    /// Adds the bytes of a range returned by [`FileOpener::needs`].
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

    /// Returns the catalog. Offsets in errors are relative to the start of the
    /// file.
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
