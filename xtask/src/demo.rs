//! The verb `demo`, which packs a real model, serves it, reads a tensor from it in
//! Node, and shows it in the viewer.
//!
//! Only the parts that the viewer needs for this model are built first. The rest is
//! built while the server is running.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::args::Demo;
use crate::background::Background;
use crate::cargo::cargo;
use crate::fresh::Stamp;
use crate::server::{Server, size};
use crate::step::{Report, Step};
use crate::wasm::Module;
use crate::workspace::Workspace;
use crate::{node, placeholder, python, wasm};

/// The cargo profile of the command line, which is a directory of `target/`.
const PROFILE: &str = "debug";
const PACKED: &str = "model.zstn";
const EXAMPLE: &str = "wasm/examples/read-tensor.mjs";

pub fn run(workspace: &Workspace, report: &Report, options: &Demo) -> Result<()> {
    let given = options.model.as_deref().map(existing).transpose()?;
    report.step("Node and npm", node::check)?;
    // The dev build shares most dependencies with this program. Only packing and
    // serving of local files are built, since gateway, worker and object store clients
    // would take another minute. Codecs compiled with optimisation level 1 are fast
    // enough for a small model.
    let mut build = cargo(workspace);
    build.args(["build", "--package", "zstn-cli", "--no-default-features"]);
    build.args(["--config", "profile.dev.package.zstn-core.opt-level=1"]);
    build.args(["--config", "profile.dev.debug=false"]);
    let command_line = match options.built {
        true => None,
        false => Some(Background::start(
            workspace,
            "demo-command-line",
            &mut build,
        )?),
    };
    report.step("npm packages", |step| node::install(workspace, step))?;
    let later = first_page(workspace, report)?;
    let model = match given {
        Some(model) => model,
        None => report.step("model (MiniLM)", |step| python::model(workspace, step))?,
    };
    if let Some(command_line) = command_line {
        report.step("command line, dev build", |step| {
            command_line.finish(workspace, step)
        })?;
    }
    let site = workspace.target("demo/site");
    report.step("pack the model", |step| {
        pack(workspace, step, &model, &site)
    })?;
    let server = report.step("serve model and page", |step| {
        copy_page(&workspace.path("web-demo/dist"), &site)?;
        Server::start(step, &workspace.zstn(PROFILE), &site, options.port)
    })?;
    report.step("read one tensor of it in Node", |step| {
        read_tensor(step, server.url(), &model)
    })?;
    let page = format!("{}?src={PACKED}", server.url());
    if options.no_wait {
        println!("\nThe page was served at {page}");
        if !later.is_empty() {
            println!("It cannot pack, nor read other formats, until `cargo xtask wasm` has run.");
        }
        return Ok(());
    }
    println!("\nOpen {page}\nCtrl-C stops the server.");
    open(&page);
    if !later.is_empty() {
        println!("\nStill to come: reading other formats, packing in the page.\n");
        if let Err(error) = rest(workspace, report, later, &site) {
            // Ctrl-C also ends the build.
            return if server.is_stopping() {
                Ok(())
            } else {
                Err(error)
            };
        }
        println!("\nComplete: reload the page.");
    }
    println!("\nRequests:\n");
    server.wait()
}

/// Opens the page in the desktop's browser, if there is one. Its address has already
/// been printed.
fn open(page: &str) {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let program = match cfg!(target_os = "macos") {
        true => "open",
        false if is_set("DISPLAY") || is_set("WAYLAND_DISPLAY") => "xdg-open",
        false => return,
    };
    let mut command = Command::new(program);
    command
        .arg(page)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    std::thread::spawn(move || command.status());
}

/// Builds the viewer with only the module that it needs to show a ZSTN file. Returns
/// the modules that still have to be built for publication.
fn first_page(workspace: &Workspace, report: &Report) -> Result<&'static [&'static Module]> {
    let others = [&wasm::FORMATS, &wasm::CODER];
    let has_all = others
        .iter()
        .all(|module| placeholder::is_built(workspace, module));
    let later: &[_] = match (wasm::was_published(workspace), has_all) {
        (true, true) => {
            wasm::published(workspace, report, &wasm::ALL)?;
            &[]
        }
        (false, true) => {
            wasm::fast(workspace, report, &wasm::ALL)?;
            &[]
        }
        (_, false) => {
            wasm::fast(workspace, report, &[&wasm::READER])?;
            for module in others {
                placeholder::write(workspace, module)?;
            }
            &wasm::ALL
        }
    };
    report.step("npm package", |step| wasm::package(workspace, step))?;
    match later {
        [] => report.step("page", |step| wasm::page(workspace, step))?,
        _ => report.step("page, for reading", |step| {
            placeholder::page(workspace, step)
        })?,
    }
    Ok(later)
}

