//! The verb `deps`: checks of the project's dependencies.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::prelude::*;
use crate::shipped::{ARTIFACTS, Crates, Package, Shipped};
use crate::{notices, npm};

#[derive(clap::Args)]
pub struct Options {
    /// Write the files THIRD-PARTY-LICENSES.txt instead of comparing them
    #[arg(long)]
    write: bool,
    /// Also write an SBOM of each artifact to this folder, as built for this machine
    #[arg(long, value_name = "DIR")]
    sbom: Option<PathBuf>,
}

/// Name of the files that contain the licences of shipped packages.
pub const NOTICES: &str = "THIRD-PARTY-LICENSES.txt";

const CARGO_DENY: &str = "0.20.2";
const CARGO_LOCKS: [&str; 3] = [
    "Cargo.lock",
    "tests/bench/decoders/Cargo.lock",
    "tests/fuzz/Cargo.lock",
];
const NPM_LOCKS: [&str; 3] = [
    "package-lock.json",
    "tests/js/consumers/package-lock.json",
    "tests/runtimes/package-lock.json",
];
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";
const NPM_REGISTRY: &str = "https://registry.npmjs.org/";

/// Checks everything, or writes the notices with `--write`.
pub fn run(options: &Options) -> Result<()> {
    npm::ready()?;
    notices(options.write)?;
    licences()?;
    if let Some(folder) = &options.sbom {
        sboms(folder, &cargo::rustc_field("host")?)?;
    }
    Ok(())
}

/// Checks the lock files, and compares or writes the licence texts of shipped packages.
pub fn notices(write: bool) -> Result<()> {
    step("lock files", locks)?;
    step("licences of what is shipped", |step| shipped(step, write))
}

/// Checks licences, origins and banned crates of the workspace with cargo-deny. The
/// crates of `tests/fuzz` and `tests/bench/decoders` are not checked, as they are only
/// used for manual measurements.
pub fn licences() -> Result<()> {
    step("licences and origins of crates", |step| {
        let mut deny = Command::new(cargo_deny(step)?);
        deny.words("--locked --config").arg(path("deny.toml"));
        // Advisories are not checked, because they need a database from GitHub.
        step.run(deny.words("check licenses bans sources"))?;
        step.note(format!("cargo-deny {CARGO_DENY}"));
        Ok(())
    })
}

/// Returns the installed cargo-deny; if there is none, builds it in two minutes.
fn cargo_deny(step: &mut Step) -> Result<PathBuf> {
    let folder = cache(format!("cargo-deny-{CARGO_DENY}"));
    let built = folder.join(format!("bin/cargo-deny{}", std::env::consts::EXE_SUFFIX));
    if let Some(found) = find("cargo-deny") {
        return Ok(found);
    }
    if !built.is_file() {
        let build = target("cargo-deny");
        let line = format!("install cargo-deny --version {CARGO_DENY} --locked --debug --root");
        let mut install = cargo(&line);
        install.arg(&folder).env("CARGO_TARGET_DIR", &build);
        // The program runs for a second, and optimising it would take longer.
        let installed = step.run_twice(install.env("CARGO_PROFILE_DEV_DEBUG", "0"));
        installed.context("`cargo install cargo-deny` elsewhere and PATH work too")?;
        // The build files are large and have no further use.
        fs::remove_dir_all(build)?;
    }
    Ok(built)
}

pub fn published_crates() -> Result<Vec<String>> {
    let crates = Crates::read()?;
    Ok(crates
        .published()
        .map(|package| package.name.clone())
        .collect())
}

/// Compares the committed notices with the packages that are shipped, or writes them.
/// Each published archive also contains a copy of the licence.
fn shipped(step: &mut Step, write: bool) -> Result<()> {
    let crates = Crates::read()?;
    let mut counts = Vec::new();
    let mut folders: Vec<PathBuf> = Vec::new();
    for folder in ["", "native/python", "wasm"] {
        let mut all = Shipped::default();
        for artifact in &ARTIFACTS {
            if artifact.folder == folder {
                all.add(&crates, artifact, artifact.targets)?;
            }
        }
        let text = notices::text(&all)?;
        let file = path(folder).join(NOTICES);
        paths::check_generated(&file, &text, write, "cargo xtask deps --write")?;
        counts.push(all.packages.len().to_string());
        folders.push(path(folder));
    }
    folders.extend(crates.published().map(Package::folder));
    let licence = fs::read(path("LICENSE"))?;
    for folder in folders {
        let copy = folder.join("LICENSE");
        let is_same = fs::read(&copy).is_ok_and(|copy| copy == licence);
        ensure!(is_same, "{} is not a copy of LICENSE", paths::show(&copy));
    }
    step.note(format!("{} packages", counts.join(", ")));
    Ok(())
}

