//! The folders of the repository, and operations on whole folders.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::{Context, Result};
use fs_err as fs;

static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
    // `cargo run` sets this variable, and `cargo xtask reproducible` sets it for its
    // second clone.
    let manifest = env::var_os("CARGO_MANIFEST_DIR");
    let manifest = manifest.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let parent = Path::new(&manifest).parent();
    parent.map(Path::to_path_buf).unwrap_or_default()
});

static TARGET: LazyLock<PathBuf> = LazyLock::new(|| {
    let named = env::var_os("CARGO_TARGET_DIR");
    let named = named.and_then(|folder| std::path::absolute(folder).ok());
    named.unwrap_or_else(|| root().join("target"))
});

static THIS_PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| env::current_exe().unwrap_or_default());

/// Returns the path of this program. The first call has to precede all builds, because
/// tests rebuild the file.
pub fn this_program() -> &'static Path {
    &THIS_PROGRAM
}

pub fn root() -> &'static Path {
    &ROOT
}

/// Returns the path of a file or folder of the repository.
pub fn path(relative: impl AsRef<Path>) -> PathBuf {
    ROOT.join(relative)
}

/// Returns the path of a file or folder below the target directory.
pub fn target(relative: impl AsRef<Path>) -> PathBuf {
    TARGET.join(relative)
}

/// Returns the path of a download, which remains when the project is rebuilt.
pub fn cache(relative: impl AsRef<Path>) -> PathBuf {
    TARGET.join("cache").join(relative)
}

/// Returns the path of a program below the target directory, such as `debug/zstn`.
pub fn program(relative: &str) -> PathBuf {
    TARGET.join(format!("{relative}{}", env::consts::EXE_SUFFIX))
}

/// Returns a path for messages, relative to the repository if it is inside.
pub fn show(path: &Path) -> String {
    let inside = path.strip_prefix(root());
    inside.unwrap_or(path).display().to_string()
}

/// Creates an empty folder, or empties an existing one.
pub fn empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    Ok(fs::create_dir_all(folder)?)
}

/// Returns the paths in a folder in order.
pub fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut entries = entries.collect::<Result<Vec<_>>>()?;
    entries.sort();
    Ok(entries)
}

/// Returns the files in a folder with one of these extensions, in order.
pub fn files(folder: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>> {
    let mut files = entries(folder)?;
    files.retain(|file| {
        extensions
            .iter()
            .any(|ending| file.extension() == Some(OsStr::new(ending)))
    });
    Ok(files)
}

/// Copies a file into a folder, and returns its new path.
pub fn copy_into(folder: &Path, file: &Path) -> Result<PathBuf> {
    let copy = folder.join(file.file_name().context("a file has a name")?);
    fs::copy(file, &copy)?;
    Ok(copy)
}

/// Copies the files in a folder and its subfolders that `is_wanted`, which is asked
/// about subfolders, too.
pub fn copy_all(from: &Path, to: &Path, is_wanted: fn(&Path) -> bool) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in entries(from)?.iter().filter(|entry| is_wanted(entry)) {
        match entry.is_dir() {
            true => copy_all(
                entry,
                &to.join(entry.file_name().unwrap_or_default()),
                is_wanted,
            )?,
            false => drop(copy_into(to, entry)?),
        }
    }
    Ok(())
}

/// Creates a symbolic link, and replaces an old one.
pub fn link(to: impl AsRef<Path>, link: &Path) -> Result<()> {
    // The file usually does not exist.
    let _ = fs::remove_file(link);
    #[cfg(unix)]
    std::os::unix::fs::symlink(to, link)?;
    #[cfg(not(unix))]
    anyhow::bail!(
        "{} would be a link to {}",
        link.display(),
        to.as_ref().display()
    );
    #[cfg(unix)]
    Ok(())
}
