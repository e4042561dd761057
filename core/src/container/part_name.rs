//! Names of tensors that are parts of others
//! (docs/formats/compressed-tensors.md 2, 5.3). They are known even in builds
//! without these formats.

/// The suffixes of the names of quantised tensors.
pub const QUANTISED: [&str; 3] = [".weight_packed", ".weight_scale", ".scale_packed"];

/// The suffixes of the names of sparse tensors.
pub const SPARSE: [&str; 2] = [".bitmask", ".compressed"];

/// Returns whether a tensor of this name may be a part of a weight, so that it
/// takes `config.json` to know.
#[must_use]
pub fn may_be_part(name: &str) -> bool {
    let mut marks = QUANTISED.iter().chain(&SPARSE);
    marks.any(|mark| name.ends_with(mark))
}
