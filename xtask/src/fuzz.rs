//! The verb `fuzz`, which runs the targets of `tests/fuzz`. That folder also works with
//! cargo-fuzz.
//!
//! The instrumentation is the same as cargo-fuzz's without a sanitizer: the tested code
//! has almost no `unsafe`, and the active toolchain can build it.

use crate::prelude::*;

#[derive(clap::Args)]
pub struct Options {
    /// Targets of tests/fuzz, such as frames; all by default
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Minutes for each target; two targets run at a time
    #[arg(long, value_name = "N", default_value_t = 1)]
    minutes: u32,
    /// Instead, replay the known inputs, and count the edges that they reach
    #[arg(long, conflicts_with = "minutes")]
    coverage: bool,
}

const MANIFEST: &str = "tests/fuzz/Cargo.toml";

/// Number of targets that run at the same time, each on its own core.
const AT_A_TIME: usize = 2;
/// Number of targets that `cargo xtask test` runs at the same time, to finish all of them
/// in a few minutes.
const AT_A_TIME_IN_TESTS: usize = 6;

/// Compiler flags that measure coverage of edges and trace operands of comparisons, which
/// guide the fuzzer.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Cllvm-args=-sanitizer-coverage-stack-depth \
    -Ccodegen-units=1";

/// Options of libFuzzer. The slowest inputs take one or two seconds of processor time,
/// and targets share cores; memory is limited to 1 GiB for a single input.
const OPTIONS: &str = "-timeout=30 -rss_limit_mb=1024 -malloc_limit_mb=1024 -max_len=300000 \
    -print_final_stats=1 -use_value_profile=1";

pub fn run(options: &Options) -> Result<()> {
    let known = targets()?;
    let wanted = &options.targets;
    if let Some(name) = wanted.iter().find(|name| !known.contains(name)) {
        bail!("there is no target {name}; there are {}", known.join(", "));
    }
    let is_chosen = |name: &String| wanted.is_empty() || wanted.contains(name);
    let chosen: Vec<String> = known.into_iter().filter(is_chosen).collect();
    let limit = match options.coverage {
        // Replays the known inputs, to measure their coverage.
        true => "-runs=0".into(),
        false => format!("-max_total_time={}", 60 * options.minutes),
    };
    all(&chosen, &limit, AT_A_TIME)
}

/// Runs all targets for a minute each, after the builds that other suites wait for.
pub fn suite() -> Result<()> {
    cargo::programs()?;
    all(&targets()?, "-max_total_time=60", AT_A_TIME_IN_TESTS)
}

/// Returns the names of all targets in the order of the manifest.
fn targets() -> Result<Vec<String>> {
    let manifest = fs::read_to_string(path(MANIFEST))?;
    let manifest: toml::Table = toml::from_str(&manifest)?;
    let bins = manifest["bin"].as_array().into_iter().flatten();
    Ok(bins
        .filter_map(|bin| Some(bin["name"].as_str()?.to_owned()))
        .collect())
}

fn all(targets: &[String], limit: &str, at_a_time: usize) -> Result<()> {
    let host = cargo::rustc_field("host")?;
    let programs = target("fuzz").join(&host).join("release");
    step("fuzz targets", |step| {
        // An explicit target prevents the flags from being applied to build scripts.
        let line = format!("build --release --manifest-path {MANIFEST} --target {host}");
        let mut build = cargo(&line);
        build.args(targets.iter().flat_map(|target| ["--bin", target]));
        build.env("CARGO_TARGET_DIR", target("fuzz"));
        step.run(build.env("RUSTFLAGS", FLAGS))
    })?;
    cargo::programs()?;
    step("seeds", |step| {
        let folder = target("fuzz/seeds");
        paths::empty(&folder)?;
        step.run(Command::new(program("debug/examples/fuzz-seeds")).arg(folder))?;
        let output = step.output()?;
        step.note(output.lines().last().unwrap_or_default());
        Ok(())
    })?;
    let fuzzed = process::in_parallel(targets.iter().collect(), at_a_time, |name| {
        step(&format!("fuzz {name}"), |step| {
            fuzz(step, &programs, name, limit)
        })
    });
    fuzzed.into_iter().collect()
}

/// Runs a target. Inputs that cause a failure are stored in `target/fuzz/found`, inputs
/// with new coverage in `target/fuzz/corpus`.
fn fuzz(step: &mut Step, programs: &Path, name: &str, limit: &str) -> Result<()> {
    let [corpus, seeds, found] =
        ["corpus", "seeds", "found"].map(|kind| target(format!("fuzz/{kind}/{name}")));
    for folder in [&corpus, &seeds, &found] {
        fs::create_dir_all(folder)?;
    }
    let mut command = Command::new(programs.join(name));
    command.arg(limit).words(OPTIONS);
    command.arg(format!("-artifact_prefix={}/", found.display()));
    let shown = paths::show(&found);
    step.run(command.args([corpus, seeds]))
        .with_context(|| format!("{name} found a defect; its input is in {shown}"))?;
    step.note(figures(&step.output()?));
    Ok(())
}

/// Returns the number of executions and the covered share of edges, parsed from the
/// output of a target.
fn figures(output: &str) -> String {
    let after = |name: &str| {
        let (_, rest) = output.rsplit_once(name).unwrap_or(("", "?"));
        let words = rest.trim_start_matches([' ', '(']).split_whitespace();
        words.take(1).collect::<String>()
    };
    format!(
        "{} executions, {} of {} edges",
        after("stat::number_of_executed_units:"),
        after(" cov: "),
        after("INFO: Loaded 1 modules"),
    )
}
