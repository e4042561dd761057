//! Fallbacks for file systems that lack an operation, with a warning to the user.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Seek};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use tempfile::NamedTempFile;

static HOOK: OnceLock<fn(&str)> = OnceLock::new();
static TOLD: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// Sets the function that is called when a file system lacks an operation, once for
/// each operation, with a text that describes the alternative that was used. Only the
/// first call has an effect; without a hook, no warnings are given.
pub fn on_warning(hook: fn(&str)) {
    let _ = HOOK.set(hook);
}

/// Calls the hook with `text`, unless it was already called for this `operation`.
fn warn(operation: &'static str, text: &str) {
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(hook) = HOOK.get()
        && told.insert(operation)
    {
        hook(text);
    }
}

/// Returns whether an error means that the file system lacks the operation.
pub(super) fn is_lacking(error: &io::Error) -> bool {
    match error.kind() {
        ErrorKind::Unsupported | ErrorKind::InvalidInput | ErrorKind::CrossesDevices => true,
        #[cfg(unix)]
        _ => {
            use rustix::io::Errno;
            let lacking = [Errno::NOSYS, Errno::OPNOTSUPP, Errno::INVAL, Errno::PERM];
            let code = error.raw_os_error();
            lacking
                .iter()
                .any(|errno| code == Some(errno.raw_os_error()))
        }
        #[cfg(not(unix))]
        _ => false,
    }
}

/// Extends a file to `len_bytes` bytes. Where the file system can, it also reserves the
/// disk space, so that a full disk is reported before any work.
pub(super) fn allocate(file: &File, len_bytes: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if len_bytes > 0 {
        use rustix::fs::{FallocateFlags, fallocate};
        match fallocate(file, FallocateFlags::empty(), 0, len_bytes) {
            Ok(()) => return Ok(()),
            Err(full @ rustix::io::Errno::NOSPC) => return Err(full.into()),
            // Without reserved space, the writes themselves show whether the disk is full.
            Err(_) => {}
        }
    }
    file.set_len(len_bytes)
}

/// Flushes a file to the disk, if the file system supports that.
pub(super) fn sync(file: &File) -> io::Result<()> {
    match file.sync_all() {
        Err(error) if is_lacking(&error) => {
            warn(
                "fsync",
                &format!(
                    "this file system does not confirm that data are on the disk ({error}); a \
                     power failure in the next minute may lose the output"
                ),
            );
            Ok(())
        }
        other => other,
    }
}

/// Flushes the names in a folder to the disk. The output is already complete, so a
/// failure only leads to a warning.
pub(super) fn sync_names(folder: &Path) {
    #[cfg(unix)]
    if let Err(error) = File::open(folder).and_then(|folder| folder.sync_all()) {
        warn(
            "fsync",
            &format!(
                "the output is complete, but the file system does not confirm that its name is on \
                 the disk ({error}); a power failure in the next minute may lose it"
            ),
        );
    }
    #[cfg(not(unix))]
    let _ = folder;
}

/// Renames a complete file to `target`, replacing an existing file. Windows has no
/// fallback that copies the file.
#[cfg(not(unix))]
pub(super) fn rename(file: NamedTempFile, target: &Path, _: bool) -> io::Result<()> {
    file.persist(target).map(drop).map_err(|error| error.error)
}

/// Renames a complete file to `target`, or copies it if the file system does not
/// support renaming. `replace` states whether the copy may replace an existing file.
#[cfg(unix)]
pub(super) fn rename(file: NamedTempFile, target: &Path, replace: bool) -> io::Result<()> {
    match fs::rename(file.path(), target) {
        Ok(()) => {
            // The hidden name no longer exists, so dropping it must not remove
            // anything.
            let (_, path) = file.into_parts();
            let _ = path.keep();
            Ok(())
        }
        Err(error) if is_lacking(&error) => {
            warn_of_copy(&error);
            copy(file.into_file(), target, replace)
        }
        Err(error) => Err(error),
    }
}

fn warn_of_copy(error: &io::Error) {
    warn(
        "rename",
        &format!(
            "this file system cannot rename ({error}), so the output was copied to its name; a \
             program that reads it meanwhile sees a part of it"
        ),
    );
}

/// Moves the file at `from` to `target`, replacing an existing file.
pub(super) fn move_file(from: &Path, target: &Path) -> io::Result<()> {
    match fs::rename(from, target) {
        Err(error) if is_lacking(&error) => {
            warn_of_copy(&error);
            copy(File::open(from)?, target, true)
        }
        other => other,
    }
}

/// Copies a file to `target`. If that fails, `target` is removed.
fn copy(mut file: File, target: &Path, replace: bool) -> io::Result<()> {
    let mut options = OpenOptions::new();
    match replace {
        true => options.create(true).truncate(true),
        false => options.create_new(true),
    };
    // No other process can read the copy until it has the permissions of the hidden
    // file.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut to = options.write(true).open(target)?;
    let copied = file
        .metadata()
        .map(|metadata| drop(to.set_permissions(metadata.permissions())))
        .and_then(|()| file.rewind())
        .and_then(|()| io::copy(&mut file, &mut to))
        .and_then(|_| sync(&to));
    if copied.is_err() {
        let _ = fs::remove_file(target);
    }
    copied
}

/// Renames a folder to `target`, which may be an empty folder. If the file system
/// cannot rename, the files are moved or copied individually.
pub(super) fn rename_folder(folder: &Path, target: &Path) -> io::Result<()> {
    match fs::rename(folder, target) {
        Err(error) if is_lacking(&error) => {
            warn_of_copy(&error);
            let is_new = fs::create_dir(target).is_ok();
            let copied = copy_folder(folder, target);
            match copied {
                Ok(()) => {
                    let mode = fs::metadata(folder).map(|metadata| metadata.permissions());
                    let _ = mode.and_then(|mode| fs::set_permissions(target, mode));
                    let _ = fs::remove_dir_all(folder);
                }
                Err(_) if is_new => drop(fs::remove_dir_all(target)),
                Err(_) => {}
            }
            copied
        }
        other => other,
    }
}

fn copy_folder(folder: &Path, target: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let to = target.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => {
                fs::create_dir(&to)?;
                copy_folder(&entry.path(), &to)?;
                let _ = fs::set_permissions(&to, entry.metadata()?.permissions());
            }
            false => copy(File::open(entry.path())?, &to, false)?,
        }
    }
    Ok(())
}
