//! The verb `release`, which builds all published artifacts into one folder.
//! `.github/workflows/release.yml` publishes them.

use sha2::{Digest, Sha256};

use crate::deps::{self, NOTICES};
use crate::prelude::*;
use crate::{debian_programs, image, libzstn, npm, wasm, wheel};

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The target of the static program.
const TARGET: &str = "x86_64-unknown-linux-musl";

/// The supported shells, and where each expects completions.
const COMPLETIONS: [(&str, &str); 4] = [
    ("bash", "share/bash-completion/completions/zstn"),
    ("zsh", "share/zsh/site-functions/_zstn"),
    ("fish", "share/fish/vendor_completions.d/zstn.fish"),
    ("powershell", "share/powershell/zstn.ps1"),
];

/// Builds and lists all artifacts, without publishing any.
pub fn run(is_dry_run: bool) -> Result<()> {
    ensure!(
        is_dry_run,
        "`cargo xtask release` publishes nothing: a tag does, by .github/workflows/release.yml. \
         `cargo xtask release --dry-run` builds what would be published"
    );
    let folder = target("release-dry-run");
    paths::empty(&folder)?;
    npm::ready()?;
    deps::licences()?;
    deps::notices(false)?;
    // The command line's crate contains the viewer page.
    wasm::ready()?;
    crates(&folder)?;
    let tarball = step("npm tarball", |step| npm_tarball(step, &folder))?;
    // The workflow publishes this tarball unchanged.
    let mut publish = npm::command("publish --dry-run --access public");
    steps::run("npm publish --dry-run", publish.arg(tarball))?;
    for wheel in wheel::release()? {
        paths::copy_into(&folder, &wheel)?;
    }
    let program = static_program()?;
    step("archive of the program", |step| {
        let root = program_tree(step, &program)?;
        archive(step, &root, &folder)
    })?;
    image::run(&program, &folder)?;
    libzstn::run(&folder)?;
    deps::sboms(&folder, TARGET)?;
    step("SHA256SUMS", |step| sums(step, &folder))
}

/// Packs the published crates into `folder`. Cargo builds each from its archive, and
/// uses the archives of crates that are not on crates.io yet.
fn crates(folder: &Path) -> Result<()> {
    // Cargo would reuse an archive of an earlier run.
    let packed = target("publish/package");
    paths::empty(&packed)?;
    // The built viewer page counts as a change, because git ignores it.
    let mut publish = cargo("publish --dry-run --locked --allow-dirty");
    publish.env("CARGO_TARGET_DIR", target("publish"));
    let names = deps::published_crates()?;
    publish.args(names.iter().flat_map(|name| ["--package", name]));
    steps::run("crates (cargo publish --dry-run)", &mut publish)?;
    for name in names {
        let file = format!("{name}-{VERSION}.crate");
        // The location depends on the version of cargo.
        let mut places = [packed.join(&file), packed.join("tmp-crate").join(&file)].into_iter();
        let archive = places.find(|path| path.is_file());
        let archive = archive.with_context(|| format!("cargo wrote no {file}"))?;
        paths::copy_into(folder, &archive)?;
    }
    Ok(())
}

/// Packs the npm package into `folder`, and returns the path of the tarball.
fn npm_tarball(step: &mut Step, folder: &Path) -> Result<PathBuf> {
    step.run(npm::command("pack --workspace zstn --pack-destination").arg(folder))?;
    let tarball = folder.join(format!("zstn-{VERSION}.tgz"));
    ensure!(tarball.is_file(), "npm did not write {}", tarball.display());
    Ok(tarball)
}

/// Builds the statically linked command line, which runs on any Linux, and returns its
/// path.
fn static_program() -> Result<PathBuf> {
    step("static program", |step| {
        debian_programs::require(
            step,
            debian_programs::MUSL,
            "it compiles C for static programs",
        )?;
        let toolchain = cargo::add_target(step, TARGET)?;
        let mut build = toolchain.build("static", TARGET, "")?;
        build
            .words("--release --locked --package zstn-cli")
            .env("CARGO_INCREMENTAL", "0")
            .env("CC_x86_64_unknown_linux_musl", "musl-gcc")
            // Symbols and line tables make up most of a static program.
            .env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
        step.run(&mut build)?;
        let program = target("static").join(TARGET).join("release/zstn");
        step.note(ask(Command::new(&program).arg("--version"))?);
        if let Ok(linked) = ask(cmd("file -b").arg(&program)) {
            let is_static = linked.contains("static");
            ensure!(is_static, "the program is not static: {linked}");
        }
        Ok(program)
    })
}

/// Copies the program into a new folder, with man pages, completions and licences.
fn program_tree(step: &mut Step, program: &Path) -> Result<PathBuf> {
    let name = format!("zstn-{VERSION}-{TARGET}");
    let root = target("archive").join(&name);
    paths::empty(&root)?;
    paths::copy_into(&root.join("bin"), program)?;
    for file in ["LICENSE", NOTICES, "README.md", "CHANGELOG.md"] {
        paths::copy_into(&root.join("share/doc/zstn"), &path(file))?;
    }
    let mut man = Command::new(program);
    step.run(man.words("man -o").arg(root.join("share/man/man1")))?;
    for (shell, file) in COMPLETIONS {
        let file = root.join(file);
        fs::create_dir_all(file.with_file_name(""))?;
        let text = ask(Command::new(program).args(["completions", shell]))?;
        fs::write(file, text + "\n")?;
    }
    cargo::refuse_paths(&root)?;
    Ok(root)
}

/// Packs the folder `root` into an archive of the same name in `folder`, and returns its
/// path. The same files always give the same archive.
pub fn archive(step: &mut Step, root: &Path, folder: &Path) -> Result<PathBuf> {
    let name = paths::name(root);
    let archive = folder.join(format!("{name}.tar"));
    let mut tar = cmd("tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner");
    tar.words("--mode=u=rwX,go=rX --format=ustar --create --file")
        .arg(&archive);
    step.run(
        tar.arg("--directory")
            .arg(root.with_file_name(""))
            .arg(&name),
    )?;
    step.run(cmd("gzip --no-name --best --force").arg(&archive))?;
    Ok(archive.with_extension("tar.gz"))
}

/// Returns a digest as hexadecimal digits.
pub fn sha256(contents: &[u8]) -> String {
    let digest = Sha256::digest(contents);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes the digests of all artifacts, and prints them as a table.
fn sums(step: &mut Step, folder: &Path) -> Result<()> {
    let files = paths::entries(folder)?;
    step.note(format!("{} artifacts", files.len()));
    step.after(format!("{:<50}  {:>10}  sha256", "artifact", "bytes"));
    let mut lines = String::new();
    for file in files {
        let contents = fs::read(&file)?;
        let digest = sha256(&contents);
        let (name, bytes) = (paths::name(&file), contents.len());
        step.after(format!("{name:<50}  {bytes:>10}  {digest}"));
        lines += &format!("{digest}  {name}\n");
    }
    Ok(fs::write(folder.join("SHA256SUMS"), lines)?)
}
