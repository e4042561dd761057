//! Named pipes, and a nearly full disk.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;

/// Creates a named pipe.
pub fn make_pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status();
    assert!(made.expect("mkfifo").success());
}

/// Writes to a named pipe from a new thread, which may wait for a reader for ever.
pub fn write_pipe(path: PathBuf, bytes: Vec<u8>) {
    std::thread::spawn(move || {
        if let Ok(mut pipe) = File::options().write(true).open(path) {
            let _ = pipe.write_all(&bytes);
        }
    });
}

/// Reads a named pipe to its end, or closes it after the first bytes if `closes` is
/// set.
pub fn read_pipe(path: PathBuf, closes: bool) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let Ok(mut pipe) = File::open(path) else {
            return bytes;
        };
        if closes {
            let _ = pipe.read(&mut [0; 10]);
        } else {
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

/// A mounted tmpfs of a few blocks, which is unmounted when dropped.
pub struct Disk(PathBuf);

impl Disk {
    /// Mounts the disk at a folder and fills it. Returns `None` if mounting is not
    /// permitted.
    pub fn mount(folder: &Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", "size=12k,mode=777", "none"])
            .arg(folder)
            .stderr(Stdio::null());
        let is_mounted = mount.status().is_ok_and(|status| status.success());
        let disk = is_mounted.then(|| Self(folder.into()))?;
        // Fill the disk.
        let mut file = File::create(folder.join("full")).expect("a file");
        while file.write_all(&[0; 512]).is_ok() {}
        Some(disk)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
