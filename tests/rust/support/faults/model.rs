//! The files that the fault servers serve.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use zstn::Engine;
use zstn_core::container::zstn::pack;
use zstn_core::frame::select::Effort;

use super::table::Kind;
use crate::checkpoint;
use crate::fault_server::Served;
use crate::rng::Rng;

/// Length of each tensor in bytes, much larger than the file's header.
pub const TENSOR_BYTES: usize = 120_000;

/// Names of the tensors in file order. Tests read the second tensor, which is neither
/// at the start nor at the end of the file.
pub const TENSORS: [&str; 3] = ["x", "y", "z"];

/// Returns a plain checkpoint. Files made with different seeds have the same length.
#[must_use]
pub fn plain(seed: u64) -> Vec<u8> {
    let mut rng = Rng(seed);
    let bytes = TENSORS.map(|_| rng.bf16_weights(TENSOR_BYTES / 2));
    let tensors = [0, 1, 2].map(|i| (TENSORS[i], "BF16", &*bytes[i]));
    checkpoint(&tensors)
}

/// Returns the bytes of a tensor in a file made by [`plain`].
///
/// # Panics
/// If there is no such tensor.
#[must_use]
pub fn tensor<'a>(plain: &'a [u8], name: &str) -> &'a [u8] {
    let number = TENSORS.iter().position(|known| *known == name);
    let start = plain.len() - (TENSORS.len() - number.expect("a tensor")) * TENSOR_BYTES;
    &plain[start..start + TENSOR_BYTES]
}

/// The rows of a tensor that tests read.
pub const ROWS: Range<u64> = 1000..51_000;

/// The byte range of [`ROWS`] within their tensor.
pub const ROW_BYTES: Range<usize> = 2000..102_000;

/// Returns the file to serve in format `kind`, and another file of the same length.
///
/// # Panics
/// If the checkpoint cannot be packed.
#[must_use]
pub fn served(kind: Kind) -> Arc<Served> {
    static PLAIN: OnceLock<Arc<Served>> = OnceLock::new();
    static PACKED: OnceLock<Arc<Served>> = OnceLock::new();
    let plain_files = || Served {
        bytes: plain(1),
        other: plain(2),
    };
    let packed_files = || {
        let engine = Engine::new(1).expect("an engine");
        let packed = |seed| pack(&engine, &plain(seed), Effort::Fast).expect("packed");
        let (bytes, mut other) = (packed(1), packed(2));
        other.resize(bytes.len(), 0);
        Served { bytes, other }
    };
    Arc::clone(match kind {
        Kind::Safetensors => PLAIN.get_or_init(|| Arc::new(plain_files())),
        Kind::Zstn => PACKED.get_or_init(|| Arc::new(packed_files())),
    })
}
