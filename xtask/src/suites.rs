//! The test suites of `cargo xtask test`.

use std::process::Command;

use anyhow::Result;

use crate::cargo::cargo;
use crate::git_lfs::GitLfs;
use crate::hub_job::HubJob;
use crate::object_stores::ObjectStores;
use crate::prepared::Prepared;
use crate::tier::Tier;
use crate::{
    capi, counts, deps, fuzz, git_lfs, hub_demo, instructions, interop, nginx, node, node_tests,
    oldest_rust, rust_checks, valgrind,
};

/// A group of checks that is selected, run and reported together.
#[derive(Debug)]
pub struct Suite {
    /// Name on the command line.
    pub name: &'static str,
    /// Short description for `--help`.
    pub about: &'static str,
    /// The lowest tier that includes the suite.
    pub tier: Tier,
    pub run: fn(&Prepared) -> Result<()>,
}

/// All suites in starting order. Suites whose builds are needed by others come first.
pub const SUITES: [Suite; 20] = [
    Suite {
        name: "rust",
        about: "format, clippy, tests of all crates",
        tier: Tier::Default,
        run: rust,
    },
    Suite {
        name: "node",
        about: "the npm package in Node, types of all TypeScript",
        tier: Tier::Default,
        run: node,
    },
    Suite {
        name: "python",
        about: "the wheel: its tests, types and README, and the tests of safetensors on it",
        tier: Tier::Default,
        run: python,
    },
    Suite {
        name: "chromium",
        about: "the npm package and the viewer in Chromium",
        tier: Tier::Default,
        run: chromium,
    },
    Suite {
        name: "peers",
        about: "files exchanged with z4ai and zTensor",
        tier: Tier::Default,
        run: peers,
    },
    Suite {
        name: "c",
        about: "the C library; in --all also Go, static linking and valgrind",
        tier: Tier::Default,
        run: c,
    },
    Suite {
        name: "notices",
        about: "lock files and licences of what is shipped",
        tier: Tier::Default,
        run: notices,
    },
    Suite {
        name: "lfs",
        about: "git-lfs with Giftless and moto",
        tier: Tier::All,
        run: lfs,
    },
    Suite {
        name: "stores",
        about: "object stores: moto and azurite",
        tier: Tier::All,
        run: stores,
    },
    Suite {
        name: "ray",
        about: "jobs on a Ray cluster",
        tier: Tier::All,
        run: ray,
    },
    Suite {
        name: "runtimes",
        about: "the npm package in Deno, Bun, workerd, WebKitGTK and bundlers, and in Firefox",
        tier: Tier::All,
        run: runtimes,
    },
    Suite {
        name: "release",
        about: "the command line in its release build, with the viewer embedded",
        tier: Tier::All,
        run: release,
    },
    Suite {
        name: "features",
        about: "the core without std, and without features",
        tier: Tier::All,
        run: features,
    },
    Suite {
        name: "docs",
        about: "API references of the crates and of the npm package",
        tier: Tier::All,
        run: docs,
    },
    Suite {
        name: "msrv",
        about: "all crates with the oldest Rust",
        tier: Tier::All,
        run: msrv,
    },
    Suite {
        name: "instructions",
        about: "instructions that each stage executes, under valgrind",
        tier: Tier::All,
        run: instructions,
    },
    Suite {
        name: "licences",
        about: "licences and origins of all crates, by cargo-deny",
        tier: Tier::All,
        run: licences,
    },
    Suite {
        name: "z4ai",
        about: "the tests of z4ai on zstn.z4ai",
        tier: Tier::All,
        run: z4ai,
    },
    Suite {
        name: "demos",
        about: "cargo xtask demo and hub-demo",
        tier: Tier::All,
        run: demos,
    },
    Suite {
        name: "fuzz",
        about: "a minute of each fuzz target",
        tier: Tier::All,
        run: fuzz,
    },
];

