//! Claims, which give the exclusive right to write a folder.

use std::fs;

use tempfile::TempDir;
use zstn_store::{Address, Error, FolderClaim, delete, list, read_small};

use crate::bucket::{Bucket, Kind};

fn take(bucket: &Bucket, state: &TempDir) -> Result<FolderClaim, Error> {
    FolderClaim::take(
        &bucket.address("folder"),
        Some(state.path()),
        &bucket.options(),
    )
}

fn names(bucket: &Bucket) -> Vec<String> {
    let listed = list(&bucket.address("folder"), &bucket.options()).unwrap();
    listed.into_iter().map(|object| object.path).collect()
}

fn files(state: &TempDir) -> usize {
    fs::read_dir(state.path()).unwrap().count()
}

pub fn a_claim_is_continued_until_it_is_released(bucket: &Bucket) {
    let state = tempfile::tempdir().unwrap();
    // This object shares the folder's prefix, but is not in the folder.
    bucket.put("folder-2/object", b"other");
    let claim = take(bucket, &state).unwrap();
    assert!(!claim.is_continued());
    assert_eq!(names(bucket), [FolderClaim::MARKER]);
    let error = take(bucket, &state).unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error}");
    bucket.put("folder/a", b"first");
    drop(claim);
    for _ in 0..2 {
        let claim = take(bucket, &state).unwrap();
        assert!(claim.is_continued());
        assert_eq!(names(bucket), [FolderClaim::MARKER, "a"]);
    }
    take(bucket, &state).unwrap().release().unwrap();
    assert_eq!(names(bucket), ["a"]);
    assert_eq!(files(&state), 0);
    let error = take(bucket, &state).unwrap_err();
    assert!(
        matches!(&error, Error::NotEmpty { found, .. } if found == "a"),
        "{error}"
    );
    assert_eq!(names(bucket), ["a"]);
    assert_eq!(files(&state), 0);
}

pub fn a_folder_with_objects_is_refused(bucket: &Bucket) {
    let state = tempfile::tempdir().unwrap();
    bucket.put("folder/deep/in/it", b"content");
    let error = take(bucket, &state).unwrap_err();
    assert!(
        matches!(&error, Error::NotEmpty { found, .. } if found == "deep/in/it"),
        "{error}"
    );
    assert_eq!(names(bucket), ["deep/in/it"]);
    assert_eq!(files(&state), 0);
}

pub fn the_marker_of_another_attempt_is_respected(bucket: &Bucket) {
    let state = tempfile::tempdir().unwrap();
    let marker = format!("folder/{}", FolderClaim::MARKER);
    for content in [&b"{\"id\":\"another\"}"[..], b"{}", b"", b"\xff"] {
        bucket.put(&marker, content);
        let error = take(bucket, &state).unwrap_err();
        assert!(matches!(error, Error::Claimed { .. }), "{error}");
        let read = read_small(&bucket.address(&marker), 100, &bucket.options());
        assert_eq!(read.unwrap().unwrap(), content);
    }
    delete(&bucket.address(&marker), &bucket.options()).unwrap();
    // A claim is lost if its marker is replaced.
    drop(take(bucket, &state).unwrap());
    bucket.put(&marker, b"{\"id\":\"another\"}");
    let error = take(bucket, &state).unwrap_err();
    assert!(matches!(error, Error::Claimed { .. }), "{error}");
    // A claim is also lost if its marker is removed.
    delete(&bucket.address(&marker), &bucket.options()).unwrap();
    assert!(!take(bucket, &state).unwrap().is_continued());
}

pub fn a_claim_is_discarded_with_its_objects(bucket: &Bucket) {
    let state = tempfile::tempdir().unwrap();
    let claim = take(bucket, &state).unwrap();
    let written: Vec<Address> = ["a", "b", "never written"]
        .map(|name| bucket.address(&format!("folder/{name}")))
        .into();
    bucket.put("folder/a", b"1");
    bucket.put("folder/b", b"2");
    claim.discard(&written).unwrap();
    assert_eq!(names(bucket), Vec::<String>::new());
    assert_eq!(files(&state), 0);
    assert!(!take(bucket, &state).unwrap().is_continued());
}

/// Two machines keep their local files in different folders.
pub fn only_one_machine_has_the_claim(bucket: &Bucket) {
    let states = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let claim = take(bucket, &states[0]).unwrap();
    let error = take(bucket, &states[1]).unwrap_err();
    let is_expected = match bucket.kind {
        // Other machines do not see objects in memory.
        Kind::Memory => matches!(error, Error::Busy { .. }),
        _ => matches!(error, Error::Claimed { .. }),
    };
    assert!(is_expected, "{error}");
    claim.release().unwrap();
    take(bucket, &states[1]).unwrap().release().unwrap();
    assert_eq!(files(&states[1]), 0);
}
