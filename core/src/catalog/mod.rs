//! A uniform view of all containers: which tensors a file holds, where their
//! bytes are, and how to decode them. The module does no I/O: the caller
//! supplies the bytes that [`FileOpener`] asks for.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::bytes;
#[cfg(feature = "gauss")]
use crate::container::foreign::gauss;
#[cfg(feature = "ztensor")]
use crate::container::foreign::ztensor;
use crate::container::safetensors;
use crate::container::zstn::integrity::Integrity;
use crate::container::zstn::{CheckedFrame, Tail};
use crate::engine::Engine;
use crate::limits::DIMENSIONS;
use crate::{Error, Result, sort};
use delta::Delta;

mod buffer;
mod delta;
mod delta_opener;
mod fetched;
mod file_opener;
#[cfg(feature = "gauss")]
mod gauss_opener;
mod kind;
mod rows;
#[cfg(feature = "decode-task")]
mod subset;
mod tensor;
mod walk;
mod zstn_opener;
#[cfg(feature = "ztensor")]
mod ztensor_opener;

pub(crate) use buffer::copy;
pub use delta::BaseUse;
pub use file_opener::{FileOpener, Recognised, is_left_out, recognise};
pub use kind::Kind;
pub use rows::RangePlan;
pub use tensor::FileTensor;

/// What is specific to a kind of file, for tensors in their order.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Contents {
    Safetensors,
    Zstn(Option<Integrity>, #[serde(skip)] rows::Tables),
    Delta(Delta),
    #[cfg(feature = "ztensor")]
    ZTensor(Vec<ztensor::Tensor>),
    #[cfg(feature = "gauss")]
    Gauss(Vec<gauss::Tensor>),
}

/// The tensors of one file and how to decode them, known once its head, header
/// and index have been read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FileCatalog {
    contents: Contents,
    #[serde(skip)]
    len_bytes: u64,
    #[serde(skip)]
    data_len_bytes: u64,
    #[serde(skip)]
    original_header: Option<Vec<u8>>,
    #[serde(skip)]
    metadata: BTreeMap<String, String>,
    tensors: Vec<FileTensor>,
    #[serde(skip)]
    by_name: BTreeMap<String, usize>,
}

impl FileCatalog {
    fn safetensors(header_json: &[u8], file_len_bytes: u64) -> Result<Self> {
        let data_start = safetensors::PREFIX_BYTES + header_json.len() as u64;
        let header = safetensors::Header::parse(header_json, file_len_bytes - data_start)?;
        let tensors = header
            .tensors
            .into_iter()
            .map(|tensor| FileTensor {
                stored: data_start + tensor.span.start..data_start + tensor.span.end,
                name: tensor.name,
                dtype: tensor.dtype,
                shape: tensor.shape,
                span: tensor.span,
                base: None,
                alias_of: None,
            })
            .collect();
        Self::new(
            Contents::Safetensors,
            file_len_bytes,
            file_len_bytes - data_start,
            Some(header_json.to_vec()),
            header.metadata,
            tensors,
        )
    }

    fn zstn(
        header_json: &[u8],
        data_len_bytes: u64,
        tail: Tail,
        tables: rows::Tables,
        file_len_bytes: u64,
    ) -> Result<Self> {
        let index = tail.index;
        let header = safetensors::Header::parse(header_json, data_len_bytes)?;
        let tensors = index
            .agree(&header)?
            .into_iter()
            .enumerate()
            .map(|(number, tensor)| {
                let (target, stored) = index.frame(number);
                FileTensor {
                    name: tensor.name.clone(),
                    dtype: tensor.dtype,
                    shape: tensor.shape.clone(),
                    span: tensor.span.clone(),
                    stored,
                    base: None,
                    alias_of: (target != number).then_some(target),
                }
            })
            .collect();
        Self::new(
            Contents::Zstn(tail.integrity, tables),
            file_len_bytes,
            data_len_bytes,
            Some(header_json.to_vec()),
            header.metadata,
            tensors,
        )
    }

    fn new(
        contents: Contents,
        len_bytes: u64,
        data_len_bytes: u64,
        original_header: Option<Vec<u8>>,
        metadata: BTreeMap<String, String>,
        tensors: Vec<FileTensor>,
    ) -> Result<Self> {
        if let Some(tensor) = tensors.iter().find(|t| t.shape.len() > DIMENSIONS) {
            return Err(Error::dimensions().tensor(&tensor.name));
        }
        let names = tensors.iter().map(|tensor| tensor.name.clone());
        let by_name = sort::map(names.zip(0..));
        Ok(Self {
            contents,
            len_bytes,
            data_len_bytes,
            original_header,
            metadata,
            tensors,
            by_name,
        })
    }

