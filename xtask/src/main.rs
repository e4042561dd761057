//! The commands of this repository, and the tools that they need.
//!
//! Nothing here affects the behaviour of the product. A command finds tools, installs
//! missing ones, runs them in steps, and reports the result.

mod args;
mod capi;
mod capi_tests;
mod cargo;
mod debian;
mod demo;
mod deps;
mod faults;
mod fuzz;
mod instructions;
mod measure;
mod node;
mod notices;
mod paths;
mod platforms;
mod prelude;
mod process;
mod python;
mod release;
mod report;
mod reproducible;
mod shipped;
mod stamp;
mod suites;
mod test;
mod toolchain;
mod wasm;
mod wheel;

use std::process::ExitCode;

use anyhow::{Result, ensure};
use args::{Args, Verb};
use clap::Parser;

fn main() -> ExitCode {
    let args = Args::parse();
    paths::this_program();
    match run(args.verb).and_then(|()| report::kept()) {
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
        Verb::Demo(options) => demo::run(&options),
        Verb::HubDemo { model } => demo::run_hub_demo(model.as_deref()),
        Verb::Deps(options) => deps::run(&options),
        Verb::Platforms(options) => platforms::run(&options),
        Verb::Release(options) => release::run(&options),
        Verb::Reproducible(options) => reproducible::run(&options),
        Verb::Test(options) => test::run(&options),
        Verb::Interop(options) => measure::interop(&options),
        Verb::Fuzz(options) => fuzz::run(&options),
        Verb::Decoders { model } => measure::decoders(model.as_deref()),
        Verb::Instructions(options) => instructions::run(&options),
        Verb::Sizes(options) => measure::sizes(&options),
        Verb::Gauss(options) => measure::with_torch("gauss", &options),
        Verb::Compressed(options) => measure::with_torch("compressed", &options),
        Verb::Capi(options) => capi::run(&options),
        Verb::Consumers => node::consumers().map(drop),
        Verb::Faults { all: false } => faults::run(),
        Verb::Faults { all: true } => faults::signals(),
        Verb::Stores => suites::stores(),
        Verb::Lfs => suites::lfs(),
        Verb::HubJob { figures } => suites::ray(figures),
        Verb::Runtimes => suites::runtimes(),
        Verb::Setup => suites::setup(),
        Verb::Wasm(options) => wasm::run(&options),
        Verb::Wheel => wheel::run(),
        Verb::Python => suites::python(),
        Verb::Torch => wheel::torch(),
    }
}
