//! Replaces `dense` in builds without compressed-tensors. Its types have no
//! values.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{TensorInfo, TensorLocation};
use crate::Result;
use crate::catalog::{FileCatalog, Refusals};

/// A weight of the model that is stored in several parts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Weight {}

/// The mapping from stored tensors to the weights of the model.
#[derive(Debug, Clone)]
pub enum Dense {}

/// A tensor of the model, with the location of its first part.
pub type Located = (TensorLocation, TensorInfo);

impl Dense {
    pub fn new(
        _: &[u8],
        _: &[FileCatalog],
        _: &BTreeMap<String, TensorLocation>,
    ) -> Result<Option<Self>> {
        Ok(None)
    }

    pub(crate) fn shape_locations(
        &self,
        _: &BTreeMap<String, TensorLocation>,
    ) -> Vec<TensorLocation> {
        match *self {}
    }

    pub fn tensors(
        &self,
        _: impl Fn(TensorLocation) -> TensorInfo,
        _: impl Fn(TensorLocation) -> Result<Vec<u8>>,
        _: &BTreeMap<String, TensorLocation>,
    ) -> Result<(Vec<Located>, Refusals)> {
        match *self {}
    }

    pub fn is_rotated(&self) -> bool {
        match *self {}
    }
}

pub fn format(weight: &Weight) -> &'static str {
    match *weight {}
}

pub fn decode(weight: &Weight, _: &[u64], _: &[&[u8]]) -> Result<Vec<u8>> {
    match *weight {}
}
