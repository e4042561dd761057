//! Resolves request paths to files in the served folder, and in the folders that its
//! links may lead to.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use percent_encoding::percent_decode_str;
use zstn::internals::regular;
use zstn_core::catalog::{FileKind, IndexName, kind_of_name, packed_name, renamed, restored_name};
use zstn_core::container::zstn::{MAGIC, has_virtual_header};

/// Maximum length of a request's path, in bytes.
pub const MAX_PATH_BYTES: usize = 4 << 10;

/// The target of a path below the root.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A file to send.
    File(PathBuf),
    /// A folder without an `index.html`.
    Folder(PathBuf),
    /// The file that this packed file restores.
    Unpacked(PathBuf),
    /// The index of safetensors files that this index of packed files restores.
    UnpackedIndex(PathBuf),
}

/// Resolves a request path. Hidden files are not found, nor is anything outside the
/// folder except through permitted links. An existing file takes precedence over one
/// that would have to be unpacked.
pub(super) fn resolve(root: &Root, path: &str) -> Result<Found, Absent> {
    let decoded = percent_decode_str(path).decode_utf8();
    let decoded = decoded.map_err(|_| Absent::Nothing)?;
    let relative = decoded.trim_start_matches('/');
    // `Path` drops `.` components, and other platforms have other separators, so the
    // text is checked as well.
    let is_hidden = |part: &str| part.starts_with('.');
    if relative.split('/').any(is_hidden) {
        return Err(Absent::Nothing);
    }
    let relative = Path::new(relative);
    let is_shown = |part| match part {
        Component::Normal(name) => name.to_str().is_some_and(|name| !is_hidden(name)),
        _ => false,
    };
    if !relative.components().all(is_shown) {
        return Err(Absent::Nothing);
    }
    let full = root.folder().join(relative);
    match root.follow(&full) {
        Ok(real) => return existing(root, full, real),
        Err(Absent::Outside(real)) => return Err(Absent::Outside(real)),
        Err(Absent::Nothing) => {}
    }
    // An unpacked file does not replace a dangling link of the same name.
    if full.symlink_metadata().is_ok() {
        return Err(Absent::Nothing);
    }
    let name = full.file_name().and_then(|name| name.to_str());
    let name = name.ok_or(Absent::Nothing)?;
    let packed = packed_path(name).ok_or(Absent::Nothing)?;
    // The packed file keeps the name of the link, because the name of a cache blob does
    // not show its type.
    let packed = full.with_file_name(packed);
    let real = root.follow(&packed)?;
    if !real.is_file() || restores_other(&real, name) {
        return Err(Absent::Nothing);
    }
    Ok(match IndexName::parse(name) {
        Some(_) => Found::UnpackedIndex(packed),
        None => Found::Unpacked(packed),
    })
}

fn existing(root: &Root, full: PathBuf, real: PathBuf) -> Result<Found, Absent> {
    if real.is_dir() {
        let page = root.follow(&full.join("index.html")).ok();
        let page = page.filter(|page| page.is_file());
        return Ok(page.map_or(Found::Folder(full), Found::File));
    }
    match real.is_file() {
        true => Ok(Found::File(real)),
        false => Err(Absent::Nothing),
    }
}

/// Returns the path of the packed file that would restore the file at `path`.
pub fn packed_path(path: &str) -> Option<String> {
    packed_name(path)
}

/// Returns the path of the packed file of a safetensors file, or of an index of them.
pub fn packed_safetensors_path(path: &str) -> Option<String> {
    renamed(path, FileKind::Safetensors, FileKind::Zstn)
}

/// Returns the path of the file that the packed one at `path` restores, derived from its
/// name.
pub fn restored_path(path: &str) -> Option<String> {
    restored_name(path)
}

/// Returns the paths of the files that the packed one at `path` may restore: one, or two
/// where its first bytes decide, as `m.gguf` and `m.gguf.safetensors` for `m.gguf.zstn`.
/// The list is empty if the name is not that of a packed file.
pub fn restored_paths(path: &str) -> Vec<String> {
    let of_name = restored_name(path);
    let safetensors = renamed(path, FileKind::Zstn, FileKind::Safetensors);
    let second = safetensors.filter(|other| Some(other) != of_name.as_ref());
    of_name.into_iter().chain(second).collect()
}

/// Returns whether the packed file at `packed` restores a safetensors file although `name`
/// is that of another format, or the other way round. Only its first bytes are read.
pub fn restores_other(packed: &Path, name: &str) -> bool {
    let mut head = [0; 6];
    let read = regular::open(packed).and_then(|mut file| file.read_exact(&mut head));
    let is_safetensors =
        kind_of_name(name) == Some(FileKind::Safetensors) || IndexName::parse(name).is_some();
    read.is_ok() && head.starts_with(&MAGIC) && has_virtual_header(&head) == is_safetensors
}

/// A folder, and the folders outside it that its links may lead to.
#[derive(Debug, Clone)]
pub struct Root {
    folder: PathBuf,
    linked: Vec<PathBuf>,
    /// The `blobs` folder of a model hub's cache, if the folder is a snapshot in one.
    blobs: Option<PathBuf>,
}

/// The reason why a path leads to no file.
#[derive(Debug, PartialEq, Eq)]
pub enum Absent {
    /// The path does not exist or is hidden.
    Nothing,
    /// The path is a link to this path outside the folder.
    Outside(PathBuf),
}