    /// Returns the kind of the file.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.contents {
            Contents::Safetensors => Kind::Safetensors,
            Contents::Zstn(..) => Kind::Zstn,
            Contents::Delta(_) => Kind::Delta,
            #[cfg(feature = "ztensor")]
            Contents::ZTensor(_) => Kind::ZTensor,
            #[cfg(feature = "gauss")]
            Contents::Gauss(_) => Kind::Gauss,
        }
    }

    /// Returns the length of the file.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Returns the length of the safetensors file that this file is or was
    /// packed from; for a zTensor or Gauss file, the length of all its tensors.
    #[must_use]
    pub fn original_len_bytes(&self) -> u64 {
        let head_len_bytes = match &self.original_header {
            Some(header) => safetensors::PREFIX_BYTES + header.len() as u64,
            None => 0,
        };
        head_len_bytes.saturating_add(self.data_len_bytes)
    }

    /// Returns the JSON header of the safetensors file that this file is or was
    /// packed from, byte for byte, including padding. The original file
    /// consists of its length, the header, and the tensors at their
    /// [`FileTensor::span`]. `None` for zTensor and Gauss files, which do not keep
    /// one.
    #[must_use]
    pub fn original_header(&self) -> Option<&[u8]> {
        self.original_header.as_deref()
    }

    /// Returns `__metadata__` of the header; for a zTensor file, the attributes
    /// that are strings.
    #[must_use]
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// Returns the integrity section of a ZSTN file
    /// (docs/formats/zstn-integrity.md); files written by z4ai have none.
    #[must_use]
    pub fn integrity(&self) -> Option<&Integrity> {
        match &self.contents {
            Contents::Zstn(integrity, _) => integrity.as_ref(),
            _ => None,
        }
    }

    /// Returns all tensors in the order of the file's index.
    #[must_use]
    pub fn tensors(&self) -> &[FileTensor] {
        &self.tensors
    }

    /// Returns the number of the tensor called `name`.
    pub fn find(&self, name: &str) -> Result<usize> {
        self.by_name
            .get(name)
            .copied()
            .ok_or_else(|| Error::not_found(name))
    }

    /// Decodes tensor `number` from its `stored` bytes. Stored and decoded
    /// bytes are compared with the checksums in the file, if it has any.
    ///
    /// # Panics
    /// If there is no tensor with that number.
    pub fn decode<'a, E: Engine>(
        &self,
        engine: &E,
        number: usize,
        stored: &'a [u8],
    ) -> Result<Cow<'a, [u8]>> {
        self.decode_against(engine, number, stored, None)
    }

    /// Decodes like [`FileCatalog::decode`], against the tensor of the same
    /// name in the `base`, which a tensor with [`FileTensor::base`] needs.
    ///
    /// # Panics
    /// If there is no tensor with that number.
    pub fn decode_against<'a, E: Engine>(
        &self,
        engine: &E,
        number: usize,
        stored: &'a [u8],
        base: Option<&'a [u8]>,
    ) -> Result<Cow<'a, [u8]>> {
        let tensor = &self.tensors[number];
        self.check_stored(number, stored)?;
        match &self.contents {
            Contents::Safetensors => return Ok(Cow::Borrowed(stored)),
            Contents::Delta(delta) => return delta.decode(engine, tensor, number, stored, base),
            Contents::Zstn(integrity, _) => {
                let expected = integrity.as_ref().map(|integrity| (integrity, number));
                decode_frame(engine, stored, tensor.len_bytes(), expected).map(Cow::Owned)
            }
            #[cfg(feature = "ztensor")]
            Contents::ZTensor(tensors) => tensors[number].decode(engine, stored),
            #[cfg(feature = "gauss")]
            // Offsets in its errors are relative to the start of the file
            // already.
            Contents::Gauss(tensors) => return gauss::decode(engine, &tensors[number], stored),
        }
        .map_err(|error| error.within(tensor.stored.start).tensor(&tensor.name))
    }

    /// Refuses bytes that cannot be those stored of tensor `number`.
    fn check_stored(&self, number: usize, stored: &[u8]) -> Result<()> {
        let tensor = &self.tensors[number];
        if stored.len() as u64 == tensor.stored_len_bytes() {
            return Ok(());
        }
        Err(Error::invalid_input("these are not the tensor's stored bytes").tensor(&tensor.name))
    }
}

fn decode_frame<E: Engine>(
    engine: &E,
    stored: &[u8],
    len_bytes: u64,
    expected: Option<(&Integrity, usize)>,
) -> Result<Vec<u8>> {
    let frame = CheckedFrame::parse(stored, len_bytes, expected)?;
    let mut out = bytes::buffer(len_bytes)?;
    frame.decode(engine, &mut out)?;
    Ok(out)
}
