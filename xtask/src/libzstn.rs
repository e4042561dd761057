//! The archive of the C library for users of Linux, and its check.

use crate::capi::{self, Installed, Tools};
use crate::capi_tests;
use crate::prelude::*;
use crate::{python, release};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const TRIPLE: &str = "x86_64-unknown-linux-gnu";
/// The oldest glibc that Rust supports.
const GLIBC: &str = "2.17";

/// Builds the library, writes its archive to `folder`, and runs the tests of the C
/// library on the unpacked archive.
pub fn run(folder: &Path) -> Result<()> {
    let zig = python::ZIG.ready()?;
    let built = step("C library, for users", |step| {
        capi::build_released(step, &zig, TRIPLE, GLIBC)
    })?;
    let archive = step("archive of the C library", |step| {
        let root = target("archive").join(format!("libzstn-{VERSION}-{TRIPLE}"));
        paths::empty(&root)?;
        let installed = Installed::new(&built, root)?;
        for file in ["docs/c.md", "CHANGELOG.md"] {
            paths::copy_into(&installed.prefix.join("share/doc/zstn"), &path(file))?;
        }
        // Debug information of C code contains paths of this machine.
        let mut strip = cmd("strip --strip-debug --enable-deterministic-archives");
        step.run(strip.arg(installed.libraries().join("libzstn.a")))?;
        let newest = newest_glibc(&installed.libraries().join("libzstn.so"))?;
        step.note(format!("needs glibc {newest}"));
        cargo::refuse_paths(&installed.prefix)?;
        release::archive(step, &installed.prefix, folder)
    })?;
    // The suite `c` runs valgrind and the Go example.
    let tools = Tools {
        valgrind: None,
        go: None,
    };
    step("tests of the C library's archive", |step| {
        let root = target("archive/unpacked");
        paths::empty(&root)?;
        let mut tar = cmd("tar --extract --strip-components=1 --file");
        step.run(tar.arg(&archive).arg("--directory").arg(&root))?;
        let installed = Installed {
            prefix: root,
            is_static: true,
        };
        capi_tests::run(step, &tools, &installed)
    })
}

/// Returns the newest version of glibc that a library needs. It is an error if that is
/// newer than [`GLIBC`].
fn newest_glibc(library: &Path) -> Result<String> {
    let listed = ask(cmd("nm -D --undefined-only").arg(library))?;
    let versions = listed
        .lines()
        .filter_map(|line| line.split_once("@GLIBC_").map(|(_, version)| version));
    let newest = versions.max_by_key(|version| process::version(version));
    let newest = newest.context("the library names no version of glibc")?;
    ensure!(
        process::version(newest) <= process::version(GLIBC),
        "the library needs glibc {newest}, which is newer than {GLIBC}"
    );
    Ok(newest.to_owned())
}
