//! The verbs `demo` and `hub-demo`.
//!
//! `demo` packs a real model, serves it, reads a tensor from it in Node, and shows it in
//! the viewer. Only the parts that the viewer needs for this model are built first. The
//! rest is built while the server is running.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::debian_programs::GIT_LFS;
use crate::prelude::*;
use crate::{capi, npm, python, stamp, wasm, wheel};

#[derive(clap::Args)]
pub struct Options {
    /// The checkpoint to show; a small real one is downloaded by default
    #[arg(value_name = "MODEL.safetensors")]
    model: Option<PathBuf>,
    /// Port of the local server; 0 selects a free port
    #[arg(long, value_name = "N", default_value_t = 0)]
    port: u16,
    /// Stop after everything has been shown once
    #[arg(long)]
    no_wait: bool,
}

const PACKED: &str = "model.zstn";

/// True after Ctrl-C or a termination request.
static IS_STOPPING: AtomicBool = AtomicBool::new(false);
/// Time to wait for the handler after a child has ended because of the same Ctrl-C.
const GRACE: Duration = Duration::from_millis(300);

/// Shows a model. The command line is built first, unless it `is_built`.
pub fn run(options: &Options, is_built: bool) -> Result<()> {
    let given = options.model.as_deref().map(existing).transpose()?;
    npm::check()?;
    // The dev build shares most dependencies with this program. Only packing and
    // serving of local files are built, since gateway, worker and object store clients
    // would take another minute. Codecs compiled with optimisation level 1 are fast
    // enough for a small model.
    let mut build = cargo("build --package zstn-cli --no-default-features");
    build.words("--config profile.dev.package.zstn-core.opt-level=1");
    build.words("--config profile.dev.debug=false");
    let built = match is_built {
        true => None,
        false => Some(Background::start("command line for the demo", &mut build)?),
    };
    npm::ready()?;
    let is_first_page = wasm::first_page()?;
    let model = given.map_or_else(python::model, Ok)?;
    if let Some(built) = built {
        step("command line, dev build", |step| built.finish(step))?;
    }
    let site = target("demo/site");
    fs::create_dir_all(&site)?;
    pack(&model, &site.join(PACKED))?;
    if !options.no_wait {
        // The handler is set before the server is started, so that it is never left running.
        ctrlc::set_handler(|| IS_STOPPING.store(true, Ordering::Relaxed))
            .context("Ctrl-C cannot be watched")?;
    }
    let (server, url) = step("serve model and page", |step| {
        copy_page(&site)?;
        serve(step, &site, options.port)
    })?;
    step("read one tensor of it in Node", |step| {
        let mut example = cmd("node wasm/examples/read-tensor.mjs");
        example.arg(format!("{url}{PACKED}"));
        // The example compares its output with the original.
        step.run(example.arg("--original").arg(&model))?;
        step.after_output()
    })?;
    let page = format!("{url}?src={PACKED}");
    if options.no_wait {
        println!("\nThe page was served at {page}");
        if is_first_page {
            println!("It cannot pack, nor read other formats, until `cargo xtask wasm` has run.");
        }
        return Ok(());
    }
    println!("\nOpen {page}\nCtrl-C stops the server.");
    if is_first_page {
        println!("\nStill to come: reading other formats, packing in the page.\n");
        let rest = wasm::run(None).and_then(|()| wasm::page());
        if let Err(error) = rest.and_then(|()| copy_page(&site)) {
            thread::sleep(GRACE);
            ensure!(IS_STOPPING.load(Ordering::Relaxed), error);
            return Ok(());
        }
        println!("\nComplete: reload the page.");
    }
    println!("\nRequests:\n");
    watch(server)
}

fn existing(model: &Path) -> Result<PathBuf> {
    let shown = model.display();
    ensure!(
        model.is_file(),
        "{shown} is not a file; the model has to be a .safetensors file"
    );
    Ok(std::path::absolute(model)?)
}

fn pack(model: &Path, packed: &Path) -> Result<()> {
    let zstn = program("debug/zstn");
    let (inputs, outputs) = ([model.to_path_buf(), zstn.clone()], [packed.to_path_buf()]);
    step("pack the model", |step| {
        stamp::unless_fresh(step, "demo-pack", &inputs, &outputs, |step| {
            let mut pack = Command::new(zstn);
            step.run(pack.words("pack --force -o").arg(packed).arg(model))
        })?;
        let [from, to] = [fs::metadata(model)?, fs::metadata(packed)?];
        let [from, to] = [from, to].map(|file| file.len() as f64 / 1e6);
        step.note(format!("{from:.1} MB -> {to:.1} MB"));
        Ok(())
    })
}

/// Replaces the page in `site`, but not the packed model.
fn copy_page(site: &Path) -> Result<()> {
    let is_page = |file: &Path| !file.ends_with(PACKED);
    for old in paths::walk(site, &is_page)? {
        fs::remove_file(old)?;
    }
    paths::copy_all(&path("web-demo/dist"), site, &is_page)
}

/// Starts `zstn serve` on `port`, or on a free port for 0. Returns it with the URL of
/// the served directory, with a slash at the end.
fn serve(step: &mut Step, directory: &Path, port: u16) -> Result<(Background, String)> {
    const LIMIT: Duration = Duration::from_secs(20);
    let mut command = Command::new(program("debug/zstn"));
    command.words(&format!("serve --port {port}"));
    let mut server = Background::start("server", command.arg(directory))?;
    let begun = Instant::now();
    while server.is_running() && begun.elapsed() < LIMIT {
        thread::sleep(Duration::from_millis(20));
        // The first whole line is "serving FOLDER at URL".
        let output = server.output();
        if let Some((line, _)) = output.split_once('\n')
            && let Some((_, url)) = line.rsplit_once(" at ")
        {
            step.note(url);
            return Ok((server, format!("{}/", url.trim_end_matches('/'))));
        }
    }
    bail!("`zstn serve` named no address: {}", server.output())
}

/// Prints each request until the user requests a stop.
fn watch(mut server: Background) -> Result<()> {
    let mut known = server.output().len();
    while server.is_running() && !IS_STOPPING.load(Ordering::Relaxed) {
        let output = server.output();
        print!("{}", output.get(known..).unwrap_or_default());
        known = output.len();
        thread::sleep(Duration::from_millis(100));
    }
    // The server also receives Ctrl-C, and may end first.
    thread::sleep(GRACE);
    match IS_STOPPING.load(Ordering::Relaxed) {
        true => Ok(()),
        false => bail!("`zstn serve` stopped: {}", server.output()),
    }
}

/// Runs both demos once, with the command line of the other suites.
pub fn suite() -> Result<()> {
    wasm::ready()?;
    cargo::programs()?;
    let options = Options {
        model: None,
        port: 0,
        no_wait: true,
    };
    steps::keep(run(&options, true));
    hub_demo(None)
}

/// Takes a model through all hub features, and prints the table of the demo.
pub fn hub_demo(model: Option<&Path>) -> Result<()> {
    let given = model.map(existing).transpose()?;
    let model = given.map_or_else(python::model, Ok)?;
    let git_lfs = GIT_LFS.find_or_get()?;
    let mut story = wheel::ready()?.python("")?;
    story.arg(path("tests/hub/story.py")).arg(model);
    if let Some(git_lfs) = git_lfs {
        story.arg("--git-lfs").arg(git_lfs);
    }
    story.arg("--c-library").arg(capi::ready()?.prefix);
    step("cargo xtask hub-demo", |step| {
        step.run(&mut story)?;
        step.after_output()
    })
}
