//! File systems that lack an operation, emulated by a library that is loaded before the
//! C library. The work is done another way, with a warning.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use tempfile::TempDir;
use zstn_tests::checkpoint;
use zstn_tests::command::{program, text};
use zstn_tests::rng::Rng;

/// Source of the library. Every call listed in `LACKING` fails with the given error
/// number.
const LIBRARY: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

static int lacks(const char *call) {
    const char *list = getenv("LACKING");
    size_t length = strlen(call);
    for (; list && *list; list = strchr(list, ',') ? strchr(list, ',') + 1 : 0)
        if (!strncmp(list, call, length) && list[length] == '=') return atoi(list + length + 1);
    return 0;
}
static int is_folder(int file) { struct stat s; return !fstat(file, &s) && S_ISDIR(s.st_mode); }

#define CALL(name, parameters, arguments) \
    int name parameters { \
        int error = lacks(#name); \
        if (error) { errno = error; return -1; } \
        return ((int (*) parameters) dlsym(RTLD_NEXT, #name)) arguments; \
    }
CALL(rename, (const char *a, const char *b), (a, b))
CALL(renameat2, (int x, const char *a, int y, const char *b, unsigned f), (x, a, y, b, f))
CALL(link, (const char *a, const char *b), (a, b))
CALL(linkat, (int x, const char *a, int y, const char *b, int f), (x, a, y, b, f))
CALL(ftruncate, (int file, off_t length), (file, length))
CALL(ftruncate64, (int file, off_t length), (file, length))
CALL(flock, (int file, int operation), (file, operation))
int fsync(int file) {
    int error = lacks(is_folder(file) ? "fsync-folder" : "fsync");
    if (error) { errno = error; return -1; }
    return ((int (*)(int)) dlsym(RTLD_NEXT, "fsync"))(file);
}
"#;

const EPERM: u32 = 1;
const EIO: u32 = 5;
const EINVAL: u32 = 22;
const ENOSYS: u32 = 38;

fn library() -> &'static Path {
    static LIBRARY_PATH: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = LIBRARY_PATH.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let source = folder.path().join("lacking.c");
        let path = folder.path().join("lacking.so");
        fs::write(&source, LIBRARY).expect("written");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .args([&path, &source])
            .arg("-ldl")
            .status();
        assert!(built.expect("a C compiler").success());
        (folder, path)
    });
    path
}

fn run(folder: &Path, lacking: &str, arguments: &str) -> Output {
    Command::new(program())
        .args(arguments.split(' '))
        .current_dir(folder)
        .env("LD_PRELOAD", library())
        .env("LACKING", lacking)
        .output()
        .expect("zstn runs")
}

const WORK: [&str; 7] = [
    "pack m.safetensors -o out/m.zstn -q",
    "unpack out/m.zstn -o out/m.safetensors -q",
    "pack in -o out/in -q",
    "unpack out/in -o out/back -q",
    "convert in out/s.safetensors.index.json --shard-size 1k -q",
    "pack m.safetensors -o out/m.zstn --force -q",
    "get m.safetensors w -o out/w.bin -q",
];

fn scratch() -> TempDir {
    let scratch = tempfile::tempdir().expect("a folder");
    let file = checkpoint(&[("w", "BF16", &Rng(3).bf16_weights(4000))]);
    fs::write(scratch.path().join("m.safetensors"), &file).expect("written");
    for folder in ["in", "in/vae", "out"] {
        fs::create_dir(scratch.path().join(folder)).expect("made");
    }
    fs::write(scratch.path().join("in/model.safetensors"), &file).expect("written");
    fs::write(scratch.path().join("in/vae/config.json"), "{}").expect("written");
    scratch
}

#[test]
fn what_a_file_system_lacks_is_done_another_way() {
    for lacking in [
        format!("fsync={EINVAL},fsync-folder={EINVAL}"),
        format!("fsync-folder={EIO}"),
        format!("rename={ENOSYS},renameat2={ENOSYS}"),
        format!("rename={EPERM},renameat2={EINVAL},link={EPERM},linkat={EPERM}"),
        format!("ftruncate={ENOSYS},ftruncate64={ENOSYS},flock={ENOSYS}"),
    ] {
        let scratch = scratch();
        for arguments in WORK {
            let out = run(scratch.path(), &lacking, arguments);
            let said = text(&out.stderr);
            assert!(out.status.success(), "{lacking}: {arguments}: {said}");
            let warnings = said.lines().filter(|line| line.starts_with("warning: "));
            assert!(warnings.count() <= 2, "{lacking}: {arguments}: {said}");
        }
        let at = |name: &str| fs::read(scratch.path().join(name)).expect(name);
        assert!(at("out/m.safetensors") == at("m.safetensors"), "{lacking}");
        assert!(
            at("out/back/model.safetensors") == at("m.safetensors"),
            "{lacking}"
        );
        assert_eq!(at("out/back/vae/config.json"), b"{}");
        let hidden = fs::read_dir(scratch.path().join("out"))
            .expect("a folder")
            .flatten();
        let mut hidden =
            hidden.filter(|entry| entry.file_name().to_string_lossy().starts_with('.'));
        assert!(hidden.next().is_none(), "{lacking}: a hidden file is left");
    }
}

#[test]
fn a_disk_that_fails_is_an_error_and_no_output() {
    let scratch = scratch();
    for arguments in [WORK[0], WORK[2]] {
        let out = run(scratch.path(), &format!("fsync={EIO}"), arguments);
        assert_eq!(out.status.code(), Some(3), "{}", text(&out.stderr));
        let left = fs::read_dir(scratch.path().join("out")).expect("a folder");
        assert_eq!(left.count(), 0, "{arguments}");
    }
}

#[test]
fn a_large_tensor_is_cut_without_ftruncate() {
    // Noise is coded block by block and then stored uncompressed.
    let scratch = tempfile::tempdir().expect("a folder");
    let noise = Rng(5).bytes(24 << 20);
    let file = checkpoint(&[("w", "U8", &noise)]);
    fs::write(scratch.path().join("m.safetensors"), &file).expect("written");
    let lacking = format!("ftruncate={ENOSYS},ftruncate64={ENOSYS}");
    for arguments in [
        "pack m.safetensors -o m.zstn --memory 64M -q",
        "unpack m.zstn -o back.safetensors -q",
    ] {
        let out = run(scratch.path(), &lacking, arguments);
        assert!(out.status.success(), "{arguments}: {}", text(&out.stderr));
    }
    assert!(fs::read(scratch.path().join("back.safetensors")).expect("there") == file);
}
