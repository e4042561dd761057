//! Reading and decoding one tensor.

use std::borrow::Cow;

use zstn_core::model::{self, StoredPart};

use super::Reader;
use crate::{Engine, Error, Result};

impl Reader {
    pub(super) fn decode(&self, engine: &Engine, number: usize) -> Result<Vec<u8>> {
        let model = self.model();
        let tensor = &model.tensors()[number];
        if model.is_plain(number) {
            let mut bytes = zstn_core::bytes::buffer(tensor.len_bytes())?;
            self.decode_into(engine, number, &mut bytes)?;
            return Ok(bytes);
        }
        let base = self.base_tensor(engine, tensor)?;
        let stored = self.stored_parts(tensor)?;
        let parts: Vec<&[u8]> = stored.iter().map(|part| &**part).collect();
        let bytes = model
            .decode(engine, number, &parts, base.as_deref())
            .map(Cow::into_owned);
        self.check_unchanged(&tensor.parts)?;
        bytes.map_err(Error::place(self.name()))
    }

    pub(super) fn decode_into(&self, engine: &Engine, number: usize, out: &mut [u8]) -> Result<()> {
        let model = self.model();
        let tensor = &model.tensors()[number];
        if let [part] = &tensor.parts[..]
            && model.is_plain(number)
            && part.stored.end - part.stored.start == out.len() as u64
        {
            if !out.is_empty() {
                self.sources()[part.file].read_into(part.stored.start, out)?;
            }
            return self.check_unchanged(&tensor.parts);
        }
        let base = self.base_tensor(engine, tensor)?;
        let stored = self.stored_parts(tensor)?;
        let parts: Vec<&[u8]> = stored.iter().map(|part| &**part).collect();
        let decoded = model.decode_into(engine, number, &parts, base.as_deref(), out);
        self.check_unchanged(&tensor.parts)?;
        decoded.map_err(Error::place(self.name()))
    }

    /// Reads the tensor of the base that `tensor` needs, if it does.
    fn base_tensor(&self, engine: &Engine, tensor: &model::Tensor) -> Result<Option<Vec<u8>>> {
        let name = &tensor.name;
        match (tensor.base, &self.base) {
            (None, _) => Ok(None),
            (Some(_), Some(base)) => base.decode(engine, base.number(name)?).map(Some),
            (Some(_), None) => Err(Error::NeedsBase {
                name: self.name().into(),
                detail: format!(", and `{name}` is needed from that one"),
            }),
        }
    }

    fn stored_parts(&self, tensor: &model::Tensor) -> Result<Vec<Cow<'_, [u8]>>> {
        let parts = tensor.parts.iter();
        let stored = parts.map(|part| match part.stored.is_empty() {
            true => Ok(Cow::Borrowed(&[][..])),
            false => self.sources()[part.file].read(part.stored.clone()),
        });
        stored.collect()
    }

    /// Refuses what was read of `parts` if somebody wrote to one of their files
    /// since it was opened: bytes of two versions may have met.
    fn check_unchanged(&self, parts: &[StoredPart]) -> Result<()> {
        let mut files = parts.iter().map(|part| &self.sources()[part.file]);
        files.try_for_each(|source| source.check_unchanged())
    }
}
