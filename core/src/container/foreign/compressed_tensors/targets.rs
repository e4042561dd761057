//! Lists of modules in a quantisation configuration: paths, patterns and class names
//! (docs/formats/compressed-tensors.md 5.3).

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use fancy_regex::{Regex, RegexBuilder};

use crate::limits::MODULE_PATTERNS;
use crate::{Error, Result};

/// The class that every module with a quantised weight is assumed to have.
/// Files with tensors do not state classes, so no other class can be
/// recognised.
const CLASS: &str = "Linear";

/// The largest size of a compiled pattern in bytes.
const PATTERN_LEN_BYTES: usize = 256 << 10;

/// The largest number of backtracking steps that a pattern with look-around may
/// take for one module path. Other patterns take linear time.
const BACKTRACKS: usize = 10_000;

/// A list of module paths, `re:` patterns and class names.
#[derive(Debug, Clone, Default)]
pub struct Targets {
    names: BTreeSet<String>,
    patterns: Vec<Regex>,
    /// The error of the first pattern that cannot be used. It is returned only
    /// for modules about which no other entry decides.
    unknown: Option<Error>,
}

impl Targets {
    pub fn new(list: Vec<String>) -> Result<Self> {
        let mut targets = Self::default();
        for text in list {
            let Some(pattern) = text.strip_prefix("re:") else {
                targets.names.insert(text);
                continue;
            };
            if targets.patterns.len() == MODULE_PATTERNS {
                return Err(Error::limit(format!(
                    "the list has more than {MODULE_PATTERNS} patterns for modules"
                )));
            }
            // A pattern must match from the start, but not to the end.
            match RegexBuilder::new(&format!(r"\A(?:{pattern})"))
                .backtrack_limit(BACKTRACKS)
                .delegate_size_limit(PATTERN_LEN_BYTES)
                .delegate_dfa_size_limit(PATTERN_LEN_BYTES)
                .build()
            {
                Ok(regex) => targets.patterns.push(regex),
                Err(error) => {
                    targets.unknown.get_or_insert_with(|| {
                        Error::unsupported(format!(
                            "the pattern `{pattern}` of the configuration cannot be used: {error}"
                        ))
                    });
                }
            }
        }
        Ok(targets)
    }

    /// Returns whether the path of `module` is listed.
    pub fn names(&self, module: &str) -> bool {
        self.names.contains(module)
    }

    /// Returns whether any of the patterns matches `module`. Fails if a pattern takes
    /// too long, or if none matches and one of them cannot be compiled.
    pub fn matches(&self, module: &str) -> Result<bool> {
        for regex in &self.patterns {
            let matched = regex.is_match(module).map_err(|error| {
                Error::limit(format!(
                    "the pattern `{}` of the configuration takes too long on `{module}`: {error}",
                    regex.as_str()
                ))
            })?;
            if matched {
                return Ok(true);
            }
        }
        match &self.unknown {
            Some(error) => Err(error.clone()),
            None => Ok(false),
        }
    }

    /// Returns whether the class of modules with quantised weights is listed.
    pub(crate) fn has_class(&self) -> bool {
        self.names.contains(CLASS)
    }

    /// Returns whether `module` is listed by its path, its class or a pattern.
    pub fn contains(&self, module: &str) -> Result<bool> {
        Ok(self.names(module) || self.has_class() || self.matches(module)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn targets(list: &[&str]) -> Targets {
        Targets::new(list.iter().map(|&text| text.into()).collect()).unwrap()
    }

    #[test]
    fn patterns_hold_from_the_start_only() {
        let list = targets(&[r"re:.*layers\.\d+\.q", "re:a|b"]);
        assert!(list.matches("model.layers.12.q_proj").unwrap());
        assert!(list.matches("bc").unwrap());
        assert!(!list.matches("cb").unwrap());
        assert!(!list.matches("model.layers.x.q_proj").unwrap());
    }

    #[test]
    fn a_pattern_beyond_us_is_an_error_only_where_it_decides() {
        let list = targets(&["re:(head", "lm_head", "re:embed"]);
        assert!(list.contains("lm_head").unwrap());
        assert!(list.contains("embed_tokens").unwrap());
        let error = list.contains("proj").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn patterns_look_around() {
        let list = targets(&[r"re:^(?!.*(?<!shared_)experts).*proj$"]);
        assert!(list.matches("mlp.shared_experts.proj").unwrap());
        assert!(!list.matches("mlp.experts.proj").unwrap());
    }

    #[test]
    fn a_pattern_that_takes_too_long_is_an_error() {
        let list = targets(&[r"re:(?=(a|aa)+\1$)b"]);
        let error = list.matches(&"a".repeat(200)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
    }

    #[test]
    fn patterns_that_would_grow_or_nest_without_end_are_errors() {
        let deep = format!("re:{}a{}", "(".repeat(100_000), ")".repeat(100_000));
        for pattern in [deep.as_str(), r"re:(?:(?:\w{1000}){1000}){1000}"] {
            let error = targets(&[pattern]).matches("b").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
        }
    }

    #[test]
    fn too_many_patterns_are_refused() {
        let list = (0..=MODULE_PATTERNS).map(|n| format!("re:{n}")).collect();
        assert_eq!(Targets::new(list).unwrap_err().kind(), ErrorKind::Limit);
    }
}
