//! Decoding of a tensor of a model into a buffer that the caller provides.

use super::Model;
use crate::Result;
use crate::catalog::copy;
use crate::engine::Engine;

impl Model {
    /// Decodes tensor `number` into `out`, otherwise like [`Model::decode`]. A
    /// tensor of a ZSTN file is decoded in place; other tensors are decoded and
    /// then copied.
    ///
    /// # Errors
    /// The errors of [`Model::decode`], and
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if `out` does not have
    /// the length of the tensor. The content of `out` is unspecified after an
    /// error.
    pub fn decode_into<E: Engine>(
        &self,
        engine: &E,
        number: usize,
        parts: &[&[u8]],
        base: Option<&[u8]>,
        out: &mut [u8],
    ) -> Result<()> {
        let tensor = self.tensor(number)?;
        if let (None, [part], [stored]) = (&tensor.weight, &tensor.parts[..], parts) {
            let file = &self.files[part.file];
            return file.decode_into(engine, part.number, stored, base, out);
        }
        let decoded = self.decode(engine, number, parts, base)?;
        copy(&tensor.name, &decoded, out)
    }
}
