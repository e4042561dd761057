//! The recorded counts in `tests/instructions.json`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use crate::process;
use crate::rust_target;
use crate::workspace::Workspace;

/// The conditions that influence the counts, in addition to the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conditions {
    /// Versions of compilers, and the processor features that valgrind emulates.
    pub known: BTreeMap<String, String>,
}

impl Conditions {
    /// Returns the conditions on this machine.
    pub fn here(workspace: &Workspace) -> Result<Self> {
        let compiler = process::ask(rust_target::active_rustc(workspace).arg("-vV"))?;
        let field = |name: &str| {
            let mut lines = compiler.lines();
            let line = lines.find_map(|line| line.strip_prefix(name));
            line.unwrap_or("unknown").trim().to_owned()
        };
        let c = process::ask(Command::new("cc").arg("--version")).unwrap_or_default();
        Ok(Self {
            known: BTreeMap::from([
                ("rustc".into(), field("release:")),
                ("host".into(), field("host:")),
                ("cc".into(), c.lines().next().unwrap_or("none").to_owned()),
                ("vectors".into(), vectors().to_owned()),
            ]),
        })
    }

    /// Returns the names of the conditions that differ.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let same = |name: &String| self.known.get(name) == other.known.get(name);
        let names = self.known.keys().filter(|name| !same(name));
        names.cloned().collect()
    }
}

/// Returns the widest vectors of this processor that valgrind emulates. It hides
/// AVX-512 and the SHA instructions from the program.
fn vectors() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        return "AVX2";
    }
    "of the target"
}

/// Counts, and the conditions under which they were made.
#[derive(Debug, Clone)]
pub struct Record {
    pub conditions: Conditions,
    /// Instructions per byte by stage.
    pub counts: BTreeMap<String, f64>,
}

impl Record {
    /// Creates a record, with counts rounded to three decimals as in the file.
    pub fn new(conditions: Conditions, counts: &[(String, f64)]) -> Self {
        let round = |count: f64| (count * 1000.0).round() / 1000.0;
        let counts = counts.iter();
        Self {
            conditions,
            counts: counts
                .map(|(name, count)| (name.clone(), round(*count)))
                .collect(),
        }
    }

    pub fn read(path: &Path) -> Result<Self> {
        let unusable = || format!("{} cannot be used", path.display());
        let text = fs::read(path).with_context(unusable)?;
        let json: Value = serde_json::from_slice(&text).with_context(unusable)?;
        let entries = |name: &str| json[name].as_object().with_context(unusable);
        let known = entries("conditions")?.iter().map(|(name, value)| {
            let value = value.as_str().with_context(unusable)?;
            Ok((name.clone(), value.to_owned()))
        });
        let counts = entries("instructions_per_byte")?.iter();
        let counts = counts.map(|(name, count)| {
            let count = count.as_f64().with_context(unusable)?;
            Ok((name.clone(), count))
        });
        Ok(Self {
            conditions: Conditions {
                known: known.collect::<Result<_>>()?,
            },
            counts: counts.collect::<Result<_>>()?,
        })
    }

    pub fn write(&self, path: &Path) -> Result<()> {
        let known = self.conditions.known.iter();
        let known: Map<String, Value> = known
            .map(|(name, value)| (name.clone(), json!(value)))
            .collect();
        let counts = self.counts.iter();
        let counts: Map<String, Value> = counts
            .map(|(name, count)| (name.clone(), json!(count)))
            .collect();
        let json = json!({ "conditions": known, "instructions_per_byte": counts });
        let text = serde_json::to_string_pretty(&json)? + "\n";
        fs::write(path, text).with_context(|| format!("{} is not writable", path.display()))
    }
}
