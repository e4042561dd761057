//! Inputs given as URLs, by scheme.

use zstn_tests::command::{json, text, zstn};

use super::{folder_with, vector};

#[test]
fn a_file_address_is_its_path() {
    let folder = folder_with("a b.zstn", &vector("float_weights.zstn"));
    // Windows accepts slashes as well. A drive letter follows a slash, as in
    // `/C:/folder`.
    let plain = folder.path().display().to_string().replace('\\', "/");
    let path = if cfg!(windows) {
        format!("/{plain}")
    } else {
        plain.clone()
    };
    let info = |input: &str| json(&zstn(folder.path(), &["info", "--json", input]));
    let expected = info(&format!("{plain}/a b.zstn"));
    for address in [
        format!("file://{path}/a%20b.zstn"),
        format!("FILE://localhost{path}/a b.zstn"),
    ] {
        assert_eq!(info(&address), expected, "{address}");
    }
    // The result is written to the same folder, and the input is not replaced by it.
    let address = format!("file://{path}/a%20b.zstn");
    let out = zstn(folder.path(), &["unpack", &address]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(folder.path().join("a b.safetensors").exists());
    let out = zstn(folder.path(), &["convert", &address, "a b.zstn", "--force"]);
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
}

#[test]
fn what_cannot_be_read_is_refused_with_what_can() {
    let folder = tempfile::tempdir().unwrap();
    for (input, sentence) in [
        ("foo://h/model.zstn", "begin with one of https://"),
        ("file://elsewhere/model.zstn", "file:///folder/model.zstn"),
        ("file:///model.zstn?download=true", "%3F"),
        ("s3://bucket//model.zstn", "empty"),
        (
            "s3://user:secret@bucket/model.zstn",
            "environment variables",
        ),
    ] {
        for verb in ["ls", "unpack", "verify", "compress"] {
            let out = zstn(folder.path(), &[verb, input]);
            let said = text(&out.stderr);
            assert_eq!(out.status.code(), Some(2), "{verb} {input}: {said}");
            assert!(said.contains(sentence), "{verb} {input}: {said}");
            assert!(!said.contains("secret"), "{verb} {input}: {said}");
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

// On Windows, the name of a folder cannot contain a colon.
#[test]
#[cfg(unix)]
fn an_unknown_scheme_may_be_a_path() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("foo:")).unwrap();
    let file = folder.path().join("foo:/model.zstn");
    std::fs::write(file, vector("float_weights.zstn")).unwrap();
    let out = zstn(folder.path(), &["ls", "foo://model.zstn"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
}