/// Returns the list of suites for `cargo xtask test --help`.
pub fn help() -> String {
    let mut text = String::from("Suites:\n");
    for suite in &SUITES {
        let tier = match suite.tier {
            Tier::Default => "",
            Tier::All => " (--all)",
        };
        text += &format!("  {:<13} {}{tier}\n", suite.name, suite.about);
    }
    text
}

fn rust(prepared: &Prepared) -> Result<()> {
    rust_checks::format(prepared.workspace, prepared.report);
    prepared.programs()?;
    prepared.report.step("cargo test", |step| {
        rust_checks::tests(prepared.workspace, step, prepared.tier)
    })
}

fn node(prepared: &Prepared) -> Result<()> {
    let (workspace, report) = (prepared.workspace, prepared.report);
    let nginx = report.step("nginx", |step| nginx::ready(workspace, step))?;
    prepared.package()?;
    report.check("TypeScript types", node_tests::types);
    let consumers = prepared.consumers()?;
    prepared.programs()?;
    report.step("tests in Node", |step| {
        let mut npm = prepared.node_tests("test:node", None);
        if let Some(nginx) = &nginx {
            npm.env("ZSTN_NGINX", nginx);
        }
        if let Some(consumers) = &consumers {
            npm.env("ZSTN_CONSUMERS", consumers);
        }
        step.run(&mut npm)?;
        counts::note(step)
    })
}

fn chromium(prepared: &Prepared) -> Result<()> {
    let browser = prepared.chromium()?;
    let consumers = prepared.consumers()?;
    prepared.package()?;
    prepared.programs()?;
    prepared.report.step("tests in Chromium", |step| {
        let mut npm = prepared.node_tests("test:browser", Some(&browser));
        if let Some(consumers) = &consumers {
            npm.env("ZSTN_CONSUMERS", consumers);
        }
        step.run(&mut npm)?;
        counts::note(step)
    })
}

fn python(prepared: &Prepared) -> Result<()> {
    let python = prepared.wheel()?;
    python.test(prepared.workspace, prepared.report, prepared.tier)
}

fn peers(prepared: &Prepared) -> Result<()> {
    let environment = prepared.peers()?;
    prepared.programs()?;
    prepared.report.step("files exchanged with peers", |step| {
        let mut unittest = Command::new(environment.python());
        unittest
            .args(["-m", "unittest", "discover", "-v", "-s", "tests/peers"])
            .env("ZSTN_BIN", prepared.workspace.zstn("debug"));
        let unittest = interop::ready(prepared.workspace, &environment, &mut unittest);
        step.run(prepared.tier.apply(unittest))?;
        counts::note(step)
    })
}

fn c(prepared: &Prepared) -> Result<()> {
    let tools = prepared.report.step("tools for the C library", |step| {
        capi::Tools::ready(prepared.workspace, step, prepared.tier)
    })?;
    let library = prepared.library()?;
    capi::test(prepared.workspace, prepared.report, &tools, &library)
}

fn notices(prepared: &Prepared) -> Result<()> {
    prepared.npm()?;
    deps::notices(prepared.workspace, prepared.report, false)
}

fn licences(prepared: &Prepared) -> Result<()> {
    deps::deny(prepared.workspace, prepared.report)
}

fn lfs(prepared: &Prepared) -> Result<()> {
    let (workspace, report) = (prepared.workspace, prepared.report);
    let tools = report.step("git-lfs and Giftless", |step| {
        GitLfs::ready(workspace, step)
    })?;
    let Some(tools) = tools else { return Ok(()) };
    prepared.wheel()?;
    report.step("git-lfs", |step| tools.test(workspace, step))
}

fn stores(prepared: &Prepared) -> Result<()> {
    let (workspace, report) = (prepared.workspace, prepared.report);
    let stores = report.step("moto and azurite", |step| {
        ObjectStores::ready(workspace, step)
    })?;
    prepared.programs()?;
    report.step("object stores", |step| stores.test(workspace, step))
}

