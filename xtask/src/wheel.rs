//! The Python packages `zstn` and `zstn-hub`: the verb `wheel` builds them, and the verbs
//! `python` and `torch` test them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cargo::cargo_environment;
use crate::python::{self, Environment};
use crate::rust_target::active_rustc;
use crate::step::{Report, Step};
use crate::tier::Tier;
use crate::workspace::Workspace;
use crate::{build_paths, counts, process, programs};

const PACKAGE: &str = "native/python";
const HUB_PACKAGE: &str = "native/hub/python";
/// Name of the extension module in the package.
const MODULE: &str = if cfg!(windows) {
    "_native.pyd"
} else {
    "_native.abi3.so"
};
/// The platform tag of the oldest glibc that Rust supports.
const PLATFORM: &str = "manylinux_2_17";
/// Where pip downloads the test suites of other packages.
const SUITES: &str = "python-suites";

/// A program that prints the files of a wheel (its first argument) that contain one of
/// the other arguments.
const FIND_PATHS: &str = "\
import os, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    for name in wheel.namelist():
        content = wheel.read(name)
        for path in sys.argv[2:]:
            at = content.find(os.fsencode(path))
            if at >= 0:
                print(f'{name}: {content[at:at + 120]!r}')
";

/// Runs the verb `wheel`, which builds the wheel for users.
pub fn run(workspace: &Workspace, report: &Report) -> Result<()> {
    let tools = report.step("maturin and zig", |step| {
        python::maturin_with_zig(workspace, step)
    })?;
    let is_portable = has_zig(&tools);
    let wheel = report.step("wheel, release build", |step| {
        build_release(workspace, step, &tools, is_portable)
    })?;
    report.step("wheel of zstn-hub", |step| {
        let hub = build_hub(workspace, step, &tools)?;
        step.note(workspace.show(&hub));
        Ok(())
    })?;
    if is_portable {
        report.step("symbols of the wheel", |step| {
            audit(workspace, step, &wheel)
        })?;
    }
    report.step("README of the wheel, with NumPy alone", |step| {
        readme(workspace, step, &wheel)
    })
}

/// Builds the wheels of both packages for users, and returns their paths.
pub fn release(workspace: &Workspace, step: &mut Step) -> Result<[PathBuf; 2]> {
    let tools = python::maturin_with_zig(workspace, step)?;
    let wheel = build_release(workspace, step, &tools, has_zig(&tools))?;
    if has_zig(&tools) {
        audit(workspace, step, &wheel)?;
    }
    Ok([wheel, build_hub(workspace, step, &tools)?])
}

fn build_release(
    workspace: &Workspace,
    step: &mut Step,
    tools: &Environment,
    is_portable: bool,
) -> Result<PathBuf> {
    let folder = workspace.target("wheels");
    let mut arguments = vec!["--release"];
    if is_portable {
        arguments.extend(["--zig", "--compatibility", PLATFORM]);
    }
    let flags = build_paths::remap(workspace, &mut active_rustc(workspace));
    let wheel = build(workspace, step, tools, &arguments, &folder, Some(&flags))?;
    refuse_paths(workspace, tools, &wheel)?;
    step.note(workspace.show(&wheel));
    Ok(wheel)
}

/// Refuses a wheel that contains a path of this machine: the workspace's, or the path
/// of cargo's downloads.
fn refuse_paths(workspace: &Workspace, tools: &Environment, wheel: &Path) -> Result<()> {
    let home = build_paths::cargo_home().context("cargo has no home")?;
    let mut search = Command::new(tools.python());
    search.args(["-c", FIND_PATHS]).arg(wheel);
    let found = process::ask(search.args([workspace.root(), &home]))?;
    if !found.trim().is_empty() {
        bail!(
            "{} contains paths of this machine, which xtask/src/build_paths.rs should have \
             replaced:\n{found}",
            workspace.show(wheel)
        );
    }
    Ok(())
}

/// Refuses a wheel that uses newer symbols of glibc than its name promises, or symbols
/// of Python outside its stable interface.
fn audit(workspace: &Workspace, step: &mut Step, wheel: &Path) -> Result<()> {
    let tools = python::audit(workspace, step)?;
    let mut libraries = Command::new(tools.python());
    let shown = process::ask(libraries.args(["-m", "auditwheel", "show"]).arg(wheel))?;
    let words: Vec<&str> = shown.split_whitespace().collect();
    let wanted = format!("\"{PLATFORM}_");
    if !words.iter().any(|word| word.starts_with(&wanted)) {
        bail!("auditwheel does not report {PLATFORM}: {shown}");
    }
    let mut interface = Command::new(tools.python());
    step.run(interface.args(["-m", "abi3audit", "--strict"]).arg(wheel))?;
    step.note(format!("{PLATFORM}, stable interface of Python"));
    Ok(())
}

