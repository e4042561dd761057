//! Man pages and completions, as packages of distributions include them.

use std::fs;
use std::path::Path;

use zstn_tests::command::{text, zstn};

fn read(folder: &Path, name: &str) -> String {
    let path = folder.join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_verb_has_a_page_and_every_shell_its_completions() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let manual = zstn(folder.path(), &["manual", "out"]);
    assert_eq!(manual.status.code(), Some(0), "{}", text(&manual.stderr));
    let out = folder.path().join("out");
    let help = zstn(folder.path(), &["--help"]);
    let help = text(&help.stdout);
    let verbs: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .filter(|verb| *verb != "help")
        .collect();
    assert!(
        verbs.contains(&"pack") && !verbs.contains(&"manual"),
        "{verbs:?}"
    );
    let whole = read(&out, "share/man/man1/zstn.1");
    let completions = [
        "share/bash-completion/completions/zstn",
        "share/zsh/site-functions/_zstn",
        "share/fish/vendor_completions.d/zstn.fish",
        "share/powershell/zstn.ps1",
    ]
    .map(|name| read(&out, name));
    for verb in verbs {
        assert!(whole.contains(&format!("zstn\\-{verb}(1)")), "{verb}");
        let page = read(&out, &format!("share/man/man1/zstn-{verb}.1"));
        assert!(page.contains(".SH SYNOPSIS"), "{verb}: {page}");
        for text in &completions {
            assert!(text.contains(verb), "{verb} is not completed");
        }
    }
    assert!(!out.join("share/man/man1/zstn-manual.1").exists());
    assert!(read(&out, "share/man/man1/zstn-pack.1").contains("\\-\\-effort"));
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error() {
    let folder = super::folder_with("file", b"");
    let manual = zstn(folder.path(), &["manual", "file/below"]);
    assert_eq!(manual.status.code(), Some(3), "{}", text(&manual.stderr));
    assert!(text(&manual.stderr).contains("file/below"));
}
