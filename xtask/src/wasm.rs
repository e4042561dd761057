//! Builds the npm package: WebAssembly modules, glue, TypeScript.
//!
//! `wasm/dist/core` is written here, and the npm package's own build must not change
//! it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use wasm_bindgen_cli_support::Bindgen;

use crate::args::Wasm;
use crate::background::Background;
use crate::fresh::Stamp;
use crate::node;
use crate::rust_source;
use crate::rust_target::{self, Toolchain, WEB};
use crate::step::{Report, Step};
use crate::workspace::Workspace;

/// Flags for all modules. Every browser since 2023 and every supported Node has both
/// features. Less inlining makes modules 10 % smaller after brotli; hot loops use
/// `#[inline(always)]` where they need it.
pub const FLAGS: &str =
    "-C target-feature=+simd128,+bulk-memory -C llvm-args=--inline-threshold=40";

/// A WebAssembly module of the npm package.
pub struct Module {
    /// The feature of the crate `zstn-wasm` that enables it.
    feature: &'static str,
    /// Stem of its file names in `wasm/dist/core`.
    pub name: &'static str,
    /// Its target directory. To cargo, all modules are the same `cdylib`, so in a
    /// common directory each would overwrite the others.
    directory: &'static str,
    /// Title of the step that builds it.
    title: &'static str,
}

impl Module {
    /// Returns the files that wasm-bindgen writes to `folder`.
    fn files(&self, folder: &Path) -> [PathBuf; 2] {
        GLUE.map(|suffix| folder.join(format!("{}{suffix}", self.name)))
    }
}

/// Opens files and reads tensors; loaded by every page.
pub const READER: Module = Module {
    feature: "reader",
    name: "zstn_wasm",
    directory: "wasm-st",
    title: "core as WebAssembly, for reading",
};

/// Like [`READER`], but for all formats; loaded when the first file of another format
/// is opened.
pub const FORMATS: Module = Module {
    feature: "formats",
    name: "zstn_formats",
    directory: "wasm-formats",
    title: "core as WebAssembly, for all formats",
};

/// Packs files, and codes single frames; loaded on first use.
pub const CODER: Module = Module {
    feature: "coder",
    name: "zstn_coder",
    directory: "wasm-coder",
    title: "core as WebAssembly, for packing",
};

/// The modules that every build of the package contains.
pub const ALL: [&Module; 3] = [&READER, &FORMATS, &CODER];

/// Decodes on several threads; for pages that are allowed to share memory.
const THREADS: Module = Module {
    feature: "threads",
    name: "zstn_threads",
    directory: "wasm-threads",
    title: "core as WebAssembly, with threads",
};

/// Flags for [`THREADS`]. Shared memory needs a maximum, which is all of the 32-bit
/// address space.
const THREADS_FLAGS: &str = "-C target-feature=+simd128,+bulk-memory,+atomics \
    -C link-arg=--shared-memory -C link-arg=--import-memory -C link-arg=--max-memory=4294967296 \
    -C link-arg=--export=__wasm_init_tls -C link-arg=--export=__tls_size \
    -C link-arg=--export=__tls_align -C link-arg=--export=__tls_base";

/// How modules are compiled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Small and fast modules for the npm package.
    Published,
    /// Modules for tests, compiled in a fraction of the time and with overflow checks.
    Fast,
}

impl Profile {
    /// Returns the name of the cargo profile, which is also the name of its folder.
    fn name(self) -> &'static str {
        match self {
            Self::Published => "wasm",
            Self::Fast => "wasm-fast",
        }
    }

    /// Returns the target directory of a module. To cargo, all modules are the same
    /// `cdylib`, so in a common directory each overwrites the others. Modules for tests
    /// share a directory nevertheless, to share dependencies; [`compile_fast`] handles
    /// the conflict.
    fn directory(self, module: &Module) -> &'static str {
        match self {
            Self::Published => module.directory,
            Self::Fast => FAST_DIRECTORY,
        }
    }
}

const FAST_DIRECTORY: &str = "wasm-fast";

