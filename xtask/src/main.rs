//! The commands of this repository, and the tools that they need.
//!
//! Nothing here affects the behaviour of the product. A task finds tools, installs
//! missing ones, runs them in order, and reports the result.

mod apt;
mod args;
mod background;
mod build_paths;
mod capi;
mod cargo;
mod chromium;
mod consumers;
mod counts;
mod decoders;
mod demo;
mod deps;
mod disk;
mod environment;
mod faults;
mod fresh;
mod fuzz;
mod git_lfs;
mod hub_demo;
mod hub_job;
mod instructions;
mod interop;
mod nginx;
mod no_std;
mod node;
mod node_tests;
mod object_stores;
mod oldest_rust;
mod placeholder;
mod platforms;
mod prepared;
mod process;
mod programs;
mod python;
mod release;
mod reproducible;
mod runtimes;
mod rust_checks;
mod rust_source;
mod rust_target;
mod server;
mod setup;
mod shared;
mod sizes;
mod step;
mod suites;
mod test;
mod tier;
mod torch;
mod valgrind;
mod wasm;
mod wheel;
mod wine;
mod workspace;

use std::process::ExitCode;

use args::{Args, Verb};
use clap::Parser;
use step::Report;
use workspace::Workspace;

fn main() -> ExitCode {
    let args = Args::parse();
    let result = Workspace::find().and_then(|workspace| {
        let report = Report::new(&workspace)?;
        match args.verb {
            Verb::Demo(options) => demo::run(&workspace, &report, &options),
            Verb::HubDemo(options) => hub_demo::run(&workspace, &report, &options),
            Verb::Deps(options) => deps::run(&workspace, &report, &options),
            Verb::Platforms(options) => platforms::run(&workspace, &report, &options),
            Verb::Release(options) => release::run(&workspace, &report, &options),
            Verb::Reproducible(options) => reproducible::run(&workspace, &report, &options),
            Verb::Test(options) => test::run(&workspace, &report, &options),
            Verb::Interop(options) => interop::run(&workspace, &report, &options),
            Verb::Fuzz(options) => fuzz::run(&workspace, &report, &options),
            Verb::Decoders(options) => decoders::run(&workspace, &report, &options),
            Verb::Instructions(options) => instructions::run(&workspace, &report, &options),
            Verb::Sizes(options) => sizes::run(&workspace, &report, &options),
            Verb::Gauss(options) => torch::gauss(&workspace, &report, &options),
            Verb::Compressed(options) => torch::compressed(&workspace, &report, &options),
            Verb::Capi(options) => capi::run(&workspace, &report, &options),
            Verb::Consumers => consumers::run(&workspace, &report),
            Verb::Faults(options) => faults::run(&workspace, &report, &options),
            Verb::Stores => object_stores::run(&workspace, &report),
            Verb::Lfs => git_lfs::run(&workspace, &report),
            Verb::HubJob(options) => hub_job::run(&workspace, &report, &options),
            Verb::Runtimes => runtimes::run(&workspace, &report),
            Verb::Setup => setup::run(&workspace, &report),
            Verb::Wasm(options) => wasm::run(&workspace, &report, &options),
            Verb::Wheel => wheel::run(&workspace, &report),
            Verb::Python => wheel::test(&workspace, &report),
            Verb::Torch => wheel::test_with_torch(&workspace, &report),
        }
    });
    match result {
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
