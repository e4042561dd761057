//! From the first bytes of a file to its [`Catalog`], by way of as few reads
//! as possible.
//!
//! The head tells the length of the header. An index is never longer than
//! the header it belongs to (a record takes 35 bytes and a name, the shortest
//! entry of a header more), so header and index can be asked for together:
//! two round trips, whatever the size of the model, and no request that
//! counts from the end of the file, which browsers do not allow without a
//! preflight.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::Catalog;
use crate::bytes;
use crate::container::zstn::{self, FOOTER_BYTES, Footer, Index, Layout, Prefix};
use crate::container::{model_delta, safetensors};
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
        return Err(Error::unsupported(
            "this is the difference between two checkpoints (Z4DM): it can only be unpacked, \
             together with its base",
        ));
    }
    for (magic, what) in [
        (&b"Z4DL"[..], "a buffer delta (Z4DL)"),
        (b"ZTEN", "a zTensor file"),
        (b"GAUSS", "a Gauss file"),
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
            "this is neither a ZSTN nor a safetensors file: its first bytes are {}",
            frame::printable(&head[..head.len().min(8)])
        ),
    };
    Err(Error::malformed(Rule::Recognised, detail).at(0))
}

/// A file being opened: it has a head, perhaps a tail, and knows what is
/// missing.
#[derive(Debug, Clone)]
pub struct Opening {
    len_bytes: u64,
    kind: Recognised,
    /// The file's bytes from 0 on.
    head: Vec<u8>,
    /// The file's last bytes.
    tail: Vec<u8>,
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
        Ok(Self {
            len_bytes: file_len_bytes,
            kind: recognise(&head, file_len_bytes)?,
            head,
            tail: Vec::new(),
        })
    }

    /// Byte ranges still missing; empty once [`Opening::finish`] can work.
    /// They do not overlap and may be read at the same time.
    pub fn needs(&self) -> Result<Vec<Range<u64>>> {
        match self.kind {
            Recognised::Safetensors => {
                let end = 8 + safetensors::header_len_bytes(&self.head, self.len_bytes)?;
                Ok(self.missing_head(end).into_iter().collect())
            }
            Recognised::Zstn => self.zstn_needs(),
        }
    }

    fn zstn_needs(&self) -> Result<Vec<Range<u64>>> {
        let prefix_len = Prefix::len_bytes(&self.head, self.len_bytes)?;
        let mut missing: Vec<_> = self.missing_head(prefix_len).into_iter().collect();
        if self.head.get(5) == Some(&0) {
            return Ok(missing);
        }
        // 24: the record count and the footer.
        let guess = self.len_bytes.saturating_sub(prefix_len + 24);
        let covered = prefix_len.max(self.head.len() as u64);
        if self
            .part(self.len_bytes - FOOTER_BYTES..self.len_bytes)
            .is_none()
        {
            missing.push(guess.max(covered)..self.len_bytes);
        } else if missing.is_empty() {
            let index = self.footer(prefix_len)?.index;
            let tail_start = self.len_bytes - self.tail.len() as u64;
            if self.part(index.clone()).is_none() {
                missing.push(index.start.max(covered)..tail_start);
            }
        }
        Ok(missing)
    }

    fn missing_head(&self, end: u64) -> Option<Range<u64>> {
        let have = self.head.len() as u64;
        (have < end).then_some(have..end)
    }

    /// Adds bytes that [`Opening::needs`] has asked for.
    pub fn supply(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        let tail_start = self.len_bytes - self.tail.len() as u64;
        if offset_bytes == self.head.len() as u64 {
            self.head.extend_from_slice(bytes);
        } else if offset_bytes.checked_add(bytes.len() as u64) == Some(tail_start) {
            let mut tail = bytes.to_vec();
            tail.append(&mut self.tail);
            self.tail = tail;
        } else {
            return Err(Error::invalid_input("nobody asked for these bytes"));
        }
        Ok(())
    }

    /// The catalog. Offsets in errors count from the start of the file.
    pub fn finish(self) -> Result<Catalog> {
        if !self.needs()?.is_empty() {
            return Err(Error::invalid_input("bytes of the file are still missing"));
        }
        if self.kind == Recognised::Safetensors {
            let end = 8 + safetensors::header_len_bytes(&self.head, self.len_bytes)?;
            return Catalog::safetensors(&self.have(8..end), self.len_bytes);
        }
        let prefix = Prefix::parse(&self.head, self.len_bytes)?;
        if prefix.layout == Layout::SingleFrame {
            return Err(Error::unsupported(
                "this checkpoint is stored as one frame: single tensors of it cannot be read, unpack \
                 the whole file",
            ));
        }
        let index = self.footer(prefix.end())?.index;
        let parsed = Index::parse(
            &self.have(index.clone()),
            prefix.end()..index.start,
            prefix.data_len_bytes,
        )?;
        let header = self.have(prefix.header.clone());
        Catalog::zstn(&header, prefix.data_len_bytes, &parsed, self.len_bytes)
    }

    fn footer(&self, prefix_len: u64) -> Result<Footer> {
        let bytes = self.have(self.len_bytes - FOOTER_BYTES..self.len_bytes);
        Footer::parse(&bytes, prefix_len, self.len_bytes)
    }

    fn have(&self, range: Range<u64>) -> Vec<u8> {
        self.part(range).unwrap_or_default()
    }

    /// The bytes of `range` if all of them are known.
    fn part(&self, range: Range<u64>) -> Option<Vec<u8>> {
        let head_end = self.head.len() as u64;
        let tail_start = self.len_bytes - self.tail.len() as u64;
        if range.end <= head_end {
            return Some(bytes::part(&self.head, range).to_vec());
        }
        let from_tail =
            |start: u64| bytes::part(&self.tail, start - tail_start..range.end - tail_start);
        if range.start >= tail_start {
            return Some(from_tail(range.start).to_vec());
        }
        if head_end < tail_start {
            return None;
        }
        let mut joined = vec![];
        joined.extend_from_slice(bytes::part(&self.head, range.start..head_end));
        joined.extend_from_slice(from_tail(head_end));
        Some(joined)
    }
}
