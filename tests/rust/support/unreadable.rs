//! Files with one unreadable page, as after a bad sector on a disk.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Makes reads fail in `command` for the page at offset `page` of the file at `path`.
pub fn set(command: &mut Command, path: &Path, page: u64) {
    command
        .env("LD_PRELOAD", library())
        .env("ZSTN_BAD_FILE", path.canonicalize().expect("a file"))
        .env("ZSTN_BAD_PAGE", page.to_string());
}

/// Returns the offset of the page in the middle of the file at `path`.
#[must_use]
pub fn middle(path: &Path) -> u64 {
    let len_bytes = path.metadata().expect("a file").len();
    len_bytes / 2 / 4096 * 4096
}

/// Compiles the preload library that makes reads fail, once per process.
fn library() -> PathBuf {
    static LIBRARY: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let compile = || {
        let folder = tempfile::tempdir().expect("a folder");
        // Tests also run the program as another user, who must be able to read the
        // library.
        #[cfg(unix)]
        std::fs::set_permissions(
            folder.path(),
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .expect("permissions");
        let library = folder.path().join("unreadable.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("faults/unreadable.c");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
            .args([&library, &source])
            .arg("-ldl")
            .output()
            .expect("a C compiler");
        assert!(
            compiled.status.success(),
            "{}",
            String::from_utf8_lossy(&compiled.stderr)
        );
        (folder, library)
    };
    LIBRARY.get_or_init(compile).1.clone()
}
