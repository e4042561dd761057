//! Parses and builds safetensors files in memory.

use serde_json::{Map, json};
use zstn_core::bytes::part;
use zstn_core::container::foreign::compressed_tensors::TensorSpec;
use zstn_core::container::foreign::gauss::SourceTensor;
use zstn_core::container::safetensors::{Header, PREFIX_BYTES, TensorInfo, header_len_bytes};

/// A parsed safetensors file that borrows its bytes.
#[derive(Debug)]
pub struct Checkpoint<'a> {
    /// The parsed header.
    pub header: Header,
    data: &'a [u8],
}

impl<'a> Checkpoint<'a> {
    /// Parses the header of a safetensors file.
    ///
    /// # Panics
    /// If the file is not valid safetensors.
    #[must_use]
    pub fn parse(file: &'a [u8]) -> Self {
        let len = header_len_bytes(file, file.len() as u64).expect("a header");
        let (start, end) = (PREFIX_BYTES, PREFIX_BYTES + len);
        let data = part(file, end..file.len() as u64);
        let header = Header::parse(part(file, start..end), data.len() as u64).expect("a header");
        Self { header, data }
    }

    /// Returns the tensor called `name` and its bytes.
    ///
    /// # Panics
    /// If the file has no such tensor.
    #[must_use]
    pub fn tensor(&self, name: &str) -> (&TensorInfo, &'a [u8]) {
        let tensor = self
            .header
            .tensors
            .iter()
            .find(|tensor| tensor.name == name);
        let tensor = tensor.expect("a tensor of that name");
        (tensor, part(self.data, tensor.span.clone()))
    }

    /// Returns all tensors in data order, as sources for an encoder.
    #[must_use]
    pub fn sources(&self) -> Vec<SourceTensor<'_>> {
        let tensors = self.header.tensors.iter();
        tensors
            .map(|tensor| SourceTensor {
                name: &tensor.name,
                dtype: tensor.dtype,
                shape: &tensor.shape,
                bytes: part(self.data, tensor.span.clone()),
            })
            .collect()
    }
}

/// Builds a safetensors file that contains these tensors in this order.
#[must_use]
pub fn safetensors<'a>(tensors: impl IntoIterator<Item = (&'a TensorSpec, &'a [u8])>) -> Vec<u8> {
    let mut header = Map::new();
    let mut data = Vec::new();
    for (stored, bytes) in tensors {
        let end = data.len() + bytes.len();
        let entry = json!({
            "dtype": stored.dtype.name(), "shape": stored.shape, "data_offsets": [data.len(), end],
        });
        header.insert(stored.name.clone(), entry);
        data.extend_from_slice(bytes);
    }
    let header = json!(header).to_string();
    let len = (header.len() as u64).to_le_bytes();
    [&len[..], header.as_bytes(), &data].concat()
}
