//! From the first bytes of a file to its [`Catalog`], by way of as few reads
//! as possible.
//!
//! The head tells the length of the header. Index and integrity section take
//! at most one and a half times what the header does, and a little (for a
//! tensor they take 79 bytes and a name, the shortest usual entry of a header
//! 50 and a name), so all of them can be asked for together:
//! two round trips, whatever the size of the model, and no request that
//! counts from the end of the file, which browsers do not allow without a
//! preflight.

use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use super::Catalog;
use super::delta_opening::DeltaOpening;
#[cfg(feature = "gauss")]
use super::gauss_opening;
use super::known::Known;
use super::rows::Tables;
#[cfg(feature = "ztensor")]
use super::ztensor_opening;
use crate::bytes;
use crate::container::zstn::integrity::{self, Integrity, Section};
use crate::container::zstn::{
    self, FOOTER_BYTES, Footer, Layout, PREFIX_FIXED_BYTES, Prefix, Tail,
};
use crate::container::{model_delta, safetensors};
use crate::engine::Engine;
use crate::entropy::zstd;
use crate::frame::{self, Family};
use crate::limits::{HEAD_LEN_BYTES, TAIL_LEN_BYTES};
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
    for (magic, what) in [
        (&b"Z4DL"[..], "a buffer delta (Z4DL)"),
        (b"GGUF", "a GGUF file"),
    ] {
        if head.starts_with(magic) {
            return Err(Error::unsupported(format!("{what}: not supported yet")));
        }
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
pub struct Opening {
    kind: Recognised,
    known: Known,
    /// For a delta alone.
    delta: DeltaOpening,
}

impl Opening {
    /// Bytes of the head that [`Opening::new`] wants, less for a shorter file.
    #[must_use]
    pub fn head_len_bytes(file_len_bytes: u64) -> u64 {
        file_len_bytes.min(HEAD_LEN_BYTES)
    }

    /// Starts from the first bytes of a file of `file_len_bytes`.
    pub fn new(file_len_bytes: u64, head: Vec<u8>) -> Result<Self> {
        if (head.len() as u64) < Self::head_len_bytes(file_len_bytes) {
            return Err(Error::invalid_input("the head of the file is too short"));
        }
        let mut opening = Self {
            kind: recognise(&head, file_len_bytes)?,
            known: Known::new(file_len_bytes, head),
            delta: DeltaOpening::default(),
        };
        opening.advance()?;
        Ok(opening)
    }

    /// Byte ranges still missing; empty once [`Opening::finish`] can work.
    /// They do not overlap and may be read at the same time. Supplying them
    /// again and again comes to an end: for a delta without a seal after as
    /// many rounds as its header lists tensors, for a Gauss file as often as
    /// its index can be doubled, for other files after three.
    pub fn needs(&self) -> Result<Vec<Range<u64>>> {
        let known = &self.known;
        match self.kind {
            Recognised::Safetensors => {
                let end = 8 + safetensors::header_len_bytes(known.head(), known.len_bytes())?;
                Ok(known.missing_head(end).into_iter().collect())
            }
            Recognised::Zstn => self.zstn_needs(),
            Recognised::Delta => self.delta.needs(known),
            #[cfg(feature = "ztensor")]
            Recognised::ZTensor => Ok(ztensor_opening::needs(known)?.into_iter().collect()),
            #[cfg(feature = "gauss")]
            Recognised::Gauss => Ok(gauss_opening::needs(known)?.into_iter().collect()),
        }
    }

    fn zstn_needs(&self) -> Result<Vec<Range<u64>>> {
        let known = &self.known;
        let len_bytes = known.len_bytes();
        let prefix_len = Prefix::len_bytes(known.head(), len_bytes)?;
        let rest_of_head = known.missing_head(prefix_len);
        if known.head().get(5) == Some(&0) {
            return Ok(rest_of_head.into_iter().collect());
        }
        let has_copy = zstn::promises_header_copy(known.head());
        // 24: the record count and the footer. A copy is a tenth of the
        // header.
        let copy_len = if has_copy { prefix_len / 8 } else { 0 };
        let usual =
            prefix_len.saturating_add(prefix_len / 2 + copy_len + 24 + integrity::FIXED_BYTES);
        let guess = len_bytes.saturating_sub(usual.max(TAIL_LEN_BYTES));
        let covered = prefix_len.max(known.head().len() as u64);
        let footer_start = len_bytes - FOOTER_BYTES;
        let mut missing = Vec::new();
        if known.part(footer_start..len_bytes).is_none() {
            missing.push(guess.max(covered)..len_bytes);
        } else {
            let index = self.footer(prefix_len)?.index;
            if known.part(index.start..footer_start).is_none() {
                missing.push(index.start.max(covered)..known.tail_start());
            }
        }
        // What the copy says can only be known when it has come.
        let may_have_copy = has_copy && (!missing.is_empty() || self.section()?.header.is_some());
        missing.extend(rest_of_head.filter(|_| !may_have_copy));
        Ok(missing)
    }

    /// The integrity section of a file whose tail is known, empty if there is
    /// none.
    fn section(&self) -> Result<Section> {
        let known = &self.known;
        let len_bytes = known.len_bytes();
        let prefix_len = Prefix::len_bytes(known.head(), len_bytes)?;
        let index_end = self.footer(prefix_len)?.index.end;
        let section = Section::parse(&known.have(index_end..len_bytes - FOOTER_BYTES));
        Ok(section
            .map_err(|error| error.within(index_end))?
            .unwrap_or_default())
    }

    /// The file's bytes up to its frames, with the header from its copy if
    /// that was not read. The checksum of these bytes is compared later.
    fn prefix<E: Engine>(&self, engine: &E) -> Result<Cow<'_, [u8]>> {
        let known = &self.known;
        let prefix_len = Prefix::len_bytes(known.head(), known.len_bytes())?;
        if known.missing_head(prefix_len).is_none() {
            return Ok(known.have(0..prefix_len));
        }
        let section = self.section()?;
        let (Some(copy), Some(file), Some(_)) = (&section.header, &section.file, &section.head)
        else {
            return Err(Error::malformed(
                Rule::ZstnIntegrity,
                "the copy of the header comes without the checksums to compare it with",
            ));
        };
        let header_len = prefix_len - PREFIX_FIXED_BYTES;
        zstd::check(copy, header_len)?;
        let mut header = bytes::buffer(header_len)?;
        zstd::decode(engine, copy, &mut header)?;
        // The original is the length of its header, the header, and the data.
        let data_len = file.len_bytes.saturating_sub(header_len + 8);
        let start = bytes::part(known.head(), 0..PREFIX_FIXED_BYTES - 8);
        Ok([start, &header, &data_len.to_le_bytes()].concat().into())
    }

    /// Adds bytes that [`Opening::needs`] has asked for.
    pub fn supply(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        match self.kind {
            Recognised::Delta if self.delta.is_walking_at(offset_bytes) => {
                self.known.supply_window(offset_bytes, bytes);
            }
            #[cfg(feature = "ztensor")]
            Recognised::ZTensor => {
                ztensor_opening::supply(&mut self.known, offset_bytes, bytes)?;
            }
            _ => self.known.supply(offset_bytes, bytes)?,
        }
        self.advance()
    }

    fn advance(&mut self) -> Result<()> {
        match self.kind {
            Recognised::Delta => self.delta.advance(&self.known),
            _ => Ok(()),
        }
    }

    /// The catalog. Offsets in errors count from the start of the file.
    pub fn finish<E: Engine>(self, engine: &E) -> Result<Catalog> {
        if !self.needs()?.is_empty() {
            return Err(Error::invalid_input("bytes of the file are still missing"));
        }
        let known = &self.known;
        let len_bytes = known.len_bytes();
        match self.kind {
            Recognised::Delta => return self.delta.finish(known),
            #[cfg(feature = "ztensor")]
            Recognised::ZTensor => return ztensor_opening::finish(known),
            #[cfg(feature = "gauss")]
            Recognised::Gauss => return gauss_opening::finish(known),
            Recognised::Safetensors => {
                let end = 8 + safetensors::header_len_bytes(known.head(), len_bytes)?;
                return Catalog::safetensors(&known.have(8..end), len_bytes);
            }
            Recognised::Zstn => {}
        }
        let prefix_bytes = self.prefix(engine)?;
        let prefix = Prefix::parse(&prefix_bytes, len_bytes)?;
        if prefix.layout == Layout::SingleFrame {
            return Err(Error::unsupported(
                "this checkpoint is stored as one frame: single tensors of it cannot be read, unpack \
                 the whole file",
            ));
        }
        let index = self.footer(prefix.end())?.index;
        let behind = known.have(index.start..len_bytes - FOOTER_BYTES);
        let tail = Tail::parse(&prefix, &prefix_bytes, &index, &behind)?;
        let header = bytes::part(&prefix_bytes, prefix.header.clone());
        let tables = self.tables(&tail, index.start);
        Catalog::zstn(header, prefix.data_len_bytes, tail, tables, len_bytes)
    }

    /// The block tables that have come with the index.
    fn tables(&self, tail: &Tail, index_start: u64) -> Tables {
        let all = tail.integrity.as_ref().and_then(Integrity::tables_start);
        let Some(start) = all.map(|start| start.max(self.known.tail_from())) else {
            return Tables::default();
        };
        let bytes = self.known.part(start..index_start.max(start));
        Tables {
            start,
            bytes: bytes.unwrap_or_default().into_owned(),
        }
    }

    fn footer(&self, prefix_len: u64) -> Result<Footer> {
        let len_bytes = self.known.len_bytes();
        let bytes = self.known.have(len_bytes - FOOTER_BYTES..len_bytes);
        Footer::parse(&bytes, prefix_len, len_bytes)
    }
}
