//! The verb `fuzz`, which runs the targets of `tests/fuzz`. That folder also works with
//! cargo-fuzz.
//!
//! The instrumentation is the same as cargo-fuzz's without a sanitizer: the tested code
//! has almost no `unsafe`, and the active toolchain can build it.

use crate::args::Fuzz;
use crate::prelude::*;

const MANIFEST: &str = "tests/fuzz/Cargo.toml";

/// Number of targets that run at the same time, each on its own core.
const AT_A_TIME: usize = 2;
/// The same in `cargo xtask test`, which has a few minutes for all of them.
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

/// Options of libFuzzer. The slowest inputs take one or two seconds of processor time,
/// and targets share cores; memory is limited to 1 GiB for a single input.
const OPTIONS: &str = "-timeout=30 -rss_limit_mb=1024 -malloc_limit_mb=1024 -max_len=300000 \
    -print_final_stats=1 -use_value_profile=1";

pub fn run(options: &Fuzz) -> Result<()> {
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
    let bins = manifest.split("[[bin]]").skip(1);
    let names = bins.filter_map(|bin| bin.trim().strip_prefix("name = \"")?.split('"').next());
    Ok(names.map(str::to_owned).collect())
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
        step.run(build.env("RUSTFLAGS", FLAGS))?;
        remove_old_programs(&programs.join("deps"))
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
    for targets in targets.chunks(at_a_time) {
        step(&format!("fuzz {}", targets.join(", ")), |step| {
            fuzz(step, &programs, targets, limit)
        })?;
    }
    Ok(())
}

/// Removes the programs of earlier builds, which take gigabytes. Unlike current ones,
/// they have no second link.
#[cfg(unix)]
fn remove_old_programs(folder: &Path) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    for file in paths::entries(folder)? {
        if file.extension().is_none() && fs::metadata(&file)?.nlink() == 1 {
            fs::remove_file(file)?;
        }
    }
    Ok(())
}

#[cfg(not(unix))]
fn remove_old_programs(_: &Path) -> Result<()> {
    Ok(())
}

/// Runs targets at the same time. Inputs that cause a failure are stored in
/// `target/fuzz/found`, inputs with new coverage in `target/fuzz/corpus`.
fn fuzz(step: &mut Step, programs: &Path, targets: &[String], limit: &str) -> Result<()> {
    let mut running = Vec::new();
    for name in targets {
        let [corpus, seeds, found] =
            ["corpus", "seeds", "found"].map(|kind| target(format!("fuzz/{kind}/{name}")));
        for folder in [&corpus, &seeds, &found] {
            fs::create_dir_all(folder)?;
        }
        let mut command = Command::new(programs.join(name));
        command.arg(limit).words(OPTIONS);
        command.arg(format!("-artifact_prefix={}/", found.display()));
        let started = Background::start(&format!("fuzz {name}"), command.args([corpus, seeds]))?;
        running.push((name, started));
    }
    let (mut notes, mut failed) = (Vec::new(), Vec::new());
    for (name, mut process) in running {
        if process.wait(step).is_err() {
            step.append(&process.output())?;
            failed.push(name.as_str());
        }
        notes.push(format!("{name}: {}", figures(&process.output())));
    }
    step.note(notes.join("; "));
    let (failed, found) = (failed.join(" and "), target("fuzz/found"));
    let found = paths::show(&found);
    ensure!(
        failed.is_empty(),
        "{failed} found a defect; its input is in {found}"
    );
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
