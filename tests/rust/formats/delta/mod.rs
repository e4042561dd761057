//! Deltas: every vector decodes, every malformed delta and every wrong base is refused,
//! and deltas written by zstn are small.

mod files;
mod incremental;
mod trailer;
mod vectors;

use zstn_core::Result;
use zstn_core::container::model_delta::{Base, ModelDelta};
use zstn_core::engine::Engine;

fn restore(engine: &impl Engine, packed: &[u8], base: &[u8]) -> Result<Vec<u8>> {
    ModelDelta::parse(packed)?.unpack(engine, &Base::parse(base)?)
}
