//! The packages that are part of an artifact. Notices, licence texts and SBOM are all
//! generated from this list.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::artifact::{Artifact, Runtime};
use crate::cargo::cargo;
use crate::process;
use crate::workspace::Workspace;

/// A third-party package.
#[derive(Clone)]
pub struct Package {
    pub name: String,
    pub version: String,
    /// Licence as an SPDX expression, as stated by the package.
    pub licence: String,
    pub authors: Vec<String>,
    pub origin: String,
    /// Folder that contains its source.
    pub folder: PathBuf,
    /// Type of its package URL: "cargo" or "npm".
    pub registry: &'static str,
    /// Algorithm and hexadecimal digits of the digest in the lock file.
    pub digest: Option<(&'static str, String)>,
    /// Keys of the packages in the list that it depends on.
    pub depends: BTreeSet<String>,
}

impl Package {
    /// Returns the package URL.
    pub fn purl(&self) -> String {
        format!("pkg:{}/{}@{}", self.registry, self.name, self.version)
    }
}

/// The crates in the lock file, as reported by `cargo metadata`.
pub struct Metadata {
    /// Third-party packages by key, which is made of name and version.
    packages: BTreeMap<String, Package>,
    /// The dependencies of each crate of this workspace.
    own: BTreeMap<String, BTreeSet<String>>,
}

impl Metadata {
    pub fn read(workspace: &Workspace) -> Result<Self> {
        let mut command = cargo(workspace);
        command
            .args(["metadata", "--locked", "--format-version", "1"])
            .current_dir(workspace.root());
        let answer: Value = serde_json::from_str(&process::ask(&mut command)?)
            .context("cargo metadata did not answer in JSON")?;
        let digests = digests(workspace)?;
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let keys: BTreeMap<String, String> = list(&answer["packages"])
            .iter()
            .map(|package| (text(package, "id"), key_of(package)))
            .collect();
        let mut depends = BTreeMap::new();
        for node in list(&answer["resolve"]["nodes"]) {
            let on = list(&node["dependencies"]);
            let on = on.iter().filter_map(|id| keys.get(id.as_str()?).cloned());
            depends.insert(text(&node, "id"), on.collect::<BTreeSet<_>>());
        }
        let (mut packages, mut own) = (BTreeMap::new(), BTreeMap::new());
        for package in list(&answer["packages"]) {
            // Crates of this workspace are the artifact itself, not a part of it.
            let key = key_of(&package);
            let depends = depends.remove(&text(&package, "id")).unwrap_or_default();
            if package["source"].is_null() {
                own.insert(key, depends);
                continue;
            }
            let manifest = PathBuf::from(text(&package, "manifest_path"));
            let authors = list(&package["authors"]);
            let found = Package {
                name: text(&package, "name"),
                version: text(&package, "version"),
                licence: text(&package, "license"),
                authors: authors
                    .iter()
                    .filter_map(|author| author.as_str().map(str::to_owned))
                    .collect(),
                origin: text(&package, "repository"),
                folder: manifest.parent().map(Path::to_path_buf).unwrap_or_default(),
                registry: "cargo",
                digest: digests.get(&key).map(|hex| ("SHA-256", hex.clone())),
                depends,
            };
            packages.insert(key, found);
        }
        Ok(Self { packages, own })
    }
}

/// The packages in one or more artifacts.
pub struct Shipped {
    packages: BTreeMap<String, Package>,
    /// Keys of the packages that our own crates depend on directly.
    pub direct: BTreeSet<String>,
    pub runtimes: Vec<&'static Runtime>,
}

impl Shipped {
    /// Returns the packages in `artifact` for any of `targets`.
    pub fn of(
        workspace: &Workspace,
        metadata: &Metadata,
        artifact: &Artifact,
        targets: &[&str],
    ) -> Result<Self> {
        let (mut packages, mut direct) = (BTreeMap::new(), BTreeSet::new());
        for build in artifact.builds {
            for target in targets {
                for key in tree(workspace, build, target)? {
                    if let Some(package) = metadata.packages.get(&key) {
                        packages.insert(key, package.clone());
                    } else if let Some(depends) = metadata.own.get(&key) {
                        direct.extend(depends.iter().cloned());
                    }
                }
            }
        }
        if packages.is_empty() {
            bail!("cargo tree lists no package for {}", artifact.description);
        }
        for name in artifact.npm {
            let package = npm(workspace, name)?;
            let key = format!("{} {}", package.name, package.version);
            direct.insert(key.clone());
            packages.insert(key, package);
        }
        let known: BTreeSet<String> = packages.keys().cloned().collect();
        for package in packages.values_mut() {
            package.depends.retain(|key| known.contains(key));
        }
        direct.retain(|key| known.contains(key));
        Ok(Self {
            packages,
            direct,
            runtimes: artifact.runtimes.iter().collect(),
        })
    }

