//! The requirements of a packed file on its reader (docs/formats/extensions.md).

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use zstn::{Reader, Result};
use zstn_core::catalog::Extension;
use zstn_core::frame::Edition;

/// The versions of a model's packed files, and the number of tensors in extension
/// frames.
pub struct Extensions {
    /// The latest version and its edition; `None` for files of other formats.
    version: Option<(u8, Edition)>,
    /// Number of tensors per type of extension frame.
    tensors: BTreeMap<Extension, usize>,
}

impl Extensions {
    /// Reads the first bytes of the frames that may be extension frames.
    pub fn of(reader: &Reader) -> Result<Self> {
        let mut version = None;
        let mut tensors = BTreeMap::new();
        for (file, source) in reader.model().files().iter().zip(reader.sources()) {
            version = version.max(file.version().zip(file.edition()));
            let numbers = 0..file.tensors().len();
            let heads: Vec<_> = numbers.filter_map(|n| file.frame_head(n)).collect();
            for head in source.read_ranges(&heads)? {
                if let Some(extension) = Extension::of_frame(&head) {
                    *tensors.entry(extension).or_default() += 1;
                }
            }
        }
        Ok(Self { version, tensors })
    }

    /// Returns the version and the readers that it requires, in words.
    pub fn needs(&self) -> Option<String> {
        let (version, edition) = self.version?;
        Some(match edition {
            Edition::Plain => format!("{version}"),
            Edition::Extended => {
                format!("{version}: needs zstn 0.1 or later; z4ai cannot read it")
            }
        })
    }

    /// Returns the number of tensors per type of extension frame, in words, or `None`
    /// if the version does not permit any.
    pub fn say(&self) -> Option<String> {
        self.version
            .filter(|(_, edition)| *edition == Edition::Extended)?;
        let counts = self.tensors.iter().map(|(extension, count)| {
            let noun = if *count == 1 { "tensor" } else { "tensors" };
            format!("{count} {noun} by {}", extension.name())
        });
        match counts.collect::<Vec<_>>() {
            counts if counts.is_empty() => Some("no tensor".into()),
            counts => Some(counts.join(", ")),
        }
    }

    /// Adds `version`, `min_reader` and `extensions` to the description. They are
    /// `null` for files of other formats.
    pub fn add_to(&self, json: &mut Value) {
        json["version"] = self.version.map(|(version, _)| version).into();
        json["min_reader"] = match self.version {
            None => Value::Null,
            Some((_, Edition::Plain)) => "zstn 0.1, z4ai 0.2".into(),
            Some((_, Edition::Extended)) => "zstn 0.1".into(),
        };
        let counts = Extension::ALL.map(|extension| {
            let count = self.tensors.get(&extension).copied().unwrap_or_default();
            (extension.name().to_owned(), count.into())
        });
        json["extensions"] = match self.version {
            None => Value::Null,
            Some(_) => Map::from_iter(counts).into(),
        };
    }
}
