//! The description of a finished tensor that
//! [`Progress::tensor`](crate::Progress::tensor) receives.

use std::collections::HashMap;

use zstn_core::container::model_delta::RecordKind;
use zstn_core::container::safetensors::{Header, HeaderTensor};
use zstn_core::dtype::Dtype;
use zstn_core::frame::plane::Method;
use zstn_core::frame::z4ai::Transform;
use zstn_core::frame::{Family, Frame, delta, difference};
use zstn_core::model;

use crate::Reader;

/// A tensor that has been packed, unpacked, verified or converted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FinishedTensor<'a> {
    /// The name, which may contain any characters.
    pub name: &'a str,
    /// The dtype; `None` if the header of the file does not list the tensor.
    pub dtype: Option<Dtype>,
    /// The shape, outermost dimension first.
    pub shape: &'a [u64],
    /// Describes for people how the tensor is stored: the family of its frame, the
    /// transform and the codec of every plane. The text may contain the name of another
    /// tensor.
    pub storage: String,
    /// Length of the tensor in bytes.
    pub original_bytes: u64,
    /// The number of stored bytes; 0 if the tensor shares them with another tensor.
    pub packed_bytes: u64,
}

impl<'a> FinishedTensor<'a> {
    /// Describes a tensor that a safetensors header lists.
    pub(crate) fn new(tensor: &'a HeaderTensor, storage: String, packed_bytes: u64) -> Self {
        Self {
            name: &tensor.name,
            dtype: Some(tensor.dtype),
            shape: &tensor.shape,
            storage,
            original_bytes: tensor.span.end - tensor.span.start,
            packed_bytes,
        }
    }
}

/// The tensors of a safetensors header by name; empty if the header breaks the rules.
pub(crate) struct Listed(HashMap<String, HeaderTensor>);

impl Listed {
    pub(crate) fn of(header: &[u8], data_len_bytes: u64) -> Self {
        let header = Header::parse(header, data_len_bytes);
        let tensors = header.map(|header| header.tensors).unwrap_or_default();
        let named = tensors.into_iter().map(|t| (t.name.clone(), t));
        Self(named.collect())
    }

    /// Describes the tensor called `name`, which has `original_bytes` bytes.
    pub(crate) fn finished<'a>(
        &'a self,
        name: &'a str,
        original_bytes: u64,
        storage: String,
        packed_bytes: u64,
    ) -> FinishedTensor<'a> {
        let tensor = self.0.get(name);
        FinishedTensor {
            name,
            dtype: tensor.map(|tensor| tensor.dtype),
            shape: tensor.map_or(&[], |tensor| &tensor.shape),
            storage,
            original_bytes,
            packed_bytes,
        }
    }
}

/// Describes a tensor that was read from a model, with the name of its storage format.
pub(crate) fn read<'a>(reader: &Reader, tensor: &'a model::TensorInfo) -> FinishedTensor<'a> {
    let model = reader.model();
    let storage = match tensor.alias_of {
        Some(target) => alias(&model.tensors()[target].name),
        None => tensor.format().unwrap_or(model.kind().name()).into(),
    };
    FinishedTensor {
        name: &tensor.name,
        dtype: Some(tensor.dtype),
        shape: &tensor.shape,
        storage,
        original_bytes: tensor.len_bytes(),
        packed_bytes: match tensor.alias_of {
            Some(_) => 0,
            None => tensor.stored_len_bytes(),
        },
    }
}

/// Describes how the frame at the start of `bytes` stores a tensor.
pub(crate) fn frame(bytes: &[u8]) -> String {
    match Frame::parse(bytes) {
        Ok(Frame::Z4ai(frame)) => {
            let methods = frame.planes().iter().map(|plane| plane.method());
            planes(frame.transform(), methods)
        }
        _ => Family::recognise(bytes).map_or_else(String::new, |family| family.name().into()),
    }
}

/// Describes a frame whose planes are stored by these methods.
pub(crate) fn planes(transform: Transform, methods: impl Iterator<Item = Method>) -> String {
    let planes = methods.enumerate();
    let planes = planes.map(|(n, method)| format!("{} {}", transform.plane_name(n), method.name()));
    let planes = planes.collect::<Vec<_>>().join(", ");
    format!("{} {}: {planes}", Family::Z4ai.name(), transform.name())
}

/// Describes how a record of a delta stores a tensor.
pub(crate) fn record(kind: RecordKind, payload: &[u8]) -> String {
    let magic = |magic: &[u8]| String::from_utf8_lossy(magic).into_owned();
    match kind {
        RecordKind::Full => frame(payload),
        RecordKind::Copy => "as in the base".into(),
        RecordKind::Delta => format!("{} delta from the base", magic(&delta::MAGIC)),
        RecordKind::Difference => format!("{} delta from the base", magic(&difference::MAGIC)),
        RecordKind::Grown => "delta from the base, and rows of its own".into(),
    }
}

/// Describes a tensor that shares the stored bytes of the tensor called `name`.
pub(crate) fn alias(name: &str) -> String {
    format!("the bytes of {name}")
}