/// Runs the verb `wasm`.
pub fn run(workspace: &Workspace, report: &Report, options: &Wasm) -> Result<()> {
    report.step("Node and npm", node::check)?;
    report.step("npm packages", |step| node::install(workspace, step))?;
    let Some(name) = options.only.as_deref() else {
        return build(workspace, report);
    };
    match ALL.into_iter().find(|built| built.feature == name) {
        Some(built) => module(workspace, report, built)?,
        None if name == THREADS.feature => {
            report.step(THREADS.title, |step| threads(workspace, step))?;
        }
        None => bail!("there is no module `{name}`: reader, formats, coder or threads"),
    }
    match options.no_package {
        true => Ok(()),
        false => report.step("npm package", |step| package(workspace, step)),
    }
}

/// Builds everything below `wasm/dist` for publication.
pub fn build(workspace: &Workspace, report: &Report) -> Result<()> {
    published(workspace, report, &ALL)?;
    report.step(THREADS.title, |step| threads(workspace, step))?;
    report.step("npm package", |step| package(workspace, step))
}

/// Builds everything below `wasm/dist` for tests, without the threads module.
pub fn build_fast(workspace: &Workspace, report: &Report) -> Result<()> {
    remove_threads(workspace);
    fast(workspace, report, &ALL)?;
    report.step("npm package", |step| package(workspace, step))
}

/// Returns whether modules have been built here for publication.
pub fn was_published(workspace: &Workspace) -> bool {
    workspace.target(READER.directory).is_dir()
}

/// Builds `modules` for publication. While one module is being optimised, which mostly
/// uses one core, the next one is compiled.
pub fn published(workspace: &Workspace, report: &Report, modules: &[&Module]) -> Result<()> {
    let mut started = None;
    for (index, built) in modules.iter().enumerate() {
        report.step(built.title, |step| {
            let toolchain = rust_target::ready(workspace, step, &WEB)?;
            let next = modules.get(index + 1).map(|next| {
                let mut build = cargo_build(workspace, next, &toolchain, FLAGS, Profile::Published);
                Background::start(workspace, next.name, &mut build)
            });
            if let Some(build) = std::mem::replace(&mut started, next.transpose()?) {
                build.finish(workspace, step)?;
            }
            let adapt = separate_instances;
            compile(workspace, step, built, &toolchain, FLAGS, adapt)
        })?;
    }
    Ok(())
}

/// Builds `modules` with [`Profile::Fast`].
pub fn fast(workspace: &Workspace, report: &Report, modules: &[&Module]) -> Result<()> {
    report.step("core as WebAssembly, compiled fast", |step| {
        compile_fast(workspace, step, modules)
    })
}

/// Compiles `modules` with [`Profile::Fast`].
fn compile_fast(workspace: &Workspace, step: &mut Step, modules: &[&Module]) -> Result<()> {
    let toolchain = rust_target::ready(workspace, step, &WEB)?;
    let inputs = [
        "core",
        "wasm/src",
        "wasm/Cargo.toml",
        "Cargo.toml",
        "Cargo.lock",
    ];
    let mut inputs = paths(workspace, &inputs);
    inputs.push(workspace.path("xtask/src/wasm.rs"));
    let into = workspace.path("wasm/dist/core");
    let outputs = modules.iter().flat_map(|module| module.files(&into));
    let stamp = Stamp::new(
        workspace,
        FAST_DIRECTORY,
        &inputs,
        &outputs.collect::<Vec<_>>(),
    )?;
    if stamp.is_fresh() {
        step.note("unchanged");
        return Ok(());
    }
    for module in modules {
        // cargo would mistake the module with other features for the one to build.
        for built in [built(workspace, module, Profile::Fast), deps(workspace)] {
            if built.exists() {
                fs::remove_file(&built)
                    .with_context(|| format!("{} cannot be removed", built.display()))?;
            }
        }
        step.run(&mut cargo_build(
            workspace,
            module,
            &toolchain,
            FLAGS,
            Profile::Fast,
        ))?;
        bind(
            &built(workspace, module, Profile::Fast),
            &into,
            module.name,
            Profile::Fast,
        )?;
        separate_instances(&into.join(format!("{}.js", module.name)))?;
    }
    step.note(toolchain.describe());
    stamp.save()
}

