//! The entries of `config.json` (docs/formats/compressed-tensors.md 5).

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::WeightFormat;
use super::scheme::{Group, Scheme, read_group};
use super::targets::Targets;
use crate::limits::HEADER_LEN_BYTES;
use crate::{Error, Result, Rule};

/// The entries of `config.json` that describe how weights are stored. The
/// default describes nothing: all tensors are dense.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// The format of all groups that do not name their own.
    format: Option<String>,
    /// The major and the minor version of the package that wrote the model.
    version: Option<(u32, u32)>,
    status: Option<String>,
    sparsity: Option<Sparsity>,
    groups: Vec<Group>,
    ignore: Targets,
    rotated: bool,
}

#[derive(Debug, Clone)]
struct Sparsity {
    format: String,
    /// True if the names of parts contain the full name of the tensor. They do
    /// if the entry is at the top level of the file, where release 0.3 wrote
    /// it.
    full_names: bool,
}

pub(super) fn refuse(detail: String) -> Error {
    Error::malformed(Rule::CompressedTensorsConfig, detail)
}

impl Config {
    /// Parses the text of a model's `config.json`. A text without entries about
    /// compression is valid.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind) for another compression
    /// method, and [`Rule::CompressedTensorsConfig`] for entries of the wrong
    /// type.
    pub fn parse(json: &[u8]) -> Result<Self> {
        if json.len() as u64 > HEADER_LEN_BYTES {
            return Err(Error::limit(format!(
                "a configuration of {} bytes is over the cap of {HEADER_LEN_BYTES}",
                json.len()
            )));
        }
        let top: ConfigFile = serde_json::from_slice(json)
            .map_err(|error| refuse(format!("the configuration cannot be read: {error}")))?;
        let mut config = Self::default();
        let mut nested = None;
        if let Some(mut entry) = top.quantization_config.or(top.compression_config) {
            nested = entry.sparsity_config.take();
            config.take(entry)?;
        }
        config.sparsity = match (nested, top.sparsity_config) {
            (None, Some(top)) => sparsity(&top, true)?,
            (Some(nested), _) => sparsity(&nested, false)?,
            (None, None) => None,
        };
        Ok(config)
    }

    fn take(&mut self, entry: QuantisationConfig) -> Result<()> {
        if let Some(method) = entry.quant_method
            && method != "compressed-tensors"
        {
            return Err(Error::unsupported(format!(
                "the model is quantised by `{method}`, not by compressed-tensors"
            )));
        }
        self.format = entry.format;
        self.version = entry.version.as_deref().and_then(release);
        self.status = entry.quantization_status;
        self.ignore = Targets::new(entry.ignore.unwrap_or_default())?;
        self.rotated = entry.transform_config.is_some_and(|map| !map.is_empty());
        for (name, group) in entry.config_groups.map_or_else(Vec::new, |groups| groups.0) {
            self.groups.push(read_group(&name, &group)?);
        }
        Ok(())
    }

    /// Returns whether the weights were rotated before they were quantised
    /// (docs/formats/compressed-tensors.md 11, pitfall 14). Decoding then
    /// yields the rotated weights.
    #[must_use]
    pub fn is_rotated(&self) -> bool {
        self.rotated
    }

    /// Returns the sparse format of the model, if it has one.
    pub(super) fn sparse_format(&self) -> Result<Option<WeightFormat>> {
        match &self.sparsity {
            None => Ok(None),
            Some(sparsity) => {
                known(&sparsity.format).map(|format| Some(format).filter(|f| f.is_sparse()))
            }
        }
    }

    /// Returns whether the names of parts contain the full name of the tensor
    /// (section 2).
    pub(super) fn keeps_full_names(&self) -> bool {
        self.sparsity
            .as_ref()
            .is_some_and(|sparsity| sparsity.full_names)
    }

    /// Returns whether the configuration has any entry about quantised weights.
    pub(super) fn is_quantised(&self) -> bool {
        self.format.is_some() || !self.groups.is_empty()
    }

    /// Returns whether quantised weights are stored as codes, and not as floats
    /// rounded to the quantised values.
    pub(super) fn is_compressed(&self) -> bool {
        self.status
            .as_deref()
            .is_none_or(|status| status == "compressed")
    }

    /// Returns whether the release that wrote the model is older than
    /// `release`; `None` if the model does not state its release.
    pub(super) fn is_older_than(&self, release: (u32, u32)) -> Option<bool> {
        self.version.map(|version| version < release)
    }

    /// Returns the scheme and the format of the weight of `module`, which has
    /// quantised tensors; `None` if the weight is dense (section 5.3).
    pub(super) fn scheme(&self, module: &str) -> Result<Option<(Scheme, WeightFormat)>> {
        if self.ignore.contains(module)? {
            return Ok(None);
        }
        let Some(group) = self.group(module)? else {
            return Err(Error::malformed(
                Rule::CompressedTensorsScheme,
                format!(
                    "`{module}` has quantised tensors but no group of the configuration names it"
                ),
            ));
        };
        let Some(scheme) = group.weights.clone()? else {
            return Ok(None);
        };
        let name = group.format.as_ref().or(self.format.as_ref());
        match name.map(|name| known(name)).transpose()? {
            Some(WeightFormat::Dense) => Ok(None),
            Some(format) if format != WeightFormat::MixedPrecision && !format.is_sparse() => {
                Ok(Some((scheme, format)))
            }
            _ => Err(Error::malformed(
                Rule::CompressedTensorsFormat,
                format!("the configuration does not name the format of `{module}`"),
            )),
        }
    }

