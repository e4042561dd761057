//! Credentials, endpoints and addresses.

use std::time::Duration;

use zstn_store::{Address, Environment, Error, Object, StoreOptions, Upload, UploadOptions};

use crate::bucket::{Bucket, s3_environment};

fn open(url: &str, variables: &[(&str, &str)]) -> Error {
    let environment = Environment::from_pairs(variables.iter().copied());
    let options = StoreOptions::with_environment(environment);
    Object::open(&Address::parse(url).unwrap(), &options).unwrap_err()
}

#[test]
fn without_credentials_one_sentence_says_what_to_set() {
    const OFF: (&str, &str) = ("AWS_EC2_METADATA_DISABLED", "true");
    // A machine in a cloud may have credentials, and the variable applies only to S3.
    let metadata = "169.254.169.254:80".parse().unwrap();
    let has_metadata_service =
        std::net::TcpStream::connect_timeout(&metadata, Duration::from_secs(1)).is_ok();
    for (url, help) in [
        (
            "s3://bucket/object",
            ["AWS_ACCESS_KEY_ID", "AWS_SKIP_SIGNATURE"],
        ),
        (
            "az://container/object",
            ["AZURE_STORAGE_ACCOUNT_KEY", "AZURE_SKIP_SIGNATURE"],
        ),
        (
            "gs://bucket/object",
            ["GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SKIP_SIGNATURE"],
        ),
    ] {
        if url.starts_with("gs") && has_metadata_service {
            continue;
        }
        let error = open(url, &[OFF]);
        assert!(matches!(error, Error::NoCredentials { .. }), "{error}");
        let sentence = error.to_string();
        assert!(sentence.starts_with(url), "{sentence}");
        assert!(
            help.iter().all(|name| sentence.contains(name)),
            "{sentence}"
        );
    }
    let address = Address::parse("s3://bucket/object").unwrap();
    let mut options = UploadOptions::default();
    options.store = StoreOptions::with_environment(Environment::from_pairs([OFF]));
    let error = Upload::begin(&address, &options).unwrap_err();
    assert!(matches!(error, Error::NoCredentials { .. }), "{error}");
}

#[test]
fn a_metadata_service_that_is_not_there_is_not_waited_for() {
    // After the listener is dropped, no process listens on its port.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let error = open(
        "s3://bucket/object",
        &[("AWS_METADATA_ENDPOINT", &endpoint)],
    );
    assert!(matches!(error, Error::NoCredentials { .. }), "{error}");
}

/// The variables concern the metadata service of one cloud, and only its stores use
/// them.
#[test]
fn the_metadata_service_of_one_cloud_is_not_asked_for_another() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let endpoint = format!("http://{}/", listener.local_addr().unwrap());
    let asked = |url: &str| {
        let variables = [
            ("AWS_METADATA_ENDPOINT", &*endpoint),
            ("AZURE_STORAGE_ACCOUNT_NAME", "account"),
            // These values are invalid, which is reported after the search for
            // credentials.
            ("AWS_SKIP_SIGNATURE", "perhaps"),
            ("AZURE_SKIP_SIGNATURE", "perhaps"),
            ("GOOGLE_SKIP_SIGNATURE", "perhaps"),
        ];
        open(url, &variables);
        listener.accept().is_ok()
    };
    assert!(!asked("az://container/object"));
    assert!(!asked("gs://bucket/object"));
    assert!(asked("s3://bucket/object"));
}

#[test]
fn variables_that_cannot_be_used_are_named() {
    for (variables, expected) in [
        (
            &[("AWS_ACCESS_KEY_ID", "id"), ("AWS_REGION", "r")][..],
            "SecretAccessKey",
        ),
        (
            &[
                ("AWS_ACCESS_KEY_ID", "id"),
                ("AWS_SECRET_ACCESS_KEY", "a secret"),
                ("AWS_ENDPOINT_URL", "http://127.0.0.1:1"),
            ],
            "AWS_ALLOW_HTTP=true",
        ),
        (
            &[
                ("AWS_ACCESS_KEY_ID", "id"),
                ("AWS_SECRET_ACCESS_KEY", "a secret"),
                ("AWS_SKIP_SIGNATURE", "perhaps"),
            ],
            "perhaps",
        ),
    ] {
        let error = open("s3://bucket/object", variables);
        assert!(matches!(error, Error::Environment { .. }), "{error}");
        let sentence = error.to_string();
        assert!(sentence.contains(expected), "{sentence}");
        assert!(!sentence.contains("a secret"), "{sentence}");
    }
    let error = open(
        "az://container/object",
        &[("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0")],
    );
    assert!(matches!(error, Error::Environment { .. }), "{error}");
    assert!(!error.to_string().contains("c2VjcmV0"), "{error}");
}