/// Returns the path of a module compiled by cargo.
fn built(workspace: &Workspace, module: &Module, profile: Profile) -> PathBuf {
    let folder = profile.directory(module);
    workspace.target(&format!(
        "{folder}/{}/{}/zstn_wasm.wasm",
        WEB.triple,
        profile.name()
    ))
}

/// Returns the file that [`built`] is a hard link to, with [`Profile::Fast`].
fn deps(workspace: &Workspace) -> PathBuf {
    let name = Profile::Fast.name();
    workspace.target(&format!(
        "{FAST_DIRECTORY}/{}/{name}/deps/zstn_wasm.wasm",
        WEB.triple
    ))
}

/// Builds one module and its glue.
pub fn module(workspace: &Workspace, report: &Report, module: &Module) -> Result<()> {
    report.step(module.title, |step| {
        let toolchain = rust_target::ready(workspace, step, &WEB)?;
        compile(
            workspace,
            step,
            module,
            &toolchain,
            FLAGS,
            separate_instances,
        )
    })
}

/// Builds the threads module, which stable Rust cannot build. The package works without
/// it, so a machine without a suitable compiler only gets a note.
fn threads(workspace: &Workspace, step: &mut Step) -> Result<()> {
    match rust_source::toolchain(workspace, step, &WEB) {
        Ok(toolchain) => compile(
            workspace,
            step,
            &THREADS,
            &toolchain,
            THREADS_FLAGS,
            own_workers,
        ),
        Err(why) => {
            remove_threads(workspace);
            step.note(format!("left out, `zstn/threads` will not work: {why}"));
            Ok(())
        }
    }
}

/// Removes the threads module, because one from an earlier build would not understand
/// this build's messages.
fn remove_threads(workspace: &Workspace) {
    for file in THREADS.files(&workspace.path("wasm/dist/core")) {
        // The files usually do not exist.
        let _ = fs::remove_file(file);
    }
}

/// Makes the glue start this package's workers. The workers of wasm-bindgen-rayon do
/// not start in Node, and in browsers they start from `blob:` URLs, which a page may
/// forbid.
fn own_workers(glue: &Path) -> Result<()> {
    const OURS: &str = "import { startWorkers } from '../threads/rayon.js';";
    let text = fs::read_to_string(glue)?;
    let lines = text.lines().map(|line| {
        match line.starts_with("import { startWorkers } from './snippets/") {
            true => OURS,
            false => line,
        }
    });
    let ours = lines.collect::<Vec<_>>().join("\n") + "\n";
    if !ours.contains(OURS) {
        bail!("{} does not import startWorkers any more", glue.display());
    }
    fs::write(glue, ours)?;
    let snippets = glue.with_file_name("snippets");
    if snippets.exists() {
        fs::remove_dir_all(snippets)?;
    }
    Ok(())
}

/// Turns the glue into a function that creates the glue of one instance, without its
/// loader. State left by an instance that has trapped must never reach the instance
/// that replaces it, whether as objects or through the garbage collector's finalizers.
fn separate_instances(glue: &Path) -> Result<()> {
    let text = fs::read_to_string(glue)?;
    let parts = text.split_once("\nasync function __wbg_load(");
    let (body, loader) = parts.with_context(|| format!("{} has no loader", glue.display()))?;
    if !loader.ends_with("\nexport { initSync, __wbg_init as default };\n")
        || !body.contains("\nfunction __wbg_finalize_init(instance, module) {\n")
        || !body.contains("\nfunction __wbg_get_imports() {\n")
        || body.lines().any(|line| line.starts_with("import "))
    {
        bail!("{} is not as this function expects it", glue.display());
    }
    let mut lines = vec!["export function create() {"];
    let mut names = Vec::new();
    // No code uses the glue's objects with `using`.
    let wanted = |line: &&str| !line.starts_with("if (Symbol.dispose) ");
    for line in body.lines().filter(wanted) {
        let declaration = line.strip_prefix("export ");
        if let Some(declaration) = declaration {
            let name = declaration
                .split([' ', '('])
                .nth(1)
                .with_context(|| format!("an export without a name: {line}"))?;
            names.push(name);
        }
        lines.push(declaration.unwrap_or(line));
    }
    let api = names.join(", ");
    let start = format!(
        "const start = (instance, module) => (__wbg_finalize_init(instance, module), {{ {api} }});"
    );
    lines.extend([
        &start,
        "return { imports: __wbg_get_imports(), start };",
        "}\n",
    ]);
    fs::write(glue, lines.join("\n"))?;
    Ok(())
}

