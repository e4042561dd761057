//! The shipped artifacts, and the third-party packages that are part of them. Notices,
//! licence texts and SBOMs are generated from this list.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::deps;
use crate::prelude::*;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// An artifact that is shipped as a whole.
pub struct Artifact {
    name: &'static str,
    description: &'static str,
    /// File name of its SBOM.
    pub sbom: &'static str,
    /// Component type in CycloneDX.
    component: &'static str,
    /// Beginning of its package URL.
    purl: &'static str,
    /// Folder that contains its notices.
    pub folder: &'static str,
    /// Arguments of cargo that select the crates of each build.
    builds: &'static [&'static str],
    /// Rust targets of its builds.
    pub targets: &'static [&'static str],
    /// npm packages that are part of it.
    npm: &'static [&'static str],
    /// Libraries in it that come with a compiler.
    runtimes: &'static [Runtime],
}

/// A library that comes with a compiler: name, licence, copyright and origin.
type Runtime = [&'static str; 4];

const STANDARD_LIBRARY: Runtime = [
    "The Rust standard library",
    "MIT OR Apache-2.0",
    "The Rust Project Contributors",
    "https://github.com/rust-lang/rust",
];
const MUSL: Runtime = [
    "musl, in static programs for Linux",
    "MIT",
    "2005-2020 Rich Felker, et al.",
    "https://musl.libc.org",
];

const CERTIFICATES: Runtime = [
    "Mozilla's root certificates, in the container image",
    "CDLA-Permissive-2.0",
    "Mozilla",
    "https://github.com/rustls/webpki-roots",
];

const NATIVE: &[&str] = &[
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "x86_64-unknown-linux-musl",
    "x86_64-apple-darwin",
    "aarch64-apple-darwin",
    "x86_64-pc-windows-msvc",
];

/// All artifacts. Artifacts with the same notices have the same folder. The command line,
/// and therefore the container image, and the Python package contain the viewer.
#[rustfmt::skip]
pub const ARTIFACTS: [Artifact; 5] = [
    Artifact {
        name: "zstn", description: "The command line zstn", sbom: "zstn.cdx.json",
        component: "application", purl: "pkg:cargo/zstn-cli", folder: "",
        builds: &["--package zstn-cli"], targets: NATIVE, npm: &["uplot"], runtimes: &[STANDARD_LIBRARY, MUSL],
    },
    Artifact {
        name: "zstn", description: "The container image zstn", sbom: "zstn-image.cdx.json",
        component: "container", purl: "pkg:generic/zstn-image", folder: "",
        builds: &["--package zstn-cli"], targets: &["x86_64-unknown-linux-musl"], npm: &["uplot"],
        runtimes: &[STANDARD_LIBRARY, MUSL, CERTIFICATES],
    },
    Artifact {
        name: "libzstn", description: "The C library libzstn", sbom: "libzstn.cdx.json",
        component: "library", purl: "pkg:generic/libzstn", folder: "",
        builds: &["--package zstn-capi"], targets: NATIVE, npm: &[], runtimes: &[STANDARD_LIBRARY],
    },
    Artifact {
        name: "zstn", description: "The Python package zstn", sbom: "zstn-python.cdx.json",
        component: "library", purl: "pkg:pypi/zstn", folder: "native/python",
        builds: &["--package zstn-python"], targets: NATIVE, npm: &["uplot"], runtimes: &[STANDARD_LIBRARY],
    },
    Artifact {
        name: "zstn", description: "The npm package zstn", sbom: "zstn-npm.cdx.json",
        component: "library", purl: "pkg:npm/zstn", folder: "wasm",
        builds: &[
            "--package zstn-wasm --no-default-features --features formats,coder,gpu",
            "--package zstn-wasm --no-default-features --features threads",
        ],
        targets: &["wasm32-unknown-unknown"], npm: &[], runtimes: &[STANDARD_LIBRARY],
    },
];

/// A package, as `cargo metadata` describes it.
#[derive(Clone, Deserialize)]
pub struct Package {
    pub name: String,
    version: String,
    id: String,
    /// The licence as an SPDX expression.
    license: Option<String>,
    pub authors: Vec<String>,
    pub repository: Option<String>,
    manifest_path: PathBuf,
    /// The registry of the package; `None` for crates of this repository.
    source: Option<String>,
    /// The registries to which it may be published; `None` for published crates, which
    /// have no restriction.
    publish: Option<Vec<String>>,
}

impl Package {
    pub fn key(&self) -> String {
        format!("{} {}", self.name, self.version)
            .trim_end()
            .to_owned()
    }

    pub fn licence(&self) -> &str {
        self.license.as_deref().unwrap_or_default()
    }

    pub fn folder(&self) -> PathBuf {
        self.manifest_path.with_file_name("")
    }

    /// Returns whether the package's source is on this machine.
    pub fn is_source(&self) -> bool {
        self.manifest_path.is_file()
    }

    fn purl(&self) -> String {
        let registry = match self.source.as_deref() {
            Some(NPM) => NPM,
            _ => "cargo",
        };
        format!("pkg:{registry}/{}@{}", self.name, self.version)
    }
}

/// The registry of npm packages, in [`Package::source`] and in package URLs.
const NPM: &str = "npm";

/// The crates in the lock file, and their dependencies.
#[derive(Deserialize)]
pub struct Crates {
    packages: Vec<Package>,
    resolve: Graph,
}

#[derive(Deserialize)]
struct Graph {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    dependencies: Vec<String>,
}

impl Crates {
    pub fn read() -> Result<Self> {
        let answer = ask(&mut cargo("metadata --locked --format-version 1"))?;
        serde_json::from_str(&answer).context("cargo metadata did not answer as expected")
    }

    /// Returns the packages of this repository that are published.
    pub fn published(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|package| package.source.is_none() && package.publish.is_none())
    }
}

