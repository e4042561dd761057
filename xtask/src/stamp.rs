//! Decides whether a build or an installation is up to date, using a stamp that records
//! its inputs and outputs.
//!
//! Sizes and times are compared for equality, because a file restored from a backup or
//! another branch may be older and is nevertheless changed.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::prelude::*;

/// Folders that are never inputs: results, and installed packages.
const SKIPPED: &[&str] = &["node_modules", "dist", "target", ".git"];

/// Runs `work`, unless neither `inputs` nor `outputs` have changed since it last
/// succeeded. Both are files or folders, and a missing one counts as empty.
pub fn unless_fresh(
    step: &mut Step,
    name: &str,
    inputs: &[PathBuf],
    outputs: &[PathBuf],
    work: impl FnOnce(&mut Step) -> Result<()>,
) -> Result<()> {
    let stamp = target("stamps").join(name);
    if unless_unchanged(&stamp, inputs, outputs, || work(step))? {
        step.note("unchanged");
    }
    Ok(())
}

/// Returns whether nothing has changed; otherwise runs `work` and writes the stamp.
fn unless_unchanged(
    stamp: &Path,
    inputs: &[PathBuf],
    outputs: &[PathBuf],
    work: impl FnOnce() -> Result<()>,
) -> Result<bool> {
    // Inputs are hashed before the work. If they change during the work, the next run
    // repeats it.
    let inputs = fingerprint(inputs)?;
    let text = || Ok::<_, anyhow::Error>(format!("{inputs:016x} {:016x}\n", fingerprint(outputs)?));
    let saved = fs::read_to_string(stamp).ok();
    if outputs.iter().all(|output| output.exists()) && saved == Some(text()?) {
        return Ok(true);
    }
    work()?;
    fs::create_dir_all(stamp.with_file_name(""))?;
    fs::write(stamp, text()?)?;
    Ok(false)
}

/// Hashes names, sizes and modification times of all files below `paths`.
fn fingerprint(paths: &[PathBuf]) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    let is_input = |entry: &Path| !SKIPPED.iter().any(|skipped| entry.ends_with(skipped));
    for path in paths {
        path.hash(&mut hasher);
        let files = match path.is_dir() {
            true => paths::walk(path, &is_input)?,
            false => vec![path.clone()],
        };
        for file in files.iter().filter(|file| file.exists()) {
            let metadata = fs::metadata(file)?;
            (file, metadata.len(), metadata.modified()?).hash(&mut hasher);
        }
    }
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::FileTimes;
    use std::time::{Duration, SystemTime};

    #[test]
    fn work_is_repeated_when_an_input_or_output_changes() -> Result<()> {
        let folder = std::env::temp_dir().join(format!("xtask-stamp-{}", std::process::id()));
        paths::empty(&folder.join("in/deep"))?;
        let (input, output) = (folder.join("in/deep/a.ts"), folder.join("out"));
        fs::write(&input, "a")?;
        let is_fresh = || {
            let work = || Ok(fs::write(&output, "A")?);
            let (inputs, outputs) = ([folder.join("in")], [output.clone()]);
            unless_unchanged(&folder.join("stamp"), &inputs, &outputs, work)
        };
        assert!(!is_fresh()?, "never run");
        assert!(is_fresh()?);
        fs::write(folder.join("in/b.ts"), "b")?;
        assert!(!is_fresh()?, "an input was added");
        fs::write(&output, "edited")?;
        assert!(!is_fresh()?, "an output was edited");
        fs::remove_file(&output)?;
        assert!(!is_fresh()?, "the output is gone");
        let past = FileTimes::new().set_modified(SystemTime::now() - Duration::from_secs(3600));
        let file = std::fs::File::options().write(true).open(&input)?;
        file.set_times(past)?;
        assert!(!is_fresh()?, "an input is older");
        fs::create_dir_all(folder.join("in/dist"))?;
        fs::write(folder.join("in/dist/a.js"), "A")?;
        assert!(is_fresh()?, "results inside a source folder do not count");
        Ok(fs::remove_dir_all(folder)?)
    }
}
