//! The Python packages `zstn` and `zstn-hub`: wheels for users, and wheels of the dev
//! profile for tests.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};

use crate::prelude::*;
use crate::python::{self, Environment};
use crate::wheel_platforms;

const PACKAGE: &str = "native/python";
const HUB_PACKAGE: &str = "native/hub/python";
/// Name of the extension module in the package.
const MODULE: &str = if cfg!(windows) {
    "_native.pyd"
} else {
    "_native.abi3.so"
};

/// Builds both packages for users and tests the README.
pub fn with_readme() -> Result<()> {
    let [wheel, _] = release()?;
    readme(&wheel)
}

/// Builds both wheels for users of this system, and returns their paths.
pub fn release() -> Result<[PathBuf; 2]> {
    let wheel = wheel_platforms::build_here(&target("wheels"))?;
    let tools = python::MATURIN.ready()?;
    let hub = step("wheel of zstn-hub", |step| build_hub(step, &tools))?;
    Ok([wheel, hub])
}

/// Unpacks a wheel into a folder next to it, and returns that folder.
pub fn unpack(step: &mut Step, wheel: &Path) -> Result<PathBuf> {
    let folder = wheel.with_file_name("unpacked");
    paths::empty(&folder)?;
    let mut unpack = python::MATURIN.ready()?.python();
    step.run(unpack.words("-m zipfile -e").arg(wheel).arg(&folder))?;
    Ok(folder)
}

/// Returns maturin with the arguments of `line`.
pub fn maturin(tools: &Environment, line: &str) -> Result<Command> {
    let mut maturin = tools.python();
    cargo::set_environment(&mut maturin);
    maturin
        .words("-m maturin")
        .words(line)
        // maturin finds the interpreter with this variable, and zig in the search path.
        .env("VIRTUAL_ENV", &tools.folder)
        .env("PATH", tools.search_path()?)
        .current_dir(path(PACKAGE));
    Ok(maturin)
}

/// Builds a wheel as the only one in `folder`, which becomes the last argument of
/// `command`, and returns its path.
pub fn build(step: &mut Step, command: &mut Command, folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder)?;
    for old in paths::files(folder, "whl")? {
        fs::remove_file(old)?;
    }
    step.run(command.arg(folder))?;
    match &paths::files(folder, "whl")?[..] {
        [wheel] => Ok(wheel.clone()),
        found => bail!("{} contains {} wheels", folder.display(), found.len()),
    }
}

fn build_hub(step: &mut Step, tools: &Environment) -> Result<PathBuf> {
    let mut flit = tools.python();
    flit.words("-m flit_core.wheel").arg(path(HUB_PACKAGE));
    build(step, flit.arg("--outdir"), &target("wheels/hub"))
}

/// Builds a wheel of the dev profile, and installs it in the environment of its tests.
/// In [`Tier::All`], maturin builds it with the package's own features; otherwise it
/// contains the library that was built together with the workspace.
pub fn ready() -> Result<Wheel> {
    static READY: Shared<Wheel> = Shared::new();
    READY.get(|| Wheel::install(python::WHEEL.ready()?))
}

/// A wheel of the dev profile and the wheel of zstn-hub, and the environment in which
/// they are tested.
#[derive(Clone)]
pub struct Wheel {
    file: PathBuf,
    hub: PathBuf,
    tests: Environment,
}

impl Wheel {
    fn install(tests: Environment) -> Result<Self> {
        let tools = python::MATURIN.ready()?;
        cargo::programs()?;
        let (title, is_alone) = match Tier::of_process() {
            Tier::Default => ("wheel, of the workspace's build", false),
            Tier::All => ("wheel, dev build", true),
        };
        let hub = step("wheel of zstn-hub", |step| build_hub(step, &tools))?;
        let file = step(title, |step| {
            let mut pack = match is_alone {
                true => maturin(&tools, "build --locked --profile dev --out")?,
                false => assemble(step, &tools)?,
            };
            let file = build(step, &mut pack, &target("wheels/dev"))?;
            tests.install_wheel(step, &file)?;
            tests.install_wheel(step, &hub)?;
            Ok(file)
        })?;
        Ok(Self { file, hub, tests })
    }

    pub fn install_in(&self, step: &mut Step, environment: &Environment) -> Result<()> {
        environment.install_wheel(step, &self.file)?;
        environment.install_wheel(step, &self.hub)
    }