fn ray(prepared: &Prepared) -> Result<()> {
    let (workspace, report) = (prepared.workspace, prepared.report);
    let tools = report.step("Ray", |step| HubJob::ready(workspace, step))?;
    let Some(tools) = tools else { return Ok(()) };
    prepared.wheel()?;
    report.step("jobs on a Ray cluster", |step| tools.test(workspace, step))
}

fn runtimes(prepared: &Prepared) -> Result<()> {
    let chromium = prepared.chromium()?;
    let runtimes = prepared.runtimes()?;
    prepared.package()?;
    prepared.programs()?;
    runtimes.test(prepared.workspace, prepared.report, &chromium)
}

fn release(prepared: &Prepared) -> Result<()> {
    let (workspace, report) = (prepared.workspace, prepared.report);
    let browser = prepared.chromium()?;
    prepared.package()?;
    report.step("command line, release build", |step| {
        step.run(cargo(workspace).args(["build", "--release", "--package", "zstn-cli"]))
    })?;
    report.step("zstn view, release build", |step| {
        let mut npm = prepared.node_tests("test:view", Some(&browser));
        step.run(npm.env("ZSTN_BIN", workspace.zstn("release")))?;
        counts::note(step)
    })
}

fn features(prepared: &Prepared) -> Result<()> {
    rust_checks::features(prepared.workspace, prepared.report);
    Ok(())
}

fn docs(prepared: &Prepared) -> Result<()> {
    let report = prepared.report;
    report.check("documentation of the crates", |step| {
        rust_checks::documentation(prepared.workspace, step)
    });
    prepared.package()?;
    report.step("API reference of the npm package", |step| {
        step.run(node::npm().args(["run", "docs"]))
    })
}

fn msrv(prepared: &Prepared) -> Result<()> {
    prepared.report.step("oldest Rust", |step| {
        oldest_rust::check(prepared.workspace, step)
    })
}

fn instructions(prepared: &Prepared) -> Result<()> {
    let (workspace, report) = (prepared.workspace, prepared.report);
    let valgrind = report.step("valgrind", |step| valgrind::ready(workspace, step))?;
    report.step("instructions of the stages", |step| {
        instructions::check(workspace, step, valgrind.as_ref())
    })
}

fn z4ai(prepared: &Prepared) -> Result<()> {
    let python = prepared.wheel()?;
    prepared.report.step("tests of z4ai on zstn.z4ai", |step| {
        python.suite(prepared.workspace, step, "z4ai")
    })
}

fn demos(prepared: &Prepared) -> Result<()> {
    let (workspace, report) = (prepared.workspace, prepared.report);
    let model = prepared.model()?;
    prepared.package()?;
    prepared.programs()?;
    report.check("cargo xtask demo", |step| {
        let mut demo = Command::new(&prepared.this);
        step.run(demo.args(["demo", "--no-wait", "--built"]))
    });
    let python = prepared.wheel()?;
    let library = prepared.library()?;
    let git_lfs = report.step("git-lfs for the demo", |step| {
        Ok(git_lfs::program(workspace, step))
    })?;
    hub_demo::tell(
        workspace,
        report,
        &python,
        &model,
        git_lfs,
        library.prefix(),
    )
}

fn fuzz(prepared: &Prepared) -> Result<()> {
    // Fuzzing uses all cores for minutes, and no other suite waits for its results.
    prepared.programs()?;
    fuzz::short(prepared.workspace, prepared.report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nightly_workflow_runs_every_suite() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../.github/workflows/test-all.yml"
        );
        let workflow = std::fs::read_to_string(path).expect("the workflow");
        let line = workflow
            .lines()
            .find_map(|line| line.trim().strip_prefix("suite: ["))
            .expect("a list of suites");
        let listed: Vec<&str> = line.trim_end_matches(']').split(", ").collect();
        let names: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
        assert_eq!(listed, names);
    }
}
