//! Deltas between checkpoints in memory. [`crate::pack()`] and [`crate::unpack()`] do
//! the same for files, with less memory.

use zstn_core::container::model_delta::{self, Base, ModelDelta};

use crate::{Effort, Engine, Error, Result};

/// Encodes the safetensors file `target` as a delta from the safetensors file `base`;
/// returns a `Z4DM` file.
pub fn compress(engine: &Engine, target: &[u8], base: &[u8], effort: Effort) -> Result<Vec<u8>> {
    let base = Base::parse(base).map_err(Error::place("the base"))?;
    model_delta::pack(engine, target, &base, effort).map_err(Error::place("the checkpoint"))
}

/// Restores the safetensors file that `delta` was made from. `base` must be the file it
/// was made against; any other base is refused.
pub fn decompress(engine: &Engine, delta: &[u8], base: &[u8]) -> Result<Vec<u8>> {
    let base = Base::parse(base).map_err(Error::place("the base"))?;
    ModelDelta::parse(delta)
        .and_then(|delta| delta.unpack(engine, &base))
        .map_err(Error::place("the delta"))
}
