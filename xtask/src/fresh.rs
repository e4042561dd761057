//! Decides whether a build is up to date, using a stamp that records its inputs and
//! outputs.
//!
//! Sizes and times are compared for equality, because a file restored from a backup or
//! another branch may be older and is nevertheless changed.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::workspace::Workspace;

/// Directories that are never inputs: results, and installed packages.
const SKIPPED: &[&str] = &["node_modules", "dist", "target", ".git"];

/// A hash of a build's inputs at the time the stamp was created, and the paths of its
/// outputs.
pub struct Stamp {
    file: PathBuf,
    outputs: Vec<PathBuf>,
    inputs: u64,
}

impl Stamp {
    /// Hashes the inputs. `inputs` and `outputs` are files or directories; a missing
    /// one counts as empty.
    pub fn new(
        workspace: &Workspace,
        name: &str,
        inputs: &[PathBuf],
        outputs: &[PathBuf],
    ) -> Result<Self> {
        Ok(Self {
            file: workspace.target("stamps").join(name),
            outputs: outputs.to_vec(),
            inputs: fingerprint(inputs)?,
        })
    }

    /// Returns whether inputs and outputs are unchanged since [`Stamp::save`].
    pub fn is_fresh(&self) -> bool {
        let Ok(saved) = fs::read_to_string(&self.file) else {
            return false;
        };
        self.outputs.iter().all(|output| output.exists())
            && self.text().is_ok_and(|now| now == saved)
    }

    /// Records the inputs hashed by [`Stamp::new`], and the current outputs.
    pub fn save(&self) -> Result<()> {
        if let Some(directory) = self.file.parent() {
            fs::create_dir_all(directory)
                .with_context(|| format!("{} cannot be created", directory.display()))?;
        }
        fs::write(&self.file, self.text()?)
            .with_context(|| format!("{} is not writable", self.file.display()))
    }

    fn text(&self) -> Result<String> {
        let outputs = fingerprint(&self.outputs)?;
        Ok(format!("{:016x} {outputs:016x}\n", self.inputs))
    }
}

/// Hashes names, sizes and modification times of all files below `paths`.
fn fingerprint(paths: &[PathBuf]) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    for path in paths {
        add(path, &mut hasher).with_context(|| format!("{} cannot be read", path.display()))?;
    }
    Ok(hasher.finish())
}

fn add(path: &Path, hasher: &mut DefaultHasher) -> std::io::Result<()> {
    path.hash(hasher);
    let Ok(metadata) = fs::metadata(path) else {
        return Ok(());
    };
    if !metadata.is_dir() {
        metadata.len().hash(hasher);
        metadata.modified()?.hash(hasher);
        return Ok(());
    }
    let mut entries = fs::read_dir(path)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()?;
    entries.retain(|entry| {
        let name = entry.file_name().unwrap_or_default();
        !SKIPPED.iter().any(|skipped| name == *skipped)
    });
    entries.sort();
    entries.iter().try_for_each(|entry| add(entry, hasher))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::FileTimes;
    use std::time::{Duration, SystemTime};

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).expect("scratch directory");
            Self(path)
        }

        fn write(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("directory");
            fs::write(&path, text).expect("scratch file");
            path
        }

        fn stamp(&self) -> Stamp {
            Stamp {
                file: self.0.join("stamp"),
                outputs: vec![self.0.join("out")],
                inputs: fingerprint(&[self.0.join("in")]).expect("fingerprint"),
            }
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn fresh_until_an_input_or_output_changes() {
        let scratch = Scratch::new("fresh");
        scratch.write("in/deep/a.ts", "a");
        assert!(!scratch.stamp().is_fresh(), "never saved");
        scratch.write("out/a.js", "A");
        scratch.stamp().save().expect("saved");
        assert!(scratch.stamp().is_fresh());

        let added = scratch.write("in/b.ts", "b");
        assert!(!scratch.stamp().is_fresh(), "an input was added");
        fs::remove_file(added).expect("removed");
        assert!(scratch.stamp().is_fresh(), "and taken away again");

        scratch.write("out/a.js", "edited");
        assert!(!scratch.stamp().is_fresh(), "an output was edited");
        fs::remove_dir_all(scratch.0.join("out")).expect("removed");
        assert!(!scratch.stamp().is_fresh(), "the output is gone");
    }

    #[test]
    fn an_older_input_is_a_change_too() {
        let scratch = Scratch::new("older");
        let input = scratch.write("in/a.ts", "a");
        scratch.write("out/a.js", "A");
        scratch.stamp().save().expect("saved");
        let past = SystemTime::now() - Duration::from_secs(3600);
        fs::File::options()
            .write(true)
            .open(input)
            .and_then(|file| file.set_times(FileTimes::new().set_modified(past)))
            .expect("time set");
        assert!(!scratch.stamp().is_fresh());
    }

    #[test]
    fn results_inside_a_source_directory_do_not_count() {
        let scratch = Scratch::new("skipped");
        scratch.write("in/a.ts", "a");
        scratch.write("out/a.js", "A");
        scratch.stamp().save().expect("saved");
        scratch.write("in/dist/a.js", "A");
        scratch.write("in/node_modules/x/index.js", "x");
        assert!(scratch.stamp().is_fresh());
    }
}