#[test]
fn options_do_not_print_secrets() {
    let environment = Environment::from_pairs(s3_environment("127.0.0.1:1"));
    let text = format!("{:?}", StoreOptions::with_environment(environment));
    assert!(text.contains("AWS_SECRET_ACCESS_KEY"), "{text}");
    assert!(!text.contains("the-secret-key"), "{text}");
}

#[test]
fn addresses_are_parsed() {
    for (text, url, name) in [
        (
            "s3://bucket/a/b.zstn",
            "s3://bucket/a/b.zstn",
            Some("b.zstn"),
        ),
        ("S3A://bucket/a/", "s3a://bucket/a", Some("a")),
        ("gs://bucket", "gs://bucket", None),
        ("az://container/", "az://container", None),
        ("memory://a/b", "memory://a/b", Some("b")),
        ("memory:///a", "memory://a", Some("a")),
        (
            "abfss://files@account.dfs.core.windows.net/a%20b?c#d",
            "abfss://files@account.dfs.core.windows.net/a%20b?c#d",
            Some("a%20b?c#d"),
        ),
    ] {
        assert!(zstn_store::is_store(text));
        let address = Address::parse(text).unwrap();
        assert_eq!(address.url(), url);
        assert_eq!(address.file_name(), name);
    }
    let address = Address::parse("s3://bucket/a/b").unwrap();
    assert_eq!(address.join("c/d").unwrap().url(), "s3://bucket/a/b/c/d");
    assert_eq!(address.sibling("c").unwrap().url(), "s3://bucket/a/c");
    for relative in ["../c", "/c", "c//d", "."] {
        assert!(address.join(relative).is_err(), "{relative}");
    }
    for text in [
        "https://h/a",
        "/a/b",
        "file:///a",
        "s3:/bucket/a",
        "hf://a/b",
    ] {
        assert!(!zstn_store::is_store(text));
        let error = Address::parse(text).unwrap_err();
        assert!(matches!(error, Error::Scheme { .. }), "{error}");
    }
    for text in [
        "s3://",
        "s3:///a",
        "s3://bucket/a//b",
        "s3://bucket/../b",
        "s3://bucket/a\n",
        "s3://id:password@bucket/a",
        "s3://password@bucket/a",
        "abfss://files:password@account.dfs.core.windows.net/a",
        "s3://bu cket/a",
    ] {
        let error = Address::parse(text).unwrap_err();
        assert!(matches!(error, Error::Address { .. }), "{text}: {error}");
        assert!(!error.to_string().contains("password"), "{error}");
    }
    let whole = Address::parse("memory://").unwrap();
    let error = Object::open(&whole, &StoreOptions::default()).unwrap_err();
    assert!(matches!(error, Error::Address { .. }), "{error}");
}

/// Azurite is the only server in these tests that checks signatures.
#[test]
#[ignore = "needs the server that `cargo xtask test` starts"]
fn wrong_credentials_are_denied() {
    let bucket = Bucket::azure();
    bucket.put("object", b"content");
    let mut environment = bucket.environment.clone();
    for (name, value) in &mut environment {
        if name == "AZURE_STORAGE_ACCOUNT_KEY" {
            *value = "d3Jvbmcga2V5".into();
        }
    }
    let options = StoreOptions::with_environment(Environment::from_pairs(environment));
    let address = bucket.address("object");
    for head_len in [0, 10] {
        let error = Object::open_with_head(&address, head_len, &options).unwrap_err();
        assert!(matches!(error, Error::Denied { .. }), "{error}");
        assert!(!error.to_string().contains("d3Jvbmcga2V5"), "{error}");
    }
    let environment = bucket
        .environment
        .iter()
        .filter(|(name, _)| !name.ends_with("_KEY"));
    let sas = "sv=2020-10-02&sp=r&sig=a-secret-signature";
    let sas = ("AZURE_STORAGE_SAS_TOKEN".to_owned(), sas.to_owned());
    let environment = Environment::from_pairs(environment.cloned().chain([sas]));
    let options = StoreOptions::with_environment(environment);
    let error = Object::open_with_head(&address, 10, &options).unwrap_err();
    assert!(matches!(error, Error::Denied { .. }), "{error}");
    assert!(!error.to_string().contains("a-secret-signature"), "{error}");
}