/// Runs the verb `python`, which runs all tests of the package.
pub fn test(workspace: &Workspace, report: &Report) -> Result<()> {
    let python = Python::ready(workspace, report, Tier::All)?;
    python.build(workspace, report)?;
    python.programs(workspace, report)?;
    python.test(workspace, report, Tier::All)?;
    report.step("tests of z4ai on zstn.z4ai", |step| {
        python.suite(workspace, step, "z4ai")
    })
}

/// Runs the verb `torch`, which runs the tests that need PyTorch and libraries based on
/// it.
pub fn test_with_torch(workspace: &Workspace, report: &Report) -> Result<()> {
    let python = Python {
        tools: report.step("maturin", |step| python::maturin(workspace, step))?,
        tests: report.step("Python packages with PyTorch (several GB)", |step| {
            python::wheel_tests_with_torch(workspace, step)
        })?,
        moto: Some(report.step("moto", |step| python::moto(workspace, step))?),
    };
    python.build(workspace, report)?;
    python.programs(workspace, report)?;
    report.step("Python tests with PyTorch", |step| {
        let mut pytest = python.tests(workspace);
        pytest.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "with_torch"]);
        step.run(&mut pytest)?;
        counts::note(step)
    })?;
    report.step("tests of safetensors on zstn, with PyTorch", |step| {
        python.suite(workspace, step, "safetensors")
    })
}

/// The tools that build and test the wheel.
pub struct Python {
    tools: Environment,
    tests: Environment,
    /// The S3 server; `None` unless in [`Tier::All`].
    moto: Option<PathBuf>,
}

impl Python {
    /// Installs the tools.
    pub fn ready(workspace: &Workspace, report: &Report, tier: Tier) -> Result<Self> {
        Ok(Self {
            tools: report.step("maturin", |step| python::maturin(workspace, step))?,
            tests: report.step("Python packages of the wheel's tests", |step| {
                python::wheel_tests(workspace, step)
            })?,
            moto: match tier {
                Tier::Default => None,
                Tier::All => Some(report.step("moto", |step| python::moto(workspace, step))?),
            },
        })
    }

    /// Builds a wheel with the dev profile and installs it.
    pub fn build(&self, workspace: &Workspace, report: &Report) -> Result<()> {
        report.step("wheel, dev build", |step| {
            let folder = dev_folder(workspace);
            let wheel = build(
                workspace,
                step,
                &self.tools,
                &["--profile", "dev"],
                &folder,
                None,
            )?;
            build_hub(workspace, step, &self.tools)?;
            install(step, &self.tests, &wheel)?;
            install(step, &self.tests, &hub_wheel(workspace)?)
        })
    }

    /// Installs a wheel that contains the library built together with the workspace.
    /// maturin would build it again with other features, because it compiles the
    /// package alone.
    pub fn assemble(&self, workspace: &Workspace, report: &Report) -> Result<()> {
        report.step("wheel, of the workspace's build", |step| {
            let tree = workspace.target("wheels/tree");
            if tree.exists() {
                fs::remove_dir_all(&tree)
                    .with_context(|| format!("{} cannot be removed", tree.display()))?;
            }
            let mut metadata = maturin(workspace, &self.tools)?;
            metadata
                .args(["pep517", "write-dist-info", "--profile", "dev"])
                .arg("--metadata-directory")
                .arg(&tree);
            step.run(&mut metadata)?;
            let package = tree.join("zstn");
            copy_package(&workspace.path(PACKAGE).join("zstn"), &package)
                .and_then(|()| fs::copy(native_library(workspace), package.join(MODULE)))
                .with_context(|| format!("{} cannot be filled", package.display()))?;
            let folder = dev_folder(workspace);
            remove_wheels(&folder)?;
            fs::create_dir_all(&folder)
                .with_context(|| format!("{} cannot be created", folder.display()))?;
            let mut pack = Command::new(self.tools.python());
            pack.args(["-m", "wheel", "pack", "--dest-dir"])
                .arg(&folder);
            step.run(pack.arg(&tree))?;
            build_hub(workspace, step, &self.tools)?;
            install_dev(workspace, step, &self.tests)
        })
    }