    /// Runs the tests that take only seconds.
    pub fn test(&self) -> Result<()> {
        // Warnings are errors, and so are problems found by the interpreter's optional
        // checks.
        let line = "-X dev -W error -m pytest -q -p no:cacheprovider .";
        steps::keep(steps::tests("Python tests", &mut self.python(line)?));
        let mut hub = self.python(line)?;
        hub.current_dir(path(HUB_PACKAGE).join("tests"));
        steps::keep(steps::tests("tests of zstn-hub", &mut hub));
        check("Python types", |step| self.types(step));
        steps::keep(self.suite("safetensors"));
        readme(&self.file)
    }

    /// Checks the types of both packages.
    fn types(&self, step: &mut Step) -> Result<()> {
        let hub = path(HUB_PACKAGE).join("tests");
        for (folder, package, cache) in [
            (
                path(PACKAGE).join("tests"),
                "../zstn typing_examples.py",
                target("mypy"),
            ),
            (hub, "../zstn_hub", target("mypy-hub")),
        ] {
            let mut mypy = self.python("-m mypy --config-file ../pyproject.toml --cache-dir")?;
            step.run(mypy.arg(cache).words(package).current_dir(&folder))?;
            let mut pyright = self.python("-m pyright --project ../pyproject.toml --pythonpath")?;
            pyright
                .arg(self.tests.program("python"))
                .current_dir(&folder);
            // This suppresses warnings about newer versions of pyright.
            step.run(pyright.env("PYRIGHT_PYTHON_IGNORE_WARNINGS", "1"))?;
        }
        let mut stubs = self.python("-m mypy.stubtest zstn._native --concise")?;
        stubs.words("--allowlist stubtest.txt --ignore-unused-allowlist");
        step.run(stubs.env("MYPY_CACHE_DIR", target("mypy")))
    }

    /// Runs the test suite of another package with zstn. It is downloaded once.
    pub fn suite(&self, name: &str) -> Result<()> {
        let mut run = self.python(&format!("peers/run.py {name} --cache"))?;
        run.arg(cache("python-suites"));
        steps::tests(&format!("tests of {name} on zstn"), &mut run)
    }

    /// Returns Python in the folder of the tests. In the package's own folder, its
    /// sources would be imported instead of the wheel. The tests use moto only in
    /// [`Tier::All`].
    pub fn python(&self, line: &str) -> Result<Command> {
        let mut python = self.tests.python();
        python.words(line).current_dir(path(PACKAGE).join("tests"));
        if Tier::of_process() == Tier::All {
            python.env("ZSTN_MOTO_SERVER", python::moto()?);
        }
        Ok(python)
    }
}

/// Returns a command that packs a wheel with the library built together with the
/// workspace. maturin would build it again with other features, because it compiles the
/// package alone.
fn assemble(step: &mut Step, tools: &Environment) -> Result<Command> {
    let tree = target("wheels/tree");
    paths::empty(&tree)?;
    let mut metadata = maturin(tools, "pep517 write-dist-info --profile dev")?;
    step.run(metadata.arg("--metadata-directory").arg(&tree))?;
    let package = tree.join("zstn");
    paths::copy_all(&path(PACKAGE).join("zstn"), &package, &|entry| {
        let endings = ["py", "pyi", "typed"];
        match entry.extension() {
            Some(found) => endings.iter().any(|ending| found == *ending),
            None => !entry.ends_with("__pycache__"),
        }
    })?;
    let library = target(format!("debug/{DLL_PREFIX}_native{DLL_SUFFIX}"));
    fs::copy(library, package.join(MODULE))?;
    let mut pack = tools.python();
    pack.words("-m wheel pack").arg(tree).arg("--dest-dir");
    Ok(pack)
}

/// Installs the wheel and NumPy in a new environment, and runs the examples of the
/// README there.
fn readme(wheel: &Path) -> Result<()> {
    step("README of the wheel, with NumPy alone", |step| {
        let mut run = python::bare(step, wheel)?.python();
        run.words("-X dev -W error").current_dir(target("wheels"));
        step.run(run.arg(path(PACKAGE).join("tests/readme.py")))
    })
}

/// Runs the verb `torch`: the tests that need PyTorch and libraries based on it.
pub fn torch() -> Result<()> {
    let wheel = Wheel::install(python::WHEEL_TORCH.ready()?)?;
    let mut pytest = wheel.python("-m pytest -q -p no:cacheprovider with_torch")?;
    steps::tests("Python tests with PyTorch", &mut pytest)?;
    wheel.suite("safetensors")
}