    /// Returns the packages in any of `artifacts`, for all of their targets.
    pub fn of_all<'a>(
        workspace: &Workspace,
        metadata: &Metadata,
        artifacts: impl Iterator<Item = &'a &'a Artifact>,
    ) -> Result<Self> {
        let mut all = Self {
            packages: BTreeMap::new(),
            direct: BTreeSet::new(),
            runtimes: Vec::new(),
        };
        for artifact in artifacts {
            let one = Self::of(workspace, metadata, artifact, artifact.targets)?;
            all.packages.extend(one.packages);
            all.direct.extend(one.direct);
            for runtime in one.runtimes {
                if !all.runtimes.iter().any(|known| known.name == runtime.name) {
                    all.runtimes.push(runtime);
                }
            }
        }
        Ok(all)
    }

    /// Returns the packages with their keys.
    pub fn packages(&self) -> impl Iterator<Item = (&String, &Package)> {
        self.packages.iter()
    }

    pub fn len(&self) -> usize {
        self.packages.len()
    }
}

/// Returns names and versions of the crates that are linked into a build. Build scripts
/// and procedural macros are excluded, since they only run while it is built.
fn tree(workspace: &Workspace, build: &[&str], target: &str) -> Result<BTreeSet<String>> {
    let mut command = cargo(workspace);
    command
        .args(["tree", "--locked", "--edges", "normal,no-proc-macro"])
        .args(["--prefix", "none", "--format", "{p}", "--target", target])
        .args(build)
        .current_dir(workspace.root());
    let lines = process::ask(&mut command)?;
    let keys = lines.lines().filter_map(|line| {
        // A line has the form "name v1.2.3", followed by a path or a repetition mark.
        let mut words = line.split_whitespace();
        let name = words.next()?;
        let version = words.next()?.strip_prefix('v')?;
        Some(format!("{name} {version}"))
    });
    Ok(keys.collect())
}

/// Reads an installed npm package.
fn npm(workspace: &Workspace, name: &str) -> Result<Package> {
    let folder = workspace.path("node_modules").join(name);
    let manifest = read_json(&folder.join("package.json"))?;
    let author = match &manifest["author"] {
        Value::String(author) => author.clone(),
        author => text(author, "name"),
    };
    Ok(Package {
        name: text(&manifest, "name"),
        version: text(&manifest, "version"),
        licence: text(&manifest, "license"),
        authors: vec![author],
        origin: text(&manifest["repository"], "url"),
        folder,
        registry: "npm",
        digest: None,
        depends: BTreeSet::new(),
    })
}

/// Returns the digests in Cargo.lock by key.
fn digests(workspace: &Workspace) -> Result<BTreeMap<String, String>> {
    let path = workspace.path("Cargo.lock");
    let lock =
        fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
    let mut digests = BTreeMap::new();
    for block in lock.split("[[package]]").skip(1) {
        let field = |name: &str| {
            let start = format!("{name} = \"");
            let mut lines = block.lines();
            let value = lines.find_map(|line| line.strip_prefix(&start));
            value.map(|value| value.trim_end_matches('"').to_owned())
        };
        if let (Some(name), Some(version), Some(digest)) =
            (field("name"), field("version"), field("checksum"))
        {
            digests.insert(format!("{name} {version}"), digest);
        }
    }
    Ok(digests)
}

fn read_json(path: &Path) -> Result<Value> {
    let bytes = fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
    serde_json::from_slice(&bytes).with_context(|| format!("{} is not JSON", path.display()))
}

fn key_of(package: &Value) -> String {
    format!("{} {}", text(package, "name"), text(package, "version"))
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}
