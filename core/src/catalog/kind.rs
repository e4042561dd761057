//! The kinds of file.

/// The kinds of file that can be read tensor by tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Uncompressed safetensors.
    Safetensors,
    /// ZSTN version 3.
    Zstn,
    /// `Z4DM`: a checkpoint as its difference from a base.
    Delta,
    /// zTensor of any version.
    ZTensor,
    /// Gauss of any version.
    Gauss,
    /// Weights as `config.json` describes them, in files of another kind; a
    /// [`Model`](crate::model::Model) alone can be that.
    CompressedTensors,
}

impl Kind {
    /// Returns the spelling in JSON output and in JavaScript.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Safetensors => "safetensors",
            Self::Zstn => "zstn",
            Self::Delta => "z4dm",
            Self::ZTensor => "ztensor",
            Self::Gauss => "gauss",
            Self::CompressedTensors => "compressed-tensors",
        }
    }
}
