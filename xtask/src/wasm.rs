//! Builds the npm package: WebAssembly modules, their JavaScript glue, TypeScript, and
//! the viewer.
//!
//! `wasm/dist/core` is written here, and the npm package's own build must not change
//! it.

use anyhow::anyhow;
use clap::builder::PossibleValuesParser;
use wasm_bindgen_cli_support::Bindgen;

use crate::cargo::WEB;
use crate::prelude::*;
use crate::{npm, stamp};

/// Flags for all modules. Every browser since 2023 and every supported Node has both
/// features. Less inlining makes modules 10 % smaller after brotli; hot loops use
/// `#[inline(always)]` where they need it.
pub const FLAGS: &str =
    "-C target-feature=+simd128,+bulk-memory -C llvm-args=--inline-threshold=40";

/// Flags for the module with threads. Shared memory needs a maximum, which is all of the
/// 32-bit address space.
const THREADS_FLAGS: &str = "-C target-feature=+simd128,+bulk-memory,+atomics \
    -C link-arg=--shared-memory -C link-arg=--import-memory -C link-arg=--max-memory=4294967296 \
    -C link-arg=--export=__wasm_init_tls -C link-arg=--export=__tls_size \
    -C link-arg=--export=__tls_align -C link-arg=--export=__tls_base";

/// A WebAssembly module of the npm package.
struct Module {
    /// The feature of the crate `zstn-wasm` that enables it.
    feature: &'static str,
    /// Stem of its file names in [`CORE`].
    name: &'static str,
    title: &'static str,
}

#[rustfmt::skip]
const MODULES: [Module; 5] = [
    // Decodes tensors of files packed from safetensors; loaded with the first one.
    Module { feature: "reader", name: "zstn_wasm", title: "core as WebAssembly, for decoding" },
    // Opens and reads all formats; loaded when the first file of another format is opened.
    Module { feature: "formats", name: "zstn_formats", title: "core as WebAssembly, for all formats" },
    // Packs files, and codes single frames; loaded on first use.
    Module { feature: "coder", name: "zstn_coder", title: "core as WebAssembly, for packing" },
    // Makes lists for shaders; loaded for the first packed tensor that is read to a GPU.
    Module { feature: "gpu", name: "zstn_gpu", title: "core as WebAssembly, for GPUs" },
    // Decodes on several threads; for pages that are allowed to share memory.
    Module { feature: THREADS, name: "zstn_threads", title: "core as WebAssembly, with threads" },
];
const THREADS: &str = "threads";

#[rustfmt::skip]
const SOURCES: [&str; 6] =
    ["core", "wasm/src", "wasm/Cargo.toml", "Cargo.toml", "Cargo.lock", "xtask/src/wasm.rs"];

/// The folder of the modules and their JavaScript glue.
pub const CORE: &str = "wasm/dist/core";

/// A cargo profile, which is also the name of a folder.
type Profile = &'static str;
/// Small and fast modules for the npm package.
const PUBLISHED: Profile = "wasm";
/// Modules for tests, compiled in a fraction of the time and with overflow checks.
const FAST: Profile = "wasm-fast";

impl Module {
    fn files(&self) -> [PathBuf; 2] {
        ["_bg.wasm", ".js"].map(|suffix| path(CORE).join(format!("{}{suffix}", self.name)))
    }

