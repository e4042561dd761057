//! Pipes, and a disk that is nearly full.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;

/// Makes a pipe with a name.
pub fn make_pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status();
    assert!(made.expect("mkfifo").success());
}

/// Writes to a pipe, from a thread that may wait for ever for a reader.
pub fn write_pipe(path: PathBuf, bytes: Vec<u8>) {
    std::thread::spawn(move || {
        if let Ok(mut pipe) = File::options().write(true).open(path) {
            let _ = pipe.write_all(&bytes);
        }
    });
}

/// Reads a pipe to its end, or closes it after its first bytes.
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

/// A disk of a few blocks, which the user of this process may mount.
pub struct Disk(PathBuf);

impl Disk {
    /// Mounts it at a folder; `None` if that is not permitted.
    pub fn mount(folder: &Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", "size=12k,mode=777", "none"])
            .arg(folder)
            .stderr(Stdio::null());
        let is_mounted = mount.status().is_ok_and(|status| status.success());
        let disk = is_mounted.then(|| Self(folder.into()))?;
        // Until it is full.
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
