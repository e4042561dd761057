//! The test suites of `cargo xtask test`, and the verbs that run one of them.

use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use clap::builder::PossibleValuesParser;

use crate::cargo::{BARE, WEB};
use crate::debian_programs::{CHROMIUM, FIREFOX, GIT_LFS, NGINX};
use crate::prelude::*;
use crate::{capi, demo, deps, fuzz, instructions, npm, python, scaling, wasm, wheel};

/// A group of checks that is selected, run and reported together.
#[derive(Clone, Copy)]
pub struct Suite {
    pub name: &'static str,
    about: &'static str,
    /// The lowest tier that includes the suite.
    pub tier: Tier,
    pub run: fn() -> Result<()>,
}

/// All suites in starting order. Suites whose builds are needed by others come first.
#[rustfmt::skip]
pub const SUITES: [Suite; 21] = [
    suite(Tier::Default, "rust", "format, clippy, tests of all crates", rust),
    suite(Tier::Default, "node", "the npm package in Node, types of all TypeScript", in_node),
    suite(Tier::Default, "python", "the wheel: its tests, types and README, and the tests of safetensors on it", in_python),
    suite(Tier::Default, "chromium", "the npm package and the viewer in Chromium", chromium),
    suite(Tier::Default, "peers", "files exchanged with z4ai and zTensor", peers),
    suite(Tier::Default, "c", "the C library; in --all also Go, static linking and valgrind", capi::suite),
    suite(Tier::Default, "notices", "lock files and licences of what is shipped", notices),
    suite(Tier::All, "lfs", "git-lfs with Giftless and moto", lfs),
    suite(Tier::All, "stores", "object stores: moto and azurite", stores),
    suite(Tier::All, "ray", "jobs on a Ray cluster", || ray(false)),
    suite(Tier::All, "runtimes", "the npm package in Deno, Bun, workerd, WebKitGTK and bundlers, and in Firefox", runtimes),
    suite(Tier::All, "release", "the command line in its release build, with the viewer embedded", release),
    suite(Tier::All, "features", "the core without std, and without features", features),
    suite(Tier::All, "docs", "API references of the crates and of the npm package", docs),
    suite(Tier::All, "msrv", "all crates with the oldest Rust", msrv),
    suite(Tier::All, "instructions", "instructions that each stage executes, under valgrind", instructions::suite),
    suite(Tier::All, "scaling", "bytes read and written, and serial work, of packing, unpacking and verifying", scaling::suite),
    suite(Tier::All, "licences", "licences and origins of all crates, by cargo-deny", deps::licences),
    suite(Tier::All, "z4ai", "the tests of z4ai on zstn.z4ai", z4ai),
    suite(Tier::All, "demos", "cargo xtask demo and hub-demo", demo::suite),
    suite(Tier::All, "fuzz", "a minute of each fuzz target", fuzz::suite),
];

#[rustfmt::skip]
const fn suite(tier: Tier, name: &'static str, about: &'static str, run: fn() -> Result<()>) -> Suite {
    Suite { tier, name, about, run }
}

/// Returns a parser for names of suites.
pub fn names() -> PossibleValuesParser {
    SUITES.map(|suite| suite.name).into()
}

/// Returns the list of suites for `cargo xtask test --help`.
pub fn help() -> String {
    let line = |suite: &Suite| {
        let is_all = suite.tier == Tier::All;
        let tier = if is_all { " (--all)" } else { "" };
        format!("  {:<13} {}{tier}\n", suite.name, suite.about)
    };
    format!("Suites:\n{}", SUITES.iter().map(line).collect::<String>())
}

/// Runs the verb `setup`, which installs the tools of the other verbs and builds
/// nothing.
pub fn setup() -> Result<()> {
    npm::ready()?;
    for target in [WEB, BARE] {
        let add = |step: &mut Step| cargo::add_target(step, target).map(drop);
        step(&format!("Rust for {target}"), add)?;
    }
    CHROMIUM.ready()?;
    FIREFOX.ready()?;
    NGINX.find_or_get()?;
    GIT_LFS.find_or_get()?;
    npm::runtimes()?;
    npm::consumers()?;
    npm::azurite()?;
    capi::tools()?;
    python::peers()?;
    python::MATURIN.ready()?;
    python::WHEEL.ready()?;
    python::GIFTLESS.ready()?;
    python::moto()?;
    python::ray().map(drop)
}

fn rust() -> Result<()> {
    check("format", |step| step.run(&mut cargo("fmt --all --check")));
    cargo::programs()?;
    step("cargo test", |step| {
        // Both commands run, even if the first one fails.
        let results = cargo::all_tests().map(|mut test| step.tests(&mut test));
        results.into_iter().collect()
    })
}

