//! The verb `test`: runs every check, the cheapest and most revealing first.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::args::Test;
use crate::git_lfs::GitLfs;
use crate::hub_job::HubJob;
use crate::object_stores::ObjectStores;
use crate::runtimes::Runtimes;
use crate::step::{Report, Step};
use crate::valgrind::{self, Valgrind};
use crate::wheel::Python;
use crate::workspace::Workspace;
use crate::{
    capi, chromium, consumers, counts, deps, disk, fuzz, hub_demo, instructions, interop, nginx,
    node, node_tests, oldest_rust, python, quick, rust_checks, rust_target, wasm,
};

/// A run that has taken as long as this leaves fuzzing out: on two usual cores all the
/// rest takes 35 minutes, and services end a run after 90.
const FUZZ_BEFORE: Duration = Duration::from_secs(60 * 60);

/// A small checkpoint in the repository, for a demo without a download.
const SMALL_MODEL: &str = "tests/vectors/zstn/tiny_llama_tied.safetensors";

pub fn run(workspace: &Workspace, report: &mut Report, options: &Test) -> Result<()> {
    // Read now, since the tests rebuild the file of this program.
    let this = env::current_exe().context("this program does not know its own path")?;
    let result = match options.quick {
        true => quick::run(workspace, report),
        false => all(workspace, report, options, &this),
    };
    report.summary();
    result
}

/// Runs everything; a failure does not hide those of other steps.
fn all(workspace: &Workspace, report: &mut Report, options: &Test, this: &Path) -> Result<()> {
    let started = Instant::now();
    let tools = Tools::ready(workspace, report, options)?;
    let shipped = deps::check(workspace, report, false);
    report.keep(shipped);
    // The command line includes the page.
    wasm::build(workspace, report)?;
    report.step("page", |step| wasm::page(workspace, step))?;
    rust_checks::all(workspace, report)?;
    report.check("oldest Rust", |step| oldest_rust::check(workspace, step));
    if let Some(stores) = &tools.stores {
        report.check("object stores", |step| stores.test(workspace, step));
    }
    report.check("instructions of the stages", |step| {
        instructions::check(workspace, step, tools.valgrind.as_ref())
    });
    report.check("TypeScript types", node_tests::types);
    report.check("API reference of the npm package", |step| {
        step.run(node::npm().args(["run", "docs"]))
    });
    let library = capi::test(workspace, report, &tools.capi);
    report.keep(library);
    report.check("tests in Node and Chromium", |step| {
        javascript(workspace, step, &tools)
    });
    if let (Some(runtimes), Some(chromium)) = (&tools.runtimes, &tools.chromium) {
        let everywhere = runtimes.test(workspace, report, chromium);
        report.keep(everywhere);
    }
    if let Some(environment) = &tools.peers {
        report.check("files exchanged with peers", |step| {
            interop::build(workspace, step)?;
            peers(workspace, step, environment)
        });
    }
    if let Some(python) = &tools.python {
        let package = with_wheel(workspace, report, python, &tools);
        report.keep(package);
    }
    report.check("cargo xtask demo", |step| {
        let mut demo = Command::new(this);
        demo.args(["demo", "--no-wait", "--built"]);
        if options.skip_peers {
            demo.arg(workspace.path(SMALL_MODEL));
        }
        step.run(&mut demo)
    });
    if !options.skip_fuzz {
        if started.elapsed() < FUZZ_BEFORE {
            let fuzzed = fuzz::short(workspace, report);
            report.keep(fuzzed);
        } else {
            report.check("fuzz targets", |step| {
                step.note("left out, this machine is slow: run `cargo xtask fuzz`");
                Ok(())
            });
        }
    }
    report.kept()
}

/// The Python package, and what works with it.
fn with_wheel(
    workspace: &Workspace,
    report: &mut Report,
    python: &Python,
    tools: &Tools,
) -> Result<()> {
    python.build(workspace, report)?;
    let package = python.test(workspace, report);
    report.keep(package);
    if let Some(git_lfs) = &tools.git_lfs {
        report.check("git-lfs", |step| git_lfs.test(workspace, step));
    }
    if let Some(hub_job) = &tools.hub_job {
        report.check("jobs on a Ray cluster", |step| {
            hub_job.test(workspace, step)
        });
    }
    let model = report.step("model (MiniLM)", |step| python::model(workspace, step))?;
    let library = capi::install_dev(workspace, report)?;
    let git_lfs = tools.git_lfs.as_ref().map(GitLfs::program);
    hub_demo::tell(workspace, report, python, &model, git_lfs, &library)
}