    fn group(&self, module: &str) -> Result<Option<&Group>> {
        if let Some(group) = self.groups.iter().find(|g| g.targets.names(module)) {
            return Ok(Some(group));
        }
        for group in &self.groups {
            if group.targets.matches(module)? {
                return Ok(Some(group));
            }
        }
        Ok(self.groups.iter().find(|g| g.targets.has_class()))
    }
}

fn known(name: &str) -> Result<WeightFormat> {
    WeightFormat::from_name(name)
        .ok_or_else(|| Error::unsupported(format!("the format `{name}` is unknown")))
}

/// Parses the version of a release: `0.13.1.a20260101` is (0, 13).
fn release(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.trim().split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn sparsity(entry: &Map<String, Value>, full_names: bool) -> Result<Option<Sparsity>> {
    match entry.get("format") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(format)) => Ok(Some(Sparsity {
            format: format.clone(),
            full_names,
        })),
        Some(_) => Err(refuse("the sparse format is not a string".to_string())),
    }
}

/// The keys that are read from `config.json`. The groups keep their order.
#[derive(serde::Deserialize)]
pub struct ConfigFile {
    pub quantization_config: Option<QuantisationConfig>,
    pub compression_config: Option<QuantisationConfig>,
    pub sparsity_config: Option<Map<String, Value>>,
}

#[derive(serde::Deserialize)]
pub struct QuantisationConfig {
    pub quant_method: Option<String>,
    pub version: Option<String>,
    pub format: Option<String>,
    pub quantization_status: Option<String>,
    pub config_groups: Option<ConfigGroups>,
    pub ignore: Option<Vec<String>>,
    pub sparsity_config: Option<Map<String, Value>>,
    pub transform_config: Option<Map<String, Value>>,
}

pub struct ConfigGroups(pub Vec<(String, Value)>);

impl<'de> Deserialize<'de> for ConfigGroups {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = ConfigGroups;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object of groups")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ConfigGroups, A::Error> {
                let mut groups = Vec::new();
                while let Some(group) = map.next_entry()? {
                    groups.push(group);
                }
                Ok(ConfigGroups(groups))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn quantised(groups: &str, rest: &str) -> Config {
        let text = format!(
            r#"{{"quantization_config": {{"quant_method": "compressed-tensors",
                "config_groups": {{{groups}}} {rest}}}}}"#
        );
        Config::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn paths_before_patterns_before_classes_whatever_the_order() {
        let config = quantised(
            r#""g9": {"targets": ["Linear"], "weights": {"num_bits": 2}},
               "g5": {"targets": ["re:a.*"], "weights": {"num_bits": 3}},
               "g1": {"targets": ["re:.*x"], "weights": {"num_bits": 4}},
               "g3": {"targets": ["a.x"], "weights": {"num_bits": 5}}"#,
            r#", "format": "pack_quantized", "ignore": ["a.y", "re:.*head$"]"#,
        );
        let bits = |module| {
            config
                .scheme(module)
                .unwrap()
                .map(|(scheme, _)| scheme.num_bits)
        };
        assert_eq!(bits("a.x"), Some(5));
        assert_eq!(bits("a.b.x"), Some(3), "the first pattern of the file");
        assert_eq!(bits("b.x"), Some(4));
        assert_eq!(bits("b"), Some(2));
        assert_eq!(bits("a.y"), None);
        assert_eq!(bits("lm_head"), None);
    }

    #[test]
    fn a_group_overrides_the_format_of_all() {
        let config = quantised(
            r#""W4A16": ["p"],
               "g": {"targets": ["q"], "weights": {}, "format": "int-quantized"},
               "W3A3": ["r"],
               "a": {"targets": ["s"], "weights": null}"#,
            r#", "format": "mixed-precision""#,
        );
        assert_eq!(
            config.scheme("p").unwrap_err().rule(),
            Some(Rule::CompressedTensorsFormat)
        );
        assert_eq!(
            config.scheme("q").unwrap().unwrap().1,
            WeightFormat::IntQuantized
        );
        assert_eq!(
            config.scheme("r").unwrap_err().kind(),
            ErrorKind::Unsupported
        );
        assert!(config.scheme("s").unwrap().is_none());
        assert_eq!(
            config.scheme("t").unwrap_err().rule(),
            Some(Rule::CompressedTensorsScheme)
        );
    }

    #[test]
    fn releases_compare_by_number() {
        assert_eq!(release("0.18.0"), Some((0, 18)));
        assert_eq!(release("0.9.1.a20250101"), Some((0, 9)));
        assert_eq!(release("new"), None);
        let config = quantised("", r#", "version": "0.9.0""#);
        assert_eq!(config.is_older_than((0, 18)), Some(true));
        assert_eq!(quantised("", "").is_older_than((0, 18)), None);
    }

    #[test]
    fn other_methods_and_other_shapes_are_refused() {
        let other = br#"{"quantization_config": {"quant_method": "gptq"}}"#;
        assert_eq!(
            Config::parse(other).unwrap_err().kind(),
            ErrorKind::Unsupported
        );
        for text in [
            "",
            "[]x",
            r#"{"quantization_config": {"config_groups": []}}"#,
            r#"{"quantization_config": {"config_groups": {"a": 1}}}"#,
            r#"{"quantization_config": {"config_groups": {"a": [1]}}}"#,
            r#"{"sparsity_config": {"format": 1}}"#,
        ] {
            let error = Config::parse(text.as_bytes()).unwrap_err();
            assert_eq!(error.rule(), Some(Rule::CompressedTensorsConfig), "{text}");
        }
        assert!(!Config::parse(b"{}").unwrap().is_quantised());
    }
}
