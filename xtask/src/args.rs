//! The arguments of `cargo xtask`.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::suites;

const MODULES: [&str; 4] = ["reader", "formats", "coder", "threads"];

/// Build, test and show this project.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
pub struct Args {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Subcommand)]
pub enum Verb {
    /// Pack a real model, serve it, read a tensor from it, and show it in the viewer
    Demo(Demo),
    /// Take a model through all hub features, and print the bytes transferred
    HubDemo {
        /// The checkpoint; a small real one is downloaded by default
        #[arg(value_name = "MODEL.safetensors")]
        model: Option<PathBuf>,
    },
    /// Check licences, origins and lock files of all dependencies
    Deps(Deps),
    /// Build and test for other processors and systems, with emulators
    Platforms(Platforms),
    /// Build everything that is published, without publishing it
    Release(Release),
    /// Build the shipped artifacts twice, in different folders, and compare the bytes
    Reproducible(Reproducible),
    /// Run the tests
    Test(Test),
    /// Let the real z4ai decode random inputs from every encoder
    Interop(Interop),
    /// Code real matrices with zstn and gauss-compress in alternation; installs PyTorch
    Gauss(Arguments),
    /// Exchange models with the real compressed-tensors; installs PyTorch
    Compressed(Arguments),
    /// Build the C library and install header, libraries and libzstn.pc
    Capi(Capi),
    /// Install ONNX Runtime and TensorFlow.js for the tests of docs/npm/hand-off.md
    Consumers,
    /// Run every fault of servers and files in Rust and in Node, and print a table
    Faults {
        /// Instead, send 50 of each signal to every command of the command line at random
        /// moments
        #[arg(long)]
        all: bool,
    },
    /// Run the tests of object stores against moto (S3) and azurite (Azure)
    Stores,
    /// Run the tests with git-lfs, with and without a server
    Lfs,
    /// Run a job on a Ray cluster whose nodes and workers are killed, with moto as its store
    HubJob {
        /// Also measure one node, two nodes and no cluster, compared with the simulation
        #[arg(long)]
        figures: bool,
    },
    /// Run the npm package in Firefox, WebKitGTK, Node, Deno, Bun, workerd and through bundlers
    Runtimes,
    /// Install the tools of the other commands, and nothing else
    Setup,
    /// Count the instructions of each stage and compare them with
    /// tests/instructions.json
    Instructions(Instructions),
    /// Fuzz readers and encoders, and stop at the first defect
    Fuzz(Fuzz),
    /// Compare zstd decoders, natively and in WebAssembly
    Decoders {
        /// Checkpoint whose BF16 tensors are decoded; synthetic weights by default
        #[arg(value_name = "MODEL.safetensors")]
        model: Option<PathBuf>,
    },
    /// Pack a real model in many forms and print the sizes, compared with other packers
    Sizes(Arguments),
    /// Build the WebAssembly modules and the npm package
    Wasm(Wasm),
    /// Build the Python packages into target/wheels
    Wheel,
    /// Run the tests of the Python package, and the test suites of safetensors and z4ai
    /// with it
    Python,
    /// Run the tests of the Python package with transformers and diffusers; installs PyTorch
    Torch,
}

#[derive(clap::Args)]
pub struct Demo {
    /// The checkpoint to show; a small real one is downloaded by default
    #[arg(value_name = "MODEL.safetensors")]
    pub model: Option<PathBuf>,
    /// Port of the local server; 0 selects a free port
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub port: u16,
    /// Stop after everything has been shown once
    #[arg(long)]
    pub no_wait: bool,
    /// Use the command line that is already built
    #[arg(long, hide = true)]
    pub built: bool,
}

