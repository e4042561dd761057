//! Reads and decodes single tensors.

use std::borrow::Cow;
use std::ptr;
use std::slice;

use zstn_core::model::{self, StoredPart};

use super::Reader;
use super::state_machine::{self, Need, Opened, Work};
use crate::source::{Source, Wanted};
use crate::{Engine, Error, Result};

/// The work of reading the stored parts of a tensor, and of the tensors of bases that
/// it requires. All of these parts are read at the same time.
pub(super) struct ReadTensor<'a, R> {
    /// The tensor, then the tensor of the base that it requires, and so on.
    chain: Vec<Stored<'a, R>>,
    is_fetched: bool,
}

/// A tensor of one model, and the bytes of its stored parts.
struct Stored<'a, R> {
    model: R,
    number: usize,
    parts: Vec<Cow<'a, [u8]>>,
}

impl<'a, R: Opened> ReadTensor<'a, R> {
    /// Returns the work for the tensor with this number.
    ///
    /// # Errors
    /// A base is needed that was not attached.
    pub(super) fn new(model: &R, number: usize) -> Result<Self> {
        let mut last = Stored::new(model.clone(), number);
        let mut chain = Vec::new();
        while let Some(base) = last.base()? {
            chain.push(last);
            last = base;
        }
        chain.push(last);
        Ok(Self {
            chain,
            is_fetched: false,
        })
    }

    /// Decodes the tensor into `out`.
    pub(super) fn finish_into(mut self, engine: &Engine, out: &mut [u8]) -> Result<()> {
        let base = self.decode_bases(engine)?;
        match &self.chain[..] {
            [tensor, ..] => tensor.decode_into(engine, base.as_deref(), out),
            [] => Ok(()),
        }
    }

    /// Decodes the tensor of the base that the tensor requires, if it requires one.
    fn decode_bases(&mut self, engine: &Engine) -> Result<Option<Vec<u8>>> {
        let mut bases = self.chain.drain(1..).rev();
        bases.try_fold(None, |decoded, base| base.decode(engine, decoded).map(Some))
    }
}

impl<'a, R: Opened> Work<'a> for ReadTensor<'a, R> {
    type Output = Vec<u8>;

    fn needs(&mut self) -> Result<Vec<Need>> {
        if self.is_fetched {
            return Ok(Vec::new());
        }
        let chain = self.chain.iter().enumerate();
        let needs = chain.flat_map(|(level, stored)| {
            stored.entry().parts.iter().map(move |part| Need {
                level,
                file: part.file,
                range: part.stored.clone(),
                is_compared: is_compared(&stored.model, part),
            })
        });
        Ok(needs.collect())
    }

    fn supply(&mut self, _: Vec<Need>, bytes: Vec<Cow<'a, [u8]>>) -> Result<()> {
        let mut bytes = bytes.into_iter();
        for stored in &mut self.chain {
            let count = stored.entry().parts.len();
            stored.parts = bytes.by_ref().take(count).collect();
        }
        self.is_fetched = true;
        Ok(())
    }

    fn finish(mut self, engine: &Engine) -> Result<Vec<u8>> {
        let base = self.decode_bases(engine)?;
        match self.chain.pop() {
            Some(tensor) => tensor.decode(engine, base),
            None => Ok(Vec::new()),
        }
    }
}

/// Returns whether decoding compares the bytes of a part with checksums, which depends
/// on its file.
fn is_compared(model: &impl Opened, part: &StoredPart) -> bool {
    model.model().files()[part.file].is_covered()
}

impl<'a, R: Opened> Stored<'a, R> {
    fn new(model: R, number: usize) -> Self {
        Self {
            model,
            number,
            parts: Vec::new(),
        }
    }

    fn entry(&self) -> &model::TensorInfo {
        &self.model.model().tensors()[self.number]
    }

    /// Returns the tensor of the base that this tensor requires. Its parts have not been
    /// read.
    fn base(&self) -> Result<Option<Self>> {
        let tensor = self.entry();
        match (tensor.base, self.model.base()) {
            (None, _) => Ok(None),
            (Some(_), Some(base)) => {
                let number = self.model.in_base(self.number, base)?;
                Ok(Some(Self::new(base.clone(), number)))
            }
            (Some(_), None) => Err(Error::NeedsBase {
                name: self.model.name().into(),
                detail: format!(", and `{}` is needed from that one", tensor.name),
            }),
        }
    }

    /// Decodes the tensor; `base` is the decoded tensor of the base.
    fn decode(mut self, engine: &Engine, base: Option<Vec<u8>>) -> Result<Vec<u8>> {
        let parts: Vec<&[u8]> = self.parts.iter().map(|part| &**part).collect();
        let model = self.model.model();
        let decoded = model.decode(engine, self.number, &parts, base.as_deref());
        self.model.check_parts(&self.entry().parts)?;
        // If the result is one of the parts, because that part is stored plain, it is
        // not copied.
        let own = match decoded.map_err(|error| self.model.undecodable(self.number, error))? {
            Cow::Owned(bytes) => return Ok(bytes),
            Cow::Borrowed(bytes) => match parts.iter().position(|part| ptr::eq(*part, bytes)) {
                Some(part) => part,
                None => return Ok(bytes.to_vec()),
            },
        };
        Ok(self.parts.swap_remove(own).into_owned())
    }

    fn decode_into(&self, engine: &Engine, base: Option<&[u8]>, out: &mut [u8]) -> Result<()> {
        decode_parts(&self.model, engine, self.number, &self.parts, base, out)
    }
}

/// Decodes a tensor from its stored parts and, if it requires a base, from the decoded
/// tensor of the base.
pub(super) fn decode_parts(
    model: &impl Opened,
    engine: &Engine,
    number: usize,
    parts: &[Cow<'_, [u8]>],
    base: Option<&[u8]>,
    out: &mut [u8],
) -> Result<()> {
    let parts: Vec<&[u8]> = parts.iter().map(|part| &**part).collect();
    let decoded = model.model().decode_into(engine, number, &parts, base, out);
    model.check_parts(&model.model().tensors()[number].parts)?;
    decoded.map_err(|error| model.undecodable(number, error))
}

impl Reader {
    pub(super) fn decode(&self, engine: &Engine, number: usize) -> Result<Vec<u8>> {
        let model = self.model();
        if model.is_plain(number) {
            let mut bytes = zstn_core::bytes::buffer(model.tensors()[number].len_bytes())?;
            self.decode_into(engine, number, &mut bytes)?;
            return Ok(bytes);
        }
        state_machine::run(ReadTensor::new(self, number)?, engine, |need| {
            self.needed(need)
        })
    }

    pub(super) fn decode_into(&self, engine: &Engine, number: usize, out: &mut [u8]) -> Result<()> {
        if let Some(part) = self.model().plain_part(number) {
            if !out.is_empty() {
                self.source(part).read_into(part.stored.start, out)?;
            }
            return self.check_parts(slice::from_ref(part));
        }
        let mut work = ReadTensor::new(self, number)?;
        state_machine::fetch(&mut work, |need| self.needed(need))?;
        work.finish_into(engine, out)
    }

    /// Returns the ranges of the stored parts of a tensor.
    pub(super) fn wanted(&self, number: usize) -> impl Iterator<Item = Wanted<'_>> {
        let parts = self.tensors()[number].parts.iter();
        parts.map(|part| Wanted {
            source: self.source(part),
            range: part.stored.clone(),
            is_compared: is_compared(self, part),
        })
    }

    pub(super) fn source(&self, part: &StoredPart) -> &dyn Source {
        &*self.sources()[part.file]
    }
}
