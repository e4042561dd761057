//! The permissions of outputs.
//!
//! Unfinished outputs are readable by their owner alone. A complete output has the
//! permissions of its input, as with gzip and zstd; one that is made from memory or
//! from an address has those of any new file. In neither case are they wider than
//! those of a file that it replaces, so that a private file stays private.

use std::fs::{File, Permissions};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::source::FileId;

/// The bits for owner, group and others; never those that change who runs a file.
const BITS: u32 = 0o777;
/// The bits of the owner.
const OWNER: u32 = 0o700;
/// No input has been named.
const UNKNOWN: u32 = u32::MAX;

/// The permissions that the inputs of an output have in common.
#[derive(Debug)]
pub struct Mode(AtomicU32);

impl Default for Mode {
    fn default() -> Self {
        Self(AtomicU32::new(UNKNOWN))
    }
}

impl Mode {
    /// Returns the permissions of the file or folder at `path`, if it has any.
    pub fn of(path: &Path) -> Self {
        let mode = Self::default();
        if let Ok(id) = FileId::of_path(path) {
            mode.add(&[id]);
        }
        mode
    }

    /// Notes that the output is made from these files as well. The first decides what
    /// the owner may do; group and others may do what all of the files allow.
    pub fn add(&self, files: &[FileId]) {
        for bits in files.iter().filter_map(FileId::mode) {
            let bits = bits & BITS;
            // Whoever may read a further file loses no right to run the first.
            let shared = bits | OWNER | ((bits & 0o044) >> 2);
            let _ = self.0.fetch_update(Relaxed, Relaxed, |known| {
                Some(match known {
                    UNKNOWN => bits,
                    known => known & shared,
                })
            });
        }
    }

    /// Gives a complete file its permissions. `replaced` is the path of a file whose
    /// place it takes. A file system that has none leaves the file as it is, which is
    /// not wider.
    pub fn give(&self, file: &File, replaced: Option<&Path>) {
        let known = self.0.load(Relaxed);
        let bits = if known == UNKNOWN { new_file() } else { known };
        let most = replaced.and_then(|path| FileId::of_path(path).ok()?.mode());
        set(file, bits & most.unwrap_or(BITS));
    }

    /// Gives a complete folder its permissions.
    pub fn give_folder(&self, folder: &Path) {
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

/// Narrows a complete file to the permissions of the file at `replaced`.
pub fn narrow(file: &Path, replaced: &Path) {
    let own = FileId::of_path(file).ok().and_then(|id| id.mode());
    let most = FileId::of_path(replaced).ok().and_then(|id| id.mode());
    if let (Some(own), Some(most), Ok(file)) = (own, most, File::open(file)) {
        set(&file, own & most & BITS);
    }
}

/// Returns the permissions of any new file.
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

/// Returns the bits that new files of this process do not have.
#[cfg(unix)]
// The system's number has 16 bits on some systems.
#[allow(clippy::useless_conversion)]
fn umask() -> u32 {
    // Linux says so; elsewhere it can only be replaced and put back, in which time
    // other threads have the strictest one.
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
