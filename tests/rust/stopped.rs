//! A process that is asked to stop: complete outputs stay, no other output gets its
//! name. A single test, since stopping affects the whole process.

use std::fs;

use zstn::{Output, OutputFolder, remove_unfinished};

#[test]
fn nothing_gets_its_name_after_the_clean_up_has_begun() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let folder = |name: &str| {
        let folder = OutputFolder::create(&at(name)).unwrap();
        folder.write("index.json", &b"{}"[..]).unwrap();
        folder
    };
    let file = |name: &str| {
        let mut output = Output::create(&at(name)).unwrap();
        output.write(b"bytes").unwrap();
        output
    };
    folder("complete").finish().unwrap();
    file("complete.zstn").finish().unwrap();
    // Both were about to be renamed when the signal came.
    let (late_folder, late_file) = (folder("late"), file("late.zstn"));
    remove_unfinished();
    assert!(late_folder.finish().is_err());
    assert!(late_file.finish().is_err());
    // Other threads continue for a moment.
    assert!(Output::create(&at("new.zstn")).is_err());
    assert!(OutputFolder::create(&at("new")).is_err());

    let mut names: Vec<_> = fs::read_dir(scratch.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["complete", "complete.zstn"]);
    assert_eq!(fs::read(at("complete/index.json")).unwrap(), b"{}");
    assert_eq!(fs::read(at("complete.zstn")).unwrap(), b"bytes");
}
