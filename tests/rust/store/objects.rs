//! Reading, uploading, replacing and deleting objects of every length.

use zstn_store::{Error, Object, Upload, delete, exists, list, list_top, read_small};

use crate::bucket::{Bucket, PART_BYTES, content};

pub fn reads_return_exactly_what_was_asked_for(bucket: &Bucket) {
    let bytes = content(100_000);
    bucket.put("folder/object", &bytes);
    let address = bucket.address("folder/object");
    let object = Object::open(&address, &bucket.options()).unwrap();
    assert_eq!(object.len_bytes(), 100_000);
    assert_eq!(object.head(), b"");
    assert_eq!(object.read(0..100_000).unwrap(), bytes);
    assert_eq!(object.read(99_999..100_000).unwrap(), bytes[99_999..]);
    assert_eq!(object.read(7..7).unwrap(), b"");
    let mut ranges: Vec<_> = (0..40).rev().map(|n| n * 1000..n * 1003 + 1).collect();
    ranges.push(5..5);
    let read = object.read_ranges(&ranges).unwrap();
    assert_eq!(read.len(), ranges.len());
    for (range, read) in ranges.iter().zip(&read) {
        let [start, end] = [range.start, range.end].map(|place| usize::try_from(place).unwrap());
        assert_eq!(read, &bytes[start..end]);
    }
    assert!(object.read_ranges(&[]).unwrap().is_empty());
    #[allow(clippy::reversed_empty_ranges)]
    for range in [0..100_001, 100_001..100_001, 9..8, 0..u64::MAX] {
        let error = object.read(range).unwrap_err();
        assert!(matches!(error, Error::Range { .. }), "{error}");
    }

    for (head_len, expected) in [(1, 1), (4096, 4096), (100_000, 100_000), (1 << 20, 100_000)] {
        let object = Object::open_with_head(&address, head_len, &bucket.options()).unwrap();
        assert_eq!(object.len_bytes(), 100_000);
        assert_eq!(object.head(), &bytes[..expected]);
        assert_eq!(object.read(5..9).unwrap(), bytes[5..9]);
    }

    bucket.put("empty", b"");
    for head_len in [0, 1, 4096] {
        let empty = Object::open_with_head(&bucket.address("empty"), head_len, &bucket.options());
        let empty = empty.unwrap();
        assert_eq!((empty.len_bytes(), empty.head()), (0, &[][..]));
        assert_eq!(empty.read(0..0).unwrap(), b"");
    }
}

pub fn a_replaced_object_is_noticed(bucket: &Bucket) {
    // The new object has the same length, is longer, or is too short for the range.
    for len in [1000, 2000, 10] {
        let name = format!("object-{len}");
        bucket.put(&name, &[1; 1000]);
        let object = Object::open(&bucket.address(&name), &bucket.options()).unwrap();
        bucket.put(&name, &vec![2; len]);
        let error = object.read(100..200).unwrap_err();
        assert!(matches!(error, Error::Changed { .. }), "{len}: {error}");
        let error = object.read_ranges(&[0..1, 500..600]).unwrap_err();
        assert!(matches!(error, Error::Changed { .. }), "{len}: {error}");
    }
}

pub fn a_deleted_object_is_noticed(bucket: &Bucket) {
    bucket.put("object", b"content");
    let address = bucket.address("object");
    let object = Object::open(&address, &bucket.options()).unwrap();
    assert!(exists(&address, &bucket.options()).unwrap());
    delete(&address, &bucket.options()).unwrap();
    assert!(!exists(&address, &bucket.options()).unwrap());
    let error = object.read(0..3).unwrap_err();
    assert!(matches!(error, Error::Changed { .. }), "{error}");
    // Deleting an object that does not exist succeeds.
    delete(&address, &bucket.options()).unwrap();
}

pub fn nothing_is_none(bucket: &Bucket) {
    let address = bucket.address("nothing");
    for head_len in [0, 100] {
        let error = Object::open_with_head(&address, head_len, &bucket.options()).unwrap_err();
        assert!(matches!(error, Error::NotFound { .. }), "{error}");
        assert!(error.to_string().contains(&address.url()), "{error}");
    }
    assert_eq!(read_small(&address, 100, &bucket.options()).unwrap(), None);
    assert!(!exists(&address, &bucket.options()).unwrap());
}