    /// Builds the programs that tests of the package use.
    pub fn programs(&self, workspace: &Workspace, report: &Report) -> Result<()> {
        report.step("programs for the tests", |step| {
            programs::build(workspace, step)
        })
    }

    /// Runs the tests that take only seconds.
    pub fn test(&self, workspace: &Workspace, report: &Report, tier: Tier) -> Result<()> {
        for (name, package) in [
            ("Python tests", PACKAGE),
            ("tests of zstn-hub", HUB_PACKAGE),
        ] {
            report.check(name, |step| {
                let mut pytest = self.tests(workspace);
                tier.apply(&mut pytest);
                // Warnings are errors, and so are problems found by the interpreter's
                // optional checks.
                pytest
                    .args(["-X", "dev", "-W", "error", "-m", "pytest", "-q"])
                    .args(["-p", "no:cacheprovider", "."])
                    .current_dir(workspace.path(package).join("tests"));
                step.run(&mut pytest)?;
                counts::note(step)
            });
        }
        report.check("Python types", |step| {
            let config = ["--config-file", "../pyproject.toml"];
            let cache = workspace.target("mypy");
            let mut mypy = self.tests(workspace);
            mypy.args(["-m", "mypy", "../zstn", "typing_examples.py"])
                .args(config);
            step.run(mypy.arg("--cache-dir").arg(&cache))?;
            let mut stubs = self.tests(workspace);
            stubs
                .args(["-m", "mypy.stubtest", "zstn._native", "--concise"])
                .args(["--allowlist", "stubtest.txt", "--ignore-unused-allowlist"])
                .env("MYPY_CACHE_DIR", &cache);
            step.run(&mut stubs)?;
            let mut pyright = self.tests(workspace);
            pyright
                .args(["-m", "pyright", "--project", "../pyproject.toml"])
                .arg("--pythonpath")
                .arg(self.tests.python())
                // This suppresses warnings about newer versions of pyright.
                .env("PYRIGHT_PYTHON_IGNORE_WARNINGS", "1");
            step.run(&mut pyright)?;
            let hub = workspace.path(HUB_PACKAGE).join("tests");
            let mut mypy = self.tests(workspace);
            mypy.args(["-m", "mypy", "../zstn_hub"])
                .args(config)
                .arg("--cache-dir")
                .arg(workspace.target("mypy-hub"))
                .current_dir(&hub);
            step.run(&mut mypy)?;
            step.run(pyright.current_dir(&hub))
        });
        report.check("tests of safetensors on zstn", |step| {
            self.suite(workspace, step, "safetensors")
        });
        report.step("README of the wheel, with NumPy alone", |step| {
            readme(workspace, step, &dev_wheel(workspace)?)
        })
    }

    /// Runs the test suite of another package with zstn.
    pub fn suite(&self, workspace: &Workspace, step: &mut Step, name: &str) -> Result<()> {
        let mut run = self.tests(workspace);
        run.args(["peers/run.py", name, "--cache"])
            .arg(workspace.cache(SUITES));
        step.run(&mut run)?;
        counts::note(step)
    }

    /// Returns a Python command in the folder of the tests. In the package's own
    /// folder, its sources would be imported instead of the wheel.
    pub fn tests(&self, workspace: &Workspace) -> Command {
        let mut python = Command::new(self.tests.python());
        python
            .current_dir(workspace.path(PACKAGE).join("tests"))
            .env("ZSTN_STUB_HUB", programs::stub_hub(workspace))
            .env("ZSTN_BIN", workspace.zstn("debug"))
            .env("PYTHONDONTWRITEBYTECODE", "1");
        if let Some(moto) = &self.moto {
            python.env("ZSTN_MOTO_SERVER", moto);
        }
        python
    }
}

/// Installs the wheels of both packages, which must already have been built with the dev
/// profile, in an environment.
pub fn install_dev(
    workspace: &Workspace,
    step: &mut Step,
    environment: &Environment,
) -> Result<()> {
    install(step, environment, &dev_wheel(workspace)?)?;
    install(step, environment, &hub_wheel(workspace)?)
}

fn dev_wheel(workspace: &Workspace) -> Result<PathBuf> {
    only_wheel(&dev_folder(workspace))
}

fn hub_wheel(workspace: &Workspace) -> Result<PathBuf> {
    only_wheel(&hub_folder(workspace))
}

fn hub_folder(workspace: &Workspace) -> PathBuf {
    workspace.target("wheels").join("hub")
}

