//! The command line as run by a user with an account at a store.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;
use zstn_store::{Object, list};
use zstn_tests::command::{program, text};

use crate::bucket::Bucket;

/// A user's machine with an account at a store.
pub struct Machine<'a> {
    pub bucket: &'a Bucket,
    folder: TempDir,
}

impl<'a> Machine<'a> {
    pub fn new(bucket: &'a Bucket) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { bucket, folder }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns a `zstn` command with the account's environment variables and no others.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command
            .args(arguments.iter().map(|argument| self.address(argument)))
            .current_dir(self.path())
            .env("XDG_STATE_HOME", self.path().join("state"))
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .envs(self.bucket.environment.iter().cloned())
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("zstn runs")
    }

    /// Returns the message of an error, without the address of the bucket.
    pub fn refusal(&self, arguments: &[&str]) -> String {
        let out = self.run(arguments);
        assert!(!out.status.success(), "{arguments:?} succeeds");
        let said = text(&out.stderr).replace(&self.address("at:"), "at:");
        said.trim_end().to_owned()
    }

    /// Replaces the prefix `at:` with the address of the bucket.
    pub fn address(&self, argument: &str) -> String {
        match argument.strip_prefix("at:") {
            Some(name) => format!("{}/{name}", self.bucket.address("").url()),
            None => argument.into(),
        }
    }

    pub fn done(&self, arguments: &[&str]) -> Output {
        let out = self.run(arguments);
        assert!(out.status.success(), "{arguments:?}: {}", text(&out.stderr));
        out
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        let object = Object::open(&self.bucket.address(name), &self.bucket.options()).unwrap();
        object.read(0..object.len_bytes()).unwrap()
    }

    pub fn names(&self, folder: &str) -> Vec<String> {
        let listed = list(&self.bucket.address(folder), &self.bucket.options()).unwrap();
        listed.into_iter().map(|object| object.path).collect()
    }
}