pub fn small_objects_have_a_limit(bucket: &Bucket) {
    bucket.put("small", b"0123456789");
    let address = bucket.address("small");
    let read = |max| read_small(&address, max, &bucket.options());
    assert_eq!(read(10).unwrap().unwrap(), b"0123456789");
    assert_eq!(read(1 << 30).unwrap().unwrap(), b"0123456789");
    for max in [9, 0] {
        let error = read(max).unwrap_err();
        assert!(matches!(error, Error::TooLong { .. }), "{error}");
    }
    bucket.put("empty", b"");
    let empty = read_small(&bucket.address("empty"), 0, &bucket.options());
    assert_eq!(empty.unwrap().unwrap(), b"");
}

pub fn folders_are_listed(bucket: &Bucket) {
    for (name, len) in [
        ("a/b/2", 2),
        ("a/b/1", 1),
        ("a/b/c/d", 4),
        ("a/bc", 0),
        ("z", 9),
    ] {
        bucket.put(name, &vec![0; len]);
    }
    let listed = |name: &str| {
        let found = list(&bucket.address(name), &bucket.options()).unwrap();
        let found = found
            .into_iter()
            .map(|object| (object.path, object.len_bytes));
        found.collect::<Vec<_>>()
    };
    let expected = [("1".into(), 1), ("2".into(), 2), ("c/d".into(), 4)];
    assert_eq!(listed("a/b"), expected);
    assert_eq!(listed("a/b/"), expected);
    assert_eq!(listed("a/b/1"), []);
    assert_eq!(listed("nothing"), []);
    let all = listed("");
    assert_eq!(all.len(), 5);
    assert_eq!(all[4], ("z".into(), 9));
}

pub fn the_top_of_a_folder_is_listed(bucket: &Bucket) {
    for (name, len) in [("a/2", 2), ("a/1", 1), ("a/c/d", 4), ("ab", 0), ("z/z", 9)] {
        bucket.put(name, &vec![0; len]);
    }
    let listed = |name: &str| {
        let found = list_top(&bucket.address(name), &bucket.options()).unwrap();
        let found = found
            .into_iter()
            .map(|object| (object.path, object.len_bytes));
        found.collect::<Vec<_>>()
    };
    assert_eq!(listed("a"), [("1".into(), 1), ("2".into(), 2)]);
    assert_eq!(listed("a/"), listed("a"));
    assert_eq!(listed("a/1"), []);
    assert_eq!(listed("nothing"), []);
    assert_eq!(listed(""), [("ab".into(), 0)]);
}

pub fn odd_names_are_kept(bucket: &Bucket) {
    let names = [
        "with space",
        "100%25",
        "a?b#c",
        "ö/日本",
        "a+b&c=d",
        "~'()*!",
    ];
    for name in names {
        bucket.put(name, name.as_bytes());
    }
    for name in names {
        let read = read_small(&bucket.address(name), 100, &bucket.options()).unwrap();
        assert_eq!(read.as_deref(), Some(name.as_bytes()), "{name}");
    }
    let listed = list(&bucket.address(""), &bucket.options()).unwrap();
    let mut listed: Vec<_> = listed.into_iter().map(|object| object.path).collect();
    let mut expected = names.map(str::to_owned);
    listed.sort();
    expected.sort();
    assert_eq!(listed, expected);
}

pub fn a_missing_container_is_named(bucket: &Bucket) {
    let missing = bucket.with_name(&format!("{}-missing", bucket.name));
    let address = missing.address("object");
    let error = Object::open_with_head(&address, 10, &missing.options()).unwrap_err();
    assert!(matches!(error, Error::NoContainer { .. }), "{error}");
    assert!(error.to_string().contains(&missing.name), "{error}");
    let error = list(&missing.address(""), &missing.options()).unwrap_err();
    assert!(matches!(error, Error::NoContainer { .. }), "{error}");
    let mut upload = Upload::begin(&address, &missing.upload_options()).unwrap();
    upload.write(b"bytes").unwrap();
    let error = upload.finish().unwrap_err();
    assert!(matches!(error, Error::NoContainer { .. }), "{error}");
}

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