impl Root {
    pub fn new(folder: &Path) -> io::Result<Self> {
        let folder = folder.canonicalize()?;
        Ok(Self {
            blobs: blobs(&folder),
            folder,
            linked: Vec::new(),
        })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Permits links that lead into `folder`.
    pub(super) fn link(&mut self, folder: &Path) -> io::Result<()> {
        self.linked.push(folder.canonicalize()?);
        Ok(())
    }

    /// Returns the real path of `path`, which is below the folder. A link that leads
    /// outside is refused without checking whether the rest of the path exists.
    pub fn follow(&self, path: &Path) -> Result<PathBuf, Absent> {
        let relative = path.strip_prefix(&self.folder);
        let relative = relative.map_err(|_| Absent::Nothing)?;
        let mut real = self.folder.clone();
        for part in relative {
            real.push(part);
            real = real.canonicalize().map_err(|_| Absent::Nothing)?;
            if !self.admits(&real) {
                return Err(Absent::Outside(real));
            }
        }
        Ok(real)
    }

    fn admits(&self, real: &Path) -> bool {
        let mut folders = self.linked.iter().chain([&self.folder]);
        folders.any(|folder| real.starts_with(folder))
            || (real.parent() == self.blobs.as_deref() && real.is_file())
    }
}

/// Returns the `blobs` folder next to the `snapshots` folder that contains `folder`. In
/// a hub's cache, `models--NAME/snapshots/REVISION/…` are links to
/// `models--NAME/blobs/HASH`.
fn blobs(folder: &Path) -> Option<PathBuf> {
    let mut above = folder.ancestors();
    let snapshots = above.find(|folder| folder.file_name() == Some(OsStr::new("snapshots")))?;
    let blobs = snapshots.with_file_name("blobs");
    blobs
        .symlink_metadata()
        .is_ok_and(|metadata| metadata.is_dir())
        .then_some(blobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(root: &Path, path: &str) -> Option<Found> {
        super::resolve(&Root::new(root).unwrap(), path).ok()
    }

    #[test]
    fn nothing_outside_the_root_is_served() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::write(root.join("a b.bin"), b"x").unwrap();
        assert_eq!(
            resolve(&root, "/a%20b.bin"),
            Some(Found::File(root.join("a b.bin")))
        );
        for path in [
            "/../etc/passwd",
            "/%2e%2e/etc/passwd",
            "/a/../../etc/passwd",
            "//etc/passwd",
            "/%zz",
            "/a%20b.bin/x",
            "/a%20b.bin%00",
            "/missing",
            "/missing.safetensors",
        ] {
            assert_eq!(resolve(&root, path), None, "{path}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_packed_file_may_be_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::write(root.join("blob"), b"x").unwrap();
        std::os::unix::fs::symlink("blob", root.join("cached.zstn")).unwrap();
        let cached = Found::Unpacked(root.join("cached.zstn"));
        assert_eq!(resolve(&root, "/cached.safetensors"), Some(cached));
    }

    /// Checks that clients cannot even learn whether a path outside the folder exists.
    #[cfg(unix)]
    #[test]
    fn nothing_outside_is_looked_at_through_a_link() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (root, outside) = (folder.path().canonicalize(), outside.path().canonicalize());
        let (root, outside) = (root.unwrap(), outside.unwrap());
        std::fs::write(outside.join("x.zstn"), b"x").unwrap();
        for (name, target) in [
            ("link", outside.join("x.zstn")),
            ("packed.zstn", outside.join("x.zstn")),
            ("folder", outside.clone()),
        ] {
            std::os::unix::fs::symlink(target, root.join(name)).unwrap();
        }
        let mut root = Root::new(&root).unwrap();
        for (path, place) in [
            ("/link", outside.join("x.zstn")),
            ("/packed.zstn", outside.join("x.zstn")),
            ("/packed.safetensors", outside.join("x.zstn")),
            ("/folder/x.zstn", outside.clone()),
            ("/folder/x.safetensors", outside.clone()),
            ("/folder/missing", outside.clone()),
        ] {
            let found = super::resolve(&root, path);
            assert_eq!(found, Err(Absent::Outside(place)), "{path}");
        }
        root.link(&outside).unwrap();
        let file = Found::File(outside.join("x.zstn"));
        for path in ["/link", "/packed.zstn", "/folder/x.zstn"] {
            assert_eq!(super::resolve(&root, path).as_ref(), Ok(&file), "{path}");
        }
        for path in ["/packed.safetensors", "/folder/x.safetensors"] {
            let found = super::resolve(&root, path);
            assert!(matches!(found, Ok(Found::Unpacked(_))), "{path}");
        }
        let missing = super::resolve(&root, "/folder/missing");
        assert_eq!(missing, Err(Absent::Nothing));
    }

    #[test]
    fn real_files_go_before_unpacked_ones() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["m.zstn", "m.zstn.index.json"] {
            std::fs::write(root.join(name), b"x").unwrap();
        }
        assert_eq!(resolve(&root, "/"), Some(Found::Folder(root.clone())));
        for name in ["m.zstn", "m.zstn.index.json"] {
            let other = restored_path(name).unwrap();
            let packed = root.join(name);
            let path = format!("/{other}");
            let expected = match name {
                "m.zstn" => Found::Unpacked(packed),
                _ => Found::UnpackedIndex(packed),
            };
            assert_eq!(resolve(&root, &path), Some(expected));
            std::fs::write(root.join(&other), b"real").unwrap();
            assert_eq!(resolve(&root, &path), Some(Found::File(root.join(&other))));
        }
        std::fs::write(root.join("index.html"), b"page").unwrap();
        assert_eq!(
            resolve(&root, "/"),
            Some(Found::File(root.join("index.html")))
        );
        assert_eq!(restored_path("m.safetensors"), None);
    }
}
