//! Names that tell of tensors which are parts of others
//! (docs/formats/compressed-tensors.md 2, 5.3). Known also where the formats
//! themselves are not.

/// What names of quantised tensors end with.
pub const QUANTISED: [&str; 3] = [".weight_packed", ".weight_scale", ".scale_packed"];

/// What names of sparse tensors end with.
pub const SPARSE: [&str; 2] = [".bitmask", ".compressed"];

/// Whether a tensor of this name may be a part of a weight, so that it takes
/// `config.json` to know.
#[must_use]
pub fn may_be_part(name: &str) -> bool {
    let mut marks = QUANTISED.iter().chain(&SPARSE);
    marks.any(|mark| name.ends_with(mark))
}