fn dev_folder(workspace: &Workspace) -> PathBuf {
    workspace.target("wheels").join("dev")
}

fn has_zig(tools: &Environment) -> bool {
    cfg!(target_os = "linux")
        && process::ask(Command::new(tools.python()).args(["-m", "ziglang", "version"])).is_ok()
}

/// Builds a wheel as the only one in `folder`, and returns its path. `flags`, if given,
/// are exactly the flags of `rustc`.
fn build(
    workspace: &Workspace,
    step: &mut Step,
    tools: &Environment,
    arguments: &[&str],
    folder: &Path,
    flags: Option<&[String]>,
) -> Result<PathBuf> {
    remove_wheels(folder)?;
    let mut maturin = maturin(workspace, tools)?;
    maturin
        .args(["build", "--locked"])
        .args(arguments)
        .arg("--out")
        .arg(folder);
    if let Some(flags) = flags {
        build_paths::set_flags(&mut maturin, flags);
    }
    step.run(&mut maturin)?;
    only_wheel(folder)
}

/// Builds the wheel of `zstn-hub`, and returns its path.
fn build_hub(workspace: &Workspace, step: &mut Step, tools: &Environment) -> Result<PathBuf> {
    let folder = hub_folder(workspace);
    remove_wheels(&folder)?;
    let mut flit = Command::new(tools.python());
    flit.args(["-m", "flit_core.wheel", "--outdir"])
        .args([&folder, &workspace.path(HUB_PACKAGE)]);
    step.run(&mut flit)?;
    only_wheel(&folder)
}

fn maturin(workspace: &Workspace, tools: &Environment) -> Result<Command> {
    let mut maturin = Command::new(tools.python());
    cargo_environment(&mut maturin, workspace.target("").as_path());
    maturin
        .args(["-m", "maturin"])
        // maturin finds the interpreter with this variable, and zig in the search path.
        .env("VIRTUAL_ENV", tools.directory())
        .env("PATH", tools.search_path()?)
        .current_dir(workspace.path(PACKAGE));
    Ok(maturin)
}

/// Returns the path of the extension module that cargo has built.
fn native_library(workspace: &Workspace) -> PathBuf {
    use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
    workspace.target(&format!("debug/{DLL_PREFIX}_native{DLL_SUFFIX}"))
}

/// Copies the sources of the package, without built modules and caches.
fn copy_package(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let copy = to.join(&name);
        if entry.file_type()?.is_dir() {
            if name != "__pycache__" {
                copy_package(&entry.path(), &copy)?;
            }
        } else if ["py", "pyi", "typed"]
            .iter()
            .any(|ending| copy.extension().is_some_and(|found| found == *ending))
        {
            fs::copy(entry.path(), copy)?;
        }
    }
    Ok(())
}

/// Returns the path of the only wheel in a folder.
fn only_wheel(folder: &Path) -> Result<PathBuf> {
    match &wheels(folder)?[..] {
        [wheel] => Ok(wheel.clone()),
        found => bail!("{} contains {} wheels", folder.display(), found.len()),
    }
}

fn remove_wheels(folder: &Path) -> Result<()> {
    for old in wheels(folder)? {
        fs::remove_file(&old).with_context(|| format!("{} cannot be removed", old.display()))?;
    }
    Ok(())
}

fn wheels(folder: &Path) -> Result<Vec<PathBuf>> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(Vec::new());
    };
    let paths = entries.map(|entry| Ok(entry?.path()));
    let paths: Vec<PathBuf> = paths
        .collect::<std::io::Result<_>>()
        .with_context(|| format!("{} cannot be read", folder.display()))?;
    let is_wheel = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "whl");
    Ok(paths.into_iter().filter(is_wheel).collect())
}

fn install(step: &mut Step, environment: &Environment, wheel: &Path) -> Result<()> {
    let mut pip = Command::new(environment.python());
    pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--no-deps"])
        .args(["--disable-pip-version-check", "--force-reinstall"])
        .arg(wheel);
    step.run(&mut pip)
}

/// Installs the wheel and NumPy in a new environment, and runs the examples of the
/// README there.
fn readme(workspace: &Workspace, step: &mut Step, wheel: &Path) -> Result<()> {
    let environment = python::bare(workspace, step)?;
    install(step, &environment, wheel)?;
    let mut run = Command::new(environment.python());
    run.args(["-X", "dev", "-W", "error"])
        .arg(workspace.path(PACKAGE).join("tests/readme.py"))
        .current_dir(workspace.target("wheels"));
    step.run(&mut run)
}
