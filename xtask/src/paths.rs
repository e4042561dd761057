//! The folders of the repository, and operations on whole folders.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::{Context, Result, ensure};
use fs_err as fs;

static TARGET: LazyLock<PathBuf> = LazyLock::new(|| {
    let named = env::var_os("CARGO_TARGET_DIR");
    let named = named.and_then(|folder| std::path::absolute(folder).ok());
    named.unwrap_or_else(|| path("target"))
});

pub fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}

/// Returns the path of a file or folder of the repository.
pub fn path(relative: impl AsRef<Path>) -> PathBuf {
    root().join(relative)
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

/// Returns the last component of a path.
pub fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
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

/// Returns the files in a folder with this extension, in order.
pub fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut files = entries(folder)?;
    files.retain(|file| file.extension().is_some_and(|found| found == extension));
    Ok(files)
}

/// Returns the files in a folder and its subfolders for which `is_wanted` returns true.
/// A subfolder for which it returns false is skipped. Links to folders are not followed.
pub fn walk(folder: &Path, is_wanted: &dyn Fn(&Path) -> bool) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in entries(folder)?
        .into_iter()
        .filter(|entry| is_wanted(entry))
    {
        if !entry.is_dir() {
            files.push(entry);
        } else if !entry.is_symlink() {
            files.append(&mut walk(&entry, is_wanted)?);
        }
    }
    Ok(files)
}

/// Compares a committed file with its generated contents; with `write`, replaces it.
/// `hint` names the command that writes it.
pub fn check_generated(file: &Path, contents: &str, write: bool, hint: &str) -> Result<()> {
    if write {
        fs::write(file, contents)?;
    }
    let is_same = fs::read_to_string(file).is_ok_and(|committed| committed == contents);
    ensure!(
        is_same,
        "{} is not up to date; `{hint}` writes it",
        show(file)
    );
    Ok(())
}

/// Copies a file into a folder, and returns its new path.
pub fn copy_into(folder: &Path, file: &Path) -> Result<PathBuf> {
    let copy = folder.join(file.file_name().context("a file has a name")?);
    fs::create_dir_all(folder)?;
    fs::copy(file, &copy)?;
    Ok(copy)
}

/// Copies the files that [`walk`] returns to the same relative paths below `to`.
pub fn copy_all(from: &Path, to: &Path, is_wanted: &dyn Fn(&Path) -> bool) -> Result<()> {
    for file in walk(from, is_wanted)? {
        let place = to.join(file.strip_prefix(from)?);
        copy_into(&place.with_file_name(""), &file)?;
    }
    Ok(())
}
