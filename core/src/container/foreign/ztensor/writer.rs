//! Writing version 0.1, byte for byte as the released packages do
//! (docs/formats/ztensor.md 2, 3, 5).

use alloc::borrow::Cow;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use minicbor::Encoder;

use super::checksum::{Digest, DigestKind};
use super::element::long_name;
use super::field::Field;
use super::footer;
use super::part::{ByteOrder, swapped};
use super::tensor::Layout;
use crate::dtype::Dtype;
use crate::engine::{PackEngine, ZstdCoding};
use crate::{Error, Result};

/// Blobs begin at multiples of this.
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

/// Returns whether tensors of `dtype` can be written: version 0.1 has thirteen.
#[must_use]
pub fn can_write(dtype: Dtype) -> bool {
    long_name(dtype).is_some()
}

/// How the bytes of a new tensor are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// Uncompressed, in this byte order.
    Raw(ByteOrder),
    /// One zstd frame.
    Zstd(ZstdCoding),
}

/// A tensor to be written.
#[derive(Debug, Clone)]
pub struct Entry<'a> {
    /// Name: any text, once in a file.
    pub name: &'a str,
    /// Element type: one of the thirteen of version 0.1.
    pub dtype: Dtype,
    /// Shape, outermost dimension first; empty for a scalar.
    pub shape: &'a [u64],
    /// [`Layout::Dense`] unless an old sparse tensor is copied.
    pub layout: Layout,
    /// How it is stored.
    pub storage: Storage,
    /// The checksum to write, if one is wanted.
    pub checksum: Option<DigestKind>,
    /// Custom keys; their order does not matter.
    pub fields: &'a [Field],
}

impl<'a> Entry<'a> {
    /// Creates a dense tensor, uncompressed and without a checksum: what the
    /// Python packages write.
    #[must_use]
    pub fn dense(name: &'a str, dtype: Dtype, shape: &'a [u64]) -> Self {
        Self {
            name,
            dtype,
            shape,
            layout: Layout::Dense,
            storage: Storage::Raw(ByteOrder::Little),
            checksum: None,
            fields: &[],
        }
    }

    /// Returns the stored form of the elements in `bytes`, which are
    /// little-endian and row-major.
    pub fn encode<'b, E: PackEngine>(&self, engine: &E, bytes: &'b [u8]) -> Result<Cow<'b, [u8]>> {
        let width = self.dtype.len_bytes().unwrap_or(1);
        // Readers multiply in this order, and refuse what is too much on the way.
        let count = self
            .shape
            .iter()
            .try_fold(1u64, |all, &d| all.checked_mul(d));
        let expected = count.and_then(|count| count.checked_mul(width as u64));
        // Sparse ones too: the released readers insist on it.
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
            Storage::Raw(ByteOrder::Big) if width > 1 => swapped(bytes, width)?.into(),
            Storage::Raw(_) => bytes.into(),
            Storage::Zstd(coding) => {
                let mut out = Vec::new();
                engine.zstd_encode(bytes, coding, &mut out);
                out.into()
            }
        })
    }
}

/// Writes a file from front to back, returning the bytes that go between the
/// blobs and after them.
#[derive(Debug, Clone)]
pub struct Writer {
    position: u64,
    names: BTreeSet<String>,
    count: u64,
    /// The maps of the tensors so far.
    maps: Vec<u8>,
}

impl Writer {
    /// Starts a file; returns its first bytes as well.
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

    /// Adds a tensor. Returns the zero bytes that have to be written first;
    /// `stored`, made by [`Entry::encode`], follows them.
    pub fn add(&mut self, entry: &Entry, stored: &[u8]) -> Result<&'static [u8]> {
        let refuse = |detail: &'static str| Err(Error::invalid_input(detail).tensor(entry.name));
        let Some(dtype) = long_name(entry.dtype) else {
            return refuse("zTensor 0.1 has no such dtype");
        };
        let layout = match entry.layout {
            Layout::Dense => "dense",
            Layout::PackedCoo => "sparsecoo",
            Layout::PackedCsr => "sparsecsr",
            _ => return refuse("zTensor 0.1 has no such layout"),
        };
        let mut fields: Vec<&Field> = entry.fields.iter().collect();
        fields.sort_by_key(|field| field.name());
        if fields.iter().any(|field| RESERVED.contains(&field.name()))
            || !fields.is_sorted_by(|a, b| a.name() < b.name())
        {
            return refuse("a custom key is there twice or means something else in zTensor 0.1");
        }
        if !self.names.insert(entry.name.into()) {
            return refuse("there is a tensor of this name already");
        }
        let offset = self.position.next_multiple_of(ALIGNMENT_BYTES);
        let padding = crate::bytes::index(offset - self.position);
        self.position = offset + stored.len() as u64;
        self.count += 1;
        // Memory takes everything: encoding cannot fail.
        let _ = self.map(entry, dtype, layout, &fields, offset, stored);
        Ok(&PADDING[..padding])
    }

    fn map(
        &mut self,
        entry: &Entry,
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
            Storage::Raw(_) => "raw",
            Storage::Zstd(_) => "zstd",
        })?;
        if let Storage::Raw(order) = entry.storage
            && entry.dtype.len_bytes() != Some(1)
        {
            out.str("data_endianness")?.str(match order {
                ByteOrder::Little => "little",
                ByteOrder::Big => "big",
            })?;
        }
        if let Some(kind) = entry.checksum {
            out.str("checksum")?
                .str(&Digest::of(kind, stored).to_text())?;
        }
        for field in fields {
            out.str(field.name())?
                .writer_mut()
                .extend_from_slice(field.cbor());
        }
        out.end()?.ok()
    }

    /// Returns what comes after the last blob.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        let mut out = Encoder::new(Vec::new());
        // Memory takes everything.
        let _ = out.array(self.count);
        let mut out = out.into_writer();
        out.extend_from_slice(&self.maps);
        let len_bytes = out.len() as u64;
        out.extend_from_slice(&len_bytes.to_le_bytes());
        out
    }
}

/// Returns a whole file of version 0.1 in memory: each tensor with its
/// elements, little-endian and row-major.
pub fn write<E: PackEngine>(engine: &E, tensors: &[(Entry, &[u8])]) -> Result<Vec<u8>> {
    let (mut writer, magic) = Writer::new();
    let mut out = magic.to_vec();
    for (entry, bytes) in tensors {
        let stored = entry.encode(engine, bytes)?;
        out.extend_from_slice(writer.add(entry, &stored)?);
        out.extend_from_slice(&stored);
    }
    out.extend_from_slice(&writer.finish());
    Ok(out)
}