/// Returns a command that runs a script of `tests/package.json`. In [`Tier::All`], the
/// script also uses ONNX Runtime and TensorFlow.js.
fn script(name: &str) -> Result<Command> {
    let mut npm = npm::command(&format!("run {name} --workspace zstn-tests"));
    // This reporter lists failures at the end of the log.
    npm.env("NODE_OPTIONS", "--test-reporter=spec");
    npm.env("ZSTN_SKIP_BROWSER", "1").env_remove("CHROMIUM");
    if Tier::of_process() == Tier::All
        && let Some(consumers) = npm::consumers()?
    {
        npm.env("ZSTN_CONSUMERS", consumers);
    }
    Ok(npm)
}

/// Returns a command that runs a script of `tests/package.json` in Chromium.
fn browser_script(name: &str) -> Result<Command> {
    let mut npm = script(name)?;
    npm.env("CHROMIUM", CHROMIUM.ready()?)
        .env_remove("ZSTN_SKIP_BROWSER");
    Ok(npm)
}

fn in_node() -> Result<()> {
    let nginx = NGINX.find_or_get()?;
    wasm::ready()?;
    check("TypeScript types", |step| {
        step.run(&mut npm::command("run check --workspaces --if-present"))
    });
    let mut npm = script("test:node")?;
    cargo::programs()?;
    npm.envs(nginx.map(|nginx| ("ZSTN_NGINX", nginx)));
    steps::tests("tests in Node", &mut npm)
}

fn chromium() -> Result<()> {
    let mut npm = browser_script("test:browser")?;
    wasm::ready()?;
    cargo::programs()?;
    steps::tests("tests in Chromium", &mut npm)
}

/// Tests the packed npm package in all runtimes and bundlers, then the viewer and the
/// package in Firefox.
fn runtimes() -> Result<()> {
    let mut npm = browser_script("test:runtimes")?;
    npm.env("ZSTN_RUNTIMES", npm::runtimes()?);
    let mut firefox = browser_script("test:firefox")?;
    firefox.env("FIREFOX", FIREFOX.ready()?);
    wasm::ready()?;
    cargo::programs()?;
    steps::tests("runtimes and bundlers", &mut npm)?;
    steps::tests("tests in Firefox", &mut firefox)
}

fn release() -> Result<()> {
    let mut npm = browser_script("test:view")?;
    wasm::ready()?;
    npm.env("ZSTN_BIN", cargo::release("--package zstn-cli", "zstn")?);
    steps::tests("zstn view, release build", &mut npm)
}

fn in_python() -> Result<()> {
    wheel::ready()?.test()
}

fn z4ai() -> Result<()> {
    wheel::ready()?.suite("z4ai")
}

/// Runs the tests with the peers, which get the paths of programs that encode, of the
/// second ztensor, and of the folder for inputs that z4ai refuses.
fn peers() -> Result<()> {
    let environment = python::peers()?;
    cargo::programs()?;
    wasm::ready()?;
    let mut unittest = environment.python();
    unittest
        .words("-m unittest discover -v -s tests/peers")
        .env("ZSTN_INTEROP", program("debug/examples/interop"))
        .env("ZSTN_WRITE_ZTENSOR", program("debug/examples/ztensor"))
        .env("ZSTN_ZTENSOR_1", environment.ztensor_1())
        .env("ZSTN_INTEROP_KEEP", target("interop"));
    steps::tests("files exchanged with peers", &mut unittest)
}

fn notices() -> Result<()> {
    npm::ready()?;
    deps::notices(false)
}

/// Runs the tests with git-lfs, with Giftless as the server, moto as S3, and the wheel
/// installed in Giftless.
fn lfs() -> Result<()> {
    let Some(git_lfs) = GIT_LFS.find_or_get()? else {
        return Ok(());
    };
    let giftless = python::GIFTLESS.ready()?;
    let moto = python::moto()?;
    let wheel = wheel::ready()?;
    step("git-lfs", |step| {
        wheel.install_in(step, &giftless)?;
        let mut tests = giftless.python();
        tests.words("-X dev -W error -m unittest -v");
        tests
            .current_dir(path("tests/lfs"))
            .env("ZSTN_GIT_LFS", git_lfs);
        step.tests(tests.env("ZSTN_MOTO_SERVER", moto))
    })
}

/// Runs the tests of `python -m zstn_hub` on a Ray cluster, with moto as its store. With
/// `figures`, also runs the job on one node, on two nodes, and without a cluster.
pub fn ray(figures: bool) -> Result<()> {
    let Some(ray) = python::ray()? else {
        return Ok(());
    };
    let moto = python::moto()?;
    let wheel = wheel::ready()?;
    let python = |line: &str| {
        let mut python = ray.python();
        python.words(line).current_dir(path("tests/hub_job"));
        python.env("ZSTN_MOTO_SERVER", &moto);
        python
    };
    // Prints the lines that a job marks as figures.
    let show = |step: &mut Step| -> Result<()> {
        for line in step.output()?.lines() {
            if let Some(figure) = line.strip_prefix("figure: ") {
                step.after(figure);
            }
        }
        Ok(())
    };
    step("jobs on a Ray cluster", |step| {
        wheel.install_in(step, &ray)?;
        // The output of the job is shown, because it contains results.
        let line = "-m pytest -q -p no:cacheprovider -rP --show-capture=stdout .";
        step.tests(&mut python(line))?;
        show(step)
    })?;
    if !figures {
        return Ok(());
    }
    step("figures of jobs", |step| {
        step.run(&mut python("figures.py"))?;
        show(step)
    })
}