#[derive(clap::Args)]
#[command(after_help = suites::help())]
pub struct Test {
    /// Run every suite, and whole tables of faults; takes about 35 minutes
    #[arg(long)]
    pub all: bool,
    /// Run only this suite; may be repeated
    #[arg(long, value_name = "SUITE", value_parser = suites::names(), conflicts_with = "skip", hide_possible_values = true)]
    pub only: Vec<String>,
    /// Skip this suite; may be repeated
    #[arg(long, value_name = "SUITE", value_parser = suites::names(), hide_possible_values = true)]
    pub skip: Vec<String>,
    /// Print a table of all steps with their wall clock and processor time
    #[arg(long)]
    pub table: bool,
}

#[derive(clap::Args)]
pub struct Deps {
    /// Write the files THIRD-PARTY-LICENSES.txt instead of comparing them
    #[arg(long)]
    pub write: bool,
    /// Also write an SBOM of each artifact to this folder, as built for this machine
    #[arg(long, value_name = "DIR")]
    pub sbom: Option<PathBuf>,
}

#[derive(clap::Args)]
pub struct Platforms {
    /// Platforms, or msrv for the oldest Rust; all by default
    #[arg(value_name = "NAME", value_parser = ["s390x", "aarch64", "i686", "musl", "windows", "msrv"])]
    pub names: Vec<String>,
    /// Keep the builds for the next run
    #[arg(long)]
    pub keep: bool,
}

#[derive(clap::Args)]
pub struct Release {
    /// Build everything into target/release-dry-run; nothing is published from here
    #[arg(long)]
    pub dry_run: bool,
    /// Build only the static program
    #[arg(long, hide = true)]
    pub only_program: bool,
}

#[derive(clap::Args)]
pub struct Reproducible {
    /// Only this WebAssembly module
    #[arg(long, value_name = "MODULE", value_parser = MODULES)]
    pub only: Option<String>,
    /// Also build the static program; its release builds take many minutes
    #[arg(long)]
    pub native: bool,
}

#[derive(clap::Args)]
pub struct Interop {
    /// Number of random inputs for each encoder
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub cases: u32,
    /// Seed of the random inputs
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Only encoders whose label contains this, such as "rANS" or "ZPL1, 4 bytes"
    #[arg(long, value_name = "LABEL")]
    pub only: Option<String>,
}

#[derive(clap::Args)]
pub struct Fuzz {
    /// Targets of tests/fuzz, such as frames; all by default
    #[arg(value_name = "TARGET")]
    pub targets: Vec<String>,
    /// Minutes for each target; two targets run at a time
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub minutes: u32,
    /// Instead, replay the known inputs, and count the edges that they reach
    #[arg(long, conflicts_with = "minutes")]
    pub coverage: bool,
}

#[derive(clap::Args)]
pub struct Wasm {
    /// Only this module; the package contains the modules that exist
    #[arg(long, value_name = "MODULE", value_parser = MODULES)]
    pub only: Option<String>,
    /// Omit the npm package, which a fresh clone cannot build from one module
    #[arg(long, hide = true, requires = "only")]
    pub no_package: bool,
}

#[derive(clap::Args)]
pub struct Instructions {
    /// Only stages whose name contains this, such as "Huffman"
    #[arg(value_name = "NAME", conflicts_with = "write")]
    pub only: Option<String>,
    /// Update the file instead of comparing the counts with it
    #[arg(long)]
    pub write: bool,
}

#[derive(clap::Args)]
pub struct Capi {
    /// Folder to install to; target/capi by default
    #[arg(long, value_name = "DIR")]
    pub prefix: Option<PathBuf>,
    /// Build with the dev profile
    #[arg(long)]
    pub dev: bool,
    /// Write the header and the list of symbols first
    #[arg(long)]
    pub write: bool,
    /// Instead, run the tests of the library
    #[arg(long, conflicts_with_all = ["prefix", "dev", "write"])]
    pub test: bool,
}

#[derive(clap::Args)]
pub struct Arguments {
    /// Names and options of the comparison; `-- --help` lists them
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENT"
    )]
    pub arguments: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }
}