/// The packages in one or more artifacts, by key.
#[derive(Default)]
pub struct Shipped {
    pub packages: BTreeMap<String, Package>,
    /// The packages of this repository.
    own: BTreeMap<String, Package>,
}

impl Shipped {
    /// Adds the packages in `artifact` for any of `targets`.
    pub fn add(&mut self, crates: &Crates, artifact: &Artifact, targets: &[&str]) -> Result<()> {
        let mut keys = BTreeSet::new();
        for build in artifact.builds {
            for target in targets {
                keys.append(&mut tree(build, target)?);
            }
        }
        for package in &crates.packages {
            let list = match package.source.is_some() {
                true => &mut self.packages,
                false => &mut self.own,
            };
            if keys.contains(&package.key()) {
                list.insert(package.key(), package.clone());
            }
        }
        for name in artifact.npm {
            let package = npm(name)?;
            self.packages.insert(package.key(), package);
        }
        for [name, license, copyright, origin] in artifact.runtimes {
            let package: Package = serde_json::from_value(json!({
                "name": name, "license": license, "authors": [copyright], "repository": origin,
                "version": "", "id": "", "manifest_path": "",
            }))?;
            self.packages.insert(package.key(), package);
        }
        ensure!(
            !self.own.is_empty(),
            "cargo lists nothing for {}",
            artifact.name
        );
        Ok(())
    }

    /// Returns the bill of materials of an artifact as CycloneDX 1.6 JSON. It contains
    /// neither a time nor a random number, so that repeated builds give the same file.
    pub fn sbom(&self, crates: &Crates, artifact: &Artifact) -> Result<String> {
        let own = format!("{}@{VERSION}", artifact.purl);
        let locked = deps::locked_crates(&fs::read_to_string(path("Cargo.lock"))?)?;
        let depends = |package: &Package| -> Vec<String> {
            let node = crates
                .resolve
                .nodes
                .iter()
                .find(|node| node.id == package.id);
            let ids = node.map(|node| &node.dependencies[..]).unwrap_or_default();
            let known = self
                .packages
                .values()
                .filter(|package| ids.contains(&package.id));
            known.map(Package::purl).collect()
        };
        let (mut components, mut dependencies) = (Vec::new(), Vec::new());
        for package in self.packages.values() {
            // A slash is an outdated notation for OR.
            let licence = package.licence().replace(" / ", "/").replace('/', " OR ");
            let mut component = json!({
                "type": "library",
                "name": package.name,
                "licenses": [{ "expression": licence }],
            });
            if let Some(url) = &package.repository {
                let kind = if package.is_source() {
                    "vcs"
                } else {
                    "website"
                };
                component["externalReferences"] = json!([{ "type": kind, "url": url }]);
            }
            if package.is_source() {
                let purl = package.purl();
                component["version"] = json!(package.version);
                component["bom-ref"] = json!(purl);
                component["purl"] = json!(purl);
                dependencies.push(json!({ "ref": purl, "dependsOn": depends(package) }));
            }
            let is_same = |other: &&deps::Locked| {
                other.name == package.name && other.version == package.version
            };
            if let Some(found) = locked.iter().find(is_same) {
                component["hashes"] = json!([{ "alg": "SHA-256", "content": found.checksum }]);
            }
            components.push(component);
        }
        let npm = self
            .packages
            .values()
            .filter(|package| artifact.npm.contains(&&*package.name));
        let direct = self.own.values().flat_map(depends);
        let direct: BTreeSet<String> = direct.chain(npm.map(Package::purl)).collect();
        dependencies.push(json!({ "ref": own, "dependsOn": direct }));
        let document = json!({
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": { "component": {
                "type": artifact.component,
                "bom-ref": own,
                "name": artifact.name,
                "version": VERSION,
                "description": artifact.description,
                "purl": own,
                "licenses": [{ "license": { "id": "Apache-2.0" } }],
            } },
            "components": components,
            "dependencies": dependencies,
        });
        Ok(serde_json::to_string_pretty(&document)? + "\n")
    }
}

/// Returns the keys of the crates that are linked into a build. Build scripts and
/// procedural macros are excluded, since they only run while it is built.
fn tree(build: &str, target: &str) -> Result<BTreeSet<String>> {
    let mut tree = cargo("tree --locked --edges normal,no-proc-macro --prefix none --format {p}");
    let lines = ask(tree.words(build).args(["--target", target]))?;
    // A line has the form "name v1.2.3", followed by a path or a repetition mark.
    let key = |line: &str| {
        line.split_whitespace()
            .take(2)
            .collect::<Vec<_>>()
            .join(" ")
    };
    Ok(lines
        .lines()
        .map(|line| key(line).replace(" v", " "))
        .collect())
}

fn npm(name: &str) -> Result<Package> {
    let file = path("node_modules").join(name).join("package.json");
    let manifest: Value = serde_json::from_slice(&fs::read(&file)?)?;
    let author = &manifest["author"];
    Ok(serde_json::from_value(json!({
        "name": manifest["name"],
        "version": manifest["version"],
        "id": "",
        "license": manifest["license"],
        "authors": [if author.is_string() { author } else { &author["name"] }],
        "repository": manifest["repository"]["url"],
        "manifest_path": file,
        "source": NPM,
    }))?)
}
