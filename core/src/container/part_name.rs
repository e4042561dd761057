//! Names of tensors that are parts of a weight
//! (docs/formats/compressed-tensors.md 2 and 5.3). Builds without these formats
//! recognise the names too.

/// The suffixes in the names of quantised weights' parts.
pub const QUANTISED: [&str; 3] = [".weight_packed", ".weight_scale", ".scale_packed"];

/// The suffixes in the names of sparse weights' parts.
pub const SPARSE: [&str; 2] = [".bitmask", ".compressed"];

/// Returns whether a tensor of this name may be a part of a weight. If it may,
/// `config.json` decides.
#[must_use]
pub fn may_be_part(name: &str) -> bool {
    let mut marks = QUANTISED.iter().chain(&SPARSE);
    marks.any(|mark| name.ends_with(mark))
}
