//! Writes version 0.1, byte for byte as the released packages do
//! (docs/formats/ztensor.md 2, 3 and 5).

use alloc::borrow::Cow;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use minicbor::Encoder;

use super::ByteOrder;
use super::Field;
use super::checksum::{DigestKind, PartDigest};
use super::footer;
use super::part::swapped;
use super::tensor::TensorLayout;
use super::tensor::long_name;
use crate::dtype::Dtype;
use crate::engine::{PackEngine, ZstdCoding};
use crate::{Error, Result};

/// The alignment of blobs in bytes.
const ALIGNMENT_BYTES: u64 = 64;
const PADDING: [u8; 63] = [0; 63];

const RESERVED: [&str; 9] = [
    "name",
    "offset",
    "size",
    "dtype",
    "layout",
    "shape",
    "encoding",
    "data_endianness",
    "checksum",
];

/// Returns whether tensors of `dtype` can be written: version 0.1 has thirteen
/// dtypes.
#[must_use]
pub fn can_write(dtype: Dtype) -> bool {
    long_name(dtype).is_some()
}

/// The encoding of a new tensor's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartStorage {
    /// Uncompressed, in this byte order.
    Raw(ByteOrder),
    /// One zstd frame.
    Zstd(ZstdCoding),
}

/// A tensor to be written.
#[derive(Debug, Clone)]
pub struct SourceTensor<'a> {
    /// The name: any string that is unique within the file.
    pub name: &'a str,
    /// The element type, one of the thirteen dtypes of version 0.1.
    pub dtype: Dtype,
    /// The shape, outermost dimension first. Empty for a scalar.
    pub shape: &'a [u64],
    /// The layout: [`TensorLayout::Dense`] unless an old sparse tensor is copied.
    pub layout: TensorLayout,
    /// The encoding of the bytes.
    pub storage: PartStorage,
    /// The algorithm of the checksum to write, if any.
    pub checksum: Option<DigestKind>,
    /// The custom keys, in any order.
    pub fields: &'a [Field],
}

impl<'a> SourceTensor<'a> {
    /// Creates an entry for a dense tensor, uncompressed and without a
    /// checksum, as the Python packages write it.
    #[must_use]
    pub fn dense(name: &'a str, dtype: Dtype, shape: &'a [u64]) -> Self {
        Self {
            name,
            dtype,
            shape,
            layout: TensorLayout::Dense,
            storage: PartStorage::Raw(ByteOrder::Little),
            checksum: None,
            fields: &[],
        }
    }

    /// Encodes the elements in `bytes`, which must be little-endian and
    /// row-major, for storage.
    pub fn encode<'b, E: PackEngine>(&self, engine: &E, bytes: &'b [u8]) -> Result<Cow<'b, [u8]>> {
        let width = self.dtype.len_bytes().unwrap_or(1);
        // Readers multiply in this order, and refuse an overflow at any step.
        let count = self
            .shape
            .iter()
            .try_fold(1u64, |all, &d| all.checked_mul(d));
        let expected = count.and_then(|count| count.checked_mul(width as u64));
        // The length is required of sparse tensors too, because the released
        // readers insist on it.
        if expected != Some(bytes.len() as u64) {
            return Err(Error::invalid_input(format!(
                "{} bytes do not fill a {} of shape {:?}",
                bytes.len(),
                self.dtype,
                self.shape
            ))
            .tensor(self.name));
        }
        if self.dtype == Dtype::Bool
            && let Some(byte) = bytes.iter().find(|&&byte| byte > 1)
        {
            return Err(Error::unsupported(format!(
                "a BOOL element is {byte}, which readers of zTensor turn into 1; convert to \
                 .safetensors or .zstn, which keep it"
            ))
            .tensor(self.name));
        }
        Ok(match self.storage {
            PartStorage::Raw(ByteOrder::Big) if width > 1 => swapped(bytes, width)?.into(),
            PartStorage::Raw(_) => bytes.into(),
            PartStorage::Zstd(coding) => {
                let mut out = Vec::new();
                engine.zstd_encode(bytes, coding, &mut out);
                out.into()
            }
        })
    }
}

/// Writes a file from front to back. It returns the bytes to write between the
/// blobs and after them.
#[derive(Debug, Clone)]
pub struct ZTensorWriter {
    position: u64,
    names: BTreeSet<String>,
    count: u64,
    /// The encoded CBOR maps of the tensors added so far.
    maps: Vec<u8>,
}

