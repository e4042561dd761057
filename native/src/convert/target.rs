//! The target formats of conversions.

use std::path::Path;

use zstn_core::catalog::FileKind;
use zstn_core::container::foreign::compressed_tensors::WeightFormat;
use zstn_core::container::foreign::gauss;
use zstn_core::container::foreign::ztensor::DigestKind;
use zstn_core::container::safetensors::SHARD_INDEX_SUFFIX;

use crate::Effort;

/// The formats that a checkpoint can be converted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TargetKind {
    /// safetensors: a single file, or several files with an index.
    Safetensors,
    /// ZSTN: a single file, or several files with an index.
    Zstn,
    /// zTensor 0.1.
    ZTensor,
    /// GAUSS004, which is lossy.
    Gauss,
    /// A folder with `config.json` and sparse weights in safetensors.
    CompressedTensors,
}

impl TargetKind {
    /// All target formats.
    pub const ALL: [Self; 5] = [
        Self::Safetensors,
        Self::Zstn,
        Self::ZTensor,
        Self::Gauss,
        Self::CompressedTensors,
    ];

    /// Returns the format with this name, as [`TargetKind::name`] returns it, or with
    /// this file extension, such as `zt`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let by_name = Self::ALL.into_iter().find(|kind| kind.name() == name);
        by_name.or_else(|| Self::from_extension(name.strip_prefix('.').unwrap_or(name)))
    }

    fn from_extension(extension: &str) -> Option<Self> {
        let mut kinds = Self::ALL.into_iter();
        kinds.find(|kind| {
            let own = kind.format().map(FileKind::extension);
            own.is_some_and(|own| own.eq_ignore_ascii_case(extension))
        })
    }

    /// Returns the format of the target's files; `None` if the target is a folder.
    fn format(self) -> Option<FileKind> {
        match self {
            Self::Safetensors => Some(FileKind::Safetensors),
            Self::Zstn => Some(FileKind::Zstn),
            Self::ZTensor => Some(FileKind::ZTensor),
            Self::Gauss => Some(FileKind::Gauss),
            Self::CompressedTensors => None,
        }
    }

    /// Returns the name of the format, as used on the command line and in JSON output.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.format().unwrap_or(FileKind::CompressedTensors).name()
    }

    /// Returns the file extension of the format, without a dot. For a folder, this is
    /// the extension of the files in it.
    #[must_use]
    pub fn extension(self) -> &'static str {
        self.format()
            .unwrap_or(FileKind::CompressedTensors)
            .extension()
    }

    /// Returns the format for the name of an output, according to its extension, or to
    /// the extension before `.index.json`. A trailing slash selects a folder of
    /// compressed-tensors.
    #[must_use]
    pub fn from_path(path: &Path) -> Option<Self> {
        let whole = path.as_os_str().to_string_lossy();
        if whole.ends_with(std::path::is_separator) {
            return Some(Self::CompressedTensors);
        }
        let name = path.file_name()?.to_string_lossy();
        if let Some(stem) = name.strip_suffix(SHARD_INDEX_SUFFIX) {
            let inner = Self::from_path(Path::new(stem));
            return inner.filter(|kind| matches!(kind, Self::Safetensors | Self::Zstn));
        }
        Self::from_extension(Path::new(&*name).extension()?.to_str()?)
    }
}

/// The format of the output, with its options.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// A safetensors file.
    Safetensors,
    /// A ZSTN container.
    Zstn {
        /// The trade-off between time and size.
        effort: Effort,
    },
    /// zTensor 0.1.
    ZTensor {
        /// True to store tensors as zstd frames.
        is_zstd: bool,
        /// The type of checksum for each tensor, if any.
        checksum: Option<DigestKind>,
    },
    /// Gauss, which is lossy: the error is at most half a quantisation step, apart from
    /// rounding to the dtype.
    Gauss(gauss::GaussOptions),
    /// compressed-tensors, in a folder.
    CompressedTensors {
        /// The sparse format of the weights.
        format: WeightFormat,
    },
}

impl Target {
    /// Returns the target's format without its options.
    #[must_use]
    pub fn kind(&self) -> TargetKind {
        match self {
            Self::Safetensors => TargetKind::Safetensors,
            Self::Zstn { .. } => TargetKind::Zstn,
            Self::ZTensor { .. } => TargetKind::ZTensor,
            Self::Gauss(_) => TargetKind::Gauss,
            Self::CompressedTensors { .. } => TargetKind::CompressedTensors,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_the_kind() {
        let kind = |name: &str| TargetKind::from_path(Path::new(name)).map(TargetKind::name);
        for (name, expected) in [
            ("a.safetensors", Some("safetensors")),
            ("a.b.zstn", Some("zstn")),
            ("x/m.zt", Some("ztensor")),
            ("m.gauss", Some("gauss")),
            ("m.safetensors.index.json", Some("safetensors")),
            ("x/m.zstn.index.json", Some("zstn")),
            ("out", None),
            ("v1.5/", Some("compressed-tensors")),
            ("v1.5", None),
            ("m.gauss.index.json", None),
            ("m.index.json", None),
            ("m.json", None),
            ("-", None),
        ] {
            assert_eq!(kind(name), expected, "{name}");
        }
    }
}
