//! What every container looks like from outside: which tensors it holds,
//! where their bytes are, and how to decode them. No I/O: bytes come from
//! the caller, who asks [`Opening`] which ones are needed.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::bytes;
#[cfg(feature = "gauss")]
use crate::container::gauss;
use crate::container::safetensors;
use crate::container::zstn::integrity::Integrity;
use crate::container::zstn::{CheckedFrame, Tail};
#[cfg(feature = "ztensor")]
use crate::container::ztensor;
use crate::engine::Engine;
use crate::limits::DIMENSIONS;
use crate::{Error, Result, order};
use delta::Delta;

mod delta;
mod delta_opening;
#[cfg(feature = "gauss")]
mod gauss_opening;
mod kind;
mod known;
#[cfg(feature = "portable")]
mod only;
mod opening;
mod rows;
mod tensor;
mod walk;
mod zstn_opening;
#[cfg(feature = "ztensor")]
mod ztensor_opening;

pub use delta::BaseUse;
pub use kind::Kind;
pub use opening::{Opening, Recognised, is_left_out, recognise};
pub use rows::Plan;
pub use tensor::Tensor;

/// What a kind of file knows of its tensors besides, in their order.
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

/// Everything known about a file once its head, header and index are read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Catalog {
    contents: Contents,
    #[serde(skip)]
    len_bytes: u64,
    #[serde(skip)]
    data_len_bytes: u64,
    #[serde(skip)]
    original_header: Option<Vec<u8>>,
    #[serde(skip)]
    metadata: BTreeMap<String, String>,
    tensors: Vec<Tensor>,
    #[serde(skip)]
    by_name: BTreeMap<String, usize>,
}

impl Catalog {
    fn safetensors(header_json: &[u8], file_len_bytes: u64) -> Result<Self> {
        let data_start = safetensors::PREFIX_BYTES + header_json.len() as u64;
        let header = safetensors::Header::parse(header_json, file_len_bytes - data_start)?;
        let tensors = header
            .tensors
            .into_iter()
            .map(|tensor| Tensor {
                stored: data_start + tensor.span.start..data_start + tensor.span.end,
                name: tensor.name,
                dtype: tensor.dtype,
                shape: tensor.shape,
                span: tensor.span,
                base: None,
                shared_with: None,
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
                let (owner, stored) = index.frame(number);
                Tensor {
                    name: tensor.name.clone(),
                    dtype: tensor.dtype,
                    shape: tensor.shape.clone(),
                    span: tensor.span.clone(),
                    stored,
                    base: None,
                    shared_with: (owner != number).then_some(owner),
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
        tensors: Vec<Tensor>,
    ) -> Result<Self> {
        if let Some(tensor) = tensors.iter().find(|t| t.shape.len() > DIMENSIONS) {
            return Err(Error::dimensions().tensor(&tensor.name));
        }
        let names = tensors.iter().map(|tensor| tensor.name.clone());
        let by_name = order::map(names.zip(0..));
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

    /// What kind of file it is.
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

    /// Length of the file.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Length of the safetensors file it is or was packed from; of a zTensor
    /// or Gauss file, length of all its tensors.
    #[must_use]
    pub fn original_len_bytes(&self) -> u64 {
        let head_len_bytes = match &self.original_header {
            Some(header) => safetensors::PREFIX_BYTES + header.len() as u64,
            None => 0,
        };
        head_len_bytes.saturating_add(self.data_len_bytes)
    }

    /// The JSON header of the safetensors file it is or was packed from, byte
    /// for byte, padding included: behind its length and in front of the
    /// tensors at their [`Tensor::span`] it makes that file. `None` for zTensor
    /// and Gauss files, which keep none.
    #[must_use]
    pub fn original_header(&self) -> Option<&[u8]> {
        self.original_header.as_deref()
    }

    /// `__metadata__` of the header; of a zTensor file, the attributes that
    /// are texts.
    #[must_use]
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// What a ZSTN file says about itself (docs/formats/zstn-integrity.md);
    /// z4ai's files say nothing.
    #[must_use]
    pub fn integrity(&self) -> Option<&Integrity> {
        match &self.contents {
            Contents::Zstn(integrity, _) => integrity.as_ref(),
            _ => None,
        }
    }

    /// All tensors in the order of the file's index.
    #[must_use]
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Number of the tensor called `name`.
    pub fn find(&self, name: &str) -> Result<usize> {
        self.by_name
            .get(name)
            .copied()
            .ok_or_else(|| Error::not_found(name))
    }

    /// The bytes of tensor `number` from its `stored` bytes. Stored and
    /// decoded bytes are compared with what the file says of them, if it does.
    ///
    /// # Panics
    /// If there is no tensor of that number.
    pub fn decode<'a, E: Engine>(
        &self,
        engine: &E,
        number: usize,
        stored: &'a [u8],
    ) -> Result<Cow<'a, [u8]>> {
        self.decode_against(engine, number, stored, None)
    }

    /// As [`Catalog::decode`], with the `base`'s tensor of the same name,
    /// which a tensor with [`Tensor::base`] needs.
    ///
    /// # Panics
    /// If there is no tensor of that number.
    pub fn decode_against<'a, E: Engine>(
        &self,
        engine: &E,
        number: usize,
        stored: &'a [u8],
        base: Option<&'a [u8]>,
    ) -> Result<Cow<'a, [u8]>> {
        let tensor = &self.tensors[number];
        if stored.len() as u64 != tensor.stored_len_bytes() {
            return Err(
                Error::invalid_input("these are not the tensor's stored bytes")
                    .tensor(&tensor.name),
            );
        }
        match &self.contents {
            Contents::Safetensors => return Ok(Cow::Borrowed(stored)),
            Contents::Delta(delta) => return delta.decode(engine, tensor, number, stored, base),
            Contents::Zstn(integrity, _) => {
                let told = integrity.as_ref().map(|integrity| (integrity, number));
                decode_frame(engine, stored, tensor.len_bytes(), told).map(Cow::Owned)
            }
            #[cfg(feature = "ztensor")]
            Contents::ZTensor(tensors) => tensors[number].decode(engine, stored),
            #[cfg(feature = "gauss")]
            // Its errors count from the start of the file already.
            Contents::Gauss(tensors) => return gauss::decode(engine, &tensors[number], stored),
        }
        .map_err(|error| error.within(tensor.stored.start).tensor(&tensor.name))
    }
}

fn decode_frame<E: Engine>(
    engine: &E,
    stored: &[u8],
    len_bytes: u64,
    told: Option<(&Integrity, usize)>,
) -> Result<Vec<u8>> {
    let frame = CheckedFrame::parse(stored, len_bytes, told)?;
    let mut out = bytes::buffer(len_bytes)?;
    frame.decode(engine, &mut out)?;
    Ok(out)
}
