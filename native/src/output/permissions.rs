//! Permissions of output files.
//!
//! Only the owner can read an unfinished output. A complete output has the permissions
//! of its input, as with gzip and zstd; an output made from memory or from an address
//! has the permissions of a new file. In both cases they are not wider than the
//! permissions of a file that the output replaces, so a private file stays private.

use std::fs::{File, Permissions};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::source::FileId;

/// The permission bits of owner, group and others, without the set-user-ID and
/// set-group-ID bits.
const BITS: u32 = 0o777;
/// The permission bits of the owner.
const OWNER: u32 = 0o700;
/// The value before any input file has been added.
const UNKNOWN: u32 = u32::MAX;

/// The permissions that all input files of an output allow.
#[derive(Debug)]
pub(crate) struct Mode(AtomicU32);

impl Default for Mode {
    fn default() -> Self {
        Self(AtomicU32::new(UNKNOWN))
    }
}

impl Mode {
    /// Returns the permissions of the file or folder at `path`, if they can be read.
    pub(crate) fn of(path: &Path) -> Self {
        let mode = Self::default();
        if let Ok(id) = FileId::of_path(path) {
            mode.add(&[id]);
        }
        mode
    }

    /// Adds files that the output is made from. The first file determines the owner's
    /// permissions; group and others get the permissions that all files allow.
    pub(crate) fn add(&self, files: &[FileId]) {
        for bits in files.iter().filter_map(FileId::mode) {
            let bits = bits & BITS;
            // A second file that is readable but not executable does not take away the
            // permission to execute.
            let shared = bits | OWNER | ((bits & 0o044) >> 2);
            let _ = self.0.fetch_update(Relaxed, Relaxed, |known| {
                Some(match known {
                    UNKNOWN => bits,
                    known => known & shared,
                })
            });
        }
    }

    /// Sets the permissions of a complete file. `replaced` is the path of a file that
    /// it replaces. On a file system without permissions, the file is left as it is.
    pub(crate) fn give(&self, file: &File, replaced: Option<&Path>) {
        let known = self.0.load(Relaxed);
        let bits = if known == UNKNOWN { new_file() } else { known };
        let most = replaced.and_then(|path| FileId::of_path(path).ok()?.mode());
        set(file, bits & most.unwrap_or(BITS));
    }

    /// Sets the permissions of a complete folder.
    pub(crate) fn give_folder(&self, folder: &Path) {
        let known = self.0.load(Relaxed);
        let bits = match known {
            UNKNOWN => BITS & !umask(),
            known => known | OWNER,
        };
        if let Ok(folder) = File::open(folder) {
            set(&folder, bits);
        }
    }
}

/// Removes all permissions from a complete file that the file at `replaced` does not
/// have.
pub(crate) fn narrow(file: &Path, replaced: &Path) {
    let own = FileId::of_path(file).ok().and_then(|id| id.mode());
    let most = FileId::of_path(replaced).ok().and_then(|id| id.mode());
    if let (Some(own), Some(most), Ok(file)) = (own, most, File::open(file)) {
        set(&file, own & most & BITS);
    }
}

/// Returns the default permissions of new files.
fn new_file() -> u32 {
    0o666 & !umask()
}

#[cfg(unix)]
fn set(file: &File, bits: u32) {
    use std::os::unix::fs::PermissionsExt;
    // Some file systems have no permissions.
    let _ = file.set_permissions(Permissions::from_mode(bits));
}

#[cfg(not(unix))]
fn set(_: &File, _: u32) {
    let _ = Permissions::readonly;
}

/// Returns the permission bits that the process's umask clears.
#[cfg(unix)]
// `as_raw_mode` returns 16 bits on some systems.
#[allow(clippy::useless_conversion)]
fn umask() -> u32 {
    // Linux reports the umask in `/proc`. Other systems only return it when it is
    // replaced, so it is set and restored; meanwhile files of other threads get the
    // strictest umask.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let bits = line.and_then(|bits| u32::from_str_radix(bits.trim(), 8).ok());
    bits.unwrap_or_else(|| {
        let strictest = rustix::fs::Mode::from_raw_mode(0o077);
        let own = rustix::process::umask(strictest);
        rustix::process::umask(own);
        u32::from(own.as_raw_mode())
    })
}

#[cfg(not(unix))]
fn umask() -> u32 {
    0
}