/// Writes an SBOM of each artifact to `folder`, for `target` or for the only target of
/// the artifact.
pub fn sboms(folder: &Path, target: &str) -> Result<()> {
    step("SBOMs", |step| {
        fs::create_dir_all(folder)?;
        let crates = Crates::read()?;
        for artifact in &ARTIFACTS {
            let only = artifact.targets.len() == 1;
            let targets = if only { artifact.targets } else { &[target] };
            let mut shipped = Shipped::default();
            shipped.add(&crates, artifact, targets)?;
            fs::write(folder.join(artifact.sbom), shipped.sbom(&crates, artifact)?)?;
        }
        step.note(paths::show(folder));
        Ok(())
    })
}

/// Checks that every download has a digest and comes from the official registry of its
/// language.
fn locks(step: &mut Step) -> Result<()> {
    let (mut crates, mut packages) = (0, 0);
    for name in CARGO_LOCKS {
        crates += check_crates(&fs::read_to_string(path(name))?).context(name)?;
    }
    for name in NPM_LOCKS {
        let lock: Value = serde_json::from_slice(&fs::read(path(name))?).context(name)?;
        packages += check_packages(&lock).context(name)?;
    }
    step.note(format!("{crates} crates, {packages} npm packages"));
    Ok(())
}

/// A package in a cargo lock file. Packages of this repository have no source.
#[derive(Deserialize)]
pub struct Locked {
    pub name: String,
    pub version: String,
    source: Option<String>,
    pub checksum: Option<String>,
}

pub fn locked_crates(lock: &str) -> Result<Vec<Locked>> {
    let mut lock: BTreeMap<String, toml::Value> = toml::from_str(lock)?;
    let packages = lock.remove("package").context("it lists no packages")?;
    Ok(packages.try_into()?)
}

/// Returns the number of third-party crates in a cargo lock file.
fn check_crates(lock: &str) -> Result<usize> {
    let mut count = 0;
    for package in locked_crates(lock)? {
        let Some(source) = package.source else {
            continue;
        };
        let name = package.name;
        ensure!(
            source == CRATES_IO,
            "the crate {name} comes from {source}, not from crates.io"
        );
        ensure!(package.checksum.is_some(), "the crate {name} has no digest");
        count += 1;
    }
    Ok(count)
}

/// Returns the number of packages in an npm lock file.
fn check_packages(lock: &Value) -> Result<usize> {
    let mut count = 0;
    for (path, entry) in lock["packages"]
        .as_object()
        .context("it lists no packages")?
    {
        // An entry may also be a package of this repository, or bundled in the archive
        // of another one.
        let installed = path.rsplit_once("node_modules/");
        let Some((_, name)) =
            installed.filter(|_| entry["link"] != true && entry["inBundle"] != true)
        else {
            continue;
        };
        let origin = entry["resolved"].as_str().unwrap_or(NPM_REGISTRY);
        ensure!(
            origin.starts_with(NPM_REGISTRY),
            "the package {name} comes from {origin}, not from the registry of npm"
        );
        let digest = entry["integrity"].as_str().unwrap_or_default();
        ensure!(
            digest.starts_with("sha512-"),
            "the package {name} has no SHA-512 digest"
        );
        count += 1;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn downloads_from_elsewhere_or_without_a_digest_are_refused() {
        let lock = |source: &str, rest: &str| {
            check_crates(&format!(
                "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"{source}\"\n{rest}\n"
            ))
        };
        let digest = format!("checksum = \"{}\"", "0".repeat(64));
        assert_eq!(lock(CRATES_IO, &digest).expect("fine"), 1);
        assert!(lock(CRATES_IO, "").is_err());
        assert!(lock("git+https://example.org/a", &digest).is_err());

        let lock = |entry: Value| {
            check_packages(&json!({ "packages": { "": {}, "node_modules/a": entry } }))
        };
        assert_eq!(lock(json!({ "integrity": "sha512-x" })).expect("fine"), 1);
        assert_eq!(lock(json!({ "link": true })).expect("fine"), 0);
        assert!(lock(json!({ "integrity": "sha1-x" })).is_err());
        let resolved = "git+ssh://example.org/a";
        assert!(lock(json!({ "integrity": "sha512-x", "resolved": resolved })).is_err());
    }
}
