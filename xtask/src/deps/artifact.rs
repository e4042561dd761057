//! The shipped artifacts, and the crates and packages that they contain.

/// An artifact that is shipped as a whole.
pub struct Artifact {
    /// Name of the artifact in its SBOM.
    pub name: &'static str,
    pub description: &'static str,
    /// File name of its SBOM.
    pub sbom: &'static str,
    /// Component type in CycloneDX.
    pub kind: &'static str,
    /// Beginning of its package URL.
    pub purl: &'static str,
    /// Folder that contains its notices.
    pub folder: &'static str,
    /// Arguments of cargo that select the crates it is built from; one list for each
    /// build.
    pub builds: &'static [&'static [&'static str]],
    /// Rust targets of its builds.
    pub targets: &'static [&'static str],
    /// npm packages that are part of it.
    pub npm: &'static [&'static str],
    /// Libraries in it that are not packages.
    pub runtimes: &'static [Runtime],
}

/// A library that comes with a compiler.
pub struct Runtime {
    pub name: &'static str,
    pub licence: &'static str,
    pub copyright: &'static str,
    pub origin: &'static str,
}

const STANDARD_LIBRARY: Runtime = Runtime {
    name: "The Rust standard library",
    licence: "MIT OR Apache-2.0",
    copyright: "The Rust Project Contributors",
    origin: "https://github.com/rust-lang/rust",
};

const MUSL: Runtime = Runtime {
    name: "musl, in static programs for Linux",
    licence: "MIT",
    copyright: "Copyright © 2005-2020 Rich Felker, et al.",
    origin: "https://musl.libc.org",
};

const NATIVE_TARGETS: &[&str] = &[
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "x86_64-unknown-linux-musl",
    "x86_64-apple-darwin",
    "aarch64-apple-darwin",
    "x86_64-pc-windows-msvc",
];

/// The command line, which contains the viewer.
const COMMAND_LINE: Artifact = Artifact {
    name: "zstn",
    description: "The command line zstn",
    sbom: "zstn.cdx.json",
    kind: "application",
    purl: "pkg:cargo/zstn-cli",
    folder: "",
    builds: &[&["--package", "zstn-cli"]],
    targets: NATIVE_TARGETS,
    npm: &["uplot"],
    runtimes: &[STANDARD_LIBRARY, MUSL],
};

const C_LIBRARY: Artifact = Artifact {
    name: "libzstn",
    description: "The C library libzstn",
    sbom: "libzstn.cdx.json",
    kind: "library",
    purl: "pkg:generic/libzstn",
    folder: "",
    builds: &[&["--package", "zstn-capi", "--features", "store"]],
    targets: NATIVE_TARGETS,
    npm: &[],
    runtimes: &[STANDARD_LIBRARY],
};

const WHEEL: Artifact = Artifact {
    name: "zstn",
    description: "The Python package zstn",
    sbom: "zstn-python.cdx.json",
    kind: "library",
    purl: "pkg:pypi/zstn",
    folder: "native/python",
    builds: &[&["--package", "zstn-python"]],
    targets: NATIVE_TARGETS,
    npm: &[],
    runtimes: &[STANDARD_LIBRARY],
};

const NPM_PACKAGE: Artifact = Artifact {
    name: "zstn",
    description: "The npm package zstn",
    sbom: "zstn-npm.cdx.json",
    kind: "library",
    purl: "pkg:npm/zstn",
    folder: "wasm",
    builds: &[
        &[
            "--package",
            "zstn-wasm",
            "--no-default-features",
            "--features",
            "formats,coder",
        ],
        &[
            "--package",
            "zstn-wasm",
            "--no-default-features",
            "--features",
            "threads",
        ],
    ],
    targets: &["wasm32-unknown-unknown"],
    npm: &[],
    runtimes: &[STANDARD_LIBRARY],
};

pub const ALL: [&Artifact; 4] = [&COMMAND_LINE, &C_LIBRARY, &WHEEL, &NPM_PACKAGE];

/// Returns the folders of the notices without duplicates.
pub fn folders() -> Vec<&'static str> {
    let mut folders: Vec<_> = ALL.iter().map(|artifact| artifact.folder).collect();
    folders.dedup();
    folders
}