struct Tools {
    chromium: Option<PathBuf>,
    runtimes: Option<Runtimes>,
    nginx: Option<PathBuf>,
    /// The folder of the libraries that tensors are handed to.
    consumers: Option<PathBuf>,
    valgrind: Option<Valgrind>,
    peers: Option<python::Environment>,
    python: Option<Python>,
    stores: Option<ObjectStores>,
    /// Tested with the wheel.
    git_lfs: Option<GitLfs>,
    /// Tested with the wheel.
    hub_job: Option<HubJob>,
    capi: capi::Tools,
}

impl Tools {
    /// Does all set-up first, so that a missing tool is reported in the first minute.
    fn ready(workspace: &Workspace, report: &mut Report, options: &Test) -> Result<Self> {
        report.step("free disk space", |step| disk::check(workspace, step))?;
        report.step("Node and npm", node::check)?;
        report.step("npm packages", |step| node::install(workspace, step))?;
        for target in [rust_target::WEB, rust_target::BARE] {
            report.step(&format!("Rust for {}", target.triple), |step| {
                let toolchain = rust_target::ready(workspace, step, &target)?;
                step.note(toolchain.describe());
                Ok(())
            })?;
        }
        let chromium = if options.skip_browser {
            None
        } else {
            Some(report.step("Chromium", chromium::ready)?)
        };
        let runtimes = if options.skip_browser || options.skip_runtimes {
            None
        } else {
            Some(Runtimes::ready(workspace, report)?)
        };
        let nginx = report.step("nginx", |step| nginx::ready(workspace, step))?;
        let consumers = report.step("ONNX Runtime and TensorFlow.js", |step| {
            consumers::ready(workspace, step)
        })?;
        let valgrind = report.step("valgrind", |step| valgrind::ready(workspace, step))?;
        let peers = if options.skip_peers {
            None
        } else {
            Some(report.step("Python packages", |step| python::peers(workspace, step))?)
        };
        let python = if options.skip_peers {
            None
        } else {
            Some(Python::ready(workspace, report)?)
        };
        let git_lfs = if options.skip_peers {
            None
        } else {
            report.step("git-lfs and Giftless", |step| {
                GitLfs::ready(workspace, step)
            })?
        };
        let hub_job = if options.skip_peers {
            None
        } else {
            report.step("Ray", |step| HubJob::ready(workspace, step))?
        };
        let stores = if options.skip_stores {
            None
        } else {
            Some(report.step("moto and azurite", |step| {
                ObjectStores::ready(workspace, step)
            })?)
        };
        let capi = report.step("Go, for the C library", |step| {
            capi::Tools::ready(workspace, step)
        })?;
        Ok(Self {
            chromium,
            runtimes,
            nginx,
            consumers,
            valgrind,
            peers,
            python,
            stores,
            git_lfs,
            hub_job,
            capi,
        })
    }
}

fn javascript(workspace: &Workspace, step: &mut Step, tools: &Tools) -> Result<()> {
    let mut npm = node_tests::npm(workspace, "test");
    if let Some(nginx) = &tools.nginx {
        npm.env("ZSTN_NGINX", nginx);
    }
    if let Some(consumers) = &tools.consumers {
        npm.env("ZSTN_CONSUMERS", consumers);
    }
    match &tools.chromium {
        Some(browser) => npm.env("CHROMIUM", browser).env_remove("ZSTN_SKIP_BROWSER"),
        None => npm.env("ZSTN_SKIP_BROWSER", "1").env_remove("CHROMIUM"),
    };
    step.run(&mut npm)?;
    counts::note(step)
}

fn peers(workspace: &Workspace, step: &mut Step, environment: &python::Environment) -> Result<()> {
    let mut unittest = Command::new(environment.python());
    unittest
        .args(["-m", "unittest", "discover", "-v", "-s", "tests/peers"])
        .env("ZSTN_BIN", workspace.zstn("debug"));
    step.run(interop::ready(workspace, environment, &mut unittest))?;
    counts::note(step)
}