/// Runs all tests of object stores; plain `cargo test` skips those that need servers.
fn stores() -> Result<()> {
    let (moto, azurite) = (python::moto()?, npm::azurite()?);
    cargo::programs()?;
    step("object stores", |step| {
        let [s3, azure] = free_ports()?;
        let mut server = Command::new(moto);
        server.words(&format!("-H 127.0.0.1 -p {s3}"));
        let mut moto = Background::start("moto server", &mut server)?;
        let mut server = cmd("node");
        server.arg(azurite).words("--inMemoryPersistence --silent");
        // The client uses a newer version of the protocol than azurite supports.
        server.words(&format!(
            "--skipApiVersionCheck --blobHost 127.0.0.1 --blobPort {azure}"
        ));
        let mut azurite = Background::start("azurite server", &mut server)?;
        for (server, port) in [(&mut moto, s3), (&mut azurite, azure)] {
            wait_for(server, port).context("the logs of the servers are in target/xtask-logs")?;
        }
        let mut test = cargo::test();
        // The full tables of faults run in the suite `rust`, with the in-memory store.
        test.words("--test store -- --include-ignored")
            .env("ZSTN_TESTS", "");
        test.env("ZSTN_MOTO", format!("127.0.0.1:{s3}"));
        step.tests(test.env("ZSTN_AZURITE", format!("127.0.0.1:{azure}")))
    })
}

/// Returns two free ports for servers that cannot report a port of their own choice.
/// Linux assigns ports from 32,768 upwards to any program, so one of those could be taken
/// before the server starts.
fn free_ports() -> Result<[u16; 2]> {
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let first = 20_000 + (std::process::id() % 6_000) as u16;
    let mut ports = (first..32_000).filter(is_free);
    let mut next = || ports.next().context("no port below 32,000 is free");
    Ok([next()?, next()?])
}

/// Waits until `server` listens on `port`, which takes a few seconds unless the machine
/// is busy.
fn wait_for(server: &mut Background, port: u16) -> Result<()> {
    const LIMIT: Duration = Duration::from_secs(120);
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        ensure!(server.is_running(), "the server for port {port} has ended");
        ensure!(begun.elapsed() < LIMIT, "no server listens on port {port}");
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Lints, tests and builds the core and the library with other features than the
/// workspace's.
fn features() -> Result<()> {
    for line in [
        "clippy --package zstn-core --no-default-features --all-targets -- -D warnings",
        "clippy --package zstn --lib -- -D warnings",
        "clippy --package zstn --lib --features async -- -D warnings",
        "test --package zstn-core --no-default-features --lib",
    ] {
        steps::keep(steps::run(&format!("cargo {line}"), &mut cargo(line)));
    }
    for features in ["pure-hashes", "pure-encoder,brotli,pure-hashes"] {
        check(&format!("core without std, {features}"), |step| {
            let mut build = cargo::add_target(step, BARE)?.build("no-std", BARE, "")?;
            build.words("--package zstn-core --no-default-features --lib --features");
            step.run(build.arg(features))
        });
    }
    Ok(())
}

/// Builds the documentation of the published crates and of the npm package. Warnings
/// are errors.
fn docs() -> Result<()> {
    check("documentation of the crates", |step| {
        // Some documented items require a feature.
        let mut doc = cargo("doc --no-deps --all-features");
        for name in deps::published_crates()? {
            // rustdoc would write the pages of the program zstn over the library's.
            if name != "zstn-cli" {
                doc.args(["--package", &name]);
            }
        }
        step.run(doc.env("RUSTDOCFLAGS", "-Dwarnings"))
    });
    wasm::ready()?;
    let mut docs = npm::command("run docs");
    steps::run("API reference of the npm package", &mut docs)
}

fn msrv() -> Result<()> {
    step("oldest Rust", cargo::check_oldest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nightly_workflow_runs_every_suite() {
        let path = path(".github/workflows/test-all.yml");
        let workflow = std::fs::read_to_string(path).expect("the workflow");
        let mut lines = workflow.lines();
        let line = lines.find_map(|line| line.trim().strip_prefix("suite: ["));
        let line = line.expect("a list of suites").trim_end_matches(']');
        let listed: Vec<&str> = line.split(", ").collect();
        assert_eq!(listed, SUITES.map(|suite| suite.name));
    }
}
