//! The verb `fuzz`: runs the targets of `tests/fuzz`, which is laid out for
//! cargo-fuzz as well.
//!
//! The instrumentation is that of cargo-fuzz without a sanitizer: the code under
//! test has next to no `unsafe`, and the active toolchain can build it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::args::Fuzz;
use crate::cargo::{cargo, cargo_at};
use crate::process;
use crate::step::{Report, Step};
use crate::workspace::Workspace;

const MANIFEST: &str = "tests/fuzz/Cargo.toml";

/// All targets: those that find most come first.
const TARGETS: [&str; 8] = [
    "frames",
    "files",
    "differences",
    "deltas",
    "quantised",
    "safetensors",
    "encoders",
    "sketches",
];

/// Coverage of edges, with the operands of comparisons, which guide the fuzzer.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Cllvm-args=-sanitizer-coverage-stack-depth \
    -Ccodegen-units=1";

/// A single input takes at most this long, in seconds.
const TIMEOUT_S: u32 = 10;
/// The most memory that one input may take, in MiB.
const MEMORY_MIB: u32 = 1024;

pub fn run(workspace: &Workspace, report: &mut Report, options: &Fuzz) -> Result<()> {
    for target in &options.targets {
        if !TARGETS.contains(&target.as_str()) {
            bail!(
                "there is no target {target}; there are {}",
                TARGETS.join(", ")
            );
        }
    }
    let is_chosen = |target: &str| {
        options.targets.is_empty() || options.targets.iter().any(|wanted| wanted == target)
    };
    let programs = report.step("fuzz targets", |step| build(workspace, step))?;
    report.step("seeds", |step| seeds(workspace, step))?;
    for target in TARGETS.into_iter().filter(|target| is_chosen(target)) {
        report.step(&format!("fuzz {target}"), |step| {
            fuzz(workspace, step, &programs, target, options.minutes)
        })?;
    }
    Ok(())
}

/// Builds all targets. Returns the folder of their programs.
fn build(workspace: &Workspace, step: &mut Step) -> Result<PathBuf> {
    let host = host()?;
    let target = workspace.target("fuzz");
    let program = std::env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from);
    let mut build = cargo_at(&program, &target);
    build
        .env("RUSTFLAGS", FLAGS)
        .args(["build", "--release", "--bins", "--manifest-path"])
        .arg(workspace.path(MANIFEST))
        // Keeps the flags from build scripts.
        .args(["--target", &host]);
    step.run(&mut build)?;
    Ok(target.join(host).join("release"))
}

fn host() -> Result<String> {
    let version = process::ask(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host
        .context("rustc does not say what it builds for")?
        .into())
}

fn seeds(workspace: &Workspace, step: &mut Step) -> Result<()> {
    let folder = workspace.target("fuzz/seeds");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let mut seeds = cargo(workspace);
    seeds
        .args([
            "run",
            "--package",
            "zstn-tests",
            "--example",
            "fuzz-seeds",
            "--",
        ])
        .arg(&folder);
    step.run(&mut seeds)?;
    step.note(step.output()?.lines().last().unwrap_or_default().to_owned());
    Ok(())
}

/// Runs one target. What it finds stays in `target/fuzz/found`, what it learns in
/// `target/fuzz/corpus`.
fn fuzz(
    workspace: &Workspace,
    step: &mut Step,
    programs: &Path,
    target: &str,
    minutes: u32,
) -> Result<()> {
    let folder = |kind: &str| workspace.target(&format!("fuzz/{kind}/{target}"));
    let [corpus, found, seeds] = ["corpus", "found", "seeds"].map(folder);
    for folder in [&corpus, &found, &seeds] {
        fs::create_dir_all(folder)?;
    }
    let mut run = Command::new(programs.join(target));
    run.arg(format!("-max_total_time={}", 60 * minutes))
        .arg(format!("-timeout={TIMEOUT_S}"))
        .arg(format!("-rss_limit_mb={MEMORY_MIB}"))
        .arg(format!("-malloc_limit_mb={MEMORY_MIB}"))
        .args([
            "-max_len=300000",
            "-print_final_stats=1",
            "-use_value_profile=1",
        ])
        .arg(format!("-artifact_prefix={}/", found.display()))
        .args([&corpus, &seeds]);
    step.run(&mut run)?;
    let output = step.output()?;
    let figure = |name: &str| {
        let line = output.lines().find_map(|line| line.split_once(name));
        line.map_or("?", |(_, rest)| {
            rest.split_whitespace().next().unwrap_or("?")
        })
    };
    step.note(format!(
        "{} executions, {} edges",
        figure("stat::number_of_executed_units:"),
        output
            .lines()
            .filter_map(|line| line.split_once(" cov: "))
            .next_back()
            .map_or("?", |(_, rest)| rest
                .split_whitespace()
                .next()
                .unwrap_or("?")),
    ));
    Ok(())
}
