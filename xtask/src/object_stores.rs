//! Object stores for the tests: moto for S3, azurite for Azure.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::background::Background;
use crate::step::{Report, Step};
use crate::workspace::Workspace;
use crate::{counts, node, programs, python};

const AZURITE: &str = "azurite@3.37.0";
const AZURITE_PROGRAM: &str = "node_modules/azurite/dist/src/blob/main.js";
/// Time limit for starting the servers, which takes a few seconds unless the machine is
/// busy.
const START_LIMIT: Duration = Duration::from_secs(120);

/// Runs the verb `stores`, which only runs the tests of object stores.
pub fn run(workspace: &Workspace, report: &Report) -> Result<()> {
    let stores = report.step("moto and azurite", |step| {
        ObjectStores::ready(workspace, step)
    })?;
    report.step("object stores", |step| stores.test(workspace, step))
}

/// The installed servers.
pub struct ObjectStores {
    moto: PathBuf,
    azurite: PathBuf,
}

/// The running servers. They are stopped, and their objects are lost, when this value
/// is dropped.
struct Running {
    /// Environment variables for the tests: host and port of each server.
    variables: [(&'static str, String); 2],
    _moto: Background,
    _azurite: Background,
}

impl ObjectStores {
    /// Installs both servers, each in a separate folder below `target/`.
    pub fn ready(workspace: &Workspace, step: &mut Step) -> Result<Self> {
        let moto = python::moto(workspace, step)?;
        let azurite = azurite(&workspace.cache("azurite"), step)?;
        Ok(Self { moto, azurite })
    }

    /// Runs all tests of object stores; plain `cargo test` skips those that need
    /// servers.
    pub fn test(&self, workspace: &Workspace, step: &mut Step) -> Result<()> {
        let running = self.start(workspace)?;
        step.run(
            programs::test(workspace)
                .args(["--test", "store"])
                .args(["--", "--include-ignored"])
                .envs(running.variables.clone()),
        )?;
        counts::note(step)
    }

    /// Starts both servers on free ports.
    fn start(&self, workspace: &Workspace) -> Result<Running> {
        let (s3, azure) = (free_port()?, free_port()?);
        let mut moto = Command::new(&self.moto);
        moto.args(["-H", "127.0.0.1", "-p", &s3.to_string()]);
        let moto = Background::start(workspace, "moto", &mut moto)?;
        let mut azurite = Command::new("node");
        azurite
            .arg(&self.azurite)
            .args(["--blobHost", "127.0.0.1", "--blobPort", &azure.to_string()])
            // The client uses a newer version of the protocol than azurite supports.
            .args(["--inMemoryPersistence", "--skipApiVersionCheck", "--silent"]);
        let azurite = Background::start(workspace, "azurite", &mut azurite)?;
        for (port, log) in [(s3, "moto"), (azure, "azurite")] {
            wait(port).with_context(|| {
                let log = workspace.log(log);
                format!("its log is {}", workspace.show(&log))
            })?;
        }
        Ok(Running {
            variables: [
                ("ZSTN_MOTO", format!("127.0.0.1:{s3}")),
                ("ZSTN_AZURITE", format!("127.0.0.1:{azure}")),
            ],
            _moto: moto,
            _azurite: azurite,
        })
    }
}

/// Installs azurite, unless this version is already installed.
fn azurite(folder: &Path, step: &mut Step) -> Result<PathBuf> {
    let program = folder.join(AZURITE_PROGRAM);
    let stamp = folder.join("installed.txt");
    if program.is_file() && fs::read_to_string(&stamp).is_ok_and(|done| done == AZURITE) {
        step.note("unchanged");
        return Ok(program);
    }
    fs::create_dir_all(folder)
        .with_context(|| format!("{} cannot be created", folder.display()))?;
    step.run_twice(|| {
        let mut command = node::npm();
        command
            .args(["install", "--no-audit", "--no-fund", "--no-package-lock"])
            // The folder is inside this repository, whose packages must not be
            // installed here.
            .args(["--no-workspaces", "--prefix", "."])
            .arg(AZURITE)
            .current_dir(folder);
        command
    })
    .context("azurite could not be downloaded")?;
    if !program.is_file() {
        bail!("{AZURITE} has no {AZURITE_PROGRAM}; its version must have changed");
    }
    fs::write(&stamp, AZURITE).with_context(|| format!("{} is not writable", stamp.display()))?;
    Ok(program)
}

/// Returns a port that is free at the moment. Neither server reports a port that it
/// chooses itself.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("there is no free port")?;
    Ok(listener
        .local_addr()
        .context("a port has no number")?
        .port())
}

fn wait(port: u16) -> Result<()> {
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if begun.elapsed() > START_LIMIT {
            bail!("the server did not begin to listen on port {port}");
        }
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}
