//! What the path of a request means.

use std::path::{Component, Path, PathBuf};

use zstn_core::container::safetensors::SHARD_INDEX_SUFFIX;

/// Something below the root.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A file.
    File(PathBuf),
    /// A folder without a page of its own.
    Folder(PathBuf),
    /// The safetensors file that this packed one restores.
    Unpacked(PathBuf),
    /// The index of such files, made from this one.
    UnpackedIndex(PathBuf),
}

/// What a path means; nothing outside `root`, not even by a link. A real file
/// goes before one that would have to be unpacked.
pub(super) fn resolve(root: &Path, path: &str) -> Option<Found> {
    let decoded = percent_decode(path)?;
    let relative = Path::new(decoded.trim_start_matches('/'));
    if !relative
        .components()
        .all(|part| matches!(part, Component::Normal(_)))
    {
        return None;
    }
    let full = root.join(relative);
    if let Some(real) = within(root, &full) {
        if !real.is_dir() {
            return real.is_file().then_some(Found::File(real));
        }
        let page = within(root, &real.join("index.html"));
        return Some(
            page.filter(|page| page.is_file())
                .map_or(Found::Folder(real), Found::File),
        );
    }
    // A link that leads outside or nowhere is no place for another file.
    if full.symlink_metadata().is_ok() {
        return None;
    }
    let name = full.file_name()?.to_str()?;
    let packed = full.with_file_name(packed_name(name)?);
    // Under the name it has here: that says what it is, also where it is a
    // link into a cache.
    let is_there = within(root, &packed)?.is_file();
    is_there.then(|| match name.ends_with(SHARD_INDEX_SUFFIX) {
        true => Found::UnpackedIndex(packed),
        false => Found::Unpacked(packed),
    })
}

/// The name of the file that one called `name` would be unpacked from.
fn packed_name(name: &str) -> Option<String> {
    if let Some(stem) = name.strip_suffix(".safetensors") {
        return Some(format!("{stem}.zstn"));
    }
    let stem = name.strip_suffix(SHARD_INDEX_SUFFIX)?;
    let stem = stem.strip_suffix(".safetensors")?;
    Some(format!("{stem}.zstn{SHARD_INDEX_SUFFIX}"))
}

/// The name of the file that the packed one called `name` unpacks to.
pub(super) fn unpacked_name(name: &str) -> Option<String> {
    if let Some(stem) = name.strip_suffix(".zstn") {
        return Some(format!("{stem}.safetensors"));
    }
    let stem = name.strip_suffix(SHARD_INDEX_SUFFIX)?;
    let stem = stem.strip_suffix(".zstn")?;
    Some(format!("{stem}.safetensors{SHARD_INDEX_SUFFIX}"))
}

fn within(root: &Path, path: &Path) -> Option<PathBuf> {
    let real = path.canonicalize().ok()?;
    real.starts_with(root).then_some(real)
}

fn percent_decode(path: &str) -> Option<String> {
    let mut bytes = path.bytes();
    let mut decoded = Vec::with_capacity(path.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
            "/missing",
            "/missing.safetensors",
        ] {
            assert_eq!(resolve(&root, path), None, "{path}");
        }
        #[cfg(unix)]
        {
            let outside = tempfile::tempdir().unwrap();
            std::fs::write(outside.path().join("x.zstn"), b"x").unwrap();
            for (name, target) in [
                ("link", outside.path().join("x.zstn")),
                ("packed.zstn", outside.path().join("x.zstn")),
                ("folder", outside.path().into()),
            ] {
                std::os::unix::fs::symlink(target, root.join(name)).unwrap();
            }
            std::fs::write(root.join("blob"), b"x").unwrap();
            std::os::unix::fs::symlink("blob", root.join("cached.zstn")).unwrap();
            let cached = Found::Unpacked(root.join("cached.zstn"));
            assert_eq!(resolve(&root, "/cached.safetensors"), Some(cached));
            for path in [
                "/link",
                "/packed.zstn",
                "/packed.safetensors",
                "/folder/x.safetensors",
            ] {
                assert_eq!(resolve(&root, path), None, "{path}");
            }
        }
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
            let other = unpacked_name(name).unwrap();
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
        assert_eq!(unpacked_name("m.safetensors"), None);
    }
}