    /// Builds the module, unless it is up to date.
    fn build(&self, profile: Profile) -> Result<()> {
        step(self.title, |step| {
            let is_threads = self.feature == THREADS;
            let (toolchain, folder, flags) = match is_threads {
                true => {
                    let toolchain = cargo::nightly(step, profile == PUBLISHED);
                    (toolchain, "wasm-threads", THREADS_FLAGS)
                }
                false => (Ok(cargo::add_target(step, WEB)?), "wasm", FLAGS),
            };
            let toolchain = match toolchain {
                Ok(toolchain) => toolchain,
                // Stable Rust cannot build this module, and the package works without it.
                Err(why) => {
                    self.remove();
                    step.note(format!("left out, `zstn/threads` will not work: {why}"));
                    return Ok(());
                }
            };
            let version = steps::file_name(&toolchain.version()?);
            let stamp = format!("{profile}-{}-{version}", self.feature);
            stamp::unless_fresh(step, &stamp, &SOURCES.map(path), &self.files(), |step| {
                // To cargo, all modules are the same `cdylib`, and it would mistake the
                // one with other features for the one to build. The first file is a hard
                // link to the second one.
                let built = target(folder)
                    .join(WEB)
                    .join(profile)
                    .join("zstn_wasm.wasm");
                for file in [built.clone(), built.with_file_name("deps/zstn_wasm.wasm")] {
                    // The files usually do not exist.
                    let _ = fs::remove_file(file);
                }
                let mut build = toolchain.build(folder, WEB, flags)?;
                build.words("--package zstn-wasm --no-default-features");
                step.run(build.args(["--profile", profile, "--features", self.feature]))?;
                bind(&built, &path(CORE), self.name, profile == PUBLISHED)?;
                let [_, glue] = self.files();
                let text = fs::read_to_string(&glue)?;
                let text = match is_threads {
                    true => own_workers(&text),
                    false => separate_instances(&text),
                };
                let unexpected = || format!("{} is not as this program expects it", glue.display());
                Ok(fs::write(&glue, text.with_context(unexpected)?)?)
            })?;
            let kilobytes = fs::metadata(&self.files()[0])?.len().div_ceil(1000);
            step.note(format!("{kilobytes} kB"));
            Ok(())
        })
    }

    /// Removes a module from an earlier build: it would not understand the messages of
    /// this one.
    fn remove(&self) {
        for file in self.files() {
            // The files usually do not exist.
            let _ = fs::remove_file(file);
        }
    }

    /// Writes a placeholder, so that the rest of the npm package and the viewer can be
    /// built without the module.
    fn write_placeholder(&self) -> Result<()> {
        let [module, glue] = self.files();
        fs::write(module, PLACEHOLDER)?;
        Ok(fs::write(glue, PLACEHOLDER_GLUE)?)
    }

    fn is_built(&self) -> bool {
        fs::read(&self.files()[0]).is_ok_and(|bytes| bytes != PLACEHOLDER)
    }
}

/// The smallest valid module; the error about the missing module comes from the glue.
const PLACEHOLDER: &[u8] = b"\0asm\x01\0\0\0";
const PLACEHOLDER_GLUE: &str = "\
export const create = () => {
  throw new Error(\"this module is not built yet: wait until `cargo xtask demo` says so, or run `cargo xtask wasm`\");
};
";

/// Returns a parser for the features of modules.
pub fn features() -> PossibleValuesParser {
    MODULES.map(|module| module.feature).into()
}

/// Builds one module or all, and the npm package.
pub fn run(only: Option<&str>) -> Result<()> {
    npm::ready()?;
    let [single @ .., _] = &MODULES;
    for module in &MODULES {
        if only.is_none_or(|name| module.feature == name) {
            module.build(PUBLISHED)?;
        }
    }
    // A fresh clone has only the modules of this run.
    let mut missing = single.iter().filter(|module| !module.is_built());
    missing.try_for_each(Module::write_placeholder)?;
    package()
}

/// Builds the npm package and the viewer: in [`Tier::All`] with the published modules,
/// otherwise with modules that compile fast, and without the threads module.
pub fn ready() -> Result<()> {
    static READY: Shared<()> = Shared::new();
    npm::ready()?;
    READY.get(|| {
        match Tier::of_process() {
            Tier::All => run(None)?,
            Tier::Default => fast()?,
        }
        page()
    })
}

fn fast() -> Result<()> {
    let [single @ .., threads] = &MODULES;
    single.iter().try_for_each(|module| module.build(FAST))?;
    threads.remove();
    package()
}

/// Builds the viewer with only the module that it needs to show a ZSTN file, unless the
/// others have been built before. Returns whether the others have to be built.
pub fn first_page() -> Result<bool> {
    let [reader, others @ .., _] = &MODULES;
    if others.iter().all(Module::is_built) {
        match target("wasm").join(WEB).join(PUBLISHED).is_dir() {
            true => run(None)?,
            false => fast()?,
        }
        page()?;
        return Ok(false);
    }
    reader.build(FAST)?;
    others.iter().try_for_each(Module::write_placeholder)?;
    package()?;
    // The page has no sample model, because packing that needs the coder module.
    let mut vite = npm::command("exec --offline -- vite build --mode reading");
    steps::run("page, for reading", vite.current_dir(path("web-demo")))?;
    Ok(true)
}

