//! Verbs that measure, or compare with other programs: `interop`, `sizes`, `gauss`,
//! `compressed` and `decoders`. Their tables are the result, so they are printed to the
//! terminal instead of a log.

use crate::args::{Arguments, Interop};
use crate::prelude::*;
use crate::process::print;
use crate::toolchain::{self, WEB};
use crate::{node, python, suites, wasm};

/// Lets the real z4ai decode random inputs from every encoder. The check is a test in
/// `tests/peers`, which by default tries a few inputs; this verb sets their number.
pub fn interop(options: &Interop) -> Result<()> {
    let mut unittest = suites::with_peers("-m unittest -v tests/peers/test_interop.py")?;
    let only = options.only.as_deref().unwrap_or_default();
    unittest
        .env("ZSTN_INTEROP_CASES", options.cases.to_string())
        .env("ZSTN_INTEROP_SEED", options.seed.to_string())
        .env("ZSTN_INTEROP_ONLY", only);
    step("random inputs through z4ai", |step| {
        step.run(&mut unittest)?;
        let output = step.output()?;
        let summary = output.lines().find(|line| line.contains(" encodings, "));
        step.after(summary.context("z4ai was never called")?);
        Ok(())
    })
}

/// Prints the tables of `docs/benchmarks.md`.
pub fn sizes(options: &Arguments) -> Result<()> {
    python::peers()?;
    let environment = python::FIGURES.ready()?;
    let mut build = cargo("build --release --package zstn-cli");
    report::run("command line, release build", &mut build)?;
    let mut table = environment.python();
    table
        .arg(path("tests/peers/sizes.py"))
        .args(&options.arguments);
    print(table.env("ZSTN_BIN", program("release/zstn")))
}

/// Runs `tests/peers/torch_NAME.py`. `ZSTN_NAME` contains the path of the example with
/// this name, which is zstn's side of the comparison.
pub fn with_torch(name: &str, options: &Arguments) -> Result<()> {
    let environment = python::TORCH.ready()?;
    let mut build = cargo("build --release --package zstn-tests --example");
    report::run("zstn's side, release build", build.arg(name))?;
    let mut script = environment.python();
    script
        .arg(path(format!("tests/peers/torch_{name}.py")))
        .args(&options.arguments);
    let variable = format!("ZSTN_{}", name.to_uppercase());
    script.env(variable, program(&format!("release/examples/{name}")));
    // Both sides use one thread.
    for library in ["OMP", "OPENBLAS", "MKL"] {
        script.env(format!("{library}_NUM_THREADS"), "1");
    }
    print(&mut script)
}

/// Compares zstd decoders, natively and in WebAssembly.
pub fn decoders(model: Option<&Path>) -> Result<()> {
    node::ready()?;
    let modules = target("decoders/modules");
    // Each feature of the crate is built as a module.
    for feature in ["ours", "ruzstd", "structured"] {
        step(&format!("module, {feature}"), |step| {
            let toolchain = toolchain::ready(step, &WEB)?;
            let mut build = toolchain.build("wasm-decoders", &WEB, wasm::FLAGS)?;
            build.words("--release --locked --manifest-path tests/bench/decoders/Cargo.toml");
            step.run(build.args(["--features", feature]))?;
            let built = target("wasm-decoders")
                .join(WEB.triple)
                .join("release/zstn_decoders.wasm");
            wasm::bind(&built, &modules, feature, true)?;
            let size = fs::metadata(modules.join(format!("{feature}_bg.wasm")))?.len();
            step.note(format!("{} kB", size.div_ceil(1000)));
            Ok(())
        })?;
    }
    let mut build = cargo("build --release --package zstn-bench --example decoders");
    report::run("native decoders, release build", &mut build)?;
    let planes = target("decoders/planes");
    let mut native = Command::new(program("release/examples/decoders"));
    println!();
    print(native.args(model).arg("--write").arg(&planes))?;
    println!();
    let script = path("tests/js/bench/decoders.mjs");
    print(Command::new("node").args([script.as_path(), &planes, &modules] as [&Path; 3]))
}