/// Builds the modules that [`first_page`] skipped, and replaces the page.
fn rest(workspace: &Workspace, report: &Report, later: &[&Module], site: &Path) -> Result<()> {
    wasm::published(workspace, report, later)?;
    report.step("npm package", |step| wasm::package(workspace, step))?;
    report.step("page", |step| {
        wasm::page(workspace, step)?;
        copy_page(&workspace.path("web-demo/dist"), site)
    })
}

fn existing(model: &Path) -> Result<PathBuf> {
    if !model.is_file() {
        bail!(
            "{} is not a file; name a .safetensors checkpoint, or nothing to download a small one",
            model.display()
        );
    }
    std::path::absolute(model).with_context(|| format!("{} has no full path", model.display()))
}

fn pack(workspace: &Workspace, step: &mut Step, model: &Path, site: &Path) -> Result<()> {
    fs::create_dir_all(site).with_context(|| format!("{} cannot be created", site.display()))?;
    let zstn = workspace.zstn(PROFILE);
    let packed = site.join(PACKED);
    let stamp = Stamp::new(
        workspace,
        "demo-pack",
        &[model.to_path_buf(), zstn.clone()],
        std::slice::from_ref(&packed),
    )?;
    let fresh = stamp.is_fresh();
    if !fresh {
        let mut pack = Command::new(&zstn);
        pack.arg("pack")
            .arg(model)
            .arg("-o")
            .arg(&packed)
            .arg("--force");
        step.run(&mut pack)?;
        stamp.save()?;
    }
    let (before, after) = (length(model)?, length(&packed)?);
    step.note(format!(
        "{} -> {}{}",
        size(before),
        size(after),
        if fresh { ", unchanged" } else { "" }
    ));
    Ok(())
}

fn length(file: &Path) -> Result<u64> {
    fs::metadata(file)
        .map(|metadata| metadata.len())
        .with_context(|| format!("{} cannot be read", file.display()))
}

/// Replaces the page in `site`, but not the packed model.
fn copy_page(page: &Path, site: &Path) -> Result<()> {
    let copied = entries(site).and_then(|old| {
        for entry in old.iter().filter(|entry| !entry.ends_with(PACKED)) {
            if entry.is_dir() {
                fs::remove_dir_all(entry)?;
            } else {
                fs::remove_file(entry)?;
            }
        }
        copy_all(page, site)
    });
    copied.with_context(|| format!("{} cannot be copied to {}", page.display(), site.display()))
}

fn copy_all(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in entries(from)? {
        let Some(name) = entry.file_name() else {
            continue;
        };
        let copy = to.join(name);
        if entry.is_dir() {
            copy_all(&entry, &copy)?;
        } else {
            fs::copy(&entry, &copy)?;
        }
    }
    Ok(())
}

fn entries(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    fs::read_dir(directory)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect()
}

/// Runs the npm package's example, and compares its output with the original.
fn read_tensor(step: &mut Step, url: &str, model: &Path) -> Result<()> {
    let mut example = Command::new("node");
    example
        .arg(EXAMPLE)
        .arg(format!("{url}{PACKED}"))
        .arg("--original")
        .arg(model);
    step.run(&mut example)?;
    let output = step.output()?;
    // The first line of the log is the command itself.
    for line in output.lines().skip(1).filter(|line| !line.is_empty()) {
        step.after(line);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_page_goes_and_the_packed_model_stays() -> Result<()> {
        let scratch = std::env::temp_dir().join(format!("xtask-page-{}", std::process::id()));
        let (page, site) = (scratch.join("dist"), scratch.join("site"));
        fs::create_dir_all(page.join("assets"))?;
        fs::create_dir_all(site.join("assets"))?;
        fs::write(page.join("index.html"), "new")?;
        fs::write(page.join("assets/new.js"), "")?;
        fs::write(site.join("assets/old.js"), "")?;
        fs::write(site.join(PACKED), "packed")?;
        copy_page(&page, &site)?;
        assert!(site.join("assets/new.js").is_file());
        assert!(!site.join("assets/old.js").exists());
        assert_eq!(fs::read_to_string(site.join(PACKED))?, "packed");
        fs::remove_dir_all(scratch)?;
        Ok(())
    }
}