/// Returns the command that compiles a module into its own folder.
fn cargo_build(
    workspace: &Workspace,
    module: &Module,
    toolchain: &Toolchain,
    flags: &str,
    profile: Profile,
) -> Command {
    let mut build = toolchain.build(workspace, profile.directory(module), &WEB, flags);
    build.args(["--profile", profile.name(), "--package", "zstn-wasm"]);
    build.args(["--no-default-features", "--features", module.feature]);
    build
}

fn compile(
    workspace: &Workspace,
    step: &mut Step,
    module: &Module,
    toolchain: &Toolchain,
    flags: &str,
    adapt: fn(&Path) -> Result<()>,
) -> Result<()> {
    step.run(&mut cargo_build(
        workspace,
        module,
        toolchain,
        flags,
        Profile::Published,
    ))?;
    let built = built(workspace, module, Profile::Published);
    let into = workspace.path("wasm/dist/core");
    let files = module.files(&into);
    let stamp = Stamp::new(
        workspace,
        &format!("wasm-glue-{}", module.feature),
        &[
            built.clone(),
            // These files determine the version of wasm-bindgen and its options below.
            workspace.path("Cargo.lock"),
            workspace.path("xtask/src/wasm.rs"),
        ],
        &files,
    )?;
    if !stamp.is_fresh() {
        bind(&built, &into, module.name, Profile::Published)?;
        adapt(&into.join(format!("{}.js", module.name)))?;
        stamp.save()?;
    }
    let size = fs::metadata(&files[0])
        .context("wasm-bindgen wrote no module")?
        .len();
    step.note(format!(
        "{} kB, {}",
        size.div_ceil(1000),
        toolchain.describe()
    ));
    Ok(())
}

/// Suffixes of the files that wasm-bindgen writes for a module.
const GLUE: [&str; 2] = ["_bg.wasm", ".js"];

/// Writes the glue of a module. `--target web` is the only output that browsers,
/// bundlers and Node can all load.
pub fn bind(module: &Path, into: &Path, name: &str, profile: Profile) -> Result<()> {
    let mut bindgen = Bindgen::new();
    bindgen
        .input_path(module)
        .out_name(name)
        // The declarations in `wasm/ts/core` are written by hand.
        .typescript(false)
        // Only debuggers use the name section, which is a quarter of the file. Tests of
        // sizes recognise modules that are not published by it.
        .remove_name_section(profile == Profile::Published)
        .remove_producers_section(true)
        .web(true)
        .and_then(|bindgen| bindgen.generate(into))
        .map_err(|error| anyhow!("{error:#}"))
        .with_context(|| format!("wasm-bindgen refused {}", module.display()))
}

/// Compiles the TypeScript of the npm package.
pub fn package(workspace: &Workspace, step: &mut Step) -> Result<()> {
    let inputs = [
        "wasm/ts",
        "wasm/package.json",
        "wasm/tsconfig.json",
        "wasm/bundle.mjs",
        "wasm/dist/core",
    ];
    node::build(
        workspace,
        step,
        "zstn",
        &paths(workspace, &inputs),
        &workspace.path("wasm/dist"),
    )
}

/// Builds the viewer, which uses the npm package like any other page.
pub fn page(workspace: &Workspace, step: &mut Step) -> Result<()> {
    let inputs = ["web-demo", "wasm/dist", "wasm/package.json"];
    node::build(
        workspace,
        step,
        "zstn-web-demo",
        &paths(workspace, &inputs),
        &workspace.path("web-demo/dist"),
    )
}

fn paths(workspace: &Workspace, relative: &[&str]) -> Vec<PathBuf> {
    relative.iter().map(|path| workspace.path(path)).collect()
}
