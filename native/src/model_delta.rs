//! Checkpoints in memory as differences from one another. [`crate::pack()`] and
//! [`crate::unpack()`] do this for files, in less memory.

use zstn_core::container::model_delta::{self, Base, ModelDelta};

use crate::{Effort, Engine, Error, Result};

/// Returns the safetensors file `target` as its difference from the safetensors file
/// `base`: a `Z4DM` file.
pub fn compress(engine: &Engine, target: &[u8], base: &[u8], effort: Effort) -> Result<Vec<u8>> {
    let base = Base::parse(base).map_err(Error::place("the base"))?;
    model_delta::pack(engine, target, &base, effort).map_err(Error::place("the checkpoint"))
}

/// Returns the safetensors file that `delta` was made from, with the base it was made
/// against; any other base is refused.
pub fn decompress(engine: &Engine, delta: &[u8], base: &[u8]) -> Result<Vec<u8>> {
    let base = Base::parse(base).map_err(Error::place("the base"))?;
    ModelDelta::parse(delta)
        .and_then(|delta| delta.unpack(engine, &base))
        .map_err(Error::place("the delta"))
}
