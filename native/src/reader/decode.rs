//! Reads and decodes single tensors.

use std::borrow::Cow;
use std::iter;
use std::ptr;
use std::slice;

use zstn_core::ErrorKind;
use zstn_core::model::StoredPart;

use super::Reader;
use crate::source::{Source, Wanted, read_wanted};
use crate::{Engine, Error, Result};

/// A tensor whose stored parts have been read but not decoded.
struct Fetched<'a> {
    reader: &'a Reader,
    number: usize,
    /// The bytes of its stored parts.
    parts: Vec<Cow<'a, [u8]>>,
}

impl Reader {
    pub(super) fn decode(&self, engine: &Engine, number: usize) -> Result<Vec<u8>> {
        let model = self.model();
        let tensor = &model.tensors()[number];
        if model.is_plain(number) {
            let mut bytes = zstn_core::bytes::buffer(tensor.len_bytes())?;
            self.decode_into(engine, number, &mut bytes)?;
            return Ok(bytes);
        }
        let (tensor, base) = self.fetch(engine, number)?;
        tensor.decode(engine, base)
    }

    pub(super) fn decode_into(&self, engine: &Engine, number: usize, out: &mut [u8]) -> Result<()> {
        if let Some(part) = self.model().plain_part(number) {
            if !out.is_empty() {
                self.source(part).read_into(part.stored.start, out)?;
            }
            return self.check_unchanged(slice::from_ref(part));
        }
        let (fetched, base) = self.fetch(engine, number)?;
        self.decode_parts(engine, number, &fetched.parts, base.as_deref(), out)
    }

    /// Decodes a tensor from its stored parts and, if it requires a base, from the
    /// decoded tensor of the base.
    pub(super) fn decode_parts(
        &self,
        engine: &Engine,
        number: usize,
        parts: &[Cow<'_, [u8]>],
        base: Option<&[u8]>,
        out: &mut [u8],
    ) -> Result<()> {
        let parts: Vec<&[u8]> = parts.iter().map(|part| &**part).collect();
        let decoded = self.model().decode_into(engine, number, &parts, base, out);
        self.check_unchanged(&self.tensors()[number].parts)?;
        decoded.map_err(|error| self.undecodable(number, error))
    }

    /// Returns the ranges of the stored parts of a tensor. The file of each part
    /// determines whether decoding compares its bytes with checksums.
    pub(super) fn wanted(&self, number: usize) -> impl Iterator<Item = Wanted<'_>> {
        let parts = self.tensors()[number].parts.iter();
        parts.map(|part| Wanted {
            source: self.source(part),
            range: part.stored.clone(),
            is_compared: self.model().files()[part.file].is_covered(),
        })
    }

    /// Returns the error for a tensor that could not be decoded. If servers have
    /// responded with different validators, this is an [`Error::Changed`]: the file was
    /// probably changed.
    fn undecodable(&self, number: usize, error: zstn_core::Error) -> Error {
        let mut sources = self.tensors()[number].parts.iter().map(|p| self.source(p));
        let change = match error.kind() {
            ErrorKind::Malformed => sources.find_map(Source::other_version),
            _ => None,
        };
        change.unwrap_or_else(|| Error::place(self.name())(error))
    }

    pub(super) fn source(&self, part: &StoredPart) -> &dyn Source {
        &*self.sources()[part.file]
    }

    /// Reads the stored parts of a tensor, and decodes the tensor of the base that it
    /// requires, if any. The parts of both, and of further bases, are read at the same
    /// time.
    fn fetch(&self, engine: &Engine, number: usize) -> Result<(Fetched<'_>, Option<Vec<u8>>)> {
        let mut tensor = Fetched {
            reader: self,
            number,
            parts: Vec::new(),
        };
        let mut bases = Vec::new();
        let mut next = tensor.base()?;
        while let Some(base) = next {
            next = base.base()?;
            bases.push(base);
        }
        let all = iter::once(&tensor).chain(&bases);
        let wanted: Vec<_> = all.flat_map(Fetched::wanted).collect();
        let mut read = read_wanted(&wanted)?.into_iter();
        for tensor in iter::once(&mut tensor).chain(&mut bases) {
            let count = tensor.wanted().count();
            tensor.parts = read.by_ref().take(count).collect();
        }
        let mut decoded = None;
        for base in bases.into_iter().rev() {
            decoded = Some(base.decode(engine, decoded)?);
        }
        Ok((tensor, decoded))
    }

    /// Returns an error if a file of `parts` was written to after it was opened, since
    /// the bytes that were read may come from two versions.
    pub(super) fn check_unchanged(&self, parts: &[StoredPart]) -> Result<()> {
        let mut sources = parts.iter().map(|part| self.source(part));
        sources.try_for_each(Source::check_unchanged)
    }
}

impl<'a> Fetched<'a> {
    /// Returns the tensor of the base that this tensor requires. Its parts have not
    /// been read.
    fn base(&self) -> Result<Option<Self>> {
        let tensor = &self.reader.tensors()[self.number];
        let name = &tensor.name;
        match (tensor.base, self.reader.base()) {
            (None, _) => Ok(None),
            (Some(_), Some(reader)) => Ok(Some(Self {
                number: reader.number(name)?,
                reader,
                parts: Vec::new(),
            })),
            (Some(_), None) => Err(Error::NeedsBase {
                name: self.reader.name().into(),
                detail: format!(", and `{name}` is needed from that one"),
            }),
        }
    }

    /// Returns the ranges of its stored parts.
    fn wanted(&self) -> impl Iterator<Item = Wanted<'a>> + use<'a> {
        self.reader.wanted(self.number)
    }

    /// Decodes the tensor; `base` is the decoded tensor of the base.
    fn decode(mut self, engine: &Engine, base: Option<Vec<u8>>) -> Result<Vec<u8>> {
        let reader = self.reader;
        let parts: Vec<&[u8]> = self.parts.iter().map(|part| &**part).collect();
        let model = reader.model();
        let decoded = model.decode(engine, self.number, &parts, base.as_deref());
        reader.check_unchanged(&reader.tensors()[self.number].parts)?;
        // If the result is one of the parts, because that part is stored plain, it is
        // not copied.
        let own = match decoded.map_err(|error| reader.undecodable(self.number, error))? {
            Cow::Owned(bytes) => return Ok(bytes),
            Cow::Borrowed(bytes) => match parts.iter().position(|part| ptr::eq(*part, bytes)) {
                Some(part) => part,
                None => return Ok(bytes.to_vec()),
            },
        };
        Ok(self.parts.swap_remove(own).into_owned())
    }
}