impl ZTensorWriter {
    /// Starts a file. Also returns its first bytes.
    #[must_use]
    pub fn new() -> (Self, [u8; 8]) {
        let magic = footer::magic();
        let writer = Self {
            position: magic.len() as u64,
            names: BTreeSet::new(),
            count: 0,
            maps: Vec::new(),
        };
        (writer, magic)
    }

    /// Adds a tensor. Returns the padding that has to be written first,
    /// followed by `stored`, the result of [`SourceTensor::encode`].
    pub fn add(&mut self, entry: &SourceTensor, stored: &[u8]) -> Result<&'static [u8]> {
        let refuse = |detail: &'static str| Err(Error::invalid_input(detail).tensor(entry.name));
        let Some(dtype) = long_name(entry.dtype) else {
            return refuse("zTensor 0.1 has no such dtype");
        };
        let layout = match entry.layout {
            TensorLayout::Dense => "dense",
            TensorLayout::PackedCoo => "sparsecoo",
            TensorLayout::PackedCsr => "sparsecsr",
            _ => return refuse("zTensor 0.1 has no such layout"),
        };
        let mut fields: Vec<&Field> = entry.fields.iter().collect();
        fields.sort_by_key(|field| field.name());
        if fields.iter().any(|field| RESERVED.contains(&field.name()))
            || !fields.is_sorted_by(|a, b| a.name() < b.name())
        {
            return refuse("a custom key occurs twice, or is reserved in zTensor 0.1");
        }
        if !self.names.insert(entry.name.into()) {
            return refuse("another tensor has this name");
        }
        let offset = self.position.next_multiple_of(ALIGNMENT_BYTES);
        let padding = crate::bytes::index(offset - self.position);
        self.position = offset + stored.len() as u64;
        self.count += 1;
        // Encoding into memory cannot fail.
        let _ = self.map(entry, dtype, layout, &fields, offset, stored);
        Ok(&PADDING[..padding])
    }

    fn map(
        &mut self,
        entry: &SourceTensor,
        dtype: &str,
        layout: &str,
        fields: &[&Field],
        offset: u64,
        stored: &[u8],
    ) -> Result<(), minicbor::encode::Error<core::convert::Infallible>> {
        let mut out = Encoder::new(&mut self.maps);
        out.begin_map()?;
        out.str("name")?.str(entry.name)?;
        out.str("offset")?.u64(offset)?;
        out.str("size")?.u64(stored.len() as u64)?;
        out.str("dtype")?.str(dtype)?;
        out.str("layout")?.str(layout)?;
        out.str("shape")?.array(entry.shape.len() as u64)?;
        for &dimension in entry.shape {
            out.u64(dimension)?;
        }
        out.str("encoding")?.str(match entry.storage {
            PartStorage::Raw(_) => "raw",
            PartStorage::Zstd(_) => "zstd",
        })?;
        if let PartStorage::Raw(order) = entry.storage
            && entry.dtype.len_bytes() != Some(1)
        {
            out.str("data_endianness")?.str(match order {
                ByteOrder::Little => "little",
                ByteOrder::Big => "big",
            })?;
        }
        if let Some(kind) = entry.checksum {
            out.str("checksum")?
                .str(&PartDigest::of(kind, stored).to_text())?;
        }
        for field in fields {
            out.str(field.name())?
                .writer_mut()
                .extend_from_slice(field.cbor());
        }
        out.end()?.ok()
    }

    /// Returns the bytes to write after the last blob.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        let mut out = Encoder::new(Vec::new());
        // Encoding into memory cannot fail.
        let _ = out.array(self.count);
        let mut out = out.into_writer();
        out.extend_from_slice(&self.maps);
        let len_bytes = out.len() as u64;
        out.extend_from_slice(&len_bytes.to_le_bytes());
        out
    }
}

/// Returns a whole file of version 0.1. Each tensor is given with its elements,
/// little-endian and row-major.
pub fn write<E: PackEngine>(engine: &E, tensors: &[(SourceTensor, &[u8])]) -> Result<Vec<u8>> {
    let (mut writer, magic) = ZTensorWriter::new();
    let mut out = magic.to_vec();
    for (entry, bytes) in tensors {
        let stored = entry.encode(engine, bytes)?;
        out.extend_from_slice(writer.add(entry, &stored)?);
        out.extend_from_slice(&stored);
    }
    out.extend_from_slice(&writer.finish());
    Ok(out)
}
