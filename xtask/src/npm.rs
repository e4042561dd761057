//! Node, npm, and the packages and scripts that run in it.

use crate::prelude::*;
use crate::stamp;

/// The first Node 20 release that supports ES modules in `require`.
const OLDEST_NODE: (u32, u32, u32) = (20, 19, 0);
const INSTRUCTIONS: &str = "Install Node 20.19 or newer with npm (from nodejs.org, `nvm install 22`, \
     or `brew install node`), then try again.";
const AZURITE: &str = "azurite@3.37.0";

/// Returns npm with the arguments of `line`.
pub fn command(line: &str) -> Command {
    let mut command = cmd(if cfg!(windows) { "npm.cmd" } else { "npm" });
    command.words(line).env("NO_UPDATE_NOTIFIER", "1");
    command
}

/// Checks that Node is installed and recent enough. This program never installs it,
/// since users choose their own version.
pub fn check() -> Result<()> {
    static SHARED: Shared<()> = Shared::new();
    SHARED.step("Node and npm", |step| {
        let missing = |name: &str| format!("{name} is missing. {INSTRUCTIONS}");
        let node = ask(&mut cmd("node --version")).with_context(|| missing("Node"))?;
        if process::version(&node) < Some(OLDEST_NODE) {
            bail!("Node {node} is too old. {INSTRUCTIONS}");
        }
        let npm = ask(&mut command("--version")).with_context(|| missing("npm"))?;
        step.note(format!("Node {}, npm {npm}", node.trim_start_matches('v')));
        Ok(())
    })
}

/// Runs `npm ci`, unless `node_modules` is up to date with the lock file.
pub fn ready() -> Result<()> {
    static SHARED: Shared<()> = Shared::new();
    check()?;
    let root = paths::root();
    SHARED.step("npm packages", |step| {
        install(step, "npm-ci", root, root, "ci")
    })
}

/// Runs npm in `folder` with the lists of packages in `lists`, unless the installed
/// packages are up to date with them.
fn install(step: &mut Step, name: &str, lists: &Path, folder: &Path, line: &str) -> Result<()> {
    let files = ["package.json", "package-lock.json", ".npmrc"].iter();
    let mut lists: Vec<PathBuf> = files.map(|file| lists.join(file)).collect();
    lists.retain(|list| list.is_file());
    // npm writes this file last and does not change it afterwards.
    let installed = [folder.join("node_modules/.package-lock.json")];
    stamp::unless_fresh(step, name, &lists, &installed, |step| {
        for list in lists.iter().filter(|list| !list.starts_with(folder)) {
            paths::copy_into(folder, list)?;
        }
        let mut npm = command(line);
        step.run_twice(npm.words("--no-audit --no-fund").current_dir(folder))
    })
}

fn separately(step: &mut Step, name: &str, lists: &str, line: &str) -> Result<PathBuf> {
    let folder = cache(name);
    fs::create_dir_all(&folder)?;
    install(step, &format!("npm-{name}"), &path(lists), &folder, line)?;
    Ok(folder)
}

/// Installs the JavaScript runtimes and bundlers, which would add 1.3 GB to the
/// packages of the workspace, and returns their folder. `npm ci` refuses a lock file
/// that lacks the builds for other systems, as lock files written with some registries
/// do.
pub fn runtimes() -> Result<PathBuf> {
    step("Deno, Bun, workerd and bundlers", |step| {
        separately(step, "runtimes", "tests/runtimes", "install")
    })
}

/// Installs ONNX Runtime and TensorFlow.js, which receive tensors in the tests of
/// `docs/npm/hand-off.md` and take 700 MB. Returns their folder, or `None` if that
/// fails; their tests are then skipped.
pub fn consumers() -> Result<Option<PathBuf>> {
    static SHARED: Shared<Option<PathBuf>> = Shared::new();
    check()?;
    SHARED.step("ONNX Runtime and TensorFlow.js", |step| {
        // The only install script downloads files for other processors than the CPU.
        let line = "ci --ignore-scripts";
        let folder = separately(step, "consumers", "tests/js/consumers", line);
        if folder.is_err() {
            step.note("npm could not install them: their tests are left out");
        }
        Ok(folder.ok())
    })
}

/// Installs azurite, the Azure server of the tests, and returns its program.
pub fn azurite() -> Result<PathBuf> {
    let folder = cache(AZURITE);
    let program = folder.join("node_modules/azurite/dist/src/blob/main.js");
    step("azurite", |step| {
        if !program.is_file() {
            fs::create_dir_all(&folder)?;
            // The folder is inside this repository, whose packages must not be
            // installed here.
            let mut npm = command("install --no-audit --no-fund --no-workspaces --prefix .");
            step.run_twice(npm.arg(AZURITE).current_dir(&folder))?;
        }
        let is_there = program.is_file();
        ensure!(is_there, "{AZURITE} has no {}", paths::show(&program));
        Ok(program)
    })
}

/// Runs `npm run build` in one package, unless `output` is up to date with `inputs`.
pub fn build(title: &str, package: &str, inputs: &[&str], output: &str) -> Result<()> {
    // Compilers and type definitions are inputs, too.
    let inputs = inputs.iter().chain(&["package.json", "package-lock.json"]);
    let inputs: Vec<PathBuf> = inputs.map(path).collect();
    let outputs = [path(output)];
    step(title, |step| {
        stamp::unless_fresh(step, &format!("npm-{package}"), &inputs, &outputs, |step| {
            step.run(command("run build --workspace").arg(package))?;
            let is_filled = !paths::entries(&outputs[0])?.is_empty();
            ensure!(is_filled, "the build of {package} left {output} empty");
            Ok(())
        })
    })
}
