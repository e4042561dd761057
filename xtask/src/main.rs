//! The commands of this repository, and the tools that they need.
//!
//! Nothing here affects the behaviour of the product. A command finds tools, installs
//! missing ones, runs them in steps, and reports the result.

mod capi;
mod capi_tests;
mod cargo;
mod debian_programs;
mod demo;
mod deps;
mod fuzz;
mod gpu;
mod image;
mod instructions;
mod interpreters;
mod libzstn;
mod measure;
mod notices;
mod npm;
mod paths;
mod platforms;
mod prelude;
mod process;
mod python;
mod release;
mod scaling;
mod shipped;
mod stamp;
mod steps;
mod suites;
mod test;
mod wasm;
mod wheel;
mod wheel_platforms;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand};

/// Build, test and show this project.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Pack a real model, serve it, read a tensor from it, and show it in the viewer
    Demo(demo::Options),
    /// Take a model through all hub features, and print the bytes transferred
    HubDemo {
        /// The checkpoint; a small real one is downloaded by default
        #[arg(value_name = "MODEL.safetensors")]
        model: Option<PathBuf>,
    },
    /// Check licences, origins and lock files of all dependencies
    Deps(deps::Options),
    /// Build and test for other processors and systems, with emulators
    Platforms(platforms::Options),
    /// Build everything that is published, without publishing it
    Release {
        /// Build everything into target/release-dry-run; nothing is published from here
        #[arg(long)]
        dry_run: bool,
    },
    /// Run the tests
    Test(test::Options),
    /// Code real matrices with zstn and gauss-compress in alternation; installs PyTorch
    Gauss(measure::Arguments),
    /// Exchange models with the real compressed-tensors; installs PyTorch
    Compressed(measure::Arguments),
    /// Build the C library and install header, libraries and libzstn.pc
    Capi(capi::Options),
    /// Compile the kernels for GPUs, and compare them with native/gpu/kernels.ptx
    Gpu(gpu::Options),
    /// Run a job on a Ray cluster whose nodes and workers are killed, with moto as its store
    HubJob {
        /// Also measure one node, two nodes and no cluster, compared with the simulation
        #[arg(long)]
        figures: bool,
    },
    /// Install the tools of the other commands, and nothing else
    Setup,
    /// Count the instructions of each stage and compare them with
    /// tests/instructions.json
    Instructions(instructions::Options),
    /// Fuzz readers and encoders, and stop at the first defect
    Fuzz(fuzz::Options),
    /// Compare zstd decoders, natively and in WebAssembly
    Decoders {
        /// Checkpoint whose BF16 tensors are decoded; synthetic weights by default
        #[arg(value_name = "MODEL.safetensors")]
        model: Option<PathBuf>,
    },
    /// Pack a real model in many forms and print the sizes, compared with other packers
    Sizes(measure::Arguments),
    /// Build the Python package and compare its speed with safetensors, z4ai and ZipNN
    Load(measure::Arguments),
    /// Build the WebAssembly modules and the npm package
    Wasm {
        /// Only this module; the package contains the modules that exist
        #[arg(long, value_name = "MODULE", value_parser = wasm::features())]
        only: Option<String>,
    },
    /// Build the Python packages into target/wheels, and test them
    Wheel(wheel_platforms::Options),
    /// Run the tests of the Python package with transformers and diffusers; installs PyTorch
    Torch,
}

fn main() -> ExitCode {
    match run(Args::parse().verb).and_then(|()| steps::kept()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nerror: {error}");
            for cause in error.chain().skip(1) {
                eprintln!("  because: {cause}");
            }
            ExitCode::FAILURE
        }
    }
}

fn run(verb: Verb) -> Result<()> {
    ensure!(
        paths::path("core").is_dir(),
        "{} is not this repository; run `cargo xtask` inside a clone",
        paths::root().display()
    );
    match verb {
        Verb::Demo(options) => demo::run(&options, false),
        Verb::HubDemo { model } => demo::hub_demo(model.as_deref()),
        Verb::Deps(options) => deps::run(&options),
        Verb::Platforms(options) => platforms::run(&options),
        Verb::Release { dry_run } => release::run(dry_run),
        Verb::Test(options) => test::run(&options),
        Verb::Gauss(options) => measure::with_torch("gauss", &options),
        Verb::Compressed(options) => measure::with_torch("compressed", &options),
        Verb::Capi(options) => capi::run(&options),
        Verb::Gpu(options) => gpu::run(&options),
        Verb::HubJob { figures } => suites::ray(figures),
        Verb::Setup => suites::setup(),
        Verb::Instructions(options) => instructions::run(&options),
        Verb::Fuzz(options) => fuzz::run(&options),
        Verb::Decoders { model } => measure::decoders(model.as_deref()),
        Verb::Sizes(options) => measure::sizes(&options),
        Verb::Load(options) => measure::load(&options),
        Verb::Wasm { only } => wasm::run(only.as_deref()),
        Verb::Wheel(options) => wheel_platforms::run(&options),
        Verb::Torch => wheel::torch(),
    }
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
