//! Tools and builds that several suites need, prepared when the first suite requests
//! them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::Result;

use crate::capi::{self, Installed};
use crate::python::{self, Environment};
use crate::runtimes::Runtimes;
use crate::shared::Shared;
use crate::step::Report;
use crate::tier::Tier;
use crate::wheel::Python;
use crate::workspace::Workspace;
use crate::{chromium, consumers, node, node_tests, programs, wasm};

pub struct Prepared<'a> {
    pub workspace: &'a Workspace,
    pub report: &'a Report,
    pub tier: Tier,
    /// Path of this program.
    pub this: PathBuf,
    npm: Shared<()>,
    package: Shared<()>,
    programs: Shared<()>,
    chromium: Shared<PathBuf>,
    runtimes: Shared<Arc<Runtimes>>,
    peers: Shared<Environment>,
    wheel: Shared<Arc<Python>>,
    model: Shared<PathBuf>,
    consumers: Shared<Option<PathBuf>>,
    library: Shared<Arc<Installed>>,
}

impl<'a> Prepared<'a> {
    pub fn new(workspace: &'a Workspace, report: &'a Report, tier: Tier, this: PathBuf) -> Self {
        Self {
            workspace,
            report,
            tier,
            this,
            npm: Shared::default(),
            package: Shared::default(),
            programs: Shared::default(),
            chromium: Shared::default(),
            runtimes: Shared::default(),
            peers: Shared::default(),
            wheel: Shared::default(),
            model: Shared::default(),
            consumers: Shared::default(),
            library: Shared::default(),
        }
    }

    /// Installs the npm packages of the workspace.
    pub fn npm(&self) -> Result<()> {
        self.npm.get(|| {
            self.report
                .step("npm packages", |step| node::install(self.workspace, step))
        })
    }

    /// Builds the npm package and the viewer: in [`Tier::All`] with the published
    /// modules, otherwise with modules that compile fast.
    pub fn package(&self) -> Result<()> {
        self.npm()?;
        self.package.get(|| {
            match self.tier {
                Tier::All => wasm::build(self.workspace, self.report)?,
                Tier::Default => wasm::build_fast(self.workspace, self.report)?,
            }
            self.report
                .step("viewer", |step| wasm::page(self.workspace, step))
        })
    }

    /// Compiles and lints all Rust programs and tests.
    pub fn programs(&self) -> Result<()> {
        self.programs.get(|| {
            self.report.step("compile and lint", |step| {
                programs::build_all(self.workspace, step)
            })?;
            self.report
                .check("clippy", |step| programs::lints(self.workspace, step));
            Ok(())
        })
    }

    /// Installs Chromium.
    pub fn chromium(&self) -> Result<PathBuf> {
        self.chromium
            .get(|| self.report.step("Chromium", chromium::ready))
    }

    /// Installs the other browsers and JavaScript runtimes.
    pub fn runtimes(&self) -> Result<Arc<Runtimes>> {
        self.runtimes
            .get(|| Runtimes::ready(self.workspace, self.report).map(Arc::new))
    }

    /// Installs z4ai and zTensor.
    pub fn peers(&self) -> Result<Environment> {
        self.peers.get(|| {
            self.report.step("Python packages of peers", |step| {
                python::peers(self.workspace, step)
            })
        })
    }

    /// Builds the wheel, and installs it in the environment of its tests.
    pub fn wheel(&self) -> Result<Arc<Python>> {
        self.wheel.get(|| {
            let python = Python::ready(self.workspace, self.report, self.tier)?;
            self.programs()?;
            match self.tier {
                Tier::Default => python.assemble(self.workspace, self.report)?,
                Tier::All => python.build(self.workspace, self.report)?,
            }
            Ok(Arc::new(python))
        })
    }

    /// Downloads the model that the demos use.
    pub fn model(&self) -> Result<PathBuf> {
        self.peers()?;
        self.model.get(|| {
            self.report
                .step("model (MiniLM)", |step| python::model(self.workspace, step))
        })
    }

    /// Installs ONNX Runtime and TensorFlow.js in [`Tier::All`]. Without them, their
    /// tests are skipped.
    pub fn consumers(&self) -> Result<Option<PathBuf>> {
        if self.tier == Tier::Default {
            return Ok(None);
        }
        self.consumers.get(|| {
            self.report.step("ONNX Runtime and TensorFlow.js", |step| {
                consumers::ready(self.workspace, step)
            })
        })
    }

    /// Builds the C library, and installs it below the target directory.
    pub fn library(&self) -> Result<Arc<Installed>> {
        self.programs()?;
        self.library.get(|| {
            let installed = match self.tier {
                Tier::Default => capi::install_built(self.workspace, self.report),
                Tier::All => capi::install_dev(self.workspace, self.report),
            };
            installed.map(Arc::new)
        })
    }

    /// Returns a command for a script of `tests/package.json`, with a browser if one is
    /// given.
    pub fn node_tests(&self, script: &str, browser: Option<&Path>) -> Command {
        let mut npm = node_tests::npm(self.workspace, script);
        self.tier.apply(&mut npm);
        match browser {
            Some(browser) => npm.env("CHROMIUM", browser).env_remove("ZSTN_SKIP_BROWSER"),
            None => npm.env("ZSTN_SKIP_BROWSER", "1").env_remove("CHROMIUM"),
        };
        npm
    }
}