/// Compiles the TypeScript of the npm package.
fn package() -> Result<()> {
    let lists = ["wasm/package.json", "wasm/tsconfig.json", "wasm/bundle.mjs"];
    let inputs = [&lists[..], &["wasm/ts", CORE]].concat();
    npm::build("npm package", "zstn", &inputs, "wasm/dist")
}

/// Builds the viewer, which uses the npm package like any other page.
pub fn page() -> Result<()> {
    let inputs = ["web-demo", "wasm/dist", "wasm/package.json"];
    npm::build("viewer", "zstn-web-demo", &inputs, "web-demo/dist")
}

/// Writes a module and its JavaScript glue with wasm-bindgen. `--target web` is the only
/// output that browsers, bundlers and Node can all load.
pub fn bind(module: &Path, into: &Path, name: &str, is_published: bool) -> Result<()> {
    let mut bindgen = Bindgen::new();
    bindgen
        .input_path(module)
        .out_name(name)
        // The declarations in `wasm/ts/core` are written by hand.
        .typescript(false)
        // Only debuggers use the name section, which is a quarter of the file. Tests of
        // sizes recognise modules that are not published by it.
        .remove_name_section(is_published)
        .remove_producers_section(true)
        .web(true)
        .and_then(|bindgen| bindgen.generate(into))
        .map_err(|error| anyhow!("{error:#}"))
        .with_context(|| format!("wasm-bindgen refused {}", module.display()))
}

/// Makes the glue start this package's workers. The workers of wasm-bindgen-rayon do
/// not start in Node, and in browsers they start from `blob:` URLs, which a page may
/// forbid.
fn own_workers(glue: &str) -> Result<String> {
    const OURS: &str = "import { startWorkers } from '../threads/rayon.js';";
    let is_theirs = |line: &&str| line.starts_with("import { startWorkers } from './snippets/");
    let theirs = glue.lines().find(is_theirs);
    let theirs = theirs.context("it does not import startWorkers")?;
    let snippets = path(CORE).join("snippets");
    if snippets.exists() {
        fs::remove_dir_all(snippets)?;
    }
    Ok(glue.replace(theirs, OURS))
}

/// Turns the glue into a function that creates the glue of one instance, without its
/// loader. State left by an instance that has trapped must never reach the instance
/// that replaces it, whether as objects or through the garbage collector's finalizers.
fn separate_instances(glue: &str) -> Result<String> {
    let parts = glue.split_once("\nasync function __wbg_load(");
    let (body, loader) = parts.context("it has no loader")?;
    if !loader.ends_with("\nexport { initSync, __wbg_init as default };\n")
        || !body.contains("\nfunction __wbg_finalize_init(instance, module) {\n")
        || !body.contains("\nfunction __wbg_get_imports() {\n")
        || body.lines().any(|line| line.starts_with("import "))
    {
        bail!("a function is missing, or it imports another file");
    }
    let mut lines = vec!["export function create() {"];
    let mut names = Vec::new();
    // Lines for JavaScript's `using` are dropped, because no code uses it on the glue's
    // objects.
    let wanted = |line: &&str| !line.starts_with("if (Symbol.dispose) ");
    for line in body.lines().filter(wanted) {
        let declaration = line.strip_prefix("export ");
        if let Some(declaration) = declaration {
            let name = declaration.split([' ', '(']).nth(1);
            names.push(name.with_context(|| format!("an export without a name: {line}"))?);
        }
        lines.push(declaration.unwrap_or(line));
    }
    let api = names.join(", ");
    let start = format!(
        "const start = (instance, module) => (__wbg_finalize_init(instance, module), {{ {api} }});"
    );
    lines.extend([&start, "return { imports: __wbg_get_imports(), start };"]);
    Ok(lines.join("\n") + "\n}\n")
}
