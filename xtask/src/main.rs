//! The commands of this repository and the set-up behind them.
//!
//! Nothing here decides how the product behaves: a task finds tools, installs
//! the missing ones, runs them in order and reports the result.

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
mod process;
mod programs;
mod python;
mod quick;
mod release;
mod reproducible;
mod runtimes;
mod rust_checks;
mod rust_source;
mod rust_target;
mod server;
mod setup;
mod sizes;
mod step;
mod test;
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
        let mut report = Report::new(&workspace)?;
        match args.verb {
            Verb::Demo(options) => demo::run(&workspace, &mut report, &options),
            Verb::HubDemo(options) => hub_demo::run(&workspace, &mut report, &options),
            Verb::Deps(options) => deps::run(&workspace, &mut report, &options),
            Verb::Platforms(options) => platforms::run(&workspace, &mut report, &options),
            Verb::Release(options) => release::run(&workspace, &mut report, &options),
            Verb::Reproducible(options) => reproducible::run(&workspace, &mut report, &options),
            Verb::Test(options) => test::run(&workspace, &mut report, &options),
            Verb::Interop(options) => interop::run(&workspace, &mut report, &options),
            Verb::Fuzz(options) => fuzz::run(&workspace, &mut report, &options),
            Verb::Decoders(options) => decoders::run(&workspace, &mut report, &options),
            Verb::Instructions(options) => instructions::run(&workspace, &mut report, &options),
            Verb::Sizes(options) => sizes::run(&workspace, &mut report, &options),
            Verb::Gauss(options) => torch::gauss(&workspace, &mut report, &options),
            Verb::Compressed(options) => torch::compressed(&workspace, &mut report, &options),
            Verb::Capi(options) => capi::run(&workspace, &mut report, &options),
            Verb::Consumers => consumers::run(&workspace, &mut report),
            Verb::Faults(options) => faults::run(&workspace, &mut report, &options),
            Verb::Stores => object_stores::run(&workspace, &mut report),
            Verb::Lfs => git_lfs::run(&workspace, &mut report),
            Verb::HubJob(options) => hub_job::run(&workspace, &mut report, &options),
            Verb::Runtimes => runtimes::run(&workspace, &mut report),
            Verb::Setup => setup::run(&workspace, &mut report),
            Verb::Wasm(options) => wasm::run(&workspace, &mut report, &options),
            Verb::Wheel => wheel::run(&workspace, &mut report),
            Verb::Python => wheel::test(&workspace, &mut report),
            Verb::Torch => wheel::test_with_torch(&workspace, &mut report),
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
