//! Checks of the lock files: every download has a digest and comes from the official
//! registry of its language.

use std::fs;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::node;
use crate::step::Step;
use crate::workspace::Workspace;

const NPM: [&str; 3] = [
    "package-lock.json",
    "tests/js/consumers/package-lock.json",
    "tests/runtimes/package-lock.json",
];
const CARGO: [&str; 3] = [
    "Cargo.lock",
    "tests/bench/decoders/Cargo.lock",
    "tests/fuzz/Cargo.lock",
];
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";
const NPM_REGISTRY: &str = "https://registry.npmjs.org/";

/// Checks all lock files.
pub fn check(workspace: &Workspace, step: &mut Step) -> Result<()> {
    let mut counts = [0, 0];
    let read = |name: &str| {
        fs::read_to_string(workspace.path(name)).with_context(|| format!("{name} cannot be read"))
    };
    for name in CARGO {
        counts[0] += crates(&read(name)?).with_context(|| name.to_owned())?;
    }
    for name in NPM {
        let lock: Value = serde_json::from_str(&read(name)?).with_context(|| name.to_owned())?;
        counts[1] += packages(&lock).with_context(|| name.to_owned())?;
    }
    step.note(format!("{} crates, {} npm packages", counts[0], counts[1]));
    Ok(())
}

/// Requests the advisories for the npm packages from the registry.
pub fn audit(workspace: &Workspace, step: &mut Step) -> Result<()> {
    let mut npm = node::npm();
    npm.args(["audit", "--json"]).current_dir(workspace.root());
    let output = npm.output().context("npm could not be started")?;
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let Some(found) = answer["metadata"]["vulnerabilities"].as_object() else {
        step.note("the registry in use does not answer: left out");
        return Ok(());
    };
    let serious: u64 = ["high", "critical"]
        .iter()
        .filter_map(|severity| found.get(*severity)?.as_u64())
        .sum();
    if serious > 0 {
        bail!("{serious} packages have serious vulnerabilities; `npm audit` describes them");
    }
    step.note("none is serious");
    Ok(())
}

/// Returns the number of third-party crates in a cargo lock file.
fn crates(lock: &str) -> Result<usize> {
    let mut count = 0;
    for block in lock.split("[[package]]").skip(1) {
        let field = |name: &str| {
            let start = format!("{name} = \"");
            let mut lines = block.lines();
            lines.find_map(|line| Some(line.strip_prefix(&start)?.trim_end_matches('"')))
        };
        let name = field("name").unwrap_or("?");
        let Some(source) = field("source") else {
            continue;
        };
        if source != CRATES_IO {
            bail!("the crate {name} comes from {source}, not from crates.io");
        }
        if field("checksum").is_none_or(|digest| digest.len() != 64) {
            bail!("the crate {name} has no digest");
        }
        count += 1;
    }
    Ok(count)
}

/// Returns the number of packages in an npm lock file.
fn packages(lock: &Value) -> Result<usize> {
    let listed = lock["packages"]
        .as_object()
        .context("it lists no packages")?;
    let mut count = 0;
    for (path, entry) in listed {
        let Some((_, name)) = path.rsplit_once("node_modules/") else {
            continue;
        };
        // The entry is a package of this repository, or bundled in the archive of
        // another one.
        if entry["link"] == true || entry["inBundle"] == true {
            continue;
        }
        if let Some(resolved) = entry["resolved"].as_str()
            && !resolved.starts_with(NPM_REGISTRY)
        {
            bail!("the package {name} comes from {resolved}, not from the registry of npm");
        }
        let digest = entry["integrity"].as_str().unwrap_or_default();
        if !digest.starts_with("sha512-") {
            bail!("the package {name} has no SHA-512 digest");
        }
        count += 1;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_crate_from_elsewhere_or_without_a_digest_is_refused() {
        let block = |source: &str, rest: &str| {
            format!("[[package]]\nname = \"a\"\nsource = \"{source}\"\n{rest}\n")
        };
        let digest = format!("checksum = \"{}\"", "0".repeat(64));
        assert_eq!(crates(&block(CRATES_IO, &digest)).expect("fine"), 1);
        let error = crates(&block(CRATES_IO, "")).expect_err("no digest");
        assert!(error.to_string().contains("no digest"), "{error}");
        let error = crates(&block("git+https://example.org/a", &digest)).expect_err("git");
        assert!(error.to_string().contains("example.org"), "{error}");
    }

    #[test]
    fn a_package_from_elsewhere_or_without_a_digest_is_refused() {
        let lock = |entry: Value| json!({ "packages": { "": {}, "node_modules/a": entry } });
        let good = json!({ "version": "1.0.0", "integrity": "sha512-x" });
        assert_eq!(packages(&lock(good)).expect("fine"), 1);
        assert_eq!(packages(&lock(json!({ "link": true }))).expect("fine"), 0);
        for bad in [
            json!({ "version": "1.0.0" }),
            json!({ "integrity": "sha1-x" }),
            json!({ "integrity": "sha512-x", "resolved": "git+ssh://example.org/a" }),
        ] {
            assert!(packages(&lock(bad.clone())).is_err(), "{bad}");
        }
    }
}
