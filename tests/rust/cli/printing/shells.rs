//! Shell completions and manual pages.

use zstn_tests::command::{text, zstn};

// Windows may have a bash that belongs to another system and shares its folders.
#[cfg(unix)]
#[test]
fn bash_completes_verbs_options_and_values() {
    use std::process::Command;

    let folder = tempfile::tempdir().unwrap();
    let script = zstn(folder.path(), &["completions", "bash"]);
    assert!(script.status.success());
    let path = folder.path().join("completions");
    std::fs::write(&path, &script.stdout).unwrap();
    let complete = |words: &str, count: usize| {
        let mut back = words.rsplit(' ');
        let (last, before) = (back.next().unwrap(), back.next().unwrap());
        let line = format!(
            "source ./completions; COMP_WORDS=({words}); COMP_CWORD={count}; \
             _zstn zstn '{last}' '{before}'; echo \"${{COMPREPLY[@]}}\""
        );
        let out = Command::new("bash")
            .args(["--norc", "-c", &line])
            .current_dir(folder.path())
            .output();
        let out = out.expect("bash runs");
        assert!(out.status.success(), "{}", text(&out.stderr));
        text(&out.stdout).trim().to_owned()
    };
    assert_eq!(complete("zstn unp", 1), "unpack");
    assert_eq!(complete("zstn pack --exten", 2), "--extended");
    assert_eq!(complete("zstn pack --effort m", 3), "max");
    assert_eq!(complete("zstn lfs inst", 2), "install");
}

#[test]
fn every_shell_has_completions() {
    let folder = tempfile::tempdir().unwrap();
    for (shell, mark) in [
        ("bash", "complete -F _zstn"),
        ("zsh", "#compdef zstn"),
        ("fish", "complete -c zstn"),
        ("elvish", "edit:completion"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let out = zstn(folder.path(), &["completions", shell]);
        assert!(out.status.success(), "{shell}");
        let script = text(&out.stdout);
        assert!(script.contains(mark), "{shell}");
        assert!(script.contains("extended"), "{shell}");
    }
    let out = zstn(folder.path(), &["completions", "dash"]);
    assert_eq!(out.status.code(), Some(2));
}

#[test]
fn there_is_a_manual_page_for_every_verb() {
    let folder = tempfile::tempdir().unwrap();
    let out = zstn(folder.path(), &["man", "-o", "man1"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let read = |name: &str| {
        let path = folder.path().join("man1").join(name);
        std::fs::read_to_string(path).unwrap_or_else(|_| panic!("there is no {name}"))
    };
    let first = text(&zstn(folder.path(), &["man"]).stdout);
    assert_eq!(read("zstn.1"), first);
    let verbs: Vec<&str> = first
        .lines()
        .filter_map(|line| line.strip_prefix("zstn\\-")?.strip_suffix("(1)"))
        .filter(|verb| *verb != "help")
        .collect();
    assert!(verbs.len() > 15, "{first}");
    for verb in verbs {
        let page = read(&format!("zstn-{verb}.1"));
        assert!(page.contains("Examples:"), "{verb}");
        assert!(page.contains(&format!("zstn {verb}")), "{verb}: {page}");
    }
    assert!(read("zstn-lfs-install.1").contains("extended"));
}
