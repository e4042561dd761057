//! Verbs that measure, or compare with other programs: `sizes`, `load`, `gauss`,
//! `compressed` and `decoders`. Their tables are the result, so they are printed to the
//! terminal instead of a log.

use crate::cargo::WEB;
use crate::prelude::*;
use crate::process::print;
use crate::{npm, python, wasm, wheel_platforms};

#[derive(clap::Args)]
pub struct Arguments {
    /// Names and options of the comparison; `-- --help` lists them
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENT"
    )]
    arguments: Vec<String>,
}

/// Prints the tables of `docs/benchmarks.md`.
pub fn sizes(options: &Arguments) -> Result<()> {
    python::peers()?;
    let mut table = python::FIGURES.ready()?.python();
    table
        .arg(path("tests/peers/sizes.py"))
        .args(&options.arguments);
    print(table.env("ZSTN_BIN", cargo::release("--package zstn-cli", "zstn")?))
}

/// Compares loading and saving in Python with the wheel for users.
pub fn load(options: &Arguments) -> Result<()> {
    python::peers()?;
    let environment = python::FIGURES.ready()?;
    wasm::ready()?;
    let wheel = wheel_platforms::build_here(&target("wheels"))?;
    step("zstn, for Python", |step| {
        environment.install_wheel(step, &wheel)
    })?;
    let mut table = environment.python();
    table.arg(path("tests/peers/load.py"));
    let printed = print(table.args(&options.arguments));
    // Other scripts share the environment, and would measure this wheel after later
    // changes.
    step("zstn, removed from the environment", |step| {
        step.run(
            environment
                .python()
                .words("-m pip uninstall --quiet --yes zstn"),
        )
    })?;
    printed
}

/// Runs `tests/peers/torch_NAME.py`. `ZSTN_NAME` contains the path of the example with
/// this name, which is zstn's side of the comparison.
pub fn with_torch(name: &str, options: &Arguments) -> Result<()> {
    let mut script = python::TORCH.ready()?.python();
    let example = format!("--package zstn-tests --example {name}");
    let program = cargo::release(&example, &format!("examples/{name}"))?;
    script
        .arg(path(format!("tests/peers/torch_{name}.py")))
        .args(&options.arguments)
        .env(format!("ZSTN_{}", name.to_uppercase()), program);
    // Both sides use one thread.
    for library in ["OMP", "OPENBLAS", "MKL"] {
        script.env(format!("{library}_NUM_THREADS"), "1");
    }
    print(&mut script)
}

/// Compares zstd decoders, natively and in WebAssembly.
pub fn decoders(model: Option<&Path>) -> Result<()> {
    npm::ready()?;
    let [modules, planes] = ["modules", "planes"].map(|name| target("decoders").join(name));
    // Each feature of the crate is built as a module.
    for feature in ["ours", "ruzstd", "structured"] {
        step(&format!("module, {feature}"), |step| {
            let mut build =
                cargo::add_target(step, WEB)?.build("wasm-decoders", WEB, wasm::FLAGS)?;
            build.words("--release --locked --manifest-path tests/bench/decoders/Cargo.toml");
            step.run(build.args(["--features", feature]))?;
            let built = target("wasm-decoders")
                .join(WEB)
                .join("release/zstn_decoders.wasm");
            wasm::bind(&built, &modules, feature, true)?;
            let size = fs::metadata(modules.join(format!("{feature}_bg.wasm")))?.len();
            step.note(format!("{} kB", size.div_ceil(1000)));
            Ok(())
        })?;
    }
    let native = cargo::release(
        "--package zstn-bench --example decoders",
        "examples/decoders",
    )?;
    println!();
    print(Command::new(native).args(model).arg("--write").arg(&planes))?;
    println!();
    let script = path("tests/js/bench/decoders.mjs");
    print(Command::new("node").args([script, planes, modules]))
}
