//! Creates plans for `zstn worker`.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::sha256;
use crate::stub_hub::{RepoId, StubHub};

/// Adds files to a repository of a hub, and writes a plan that lists the safetensors
/// files among them.
///
/// # Panics
/// If a file cannot be written.
#[must_use]
pub fn plan_of(hub: &StubHub, repository: &str, files: &[(&str, &[u8])], folder: &Path) -> PathBuf {
    let commit = hub
        .add(&RepoId::model(repository), files)
        .expect("the hub takes files");
    let path = folder.join("plan.jsonl");
    let mut text = std::fs::read_to_string(&path).unwrap_or_default();
    for (name, bytes) in files
        .iter()
        .filter(|(name, _)| name.ends_with(".safetensors"))
    {
        let row = json!({
            "repo": repository,
            "revision": commit,
            "path": name,
            "size": bytes.len(),
            "sha256": sha256(bytes),
        });
        text.push_str(&format!("{row}\n"));
    }
    std::fs::write(&path, text).expect("the plan is written");
    path
}
