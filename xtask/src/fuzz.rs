//! The verb `fuzz`, which runs the targets of `tests/fuzz`. That folder also works with
//! cargo-fuzz.
//!
//! The instrumentation is the same as cargo-fuzz's without a sanitizer: the tested code
//! has almost no `unsafe`, and the active toolchain can build it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::args::Fuzz;
use crate::cargo::cargo_at;
use crate::step::{Report, Step};
use crate::workspace::Workspace;
use crate::{process, programs};

const MANIFEST: &str = "tests/fuzz/Cargo.toml";

/// All fuzz targets. The first ones find the most defects.
const TARGETS: [&str; 21] = [
    "frames",
    "files",
    "pieces",
    "shards",
    "c_boundary",
    "rows",
    "unpack",
    "agreement",
    "originals",
    "differences",
    "deltas",
    "quantised",
    "ztensor",
    "gauss",
    "zstd",
    "convert",
    "packing",
    "safetensors",
    "encoders",
    "sketches",
    "requests",
];

/// Number of targets that run at the same time, each on its own core.
const AT_A_TIME: usize = 2;
/// Number of targets that run at the same time in `cargo xtask test`, which has a few
/// minutes for all of them.
const AT_A_TIME_IN_TESTS: usize = 6;

/// Measures coverage of edges and traces operands of comparisons, which guide the
/// fuzzer.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Cllvm-args=-sanitizer-coverage-stack-depth \
    -Ccodegen-units=1";

/// Time limit for a single input in seconds of wall time. The slowest inputs take one
/// or two seconds of processor time, and targets share cores.
const TIMEOUT_S: u32 = 30;
/// Memory limit for a single input, in MiB.
const MEMORY_MIB: u32 = 1024;

pub fn run(workspace: &Workspace, report: &Report, options: &Fuzz) -> Result<()> {
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
    let chosen: Vec<&str> = TARGETS.into_iter().filter(|t| is_chosen(t)).collect();
    let run = match options.coverage {
        true => Run::Replay,
        false => Run::Minutes(options.minutes),
    };
    all(workspace, report, &chosen, run, AT_A_TIME)
}

/// Runs all targets for a minute each, for `cargo xtask test`.
pub fn short(workspace: &Workspace, report: &Report) -> Result<()> {
    let run = Run::Minutes(1);
    all(workspace, report, &TARGETS, run, AT_A_TIME_IN_TESTS)
}

/// How a target is run.
#[derive(Clone, Copy)]
enum Run {
    /// Generates new inputs for this many minutes.
    Minutes(u32),
    /// Replays the known inputs, to measure their coverage.
    Replay,
}

fn all(
    workspace: &Workspace,
    report: &Report,
    targets: &[&str],
    run: Run,
    at_a_time: usize,
) -> Result<()> {
    let programs = report.step("fuzz targets", |step| build(workspace, step, targets))?;
    report.step("seeds", |step| seeds(workspace, step))?;
    for targets in targets.chunks(at_a_time) {
        report.step(&format!("fuzz {}", targets.join(", ")), |step| {
            fuzz(workspace, step, &programs, targets, run)
        })?;
    }
    Ok(())
}

/// Builds targets, and returns the folder of their programs.
fn build(workspace: &Workspace, step: &mut Step, targets: &[&str]) -> Result<PathBuf> {
    let host = host()?;
    let target = workspace.target("fuzz");
    let program = std::env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from);
    let mut build = cargo_at(&program, &target);
    build
        .env("RUSTFLAGS", FLAGS)
        .args(["build", "--release", "--manifest-path"])
        .arg(workspace.path(MANIFEST))
        .args(targets.iter().flat_map(|target| ["--bin", *target]))
        // An explicit target prevents the flags from being applied to build scripts.
        .args(["--target", &host]);
    step.run(&mut build)?;
    Ok(target.join(host).join("release"))
}

fn host() -> Result<String> {
    let version = process::ask(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not name its target")?.into())
}

fn seeds(workspace: &Workspace, step: &mut Step) -> Result<()> {
    let folder = workspace.target("fuzz/seeds");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    programs::build(workspace, step)?;
    step.run(Command::new(programs::example(workspace, "fuzz-seeds")).arg(&folder))?;
    step.note(step.output()?.lines().last().unwrap_or_default().to_owned());
    Ok(())
}

/// Runs targets at the same time. Inputs that cause a failure are stored in
/// `target/fuzz/found`, inputs with new coverage in `target/fuzz/corpus`.
fn fuzz(
    workspace: &Workspace,
    step: &mut Step,
    programs: &Path,
    targets: &[&str],
    run: Run,
) -> Result<()> {
    let logs = workspace.target("fuzz/logs");
    fs::create_dir_all(&logs)?;
    let mut running = Vec::new();
    for target in targets {
        let log = logs.join(format!("{target}.log"));
        let file = File::create(&log)?;
        let mut command = command(workspace, programs, target, run)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?);
        let child = command.stderr(file).spawn()?;
        running.push((*target, log, child));
    }
    let (mut notes, mut failed) = (Vec::new(), Vec::new());
    for (target, log, mut child) in running {
        step.spent(process::processor_time(&child));
        let is_fine = child.wait()?.success();
        let output = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        notes.push(format!("{target}: {}", figures(&output)));
        if !is_fine {
            step.append(&log)?;
            failed.push(target);
        }
    }
    step.note(notes.join("; "));
    match failed.is_empty() {
        true => Ok(()),
        false => bail!(
            "{} found a defect; its input is in {}",
            failed.join(" and "),
            workspace.target("fuzz/found").display()
        ),
    }
}

fn command(workspace: &Workspace, programs: &Path, target: &str, run: Run) -> Result<Command> {
    let folder = |kind: &str| workspace.target(&format!("fuzz/{kind}/{target}"));
    let [corpus, found, seeds] = ["corpus", "found", "seeds"].map(folder);
    for folder in [&corpus, &found, &seeds] {
        fs::create_dir_all(folder)?;
    }
    let mut command = Command::new(programs.join(target));
    command
        .arg(match run {
            Run::Minutes(minutes) => format!("-max_total_time={}", 60 * minutes),
            Run::Replay => "-runs=0".into(),
        })
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
    Ok(command)
}

/// Returns the number of executions and the covered share of edges, parsed from the
/// output of a target.
fn figures(output: &str) -> String {
    let after = |name: &str| {
        let lines = output.lines().filter_map(|line| line.split_once(name));
        let rest = lines.map(|(_, rest)| rest.trim_start_matches([' ', '(']));
        let last = rest
            .filter_map(|rest| rest.split_whitespace().next())
            .next_back();
        last.unwrap_or("?").to_owned()
    };
    format!(
        "{} executions, {} of {} edges",
        after("stat::number_of_executed_units:"),
        after(" cov: "),
        after("INFO: Loaded 1 modules"),
    )
}

#[cfg(test)]
mod tests {
    use super::figures;

    #[test]
    fn figures_are_those_that_the_fuzzer_prints_last() {
        let output = "INFO: Loaded 1 modules   (73120 inline 8-bit counters): 73120 [0x1, 0x2)\n\
            #7 INITED cov: 12 ft: 15\n#99 DONE   cov: 5361 ft: 9 corp: 3/1b\n\
            stat::number_of_executed_units: 257147\n";
        let expected = "257147 executions, 5361 of 73120 edges";
        assert_eq!(figures(output), expected);
    }
}
