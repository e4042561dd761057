//! Uploading objects of every length.

use zstn_store::{Error, Upload, exists, read_small};

use crate::bucket::{Bucket, PART_BYTES, content};

pub fn every_length_arrives(bucket: &Bucket) {
    for (len, parts) in [
        (0, 0),
        (1, 0),
        (PART_BYTES, 0),
        (PART_BYTES + 1, 2),
        (2 * PART_BYTES, 2),
        (3 * PART_BYTES + 12_345, 4),
    ] {
        let bytes = content(len);
        let address = bucket.address(&format!("object-{len}"));
        let mut upload = Upload::begin(&address, &bucket.upload_options()).unwrap();
        for chunk in bytes.chunks(777_777) {
            upload.write(chunk).unwrap();
        }
        assert_eq!(upload.len_bytes(), len as u64);
        let report = upload.finish().unwrap();
        assert_eq!(
            (report.len_bytes, report.sent_bytes),
            (len as u64, len as u64)
        );
        assert_eq!((report.parts, report.parts_reused), (parts, 0), "{len}");
        let read = read_small(&address, 1 << 30, &bucket.options()).unwrap();
        assert!(read.unwrap() == bytes, "{len}");
    }
}

pub fn what_exists_is_kept_unless_replacing(bucket: &Bucket) {
    bucket.put("object", b"old");
    let address = bucket.address("object");
    let error = Upload::begin(&address, &bucket.upload_options()).unwrap_err();
    let lost_race = match &error {
        Error::Exists { lost_race, .. } => *lost_race,
        other => panic!("{other}"),
    };
    assert!(!lost_race);
    let mut options = bucket.upload_options();
    options.replace = true;
    for len in [3, PART_BYTES + 3] {
        let mut upload = Upload::begin(&address, &options).unwrap();
        upload.write(&vec![7; len]).unwrap();
        upload.finish().unwrap();
        let read = read_small(&address, 1 << 30, &bucket.options()).unwrap();
        assert!(read.unwrap() == vec![7; len]);
    }
}

pub fn a_dropped_upload_leaves_nothing(bucket: &Bucket) {
    let address = bucket.address("object");
    for len in [3, PART_BYTES + 3] {
        let mut upload = Upload::begin(&address, &bucket.upload_options()).unwrap();
        upload.write(&vec![7; len]).unwrap();
        drop(upload);
        assert!(!exists(&address, &bucket.options()).unwrap());
    }
    assert_eq!(bucket.unfinished_uploads(), 0);
}

pub fn an_aborted_upload_leaves_nothing(bucket: &Bucket) {
    let folder = tempfile::tempdir().unwrap();
    let address = bucket.address("object");
    for len in [3, PART_BYTES + 3] {
        let options = bucket.journal_options(folder.path());
        let mut upload = Upload::begin(&address, &options).unwrap();
        upload.write(&vec![7; len]).unwrap();
        upload.abort().unwrap();
        assert!(!exists(&address, &bucket.options()).unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
    assert_eq!(bucket.unfinished_uploads(), 0);
}
